"""The picture under a map: exact pixels, its own aspect ratio, and what a vision expert never saw of it."""

import base64

import numpy as np
import plotly.graph_objects as go

from leo_core.geometry import Geometry, polygon_areas, rectangles
from leo_core.tracing.trace import PictureTrace
from studio.figures.style import hatched, outlines

MEDIA_TYPES = ("image/jpeg", "image/png", "image/webp")
"""What may go into a data address; a trace file is not to be trusted."""
_FRAME = {"scaffold": True}
_NEUTRAL = {False: "#e9ebef", True: "#262b36"}


def lay_picture(fig: go.Figure, picture: PictureTrace, dark: bool) -> int:
    """Put the picture on axes 0..width and 0..height (y down, equal scale). Returns a height for the plot in pixels."""
    width, height = picture.width, picture.height
    if has_content(picture):
        source = f"data:{picture.media_type};base64,{base64.b64encode(picture.content).decode('ascii')}"
        fig.add_layout_image(
            source=source, x=0, y=0, sizex=width, sizey=height, xref="x", yref="y", xanchor="left", yanchor="top", sizing="stretch",
            layer="below",
        )  # fmt: skip
    else:
        fig.add_shape(type="rect", x0=0, y0=0, x1=width, y1=height, line_width=0, fillcolor=_NEUTRAL[dark], layer="below")
    axis = dict(showgrid=False, zeroline=False, constrain="domain")
    fig.update_xaxes(title_text="x (pixels of the original picture)", range=[0, width], **axis)
    fig.update_yaxes(title_text="y (pixels, downwards)", range=[height, 0], scaleanchor="x", scaleratio=1, constraintoward="top", **axis)
    return int(np.clip(540 * height / width, 200, 720))


def has_content(picture: PictureTrace) -> bool:
    """Whether there are pixels to show."""
    return bool(picture.content) and picture.media_type in MEDIA_TYPES


def mark_unseen(fig: go.Figure, geometry: Geometry, dark: bool) -> str:
    """Hatch what the expert never saw, or outline what it read where that is strips. Returns the words for the caption."""
    share = geometry.unseen_share()
    if share <= 0.01:
        return ""
    words = f"{share:.0%} of the picture was never seen by this expert"
    low, high = geometry.seen.min(axis=(0, 1), initial=np.inf), geometry.seen.max(axis=(0, 1), initial=-np.inf)
    one_window = len(geometry.seen) == 1 and np.isclose(polygon_areas(geometry.seen)[0], np.prod(high - low))
    if one_window:
        fig.add_trace(hatched(rectangles(_around(geometry, low, high)), name="never seen by this expert", veil=0.45))
        return f"{words} (hatched)."
    x, y = outlines(geometry.seen)
    # a wide dark line under a narrow light one: visible on any picture
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line=dict(color="rgba(0,0,0,0.75)", width=3), hoverinfo="skip", showlegend=False, meta=_FRAME))
    fig.add_trace(
        go.Scatter(x=x, y=y, mode="lines", line=dict(color="#56B4E9", width=1.4), hoverinfo="skip", name="strips it read", showlegend=True,
                   meta=_FRAME)
    )  # fmt: skip
    return f"{words}: it read the {len(geometry.seen)} outlined regions only."


def _around(geometry: Geometry, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Boxes of the picture outside one window; those without area are left out."""
    width, height = geometry.width, geometry.height
    boxes = [(0, 0, width, low[1]), (0, high[1], width, height), (0, low[1], low[0], high[1]), (high[0], low[1], width, high[1])]
    return np.array([box for box in boxes if box[2] > box[0] and box[3] > box[1]], dtype=np.float64)
