"""The export part of the tabs in a real Chromium, on a made-up run and without a model."""

import io
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import gradio as gr
import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from studio.figures import csv_text, kept_map, load_per_layer  # noqa: E402
from studio.tabs import routing, vision_experts, visual_tokens  # noqa: E402

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SLOW = 120_000  # ms: busy machines; nothing here asserts a time


@pytest.fixture(scope="module")
def page():
    run = made.make_trace()
    with gr.Blocks(analytics_enabled=False) as blocks:
        trace, dark = gr.State(run), gr.Checkbox(visible="hidden")
        built = [visual_tokens.build(trace, dark), routing.build(trace, dark), vision_experts.build(None, trace, dark)]
        for draw, inputs, outputs in built:
            blocks.load(draw, inputs, outputs)
    _, address, _ = blocks.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False, share=False, server_name="127.0.0.1")
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.set_default_timeout(SLOW)
        opened.complaints = []
        opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.goto(address)
        for name in ("leo-map", "leo-load", "leo-shares"):
            expect(opened.locator(f"#{name} .js-plotly-plot .main-svg").first).to_be_visible(timeout=SLOW)
        yield opened
        browser.close()
    blocks.close()


def open_part(page, tab, figure=None):
    part = page.locator(f"#leo-export-{tab}")
    if not part.get_by_role("button", name="Save picture").is_visible():
        part.get_by_text("Export a figure of this tab").click()
    if figure:
        part.get_by_label(figure, exact=True).check()
    return part


def saved(page, button):
    with page.expect_download(timeout=SLOW) as waiting:
        button.click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_the_browser_saves_the_shown_figure_as_svg_and_png(page):
    part = open_part(page, "tokens")
    name, content = saved(page, part.get_by_role("button", name="Save picture"))
    assert name == "leo-map.svg" and "scene (objects <b>): weights of" in "".join(ET.fromstring(content).itertext())
    part.get_by_label("PNG (pixels)").check()
    part.get_by_label("300 dpi").check()
    name, content = saved(page, part.get_by_role("button", name="Save picture"))
    picture = Image.open(io.BytesIO(content))
    assert name == "leo-map.png" and picture.width == 900 * 300 // 96 and picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    expect(page.locator("#leo-saved-tokens")).to_contain_text("handed to the browser", timeout=SLOW)


def test_numbers_are_those_of_the_figure(page):
    part = open_part(page, "routing", "load per layer")
    name, content = saved(page, part.get_by_role("button", name="Save numbers (CSV)"))
    roles = routing.SHOWN
    assert name == "leo-load.csv" and content.decode() == csv_text(load_per_layer(made.make_trace(), roles))


def test_the_code_follows_what_is_chosen(page):
    page.locator("#leo-expert").get_by_label("reader").check()
    expect(page.locator("#leo-map .gtitle")).to_contain_text("reader", timeout=SLOW)
    part = open_part(page, "tokens", "map on the picture")
    part.get_by_role("button", name="Copy as code").click()
    expect(page.locator("#leo-lines-tokens")).to_contain_text('figure = kept_map(trace, expert="reader")', timeout=SLOW)
    name, content = saved(page, part.get_by_role("button", name="Save numbers (CSV)"))
    assert content.decode() == csv_text(kept_map(made.make_trace(), "reader"))


def test_it_fits_a_phone_and_leaves_no_error(page):
    open_part(page, "experts")
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.complaints == []
