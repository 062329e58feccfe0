"""Command line: python -m leo_core ask | trace | parts | check | info | data | train | evaluate | experiment. Each says more with --help."""

import argparse
import sys
from importlib import import_module

from leo_core.errors import LeoError

COMMANDS = ("ask", "trace", "parts", "check", "info", "data", "train", "evaluate", "experiment")
"""Each a module in leo_core.commands."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with one sentence on stderr for anything the user can put right."""
    arguments = sys.argv[1:] if arguments is None else arguments
    wanted = arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS  # others are not imported: traces need no torch
    modules = {name: import_module(f"leo_core.commands.{name}") for name in wanted}
    parser = argparse.ArgumentParser(prog="python -m leo_core", description="LEO-Mini: ask, inspect, train.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module in modules.items():
        module.add_arguments(commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__))
    options = parser.parse_args(arguments)
    try:
        return modules[options.command].run(options) or 0
    except LeoError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
