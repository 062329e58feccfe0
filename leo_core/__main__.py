"""Command line: python -m leo_core ask | parts | check | info | data | train. Each says more with --help."""

import argparse
import sys

from leo_core.commands import ask, check, data, info, parts, train
from leo_core.errors import LeoError

COMMANDS = {"ask": ask, "parts": parts, "check": check, "info": info, "data": data, "train": train}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with one sentence on stderr for anything the user can put right."""
    parser = argparse.ArgumentParser(prog="python -m leo_core", description="LEO-Mini: ask, inspect, train.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__))
    options = parser.parse_args(arguments)
    try:
        return COMMANDS[options.command].run(options) or 0
    except LeoError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
