"""What the viewer's tests share: a Chromium without a network, pages from disk, and what they complain of."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SLOW = 120_000  # ms: busy machines; nothing here asserts a time


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def opened(browser: Browser, path: Path, fragment: str = "", size: tuple[int, int] = (1280, 900), **options) -> Page:
    """The page from disk, offline. `complaints` and `outside` collect console errors and requests that leave the file."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, offline=True, **options)
    page = context.new_page()
    page.set_default_timeout(SLOW)
    page.complaints, page.outside = [], []
    page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: page.complaints.append(str(e)))
    page.on("dialog", lambda d: (page.complaints.append(f"dialog: {d.message}"), d.dismiss()))
    page.on("request", lambda r: page.outside.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    page.goto(f"file://{path}{'#' + fragment if fragment else ''}")
    page.wait_for_function("() => window.leo")
    return page


def shown(page: Page, side: int = 0, **selection) -> dict:
    """What is drawn after a selection."""
    return page.evaluate("([selection, side]) => { leo.select(selection); return leo.shown()[side]; }", [selection, side])
