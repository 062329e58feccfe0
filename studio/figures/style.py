"""House style: the only place with colours and fonts. Categories are Okabe-Ito, scales safe for colour-blind readers."""

import textwrap
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from studio.figures.redraw import redrawable
from studio.figures.token_text import escaped

FONT = "DejaVu Sans, Arial, sans-serif"
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
SEQUENTIAL = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
"""Cividis: perceptually uniform, the same with and without red-green vision. For weights, from zero upwards."""
DIVERGING = (
    "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f",
)  # fmt: skip
"""Blue below, white at the middle, red above. For signed terms."""
UNKNOWN = "#8c8c8c"
"""Grey hatching: not evaluated, not seen. Never a colour of a scale."""

TITLE_WIDTH = 42
"""Characters of a title that fit beside each other on a phone."""

OVER = 108
"""Top margin in pixels of a figure with a title and a colour bar under it."""

BAR_GAP = 0.25
"""Share of an axis step left free between groups of bars."""

_TITLE = 50  # pixels from the upper edge to what stands under a title of one line
_GROUND = {False: "#ffffff", True: "#14171f"}
_INK = {False: "#20242c", True: "#e4e7ee"}
_LINE = {False: "#d5d9e0", True: "#3a404d"}


def ground(dark: bool) -> str:
    """Paper colour."""
    return _GROUND[dark]


def ink(dark: bool) -> str:
    """Colour of text and reference lines."""
    return _INK[dark]


def category(index: int, dark: bool = False) -> str:
    """Colour of a category; after the seventh the colours return, mixed with the ink."""
    round_, place = divmod(index, len(OKABE_ITO))
    return mixed(OKABE_ITO[place], ink(dark), 1 - 0.45 * min(round_, 2))


def mixed(colour: str, other: str, part: float, alpha: float | None = None) -> str:
    """`part` of a hex colour and the rest of another; as rgba() when alpha is given."""
    pair = [np.array([int(one[i : i + 2], 16) for i in (1, 3, 5)]) for one in (colour, other)]
    red, green, blue = np.rint(part * pair[0] + (1 - part) * pair[1]).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}" if alpha is None else f"rgba({red},{green},{blue},{alpha:g})"


def scale(colours: Sequence[str]) -> list[list]:
    """A Plotly colour scale with equal steps."""
    return [[place, colour] for place, colour in zip(np.linspace(0, 1, len(colours)).tolist(), colours, strict=True)]


def at(colours: Sequence[str], place: float, alpha: float) -> str:
    """Colour at a place 0..1 of a scale."""
    position = min(max(place, 0.0), 1.0) * (len(colours) - 1)
    low = min(int(position), len(colours) - 2)
    return mixed(colours[low + 1], colours[low], position - low, alpha)


def template(dark: bool) -> go.layout.Template:
    """Fonts, grounds and axes, for light or dark pages."""
    axis = dict(
        gridcolor=_LINE[dark], linecolor=_LINE[dark], zerolinecolor=_LINE[dark], ticks="outside", tickcolor=_LINE[dark], automargin=True,
        title_standoff=10,
    )  # fmt: skip
    bar = dict(outlinewidth=0, thickness=14, tickcolor=_LINE[dark], ticks="outside")
    return go.layout.Template(
        layout=dict(
            font=dict(family=FONT, size=13, color=_INK[dark]),
            title=dict(font_size=15, x=0.0, xref="container", xanchor="left", pad=dict(l=16, t=14), yref="container", y=1.0, yanchor="top"),
            paper_bgcolor=_GROUND[dark], plot_bgcolor=_GROUND[dark], colorway=[category(i, dark) for i in range(len(OKABE_ITO))],
            xaxis=axis, yaxis=axis, legend=dict(bgcolor="rgba(0,0,0,0)", x=1.02, xanchor="left", y=1, yanchor="top"),
            hoverlabel=dict(font_family=FONT, align="left", bgcolor=_GROUND[dark], font_color=_INK[dark], bordercolor=_LINE[dark]),
            margin=dict(l=70, r=30, t=64, b=60), bargap=BAR_GAP, separators=". ",
        ),
        data=dict(heatmap=[dict(colorbar=bar)], scatter=[dict(marker_colorbar=bar)]),
    )  # fmt: skip


