"""Asking: picture, question, the streamed answer, and this browser tab's last runs."""

import logging
from pathlib import Path

import gradio as gr

from leo_core.errors import LeoError
from leo_core.tracing.trace import Trace
from studio.html import finished_answer, note, streamed_answer
from studio.session import Session

MOST_RUNS = 10
log = logging.getLogger("studio")


def uploaded_path(payload) -> str | None:
    """The uploaded file as it is: our own loader says in words what is wrong with it, Gradio's would not."""
    return None if payload is None else payload.path


def build(session: Session, examples: list[list[str]]) -> dict:
    """Components by name: picture, question, go, stop, status, answer, runs."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            label = "Picture (upload, drop or paste)"
            picture = gr.Image(type="filepath", label=label, sources=["upload", "clipboard"], elem_id="leo-picture", height=320)
            picture.preprocess = uploaded_path
        with gr.Column(scale=3, min_width=300):
            question = gr.Textbox(label="Question", placeholder="What is in the picture?", max_lines=4, elem_id="leo-question", autofocus=True)
            with gr.Row():
                go = gr.Button("Ask", variant="primary", elem_id="leo-ask")
                stop = gr.Button("Stop", elem_id="leo-stop")
            status = gr.HTML(note(session.status), elem_id="leo-status")
            answer = gr.HTML(elem_id="leo-answer")
            runs = gr.Dropdown([], label=f"Last runs of this tab (at most {MOST_RUNS})", elem_id="leo-runs")
    labels = [f"{Path(path).stem}: {question}" for path, question in examples]
    gr.Examples(examples, [picture, question], label="Examples", elem_id="leo-examples", cache_examples=False, example_labels=labels)
    return {"picture": picture, "question": question, "go": go, "stop": stop, "status": status, "answer": answer, "runs": runs}


def answer_steps(session: Session, picture, question: str, history: list[Trace], user: str):
    """Yield (status, answer, trace or None, history) while a question is answered. One sentence for whatever goes wrong."""
    try:
        for step in session.ask(picture, question, user):
            shown = finished_answer(step.trace) if step.trace else streamed_answer(step.answer, step.probability)
            if step.done:
                history = [step.trace, *history][:MOST_RUNS]
            yield note(step.note), shown, step.trace, history
    except LeoError as error:
        yield note(str(error), alert=True), "", None, history
    except Exception as error:  # the last fence before the user: no stack trace on the page, and the next question works
        log.error("A run failed: %s", type(error).__name__)
        yield note(f"Something inside the studio failed ({type(error).__name__}); ask again or try another picture.", alert=True), "", None, history


def run_names(history: list[Trace]) -> list[tuple[str, int]]:
    """Choices of the run list: (label, index), newest first."""
    return [(f"{_short(one.question)} → {_short(one.answer)}", index) for index, one in enumerate(history)]


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
