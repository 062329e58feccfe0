"""Routing: which LoRA expert each token was sent to in each layer, how sure the router was, and how even the load is."""

import gradio as gr
import plotly.graph_objects as go

from leo_core.tracing.trace import ROLES, Trace
from studio.export.panel import add_export
from studio.figures import expert_norms, load_per_layer, routing_entropy, routing_map
from studio.html import caption

QUANTITIES = [("router probability", "probability"), ("coefficient used", "coefficient"), ("size against the frozen layer", "norm")]
PHASES = [("prompt and answer", "all"), ("prompt only (prefill)", "prefill"), ("answer only (decode)", "decode")]
PER_LAYER = {"load per layer": "leo-load", "entropy per layer": "leo-entropy", "size per layer": "leo-norms"}
SHOWN = [role for role in ROLES if role != "pad"]


def build(trace: gr.State, dark: gr.Checkbox):
    """Components of the tab; returns (draw, inputs, outputs) for the page to chain after a run."""
    gr.Markdown(
        "The general LoRA expert is always on. Of the routed experts the router chooses one or more per token and layer. "
        "Its probability and the coefficient that multiplies the chosen expert are two things."
    )
    with gr.Row():
        experts = gr.CheckboxGroup([], label="LoRA experts", elem_id="leo-lora-experts")
        roles = gr.CheckboxGroup(SHOWN, value=SHOWN, label="Token roles")
    with gr.Row():
        phase = gr.Radio(PHASES, value="all", label="Phase")
        quantity = gr.Radio(QUANTITIES, value="probability", label="Show")
    main, main_caption = gr.Plot(show_label=False, elem_id="leo-routing"), gr.HTML()
    with gr.Row(equal_height=False):
        pairs = []
        for name in PER_LAYER.values():
            with gr.Column(min_width=320):
                pairs += [gr.Plot(show_label=False, elem_id=name), gr.HTML()]
    inputs, outputs = [trace, experts, roles, phase, quantity, dark], [experts, main, main_caption, *pairs]
    gr.on([experts.input, roles.input, phase.input, quantity.input], draw, inputs, outputs, show_progress="hidden", concurrency_limit=None)
    add_export("routing", {"routes": "leo-routing", **PER_LAYER}, drawn, [trace, experts, roles, phase, quantity, dark])
    return draw, inputs, outputs


def draw(trace: Trace, experts: list[str], roles: list[str], phase: str, quantity: str, dark: bool):
    """Everything on the tab for the chosen experts, roles, phase and quantity."""
    names, chosen = possible(trace, experts)
    parts = [part for figure in drawn(trace, chosen, roles, phase, quantity, dark) for part in (figure, caption(figure))]
    return gr.CheckboxGroup(choices=names, value=chosen), *parts


def drawn(trace: Trace, experts: list[str], roles: list[str], phase: str, quantity: str, dark: bool) -> list[go.Figure]:
    """The tab's figures: routes, load, entropy, size."""
    names, chosen = possible(trace, experts)
    numbers = None if chosen == names else [names.index(name) for name in chosen]
    return [
        routing_map(trace, numbers, roles, phase, quantity, dark=dark),
        load_per_layer(trace, roles, phase, dark=dark),
        routing_entropy(trace, roles, phase, dark=dark),
        expert_norms(trace, roles, phase, dark=dark),
    ]


def possible(trace: Trace, experts: list[str] | None) -> tuple[list[str], list[str]]:
    """(all LoRA experts of this run, the chosen ones; all where none is left)."""
    names = [f"expert {index + 1}" for index in range(trace.routing.probability.shape[2])]
    return names, [name for name in names if name in (experts or [])] or names
