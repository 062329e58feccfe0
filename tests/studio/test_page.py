"""The page in a real Chromium: it opens, answers, changes its panels, talks to nobody outside, and survives bad pictures."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from leo_core.tracing.trace_file import load_trace

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SLOW = 180_000  # ms: two busy cores; nothing here asserts a time


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def address():
    port = free_port()
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen([sys.executable, "-m", "studio", "--port", str(port)], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}/"
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).read()
            break
        except OSError:
            assert server.poll() is None, server.stdout.read().decode()
            time.sleep(0.5)
    yield url
    server.terminate()
    server.wait(30)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.outside, opened.complaints = [], []
    opened.on("request", lambda r: opened.outside.append(r.url) if not re.match(r"(http://127\.0\.0\.1|data:|blob:)", r.url) else None)
    opened.on("console", lambda m: opened.complaints.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda e: opened.complaints.append(str(e)))
    opened.goto(address)
    expect(viewer(opened).locator("canvas").first).to_be_visible(timeout=SLOW)
    expect(opened.locator("#leo-status")).to_contain_text("model is ready", timeout=SLOW)
    yield opened
    context.close()


def viewer(page: Page):
    return page.frame_locator("#leo-viewer iframe")


def put(page: Page, picture: Path | str, question: str) -> None:
    clear = page.locator("#leo-picture button[aria-label*='lear'], #leo-picture button[title*='lear']")
    if clear.count():
        clear.first.click()
    page.locator("#leo-picture input[type=file]").set_input_files(str(picture))
    page.wait_for_timeout(800)
    page.locator("#leo-question textarea").fill(question)


def test_it_opens_on_a_recorded_run_and_asks(page):
    before = page.locator("#leo-answer").inner_text()
    put(page, ROOT / "assets/examples/coffee.jpg", "Is there a cup in the picture?")
    page.locator("#leo-ask").click()
    expect(page.locator("#leo-status")).to_contain_text("Done", timeout=SLOW)
    answer = page.locator("#leo-answer")
    expect(answer).to_contain_text("Is there a cup in the picture?")
    expect(answer).to_contain_text("Without the picture")
    assert answer.inner_text() != before
    expect(viewer(page).locator("body")).to_contain_text("Is there a cup in the picture?", timeout=SLOW)
    page.get_by_role("tab", name="Visual tokens").click()
    expect(page.locator("#leo-map .js-plotly-plot")).to_be_visible(timeout=SLOW)
    page.wait_for_timeout(3000)
    map_image = page.locator("#leo-map .js-plotly-plot image").first.get_attribute("href") or ""
    assert map_image.startswith("data:image/")
    page.get_by_role("tab", name="Routing").click()
    expect(page.locator("#leo-routing .js-plotly-plot")).to_be_visible(timeout=SLOW)
    page.get_by_role("tab", name="Vision experts").click()
    expect(page.locator("#leo-shares .js-plotly-plot")).to_be_visible(timeout=SLOW)
    expect(page.locator("#leo-shares")).to_contain_text("reading")
    assert page.outside == []
    assert page.complaints == []


def test_another_expert_and_term_redraw_the_map(page):
    page.get_by_role("tab", name="Visual tokens").click()
    expect(page.locator("#leo-map .js-plotly-plot")).to_be_visible(timeout=SLOW)
    first = page.locator("#leo-map .gtitle").text_content()
    page.locator("#leo-expert").get_by_label("regions").click()
    expect(page.locator("#leo-map .gtitle")).not_to_have_text(first, timeout=SLOW)
    assert page.complaints == []


def test_a_bad_picture_gets_a_sentence_and_the_next_one_works(page, tmp_path):
    fake = tmp_path / "text.jpg"
    fake.write_text("this is no picture")
    put(page, fake, "What is this?")
    page.locator("#leo-ask").click()
    alert = page.locator("#leo-status [role=alert]")
    expect(alert).to_contain_text("picture", timeout=SLOW)
    assert "Traceback" not in page.content()
    put(page, ROOT / "assets/examples/word.png", "What is written here?")
    page.locator("#leo-question textarea").press("Enter")
    expect(page.locator("#leo-status")).to_contain_text("Done", timeout=SLOW)


def test_no_picture_and_no_question_get_sentences(page):
    page.locator("#leo-ask").click()
    expect(page.locator("#leo-status [role=alert]")).to_contain_text("There is no picture", timeout=SLOW)


def test_hostile_question_is_shown_literally(page):
    put(page, ROOT / "assets/examples/word.png", "<img src=x onerror=\"document.title='owned'\"> What is this?")
    page.locator("#leo-ask").click()
    expect(page.locator("#leo-status")).to_contain_text("Done", timeout=SLOW)
    expect(page.locator("#leo-answer")).to_contain_text("<img src=x")
    assert page.title() == "LEO Studio"


def test_two_browsers_never_mix(browser, page, address):
    other = browser.new_context().new_page()
    other.goto(address)
    expect(viewer(other).locator("canvas").first).to_be_visible(timeout=SLOW)
    put(page, ROOT / "assets/examples/coffee.jpg", "What is in the picture?")
    put(other, ROOT / "assets/examples/word.png", "What is written here?")
    page.locator("#leo-ask").click()
    other.locator("#leo-ask").click()
    expect(page.locator("#leo-status")).to_contain_text("Done", timeout=SLOW)
    expect(other.locator("#leo-status")).to_contain_text("Done", timeout=SLOW)
    expect(page.locator("#leo-answer")).to_contain_text("What is in the picture?")
    expect(other.locator("#leo-answer")).to_contain_text("What is written here?")
    assert "What is written here?" not in page.locator("#leo-answer").inner_text()
    other.context.close()


def test_it_fits_a_phone_and_can_be_used_by_keyboard(page):
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.locator("#leo-question textarea").focus()
    page.keyboard.press("Tab")
    reached = page.evaluate("document.activeElement.id || document.activeElement.closest('[id^=leo-]')?.id")
    assert reached in ("leo-ask", "leo-question")


def test_a_run_is_kept_opened_again_and_compared(page, tmp_path):
    keep = page.locator("#leo-keep-trace")
    page.locator("#leo-traces button").first.click()
    if not keep.is_visible():  # a click while the page was still being drawn is lost
        page.wait_for_timeout(3000)
        if not keep.is_visible():
            page.locator("#leo-traces button").first.click()
    with page.expect_download(timeout=SLOW) as download:
        keep.click()
    download.value.save_as(tmp_path / "run.safetensors")
    kept = load_trace(tmp_path / "run.safetensors")
    assert kept.pictures[0].content is not None
    with page.expect_download(timeout=SLOW) as download:
        page.locator("#leo-keep-page").click()
    assert "<!doctype html>" in download.value.path().read_text("utf-8")[:100]
    other = next(path for path in sorted((ROOT / "assets/recorded").glob("*.safetensors")) if load_trace(path).question != kept.question)
    page.locator("#leo-beside input[type=file]").set_input_files(str(other))
    expect(viewer(page).locator("body")).to_contain_text(load_trace(other).question, timeout=SLOW)
    page.locator("#leo-open input[type=file]").set_input_files(str(other))
    expect(page.locator("#leo-answer")).to_contain_text(load_trace(other).question, timeout=SLOW)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes((tmp_path / "run.safetensors").read_bytes()[:5000])
    page.locator("#leo-open button[aria-label*='lear'], #leo-open button[title*='lear'], #leo-open button[aria-label*='emove']").first.click()
    page.locator("#leo-open input[type=file]").set_input_files(str(broken))
    expect(page.locator("#leo-map-said [role=alert]")).to_be_visible(timeout=SLOW)
    assert page.complaints == []


def test_a_map_is_tested_on_demand(page):
    expect(page.locator("#leo-map-tests")).to_contain_text("No map of this run has been tested")
    page.locator("#leo-map-test").click()
    expect(page.locator("#leo-map-tests")).to_contain_text("nats", timeout=SLOW)
    expect(viewer(page).locator("body")).to_contain_text("random", timeout=SLOW)
