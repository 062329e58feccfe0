"""python -m studio view TRACE [TRACE2] -o page.html: a recorded run, or two side by side, as one page to open, mail or archive."""

import argparse
import sys
from pathlib import Path

from leo_core.errors import LeoError
from leo_core.tracing.trace_file import load_trace
from studio.viewer.page import write_page


def main(arguments: list[str]) -> int:
    """Write the page and say where; 2 with one sentence on stderr for anything the user can put right."""
    parser = argparse.ArgumentParser(prog="python -m studio view", description=__doc__)
    parser.add_argument("trace", nargs="+", type=Path, help="a trace file (.safetensors); a second one is shown beside it")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: the first trace's name with .html)")
    options = parser.parse_args(arguments)
    output = options.output or Path(options.trace[0].with_suffix(".html").name)
    try:
        written = write_page([load_trace(one) for one in options.trace], output, [one.name for one in options.trace])
    except LeoError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{written}  ({written.stat().st_size / 1e6:.2f} MB)")
    return 0
