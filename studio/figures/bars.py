"""Bars in groups or stacks, with intervals where there are some: counts, shares and costs side by side."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, ink, name_axis, notice
from studio.figures.token_text import escaped


@redrawable
def bars(
    title: str, caption: str, groups: Sequence[str], series: Sequence[str], values: Sequence[Sequence[float]], unit: str,
    low: Sequence[Sequence[float]] | None = None, high: Sequence[Sequence[float]] | None = None, group_title: str = "",
    stacked: bool = False, numbers: str = ".3~g", lines: Sequence[tuple[str, float]] = (), dark: bool = False,
) -> go.Figure:  # fmt: skip
    """values: one row for each series, one value for each group; NaN is left out and counted in the caption as not evaluated.

    low, high: ends of intervals, as values. numbers: format of the labels on the bars ("" for none). lines: (words, value)
    of horizontal lines to compare with. Raises ValueError where rows and names do not match.
    """
    values = np.asarray(values, dtype=np.float64).reshape(len(series), -1) if len(series) else np.zeros((0, 0))
    if values.shape != (len(series), len(groups)):
        raise ValueError(f"There are {len(series)} series and {len(groups)} groups, but values of shape {values.shape}.")
    if not np.isfinite(values).any():
        return notice("There are no values to show.", title, dark)
    fig, place = go.Figure(), np.arange(len(groups))
    for index, (name, row) in enumerate(zip(series, values, strict=True)):
        fig.add_trace(
            go.Bar(
                x=place, y=row, name=escaped(name), marker_color=category(index, dark), showlegend=len(series) > 1,
                error_y=_whiskers(row, low, high, index, dark), text=_labels(row, numbers, stacked), textfont_size=11, cliponaxis=False,
                textposition="inside" if stacked else "none" if low is not None or not numbers else "outside", insidetextanchor="middle",
                textangle=0, constraintext="none" if not stacked else "inside", customdata=[escaped(group) for group in groups],
                hovertemplate=f"{escaped(name)}, %{{customdata}}: %{{y:.4~g}} {escaped(unit)}<extra></extra>",
            )
        )  # fmt: skip
    for words, value in lines:
        fig.add_hline(y=value, line=dict(color=ink(dark), width=1.4, dash="dash"))
        fig.add_annotation(x=1, xref="paper", xanchor="right", y=value, yanchor="bottom", text=escaped(words), showarrow=False, font_size=11)
    name_axis(fig, "x", {group_title or "group": groups})
    level = max(map(len, groups)) * len(groups) < 130
    fig.update_xaxes(
        title_text=escaped(group_title), range=[-0.55, len(groups) - 0.45], tickvals=place, showgrid=False,
        ticktext=[_broken(group) if level else escaped(group) for group in groups], tickangle=0 if level else -40,
    )  # fmt: skip
    fig.update_yaxes(title_text=escaped(unit))
    legend = len(series) > 1
    fig.update_layout(barmode="stack" if stacked else "group", margin_t=64 + 34 * legend)
    fig.update_layout(legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"))
    if stacked:
        fig.update_layout(uniformtext=dict(minsize=9, mode="hide"))
    missing = int(np.isnan(values).sum())
    return finish(fig, title, caption + (f" Not evaluated: {missing} of {values.size} values." if missing else ""), dark, height=400)


def _whiskers(row: np.ndarray, low, high, index: int, dark: bool) -> dict | None:
    if low is None or high is None:
        return None
    below, above = row - np.asarray(low[index], dtype=np.float64), np.asarray(high[index], dtype=np.float64) - row
    return dict(type="data", symmetric=False, array=above, arrayminus=below, thickness=1.4, width=4, color=ink(dark))


def _labels(row: np.ndarray, numbers: str, stacked: bool) -> list[str]:
    return [format(value, numbers.replace("~", "")) if np.isfinite(value) and numbers and not (stacked and value == 0) else "" for value in row]


def _broken(text: str) -> str:
    """A long name in lines of about 16 characters."""
    lines = [""]
    for word in text.split():
        lines = [*lines, word] if len(lines[-1]) + len(word) > 16 and lines[-1] else [*lines[:-1], f"{lines[-1]} {word}".strip()]
    return "<br>".join(map(escaped, lines))
