"""A Chromium without a window makes the pictures of figures: found, started, driven and stopped within bounds of time."""

import asyncio
import base64
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from leo_core.errors import InputError, LeoError

SCRIPT = Path(__file__).with_name("picture.js")
WIDTH = 900
"""Pixels at 96 dpi, 9.4 inches: a page's full width; heights are the figures' own."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync")
_ASK = """async ([figure, format, dpi, width]) => {
  const bytes = await leoPicture.bytes(JSON.parse(figure), format, dpi, width);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}"""


class NoChromium(LeoError):
    """There is no browser to make pictures with."""


@dataclass(frozen=True)
class Picture:
    """One picture of one figure: its bytes, or a sentence why there is none."""

    name: str
    format: str
    content: bytes | None
    trouble: str = ""


def find_chromium(chosen: str | None = None) -> str:
    """Path of a Chromium: the chosen one, else LEO_CHROMIUM, else one on the PATH.

    Raises InputError for a chosen one that is no program, NoChromium where there is none.
    """
    chosen = chosen or os.environ.get("LEO_CHROMIUM")
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise InputError(f"'{chosen}' is no program that can be started: give the path of Chromium or Chrome with --chromium or LEO_CHROMIUM.")
        return found
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise NoChromium(
            "No Chromium was found, so there are no SVG and PNG pictures: install Chromium or Chrome, or give its path with --chromium or "
            "LEO_CHROMIUM."
        )
    return found


async def pictures(
    figures: dict[str, go.Figure], formats: tuple[str, ...], dpi: int, chromium: str, whole: float = 120.0, each: float = 15.0
) -> AsyncIterator[Picture]:
    """Pictures of figures by name, one after the other. whole, each: bounds in seconds for all of them and for one.

    What does not fit comes with a sentence in place of its bytes. Raises NoChromium when it cannot be started.
    """
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError:
        raise NoChromium("Pictures need the package playwright to drive Chromium: pip install playwright.") from None
    end = time.monotonic() + whole
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS), timeout=1000 * max(1.0, min(whole, 60.0)))
        except Error as error:
            reason = str(error).splitlines()[0][:120]
            raise NoChromium(f"Chromium at '{chromium}' could not be started ({reason}): try another with --chromium.") from None
        page = None
        try:
            for name, kind in [(name, kind) for name in figures for kind in formats]:
                try:
                    page = page or await asyncio.wait_for(_page(browser), max(0.0, end - time.monotonic()))
                    left = min(each, max(0.0, end - time.monotonic()))
                    answer = await asyncio.wait_for(page.evaluate(_ASK, [figures[name].to_json(), kind, dpi, WIDTH]), left)
                    yield Picture(name, kind, base64.b64decode(answer))
                except (TimeoutError, asyncio.TimeoutError, Error) as error:
                    page = None  # a page that hangs is left behind: the browser's end closes it
                    over = time.monotonic() >= end
                    yield Picture(name, kind, None, _late(whole) if over else _reason(name, kind, error, each))
        finally:
            await _closed(browser)


def _late(whole: float) -> str:
    return f"The {whole:g} seconds for all pictures were over before the last ones were drawn: give more with --seconds."


async def _page(browser):
    """An empty page without a network that knows Plotly and how to make pictures."""
    context = await browser.new_context(offline=True)
    page = await context.new_page()
    await page.set_content("<!doctype html><meta charset='utf-8'><body></body>")
    await page.add_script_tag(content=get_plotlyjs())
    # a page's own `const` is not seen by later scripts' functions unless it is a global
    await page.add_script_tag(content=SCRIPT.read_text(encoding="utf-8") + "\nwindow.leoPicture = leoPicture;")
    return page


def _reason(name: str, kind: str, error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return f"'{name}' was not drawn as {kind.upper()} within {seconds:.0f} seconds and is left out: give more with --seconds or less --dpi."
    return f"The browser could not draw '{name}' as {kind.upper()} ({str(error).splitlines()[0][:120]}) and it is left out."


async def _closed(browser, seconds: float = 5.0) -> None:
    try:
        await asyncio.wait_for(browser.close(), seconds)
    except (TimeoutError, asyncio.TimeoutError):
        pass  # Playwright ends the process together with its own
