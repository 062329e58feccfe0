"""What the answer owes to each vision expert, and how likely each of its tokens was."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from leo_core.tracing.trace import Trace
from studio.figures.positions import ticks
from studio.figures.redraw import redrawable
from studio.figures.style import BAR_GAP, category, finish, hatched, name_axis, notice
from studio.figures.token_text import Label, escaped, labels, runs_right_to_left, visible


@redrawable
def answer_shares(trace: Trace, dark: bool = False) -> go.Figure:
    """`expert_shares` of a run whose contributions were measured and stored in its trace."""
    values = trace.analyses.get("contributions")
    if values is None:
        text = "Not measured for this run: it was stopped, or came without contributions."
        return notice(text, "Contribution of each vision expert to this answer", dark)
    return expert_shares(
        values["names"], values["shapley"], values["leave_one_out"], values.get("input_x_gradient"),
        (values["v_all"], values["v_none"]), values.get("completeness_error"), dark=dark,
    )  # fmt: skip


@redrawable
def expert_shares(
    names: Sequence[str], shapley: Sequence[float], leave_one_out: Sequence[float], attribution: Sequence[float] | None,
    total: tuple[float, float], completeness_error: float | None, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Signed contribution of each vision expert to the log-probability of the answer, in nats.

    total: (v(all), v(none)). attribution: gradient x input per expert, or None; it has a scale of its own and is shown in
    a second panel as shares of its absolute sum. completeness_error: |sum of Shapley values - (v(all) - v(none))| in nats.
    NaN values are left out and called not evaluated.
    """
    title = "Contribution of each vision expert to this answer"
    if not len(names):
        return notice("There were no vision experts in this run: nothing to share out.", title, dark)
    panels = 1 if attribution is None else 2
    names = list(names)
    fig = make_subplots(rows=panels, cols=1, row_heights=[0.6, 0.4] if panels > 1 else None, vertical_spacing=0.22)
    causal = {"Shapley value": shapley, "leave one out": leave_one_out}
    for index, (name, values) in enumerate(causal.items()):
        _add_signed(fig, names, values, name, category(index, dark), "nats", 1)
        _say_missing(fig, values, index, len(causal), 1)
    fig.update_yaxes(title_text="change of log-probability (nats)", row=1)
    if attribution is not None:
        attribution = np.asarray(attribution, dtype=np.float64)
        whole = np.nansum(np.abs(attribution))
        _add_signed(fig, names, attribution / whole if whole > 0 else attribution, "input × gradient", category(2, dark), "share", 2)
        _say_missing(fig, attribution, 0, 1, 2)
        fig.update_yaxes(title_text="share of absolute attribution", row=2)
    name_axis(fig, "x", {"vision expert": names})
    fig.update_xaxes(title_text="vision expert", showgrid=False)
    fig.update_layout(barmode="group", legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"), margin_t=132)
    error = "not computed" if completeness_error is None else f"{completeness_error:.2g} nats"
    caption = (
        f"n = {len(names)} vision experts, one answer, teacher-forced: v(all) = {total[0]:.4g} nats with all experts, v(none) = {total[1]:.4g} nats "
        f"with none. Shapley values add up to v(all) - v(none) = {total[0] - total[1]:.4g} nats (completeness error {error}). Leave one out: v(all) "
        "minus v without this expert; below Shapley where experts stand in for each other."
    )
    if attribution is not None:
        caption += " Input × gradient is a local estimate on its own scale (over the sum of absolute values): compare its order, not its size."
    everything = [np.asarray(one, dtype=np.float64) for one in (shapley, leave_one_out, attribution) if one is not None]
    missing = sum(int(np.isnan(one).sum()) for one in everything)
    return finish(fig, title, caption + (f" Not evaluated: {missing} values." if missing else ""), dark, height=300 + 320 * (panels - 1) + 132)


def _add_signed(fig: go.Figure, names: Sequence[str], values: Sequence[float], name: str, colour: str, unit: str, row: int) -> None:
    values = np.asarray(values, dtype=np.float64)
    fig.add_trace(
        go.Bar(
            x=np.arange(len(names)), y=values, name=f"{name} ({unit})", marker_color=colour, showlegend=True, textposition="outside",
            cliponaxis=False, constraintext="none", text=[f"{value:+.3f}" if np.isfinite(value) else "" for value in values], textfont_size=10.5,
            textangle=0 if len(names) <= 2 else -90,
            customdata=[escaped(one) for one in names], hovertemplate="%{customdata}: %{y:+.5f} " + unit,
        ),
        row=row, col=1,
    )  # fmt: skip
    fig.update_xaxes(row=row, range=[-0.5, len(names) - 0.5], autotickangles=[0, -40, -90], **ticks(names))
    shown = np.append(values[np.isfinite(values)], 0.0)
    low, high = fig.layout[f"yaxis{row if row > 1 else ''}"].range or (0.0, 0.0)
    room = (0.14 if len(names) <= 2 else 0.3) * (np.ptp(shown) or 1.0)  # for the numbers beyond the bars
    fig.update_yaxes(row=row, range=[min(low, shown.min() - (room if shown.min() < 0 else 0.0)), max(high, shown.max() + room)])


def _say_missing(fig: go.Figure, values: Sequence[float], index: int, series: int, row: int) -> None:
    """Words where a bar would stand."""
    for place in np.flatnonzero(np.isnan(np.asarray(values, dtype=np.float64))):
        fig.add_annotation(
            x=bar_centre(place, index, series), y=0, yanchor="bottom", text="not evaluated", textangle=-90, showarrow=False, font_size=10.5,
            row=row, col=1,
        )  # fmt: skip


def bar_centre(place: float, index: int, series: int) -> float:
    """x of one bar of a group under the house style's gap between groups."""
    return place + (1 - BAR_GAP) * ((index + 0.5) / series - 0.5)


@redrawable
def answer_tokens(trace: Trace, without_picture_probability: Sequence[float] | None = None, dark: bool = False) -> go.Figure:
    """Probability of each answer token when it was chosen, and without the picture where that was computed (same tokens,
    teacher-forced). Hover lists the likeliest candidates."""
    title = "How sure the model was of each answer token"
    count = len(trace.probability)
    if count == 0:
        return notice("The answer is empty: no token was generated.", title, dark)
    pieces = labels(trace.token_bytes[trace.prompt_length :])
    called = [piece.text for piece in pieces]
    series = {"with the picture" if trace.pictures else "as asked": np.asarray(trace.probability, dtype=np.float64)}
    if without_picture_probability is not None:
        series["without the picture"] = np.asarray(without_picture_probability, dtype=np.float64)
    fig, place = go.Figure(), np.arange(count)
    hover = [_alternatives(trace, token, piece) for token, piece in enumerate(pieces)]
    for index, (name, values) in enumerate(series.items()):
        fig.add_trace(
            go.Bar(x=place, y=values, name=name, marker_color=category(index, dark), customdata=hover, showlegend=True,
                   hovertemplate=f"{name}: %{{y:.4f}}<br>%{{customdata}}<extra></extra>")
        )  # fmt: skip
    unknown = [(place, index) for index, values in enumerate(series.values()) for place in np.flatnonzero(np.isnan(values))]
    if unknown:
        half = (1 - BAR_GAP) / len(series) / 2
        centres = [bar_centre(place, index, len(series)) for place, index in unknown]
        fig.add_trace(hatched(np.array([[(x - half, 0), (x + half, 0), (x + half, 1), (x - half, 1)] for x in centres])))
    angle = -90 if count * max(map(len, called)) > 60 else 0
    name_axis(fig, "x", {"number": range(1, count + 1), "answer token": called})
    fig.update_xaxes(title_text="answer token", range=[-0.6, count - 0.4], showgrid=False, tickangle=angle, **ticks(called))
    fig.update_xaxes(tickfont_size=13 if count <= 20 else 9)
    fig.update_yaxes(title_text="probability", range=[0, 1.0])
    fig.update_layout(barmode="group", legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"), margin_t=92)
    product = float(np.log(np.maximum(trace.probability, 1e-30)).sum())
    end = "the end mark is the last" if trace.finished else "the answer was cut before an end mark"
    caption = (
        f"Probability of each of n = {count} answer tokens when it was chosen (softmax at temperature 1, greedy choice; {end}). "
        f"Log-probability of the whole answer: {product:.3f} nats. Hover: the {trace.top_ids.shape[1]} likeliest candidates."
    )
    if without_picture_probability is not None:
        caption += " Without the picture: the same tokens, teacher-forced on a question that came without it."
    if runs_right_to_left(trace.answer):
        caption += " The answer is written from right to left; its tokens stand from left to right in the order in which they came."
    return finish(fig, title, caption + (f" Not evaluated (hatched): {len(unknown)} of {count * len(series)} probabilities." if unknown else ""), dark)


def _alternatives(trace: Trace, token: int, piece: Label) -> str:
    rows = zip(trace.top_bytes[token], trace.top_probability[token], strict=True)
    part = f" (part of {escaped(piece.whole)}, tokens {piece.tokens[0] + 1} to {piece.tokens[1] + 1})" if piece.tokens else ""
    head = f"<b>{escaped(piece.text)}</b>{part}, likeliest here:<br>"
    return head + "<br>".join(f"{probability:.4f}  {visible(text)}" for text, probability in rows)
