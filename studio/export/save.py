"""One figure as a picture file, from plain Python or a notebook: save_picture(figure, "map.svg")."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import plotly.graph_objects as go

from leo_core.errors import InputError, LeoError
from studio.export.chromium import find_chromium, pictures
from studio.export.folder import write

FORMATS = ("svg", "png")


def save_picture(figure: go.Figure, path: str | Path, dpi: int = 150, chromium: str | None = None, seconds: float = 60.0) -> Path:
    """Draw the figure with Chromium and write it, atomically; the path's ending (.svg or .png) says how. dpi: of PNG.

    Raises NoChromium where there is no browser, InputError for another ending, LeoError where it took longer than `seconds`.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"A picture's name ends with .{' or .'.join(FORMATS)}; got '{path.name}'.")
    with ThreadPoolExecutor(1) as thread:  # a notebook's own event loop is running already, and loops do not nest
        drawn = thread.submit(asyncio.run, _draw(figure, kind, dpi, find_chromium(chromium), seconds)).result()
    if drawn.content is None:
        raise LeoError(drawn.trouble)
    return write(path, drawn.content)


async def _draw(figure: go.Figure, kind: str, dpi: int, chromium: str, seconds: float):
    async for picture in pictures({"figure": figure}, (kind,), dpi, chromium, seconds, seconds):
        found = picture
    return found
