"""Visual tokens: where CoTR's weights sit on the picture, for one vision expert at a time, and how alike its tokens are."""

import gradio as gr
import plotly.graph_objects as go

from leo_core.tracing.trace import Trace
from studio.export.panel import add_export
from studio.figures import kept_map, likeness_matrix, term_shares, token_numbers
from studio.html import caption, table

TERMS = [("weights", "total"), ("query term", "query"), ("own tokens term", "self"), ("other experts term", "cross"), ("question term", "text")]
ALL = "all together"


def build(trace: gr.State, dark: gr.Checkbox):
    """Components of the tab; returns (draw, inputs, outputs) for the page to chain after a run."""
    gr.Markdown("Which source tokens each output token is mixed from. CoTR weighs softly: nothing is kept or dropped outright.")
    with gr.Row():
        expert = gr.Radio([], label="Vision expert", elem_id="leo-expert")
        term = gr.Radio(TERMS, value="total", label="Show")
        token = gr.Dropdown([ALL], value=ALL, label="Output token", elem_id="leo-output-token")
    with gr.Row(equal_height=False):
        with gr.Column(scale=3):
            picture, picture_caption = gr.Plot(show_label=False, elem_id="leo-map"), gr.HTML()
        with gr.Column(scale=2):
            numbers = gr.HTML(elem_id="leo-numbers")
            terms, terms_caption = gr.Plot(show_label=False, elem_id="leo-terms"), gr.HTML()
            alike, alike_caption = gr.Plot(show_label=False, elem_id="leo-likeness"), gr.HTML()
    inputs = [trace, expert, term, token, dark]
    outputs = [expert, token, picture, picture_caption, numbers, terms, terms_caption, alike, alike_caption]
    gr.on([expert.input, term.input, token.input], draw, inputs, outputs, show_progress="hidden", concurrency_limit=None)
    add_export("tokens", {"map on the picture": "leo-map", "score terms": "leo-terms", "likeness": "leo-likeness"}, drawn, inputs)
    return draw, inputs, outputs


def draw(trace: Trace, expert: str | None, term: str, token: str, dark: bool):
    """Everything on the tab for the chosen expert, term and output token."""
    expert, token, tokens = possible(trace, expert, token)
    picture, terms, alike = ((figure, caption(figure)) for figure in drawn(trace, expert, term, token, dark))
    return (
        gr.Radio(choices=list(trace.expert_names), value=expert), gr.Dropdown(choices=tokens, value=token),
        *picture, _numbers(trace), *terms, *alike,
    )  # fmt: skip


def drawn(trace: Trace, expert: str | None, term: str, token: str, dark: bool) -> list[go.Figure]:
    """The tab's figures: map, terms, likeness."""
    expert, token, _ = possible(trace, expert, token)
    chosen = None if token == ALL else int(token) - 1
    return [
        kept_map(trace, expert, token=chosen, term=term, dark=dark),
        term_shares(trace, expert, dark=dark),
        likeness_matrix(trace, expert, dark=dark),
    ]


def possible(trace: Trace, expert: str | None, token: str) -> tuple[str, str, list[str]]:
    """(expert, output token, all output tokens): what was chosen as far as this run has it, else the first."""
    expert = expert if expert in trace.expert_names else next(iter(trace.expert_names), "none")
    count = len(trace.of_expert(expert).weights) if trace.experts else 0
    tokens = [ALL, *(str(number + 1) for number in range(count))]
    return expert, token if token in tokens else ALL, tokens


def _numbers(trace: Trace) -> str:
    rows = []
    for name in trace.expert_names:
        n = token_numbers(trace, name, 0)
        rows.append(
            [
                name, n["source_tokens"], f"{n['effective_tokens_mean']:.1f}", f"{n['area_50']:.0%}", f"{n['area_90']:.0%}",
                f"{n['likeness']:.2f}", f"{n['unseen_share']:.0%}",
            ]  # fmt: skip
        )
    head = ["expert", "source tokens", "effective per output token", "area of 50 %", "area of 90 %", "likeness", "never seen"]
    return table(head, rows, "Area: share of the picture under the tokens that hold this part of the mass. Likeness 1: all output tokens look at the same.")
