"""The page: puts the asking part and the tabs in order and chains what happens after a run."""

import json
from pathlib import Path

import gradio as gr

from leo_core.checkpoint import ASSETS
from leo_core.tracing.trace import Trace
from leo_core.tracing.trace_file import load_trace
from studio.html import finished_answer, note
from studio.session import Session
from studio.tabs import asking, routing, viewer, vision_experts, visual_tokens

STYLE = Path(__file__).with_name("page.css")
RECORDED = ASSETS / "recorded" / "first.safetensors"
FONTS = ["system-ui", "Segoe UI", "DejaVu Sans", "Arial", "sans-serif"]
IS_DARK = "() => [document.body.classList.contains('dark')]"


def theme() -> gr.themes.Base:
    """Local fonts only: nothing is fetched from outside."""
    return gr.themes.Soft(primary_hue="blue", secondary_hue="orange", font=FONTS, font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"])


def examples() -> list[list[str]]:
    """Six pictures with a question each, from assets/examples."""
    folder = ASSETS / "examples"
    listed = json.loads((folder / "examples.json").read_text())
    return [[str(folder / one["picture"]), one["question"]] for one in listed]


def build_app(session: Session, recorded: Trace | None = None) -> gr.Blocks:
    """The whole page. It opens on the recorded run and loads the model meanwhile."""
    recorded = recorded or load_trace(RECORDED)
    with gr.Blocks(title="LEO Studio", analytics_enabled=False, delete_cache=(3600, 7200), fill_width=True) as page:
        gr.Markdown("# LEO Studio\nPut a picture and a question to LEO-Mini and see how the answer came about.", elem_id="leo-title")
        trace, history, dark = gr.State(recorded), gr.State([]), gr.Checkbox(visible="hidden", elem_id="leo-dark")
        parts = asking.build(session, examples())
        with gr.Tabs():
            with gr.Tab("Viewer", id="viewer"):
                drawn, opened = viewer.build(session, trace, dark)
                tabs = [drawn]
            with gr.Tab("Visual tokens", id="tokens"):
                tabs.append(visual_tokens.build(trace, dark))
            with gr.Tab("Routing", id="routing"):
                tabs.append(routing.build(trace, dark))
            with gr.Tab("Vision experts", id="experts"):
                tabs.append(vision_experts.build(session, trace, dark))
        _wire(page, session, parts, trace, history, dark, tabs, opened)
    return page


def _wire(page: gr.Blocks, session: Session, parts: dict, trace: gr.State, history: gr.State, dark: gr.Checkbox, tabs: list, opened) -> None:
    def ask(picture, question, current, past, request: gr.Request):
        yield note("Waiting for the model"), "", current, past, gr.Button(interactive=False), gr.skip()
        for status, shown, new, past in asking.answer_steps(session, picture, question, past, request.session_hash):
            current = new or current
            yield status, shown, current, past, gr.Button(interactive=False), gr.skip()
        yield gr.skip(), gr.skip(), current, past, gr.Button(interactive=True), gr.Dropdown(choices=asking.run_names(past), value=0 if past else None)

    def stop(request: gr.Request):
        session.stop(request.session_hash)

    def choose(index, past, current):
        chosen = past[index] if index is not None and index < len(past) else current
        return chosen, finished_answer(chosen)

    def shown_first(current):
        return note(f"{session.status} Shown below is a recorded run."), finished_answer(current)

    asked = gr.on(
        [parts["go"].click, parts["question"].submit], ask, [parts["picture"], parts["question"], trace, history],
        [parts["status"], parts["answer"], trace, history, parts["go"], parts["runs"]],
        concurrency_id="model", concurrency_limit=1, trigger_mode="once", show_progress="hidden",
    )  # fmt: skip
    parts["stop"].click(stop, None, None, queue=False)
    chosen = parts["runs"].input(choose, [parts["runs"], history, trace], [trace, parts["answer"]], show_progress="hidden")
    loaded = page.load(lambda is_dark: is_dark, dark, dark, js=IS_DARK, show_progress="hidden").then(
        shown_first, trace, [parts["status"], parts["answer"]], show_progress="hidden"
    )
    shown = opened.then(finished_answer, trace, parts["answer"], show_progress="hidden")
    for event in (asked, chosen, loaded, shown):
        for draw, inputs, outputs in tabs:
            event = event.then(draw, inputs, outputs, show_progress="hidden", concurrency_limit=None)
    ready = gr.Timer(1.0)
    ready.tick(lambda: _model_state(session), None, [parts["status"], ready], show_progress="hidden")


def _model_state(session: Session):
    if not session.loaded:
        return gr.skip(), gr.skip()
    return note(session.status), gr.Timer(active=False)
