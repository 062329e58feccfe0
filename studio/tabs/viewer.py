"""The viewer: the run as one linked page; opens traces, puts two side by side, hands out page and trace, tests a map causally."""

import base64
import json
import tempfile
from pathlib import Path

import gradio as gr

from leo_core.analysis.faithfulness import VISUAL, Progress
from leo_core.analysis.maptest import MapTest
from leo_core.errors import LeoError
from leo_core.tracing.trace import Trace
from leo_core.tracing.trace_file import load_trace, save_trace
from studio.html import note, table
from studio.session import Session
from studio.viewer import frame, page

HEIGHT = 1150
KINDS = {"page": ("run.html", "text/html"), "trace": ("run.safetensors", "application/octet-stream")}

_SAVE = """(carried) => {
  if (!carried) return;
  const { name, type, data } = JSON.parse(carried), link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}"""


def build(session: Session, trace: gr.State, dark: gr.Checkbox):
    """Components of the tab; returns ((draw, inputs, outputs), the event after which a trace was opened)."""
    beside = gr.State(None)
    shown = gr.HTML(elem_id="leo-viewer")
    with gr.Row():
        which, test = gr.Dropdown([], label="Map to test", elem_id="leo-map-choice"), gr.Button("Test this map", elem_id="leo-map-test")
    said, tested = gr.HTML(elem_id="leo-map-said"), gr.HTML(elem_id="leo-map-tests")
    with gr.Accordion("Open, compare, keep", open=False, elem_id="leo-traces"):
        with gr.Row():
            opened = gr.File(label="Open a trace", file_types=[".safetensors"], height=110, elem_id="leo-open")
            second = gr.File(label="Show a second trace beside it", file_types=[".safetensors"], height=110, elem_id="leo-beside")
        with gr.Row():
            with_picture = gr.Checkbox(True, label="with the picture")
            keep = {kind: gr.Button(f"Download the {kind}", elem_id=f"leo-keep-{kind}") for kind in KINDS}
        carried = gr.Textbox(visible="hidden")
    inputs, outputs = [trace, beside, which, dark], [shown, which, tested]
    for kind, button in keep.items():
        button.click(_keeping(kind), [trace, beside, with_picture], [carried, said]).then(None, carried, None, js=_SAVE)
    second.change(_open_beside, second, [beside, said]).then(draw, inputs, outputs, show_progress="hidden")
    test.click(_testing(session), [trace, which], [trace, said], concurrency_id="model", concurrency_limit=1, trigger_mode="once").then(
        draw, inputs, outputs, show_progress="hidden"
    )
    return (draw, inputs, outputs), opened.upload(_open, [opened, trace], [trace, said])


def draw(trace: Trace, beside: Trace | None, which: str | None, dark: bool):
    """The page of the run (and of the one beside it), the maps that can be tested, and the results there are."""
    theme = {"theme": "dark" if dark else "light"}
    shown = frame([trace] if beside is None else [trace, beside], HEIGHT, selection=theme)
    maps = [*trace.expert_names, VISUAL]
    return shown, gr.Dropdown(choices=maps, value=which if which in maps else maps[0]), results(trace)


def results(trace: Trace) -> str:
    """Every map's test as far as it was made, with its verdict."""
    rows = []
    for key, words in trace.analyses.items():
        if key.startswith("faithfulness/"):
            one = MapTest.from_dict(words)
            (deletion, insertion), (d, i) = (one.deletion_gain, one.insertion_gain), one.spread
            equal = one.gain_over_equal
            rows.append([one.map, f"{deletion:+.2f} ± {d:.2f}", f"{insertion:+.2f} ± {i:.2f}", f"{equal[0]:+.2f}, {equal[1]:+.2f}", one.verdict])
    if not rows:
        return note("No map of this run has been tested yet: a test masks the tokens a map shows and watches the answer's log-probability.")
    head = ["map", "deletion gain", "insertion gain", "against equal weights", "what it says"]
    return table(head, rows, "Gains in nats against random tokens, ± standard deviation over their seeds; positive = the map shows what the answer needs.")


def _testing(session: Session):
    def handler(trace: Trace, name: str, request: gr.Request, progress=gr.Progress()):  # noqa: B008 - Gradio's way
        try:
            for step in session.map_test(trace, name, request.session_hash):
                if isinstance(step, Progress):
                    progress((step.done, step.total), desc=f"Testing the map of {name}", unit="evaluations")
                else:
                    return step, note(f"Tested the map of {name}.")
            return trace, note("Stopped; nothing was kept of this test.")
        except LeoError as error:
            return trace, note(str(error), alert=True)

    return handler


def _open(path: str | None, current: Trace):
    if path is None:
        return current, gr.skip()
    try:
        return load_trace(path), note(f"Opened {Path(path).name}.")
    except LeoError as error:
        return current, note(str(error), alert=True)


def _open_beside(path: str | None):
    if path is None:
        return None, ""
    try:
        return load_trace(path), note(f"{Path(path).name} is shown beside this run.")
    except LeoError as error:
        return None, note(str(error), alert=True)


def _keeping(kind: str):
    def handler(trace: Trace, beside: Trace | None, with_picture: bool):
        name, media = KINDS[kind]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            try:
                save_trace(trace, path, pictures=with_picture)
                kept = load_trace(path)
            except LeoError as error:
                return "", note(str(error), alert=True)
            content = path.read_bytes() if kind == "trace" else page([kept] if beside is None else [kept, beside]).encode()
        words = {"name": name, "type": media, "data": base64.b64encode(content).decode("ascii")}
        return json.dumps(words), note(f"{name} ({len(content) / 1e6:.2f} MB) was handed to the browser's downloads.")

    return handler
