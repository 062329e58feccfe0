"""Figures in an executed notebook: a still picture beside each, for viewers that cannot run a script."""

import asyncio
import base64
from collections.abc import Iterator

import plotly.graph_objects as go
from nbformat import NotebookNode

from studio.export.chromium import find_chromium, pictures

PLOTLY = "application/vnd.plotly.v1+json"
DPI = 144
SECONDS = 240.0
"""Most that the pictures of one notebook may take; a quarter of it for one of them."""


def figure_outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Every output that holds a Plotly figure, in order."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if PLOTLY in output.get("data", {}):
                yield output


def add_stills(notebook: NotebookNode) -> int:
    """Put a PNG beside every figure; returns how many have none, for want of time. Raises NoChromium where there is no browser."""
    outputs = {f"figure {number}": output for number, output in enumerate(figure_outputs(notebook), 1)}
    figures = {name: figure_of(output) for name, output in outputs.items()}
    return asyncio.run(_draw(outputs, figures)) if figures else 0


def figure_of(output: NotebookNode) -> go.Figure:
    """The figure in an output."""
    shown = output.data[PLOTLY]
    return go.Figure({"data": shown["data"], "layout": shown["layout"]}, skip_invalid=True)


async def _draw(outputs: dict[str, NotebookNode], figures: dict[str, go.Figure]) -> int:
    missing = 0
    async for picture in pictures(figures, ("png",), DPI, find_chromium(), SECONDS, SECONDS / 4):
        if picture.content is None:
            missing += 1
        else:
            outputs[picture.name].data["image/png"] = base64.b64encode(picture.content).decode("ascii")
    return missing
