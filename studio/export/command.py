"""python -m studio figures TRACE -o DIR: every figure of a recorded run as SVG and PNG, with captions, CSV and the code that draws it.

Characters that this machine's fonts lack appear in the pictures as code points (⟨U+1F600⟩). Without Chromium the folder holds
figures.html (interactive, no network) in place of the pictures.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from leo_core.errors import InputError, LeoError
from leo_core.tracing.trace_file import load_trace
from studio.export.chromium import NoChromium, find_chromium, pictures
from studio.export.folder import write, write_page, write_words
from studio.export.run_set import figures_of

PICTURES = ("svg", "png")
FORMATS = (*PICTURES, "html")


def main(arguments: list[str]) -> int:
    """Write the folder and say what is in it. 0: all; 1: without some pictures; 2: nothing, with one sentence on stderr why."""
    options = options_of(arguments)
    try:
        formats = chosen_formats(options.formats)
        if not 30 <= options.dpi <= 1200:
            raise InputError(f"--dpi is from 30 to 1200; got {options.dpi}.")
        figures = figures_of(load_trace(options.trace), options.dark)
        return write_set(options, formats, figures)
    except LeoError as error:
        print(error, file=sys.stderr)
        return 2


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studio figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("trace", type=Path, help="a trace file (.safetensors)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to; files of the same names are replaced")
    parser.add_argument("--formats", default="svg,png", help=f"some of {', '.join(FORMATS)}, parted by commas (default: svg,png)")
    parser.add_argument("--dpi", type=int, default=150, help="dots per inch of PNG: 96, 150, 300, ... (default: 150)")
    parser.add_argument("--dark", action="store_true", help="light lines on dark ground")
    parser.add_argument("--chromium", metavar="PATH", help="Chromium or Chrome (default: LEO_CHROMIUM, else the one on the PATH)")
    parser.add_argument("--seconds", type=float, default=120.0, help="bound for all pictures together; one gets at most an eighth (default: 120)")
    return parser.parse_args(arguments)


def chosen_formats(words: str) -> tuple[str, ...]:
    """Formats in their own order. Raises InputError for one that does not exist, or none."""
    chosen = {word.strip().lower() for word in words.split(",") if word.strip()}
    if not chosen or chosen - set(FORMATS):
        raise InputError(f"--formats is some of {', '.join(FORMATS)}, parted by commas; got '{words}'.")
    return tuple(one for one in FORMATS if one in chosen)


def write_set(options: argparse.Namespace, formats: tuple[str, ...], figures: dict) -> int:
    """Words first, then pictures as far as they can be had."""
    wanted = tuple(one for one in formats if one in PICTURES)
    trouble, chromium = [], None
    try:
        chromium = find_chromium(options.chromium) if wanted else None
        made = asyncio.run(write_pictures(options, wanted, figures, chromium)) if chromium else []
        trouble = list(dict.fromkeys(one.trouble for one in made if one.content is None))
    except NoChromium as error:
        made, trouble = [], [str(error)]
    count = sum(one.content is not None for one in made)
    write_words(options.output, figures, str(options.trace), wanted if count else ())
    if "html" in formats or (wanted and not count):
        write_page(options.output, figures)
    for sentence in trouble:
        print(sentence, file=sys.stderr)
    print(f"{options.output}: {len(figures)} figures with captions, CSV and code, {count} pictures.")
    return 1 if trouble else 0


async def write_pictures(options: argparse.Namespace, formats: tuple[str, ...], figures: dict, chromium: str) -> list:
    """Each picture is written as soon as it is made; a bar of words shows how far it is."""
    made, total = [], len(figures) * len(formats)
    async for one in pictures(figures, formats, options.dpi, chromium, options.seconds, options.seconds / 8):
        if one.content is not None:
            write(options.output / f"{one.name}.{one.format}", one.content)
        made.append(one)
        if sys.stderr.isatty():
            print(f"\r{len(made)} of {total} pictures", end="" if len(made) < total else "\n", file=sys.stderr, flush=True)
    return made
