"""Start the studio: python -m studio [--port 7860] [--host 127.0.0.1] [--model PATH]. Options are environment variables too.

python -m studio view TRACE [TRACE2] -o page.html writes a recorded run as one page that opens without a network.
python -m studio figures TRACE -o DIR writes its figures as pictures with captions, tables and the lines that draw them again.
"""

import argparse
import importlib
import os
import socket
import sys

from leo_core.commands.ready import add_model_options, fetched_parts, quiet_libraries, use_cache
from leo_core.errors import LeoError

COMMANDS = {"view": "studio.viewer.command", "figures": "studio.export.command"}
"""Commands beside starting the page, and the module of each; its `main(arguments)` returns the exit code."""


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; LEO_PORT, LEO_HOST, LEO_MODEL, LEO_CACHE, LEO_DEVICE and LEO_DTYPE give the defaults."""
    more = f"Commands: {', '.join(COMMANDS)}; each says more with --help."
    parser = argparse.ArgumentParser(prog="python -m studio", description="LEO Studio in the browser.", epilog=more)
    parser.add_argument("--host", default=os.environ.get("LEO_HOST", "127.0.0.1"), help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=int(os.environ.get("LEO_PORT", "7860")), help="default: 7860")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_model_options(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Fetch the parts (with a bar), start the page, print its address; 2 with a sentence when that is impossible."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return importlib.import_module(COMMANDS[arguments[0]]).main(arguments[1:])
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    options = options_of(arguments)
    quiet_libraries()
    use_cache(options)
    if not port_is_free(options.host, options.port):
        print(f"Port {options.port} on {options.host} is in use: stop the other program, or choose another with --port.", file=sys.stderr)
        return 2
    fetch_parts(options.model)
    return serve(options)


def fetch_parts(model: str) -> None:
    """With a bar on the terminal. Without a network the page still opens on its recorded run and says what is missing."""
    try:
        fetched_parts(model)
    except LeoError as error:
        print(error, file=sys.stderr)


def serve(options: argparse.Namespace) -> int:
    """Open the page and stay until stopped."""
    import torch

    from studio.app import STYLE, build_app, theme
    from studio.session import Session

    session = Session(options.model, options.device, getattr(torch, options.dtype))
    page = build_app(session)
    session.start()
    page.queue(max_size=32)
    print(f"LEO Studio is at http://{options.host}:{options.port}  (Ctrl+C ends it)", flush=True)
    page.launch(
        server_name=options.host, server_port=options.port, share=False, quiet=True, theme=theme(), css_paths=STYLE, show_error=False,
        inbrowser=options.open, max_file_size="64mb", footer_links=[], enable_monitoring=False, ssr_mode=False,
    )  # fmt: skip
    return 0


def port_is_free(host: str, port: int) -> bool:
    """Whether the address can be listened on now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
