"""The viewer in a notebook: what a cell shows survives nbconvert and opens from disk without a network."""

import shutil

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import expect, sync_playwright

from leo_core.checkpoint import ASSETS
from leo_core.tracing.trace_file import load_trace
from studio.viewer import Viewer


def test_a_cell_shows_the_viewer_in_converted_html(tmp_path):
    trace = load_trace(ASSETS / "recorded" / "first.safetensors")
    cell = nbformat.v4.new_code_cell("Viewer(trace)")
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/html": Viewer(trace, height=700)._repr_html_(), "text/plain": "Viewer"})]
    html, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    path = tmp_path / "notebook.html"
    path.write_text(html, "utf-8")
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(offline=True)
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        inside = page.frame_locator("iframe.leo-viewer")
        expect(inside.locator("canvas").first).to_be_visible(timeout=60_000)
        expect(inside.locator("body")).to_contain_text(trace.question)
        browser.close()
