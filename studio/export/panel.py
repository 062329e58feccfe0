"""The part of a tab that saves its figures: pictures are made by the browser, numbers and code by the server. No file is written here."""

import json
from collections.abc import Callable

import gradio as gr
import plotly.graph_objects as go

from leo_core.errors import LeoError
from studio.export.chromium import SCRIPT, WIDTH
from studio.figures import code, csv_text
from studio.html import note

DPI = (96, 150, 300)
TRACE_NAME = "run.safetensors"
"""What the shown lines call the saved trace."""

_SAVE_TEXT = """(carried) => {
  if (!carried) return;
  const { name, text } = JSON.parse(carried), link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}"""


def add_export(tab: str, plots: dict[str, str], draw_figures: Callable[..., list[go.Figure]], inputs: list) -> gr.Accordion:
    """One closed accordion below a tab's figures.

    tab: a word for the elements' ids. plots: what to call each figure -> elem_id of its gr.Plot. draw_figures: from the
    values of `inputs` to the tab's figures, in the order of `plots`.
    """
    ids = list(plots.values())
    with gr.Accordion("Export a figure of this tab", open=False, elem_id=f"leo-export-{tab}") as part:
        which = gr.Radio(list(plots.items()), value=ids[0], label="Figure")
        with gr.Row():
            kind = gr.Radio([("SVG (lines)", "svg"), ("PNG (pixels)", "png")], value="svg", label="Picture")
            dpi = gr.Radio([(f"{one} dpi", one) for one in DPI], value=DPI[1], label="Resolution of PNG")
        with gr.Row():
            picture = gr.Button("Save picture", elem_id=f"leo-save-{tab}")
            numbers = gr.Button("Save numbers (CSV)", elem_id=f"leo-csv-{tab}")
            lines = gr.Button("Copy as code", elem_id=f"leo-code-{tab}")
        said = gr.HTML(elem_id=f"leo-saved-{tab}")
        label = f"Draws this figure again from the saved trace ({TRACE_NAME})"
        program = gr.Code(label=label, language="python", interactive=False, visible=False, wrap_lines=True, elem_id=f"leo-lines-{tab}")
        carried = gr.Textbox(visible="hidden")

    def chosen(which: str, *values) -> go.Figure:
        return draw_figures(*values)[ids.index(which)]

    def as_code(which: str, *values):
        try:
            return gr.Code(code(chosen(which, *values), TRACE_NAME), visible=True), note("Copy the lines with the button at their upper right.")
        except LeoError as error:
            return gr.skip(), note(str(error), alert=True)

    def as_numbers(which: str, *values):
        name = f"{which}.csv"
        return json.dumps({"name": name, "text": csv_text(chosen(which, *values))}), note(f"{name} was handed to the browser's downloads.")

    options = dict(show_progress="hidden", concurrency_limit=None)
    lines.click(as_code, [which, *inputs], [program, said], **options)
    numbers.click(as_numbers, [which, *inputs], [carried, said], **options).then(None, carried, None, js=_SAVE_TEXT)
    picture.click(None, [which, kind, dpi], said, js=_save_picture())
    return part


def _save_picture() -> str:
    return (
        f"async (which, kind, dpi) => {{ {SCRIPT.read_text(encoding='utf-8')}\n"
        f"const said = await leoPicture.save(which, which, kind, dpi, {WIDTH});\n"
        'return `<div role="status" class="leo-note">${said}</div>`; }'
    )
