"""Small pictures side by side: weights of several reducers, or CoTR's four terms for several questions, on the same picture."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from leo_core.geometry import Geometry
from leo_core.tracing.trace import PictureTrace, Trace
from studio.figures.numbers import effective_tokens, likeness
from studio.figures.picture_ground import lay_picture
from studio.figures.picture_map import TERMS
from studio.figures.picture_paint import Colours, paint
from studio.figures.style import DIVERGING, SEQUENTIAL, bar_across, finish, notice
from studio.figures.token_text import clipped, escaped

PAGE = 860
"""Pixels of a page's width for which panels leave no room between rows."""
_TOP, _BOTTOM, _GAP, _LEFT, _RIGHT, _BETWEEN = 132, 16, 14, 128, 10, 0.012


def map_panels(
    picture: PictureTrace, geometry: Geometry, weights: Mapping[str, Float[np.ndarray, "v n"]], tokens: Sequence[int], title: str,
    top: float = 0.25, opacity: float = 0.6, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """weights: of each reducer over the same n source tokens. tokens: output tokens to show, 0-based; the first column is their mean
    over all. top: share of the mass that gets the brightest colour, larger ones too; one scale for all panels, so that they can be
    compared. Raises IndexError for an output token beyond v.
    """
    if not weights:
        return notice("There are no weights to show.", title, dark)
    columns = ["all together", *(f"token {token + 1}" for token in tokens)]
    shown = {name: [rows.mean(axis=0), *(rows[token] for token in tokens)] for name, rows in weights.items()}
    most = float(max(panel.max() for panels in shown.values() for panel in panels))
    top = min(top, most) or 1.0
    numbers = "; ".join(f"{name}: {effective_tokens(rows).mean():.1f} and {likeness(rows):.2f}" for name, rows in weights.items())
    beyond = f" (brightest: {top:.0%} and more, up to {most:.0%})" if most > top else ""
    caption = (
        f"Weights over n = {len(geometry)} source tokens: mean over all output tokens (left), then single output tokens; one scale for all panels"
        f"{beyond}. Effective source tokens of an output token (mean), and likeness of output tokens: {numbers}. A cell marks where a token sits, "
        "not all that it saw."
    )
    scale = dict(low=0.0, high=top, colours=SEQUENTIAL, words="share of the mass", tickformat=".0%")
    return _grid(picture, geometry, shown, columns, title, caption, scale, opacity, dark)


def term_panels(traces: Sequence[Trace], expert: str, opacity: float = 0.75, dark: bool = False) -> go.Figure:
    """One row for each run (the same picture, another question), one column for each score term that was recorded.

    The mean over tokens is taken off, since the softmax ignores it; every column has its own reach, named in its title.
    """
    title = f"{expert}: the four terms, question by question"
    ones = [trace.of_expert(expert) for trace in traces if trace.pictures]
    terms = [name for name, field in TERMS.items() if all(getattr(one, field) is not None for one in ones)]
    if not ones or not terms:
        return notice("Not available: these runs hold no score terms.", title, dark)
    scores = {name: [np.atleast_2d(np.asarray(getattr(one, TERMS[name]), np.float64)).mean(axis=0) for one in ones] for name in terms}
    moved = {name: [row - row.mean() for row in rows] for name, rows in scores.items()}
    reach = {name: max(float(np.abs(row).max()) for row in rows) or 1.0 for name, rows in moved.items()}
    columns = [f"{name} (±{reach[name]:.2g})" for name in terms]
    shown = {clipped(trace.question, 60): [moved[name][index] / reach[name] for name in terms] for index, trace in enumerate(traces)}
    caption = (
        f"Vision expert '{expert}', n = {len(ones[0].geometry)} source tokens, {len(ones)} questions about one picture. Colour: score minus its mean "
        "over tokens, as a share of the column's reach (in brackets, no unit): red draws weight, blue turns it away. query is the mean over output "
        "tokens. Columns whose rows are equal do not depend on the question."
    )
    scale = dict(low=-1.0, high=1.0, colours=DIVERGING, words="score, share of the column's reach", tickformat="+.1f")
    return _grid(traces[0].pictures[0], ones[0].geometry, shown, columns, title, caption, scale, opacity, dark)


def _grid(picture, geometry, shown: Mapping[str, list[np.ndarray]], columns, title, caption, scale: dict, opacity, dark) -> go.Figure:
    """Panels with one colour bar over them."""
    panel = (PAGE - _LEFT - _RIGHT) * (1 - _BETWEEN * (len(columns) - 1)) / len(columns)
    height = panel * picture.height / picture.width
    whole = len(shown) * height + (len(shown) - 1) * _GAP
    gap = _GAP / whole if len(shown) > 1 else 0.0
    fig = make_subplots(rows=len(shown), cols=len(columns), horizontal_spacing=_BETWEEN, vertical_spacing=gap, column_titles=columns)
    colours = Colours(scale["low"], scale["high"], scale["colours"], dict(title=dict(text=scale["words"])), "")
    for row, (name, panels) in enumerate(shown.items(), 1):
        for column, values in enumerate(panels, 1):
            _panel(fig, picture, geometry, values, colours, opacity, dark, row, column, escaped(f"{name}, {columns[column - 1]}"))
        low, high = fig.get_subplot(row, 1).yaxis.domain
        words = dict(text=_lines(name), align="right", font_size=12, showarrow=False)
        fig.add_annotation(x=-0.012, xref="paper", xanchor="right", y=(low + high) / 2, yref="paper", yanchor="middle", **words)
    bar = bar_across(scale["words"], y=1 + (_TOP - 50) / whole, tickformat=scale["tickformat"], outlinewidth=0)
    fig.update_layout(coloraxis=dict(cmin=colours.low, cmax=colours.high, colorscale=colours.keywords["colorscale"], colorbar=bar))
    fig.update_annotations(font_size=12)
    fig.update_layout(margin=dict(l=_LEFT, r=_RIGHT, t=_TOP, b=_BOTTOM))
    return finish(fig, title, caption, dark, height=int(whole + _TOP + _BOTTOM))


def _panel(fig, picture, geometry, values, colours: Colours, opacity, dark, row: int, column: int, series: str) -> None:
    """One picture with its cells; drawn apart and moved onto its axes."""
    alone = go.Figure()
    lay_picture(alone, picture, dark)
    paint(alone, geometry, values, colours, opacity)
    axes = fig.get_subplot(row, column)
    x, y = (axis.plotly_name.replace("axis", "") for axis in (axes.xaxis, axes.yaxis))
    for layer in alone.data:
        if layer.type == "heatmap":
            layer.update(coloraxis="coloraxis", showscale=None, colorscale=None, zmin=None, zmax=None, colorbar=None, name=series)
        elif layer.marker.color is not None:
            layer.marker.update(coloraxis="coloraxis", showscale=None, colorscale=None, cmin=None, cmax=None, colorbar=None)
        fig.add_trace(layer, row=row, col=column)
    _moved(alone.layout.images, fig.add_layout_image, x, y)
    _moved(alone.layout.shapes, fig.add_shape, x, y)
    frame = dict(showticklabels=False, showgrid=False, zeroline=False, ticks="", title_text="", constrain="domain")
    fig.update_xaxes(range=[0, picture.width], row=row, col=column, **frame)
    fig.update_yaxes(range=[picture.height, 0], scaleanchor=x, row=row, col=column, **frame)


def _moved(parts: Sequence, add: Callable, x: str, y: str) -> None:
    for part in parts:
        add(part.update(xref=x, yref=y))


def _lines(text: str) -> str:
    """A row's name in lines of about 14 characters."""
    lines = [""]
    for word in text.split():
        lines = [*lines, word] if len(lines[-1]) + len(word) > 14 and lines[-1] else [*lines[:-1], f"{lines[-1]} {word}".strip()]
    return "<br>".join(map(escaped, lines))