def of_several(trace, picture: int) -> str:
    """Which picture, for a title; nothing where there is one only."""
    return f", picture {picture + 1}" if len(trace.pictures) > 1 else ""


def finish(fig: go.Figure, title: str, caption: str, dark: bool, height: int = 420) -> go.Figure:
    """Style, title and caption of a figure. Both are plain text here; the title is escaped and broken into lines for Plotly.

    The caption goes to `fig.layout.meta["caption"]` as plain text: whoever shows it as HTML escapes it.
    """
    lines = textwrap.wrap(title, TITLE_WIDTH)
    extra = 20 * (len(lines) - 1)
    if extra:  # what stands above the plot moves down with it
        fig.update_layout(margin_t=(fig.layout.margin.t or 64) + extra, title_pad=dict(l=16, t=14 + extra / 2))
    text = "<br>".join(map(escaped, lines))
    return fig.update_layout(template=template(dark), title_text=text, meta={**(fig.layout.meta or {}), "caption": caption}, height=height + extra)


@redrawable
def notice(text: str, title: str, dark: bool = False) -> go.Figure:
    """A figure that says in words why there is nothing to draw. Never zeros, never a uniform map."""
    fig = go.Figure()
    words = "<br>".join(map(escaped, textwrap.wrap(text, 44)))
    fig.add_annotation(text=words, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font_size=14)
    fig.update_xaxes(visible=False, title_text="not evaluated")
    fig.update_yaxes(visible=False, title_text="not evaluated")
    return finish(fig, title, text, dark, height=260)




def bar_across(title: str, **more) -> dict:
    """A colour bar that lies across the figure, so that a phone keeps its width for the plot. `place_bar` says where."""
    place = dict(x=0.5, xanchor="center", len=0.92, yanchor="top", ypad=0)
    return dict(title=dict(text=title, side="top", font_size=12), orientation="h", thickness=12, tickfont_size=11, **place, **more)


def place_bar(fig: go.Figure, top: float, plot: float) -> None:
    """Put the colour bar under the title of a figure: `top` pixels above a plot that is `plot` pixels high."""
    for layer in fig.data:
        bar = layer.colorbar if layer.type == "heatmap" else getattr(layer.marker, "colorbar", None) if layer.type == "scatter" else None
        if bar is not None and bar.orientation == "h":
            bar.y = 1 + (top - _TITLE) / plot


def name_axis(fig: go.Figure, axis: str, columns: dict[str, Sequence]) -> None:
    """What stands at the places 0, 1, 2, ... of an axis ("x" or "y"): named columns of plain values, for the table of the figure."""
    meta = fig.layout.meta or {}
    plain = {name: list(values) for name, values in columns.items()}
    fig.update_layout(meta={**meta, "axes": {**meta.get("axes", {}), axis: plain}})


def hatched(polygons: Float[np.ndarray, "regions corners 2"], name: str = "not evaluated", veil: float = 0.85) -> go.Scatter:
    """Grey hatching over regions that hold no value. veil: how much the grey covers, 0..1."""
    x, y = outlines(polygons)
    pattern = dict(shape="/", size=7, solidity=0.25, fgcolor="rgba(45,45,45,0.75)", bgcolor=mixed(UNKNOWN, UNKNOWN, 1, veil), fillmode="replace")
    return go.Scatter(
        x=x, y=y, mode="lines", line=dict(width=0, color=UNKNOWN), fill="toself", fillcolor=UNKNOWN, fillpattern=pattern,
        hoverinfo="skip", name=name, showlegend=True,
    )  # fmt: skip


def outlines(polygons: Float[np.ndarray, "regions corners 2"]) -> tuple[np.ndarray, np.ndarray]:
    """x and y of closed outlines, parted by NaN (gaps in Plotly)."""
    closed = np.concatenate([polygons, polygons[:, :1], np.full_like(polygons[:, :1], np.nan)], axis=1)
    return closed[..., 0].ravel(), closed[..., 1].ravel()
