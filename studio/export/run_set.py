"""Which figures tell one run as a whole, and what their files are called."""

import re

import plotly.graph_objects as go

from leo_core.tracing.trace import Trace
from studio.figures import (
    answer_shares, answer_table, answer_tokens, expert_norms, kept_map, likeness_matrix, load_per_layer, routing_entropy, routing_map, term_shares,
)  # fmt: skip


def figures_of(trace: Trace, dark: bool = False) -> dict[str, go.Figure]:
    """All figures of a run by the stem of their file: per vision expert and picture, of the routing, and of the answer."""
    drawn = []
    for one in trace.experts:
        of = f"{one.name}-{one.picture + 1}" if len(trace.pictures) > 1 else one.name
        for kind, figure in (("kept-map", kept_map), ("terms", term_shares), ("likeness", likeness_matrix)):
            drawn.append((f"{kind}-{of}", figure(trace, one.name, picture=one.picture, dark=dark)))
    for kind, figure in (("routing-map", routing_map), ("load", load_per_layer), ("entropy", routing_entropy), ("norms", expert_norms)):
        drawn.append((kind, figure(trace, dark=dark)))
    if "contributions" in trace.analyses:
        drawn.append(("expert-shares", answer_shares(trace, dark=dark)))
    drawn += [("answer-tokens", answer_tokens(trace, dark=dark)), ("answer-table", answer_table(trace, dark=dark))]
    return {file_stem(f"{number:02d}-{name}"): figure for number, (name, figure) in enumerate(drawn, start=1)}


def file_stem(name: str) -> str:
    """Lower-case letters, digits and hyphens only: names of experts come from files of strangers."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "figure"
