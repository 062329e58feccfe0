"""Vision experts: what each contributed to this answer, by leaving it out, by Shapley values, and by captum's gradients."""

import gradio as gr
import plotly.graph_objects as go

from leo_core.errors import LeoError
from leo_core.tracing.trace import Trace
from studio.export.panel import add_export
from studio.figures import answer_shares, answer_tokens
from studio.html import caption, note, table
from studio.session import Session


def build(session: Session, trace: gr.State, dark: gr.Checkbox):
    """Components of the tab; returns (draw, inputs, outputs) for the page to chain after a run."""
    gr.Markdown(
        "Value of a set of experts: log-probability of the answer when the others are absent (their channels at the training mean). "
        "Shapley values share out the whole gain; leave-one-out asks what is lost without one expert."
    )
    shares, shares_caption = gr.Plot(show_label=False, elem_id="leo-shares"), gr.HTML()
    tokens, tokens_caption = gr.Plot(show_label=False, elem_id="leo-answer-tokens"), gr.HTML()
    with gr.Row():
        without = gr.Button("Answers without each expert", elem_id="leo-without")
        gradients = gr.Button("Integrated gradients", elem_id="leo-gradients")
    more = gr.HTML(elem_id="leo-more")
    inputs, outputs = [trace, dark], [shares, shares_caption, tokens, tokens_caption, more]
    for button, measure in ((without, _without), (gradients, _gradients)):
        button.click(_measuring(measure, session), trace, [trace, more], concurrency_id="model", concurrency_limit=1)
    add_export("experts", {"contributions": "leo-shares", "answer tokens": "leo-answer-tokens"}, drawn, inputs)
    return draw, inputs, outputs


def draw(trace: Trace, dark: bool):
    """Both figures and what was measured on demand."""
    parts = [part for figure in drawn(trace, dark) for part in (figure, caption(figure))]
    return *parts, measured_on_demand(trace)


def drawn(trace: Trace, dark: bool) -> list[go.Figure]:
    """The tab's figures: contributions and answer tokens."""
    return [answer_shares(trace, dark=dark), answer_tokens(trace, dark=dark)]


def measured_on_demand(trace: Trace) -> str:
    """Tables of the slower measurements, as far as they were asked for."""
    parts = []
    if answers := trace.analyses.get("answers_without"):
        rows = [[name, one["answer"] or "(empty)", f"{one['probability']:.1%}"] for name, one in answers.items()]
        parts.append(table(["without", "answer", "its probability"], rows, f"With all experts: {trace.answer}"))
    if gradients := trace.analyses.get("integrated_gradients"):
        rows = [[name, f"{value:+.3f}"] for name, value in zip(trace.expert_names, gradients["values"], strict=True)]
        label = f"Integrated gradients in nats, {gradients['steps']} steps from what an absent expert delivers to this run's tokens."
        if "completeness_error" in gradients:
            label += f" Their sum misses the whole gain by {gradients['completeness_error']:.3f}: routes jump on the way, gradients do not see that."
        parts.append(table(["expert", "attribution"], rows, label))
    return "".join(parts)


def _measuring(measure, session: Session):
    """The button's handler: Gradio sees a progress bar as the default of the last argument."""

    def handler(trace: Trace, progress=gr.Progress()):  # noqa: B008 - Gradio's way
        try:
            trace = measure(session, trace, progress)
        except LeoError as error:
            return trace, note(str(error), alert=True)
        return trace, measured_on_demand(trace)

    return handler


def _without(session: Session, trace: Trace, progress) -> Trace:
    progress(0, desc="Answering without each expert")
    return session.answers_without(trace, lambda done, total: progress((done, total), desc="Answering without each expert", unit="experts"))


def _gradients(session: Session, trace: Trace, progress) -> Trace:
    progress(0, desc="Integrated gradients (32 steps)")
    return session.integrated_gradients(trace)
