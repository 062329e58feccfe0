"""The answer as a table: every token, its bytes, how likely it was, and what else could have stood there."""

import numpy as np
import plotly.graph_objects as go

from leo_core.tracing.trace import Trace
from studio.figures.redraw import redrawable
from studio.figures.style import finish, ground, ink, mixed, notice
from studio.figures.token_text import clipped, escaped, labels, readable

ROW = 26
"""Height of a line in pixels."""


@redrawable
def answer_table(trace: Trace, candidates: int = 3, dark: bool = False) -> go.Figure:
    """One line for each answer token: number, text, bytes, probability, and the likeliest candidates (at most `candidates`)."""
    title = "The answer, token by token"
    count = len(trace.probability)
    if count == 0:
        return notice("The answer is empty: no token was generated.", title, dark)
    tokens = trace.token_bytes[trace.prompt_length :]
    shown = min(candidates, trace.top_probability.shape[1])
    columns = {
        "no.": [str(number + 1) for number in range(count)],
        "token": [escaped(clipped(piece.text, 22)) + (f" ({escaped(piece.whole)})" if piece.whole else "") for piece in labels(tokens)],
        "bytes": [_hex(token) for token in tokens],
        "probability": [_share(value) for value in trace.probability],
    }
    for rank in range(shown):
        rows = zip(trace.top_bytes, trace.top_probability[:, rank], strict=True)
        columns[f"choice {rank + 1}"] = [f"{escaped(clipped(readable(row[rank]), 14))} {_share(value)}" for row, value in rows]
    line, stripe = mixed(ink(dark), ground(dark), 0.2), mixed(ink(dark), ground(dark), 0.05)
    fills = [[stripe if number % 2 else ground(dark) for number in range(count)]]
    look = {"align": "left", "line_color": line, "height": ROW, "font_size": 12}
    fig = go.Figure(
        go.Table(
            columnwidth=[0.45, 1.9, 1.7, 1.05, *[1.6] * shown],
            header={"values": [f"<b>{name}</b>" for name in columns], "fill_color": ground(dark), **look},
            cells={"values": list(columns.values()), "fill_color": fills, **look},
        )
    )
    end = "the end mark is the last" if trace.finished else "the answer was cut before an end mark"
    caption = (
        f"n = {count} answer tokens in the order in which they came ({end}); bytes in hexadecimal; probability: softmax at temperature 1 when the "
        f"token was chosen (greedy); choices: the likeliest {shown} candidates at that place. \u203f ties bytes of one character to the token that "
        "holds the rest of it."
    )
    fig.update_layout(margin=dict(l=16, r=16, b=16), width=900)  # narrower cells would break into lines: a phone scrolls
    return finish(fig, title, caption, dark, height=(count + 1) * ROW + 64 + 32)


def _hex(token: bytes, most: int = 6) -> str:
    return token[:most].hex(" ").upper() + (" …" if len(token) > most else "")


def _share(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "not evaluated"
