"""Execute the notebooks and write them as pages: python -m studio.docs [NAME ...] [--notebooks DIR] [--out DIR] [--seconds S].

Every notebook runs in a clean kernel; its asserts and warnings count. Exit code 1, with one sentence for each, when some fail.
"""

import argparse
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import nbformat

from leo_core.errors import InputError, LeoError
from studio.docs.execute import SECONDS, execute, read
from studio.docs.page import FETCHED, page, write, write_shared
from studio.docs.pictures import add_stills
from studio.export.chromium import NoChromium


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks; 0 when every notebook ran to its end, 1 when one did not, 2 for a wrong request."""
    parser = argparse.ArgumentParser(prog="python -m studio.docs", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks by the start of their names (default: all)")
    parser.add_argument("--notebooks", type=Path, default=Path("notebooks"), help="folder of the notebooks (default: notebooks)")
    parser.add_argument("--out", type=Path, default=Path("build/docs"), help="folder of the pages (default: build/docs)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"most that one notebook may take (default: {SECONDS:g})")
    options = parser.parse_args(arguments)
    try:
        paths = found(options.notebooks)
        return build(paths, chosen(paths, options.names), options.out, options.seconds)
    except LeoError as error:
        print(error, file=sys.stderr)
        return 2


def found(folder: Path) -> list[Path]:
    """The notebooks of a folder in reading order, the index first."""
    paths = sorted(folder.glob("*.ipynb"), key=lambda path: (path.stem != "index", path.stem))
    if not paths:
        raise InputError(f"There are no notebooks in '{folder}': name their folder with --notebooks.")
    return paths


def chosen(paths: list[Path], names: list[str]) -> list[Path]:
    """The notebooks whose names start so; all where none is named."""
    unknown = [name for name in names if not any(path.stem.startswith(name) for path in paths)]
    if unknown:
        raise InputError(f"No notebook's name starts with '{unknown[0]}'; there are {', '.join(path.stem for path in paths)}.")
    return [path for path in paths if not names or any(path.stem.startswith(name) for name in names)]


def build(every: list[Path], paths: list[Path], out: Path, seconds: float) -> int:
    """Execute and write `paths`, one after the other; those that fail are named and the others still come."""
    write_shared(out)
    troubles = []
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {path.stem} ...", end=" ", flush=True)
        try:
            print(write_notebook(path, [one.stem for one in every], out, seconds), flush=True)
        except LeoError as error:
            print("failed", flush=True)
            troubles.append(str(error))
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    if not troubles:
        print(f"Open {(out / 'index.html').resolve() if any(path.stem == 'index' for path in every) else out}")
    return 1 if troubles else 0


def write_notebook(path: Path, names: list[str], out: Path, seconds: float) -> str:
    """One notebook executed, as a page and with its outputs as a notebook. Returns words for the line of progress."""
    notebook = read(path)
    took = execute(notebook, path.stem, seconds)
    try:
        missing = add_stills(notebook)
        note = f" ({missing} figures came without a still picture)" if missing else ""
    except NoChromium as error:
        note = f" (no still pictures: {error})"
    if took:
        packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "plotly"))
        foot = f"Executed in {took:.0f} seconds on {date.today().isoformat()} with {packages}."
    else:
        foot = ""
    text = page(notebook, path.stem, names, foot)
    if FETCHED.search(text):
        raise InputError(f"The page of '{path.stem}' would fetch something from the network: `{FETCHED.search(text).group(0)[:160]}`.")
    write(out / f"{path.stem}.html", text)
    write(out / f"{path.stem}.ipynb", nbformat.writes(notebook) + "\n")
    return (f"{took:.0f} s" if took else "no code") + note


if __name__ == "__main__":
    sys.exit(main())
