"""The viewer in Chromium: first paint, choice to new picture, memory, scrolling: python tests/bench/bench_viewer.py

Times are of the wall and of the page's own thread (CPU); on a busy machine only the second tells about the page.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "studio")]

from paper_size import paper_size_trace  # noqa: E402 - beside the tests
from viewer_page import FLAGS, SLOW  # noqa: E402

from studio.viewer import write_page  # noqa: E402

CHOICES = 200
STEP = """async (turn) => {
    const positions = leo.positions()[0];
    const start = performance.now();
    const change = [
        { token: turn % 64, position: positions[turn % positions.length] }, { source: (turn * 37) % 576 }, { layer: turn % 32 },
        { expert: leo.choices().expert[turn % 4], token: turn % 3 ? turn % 64 : null },
    ][turn % 4];
    leo.select(change);
    const computed = performance.now() - start;
    await new Promise((done) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); }));
    return [computed, performance.now() - start];
}"""
SCROLL = """async () => {
    const scroller = document.querySelector(".scroller");
    scroller.scrollIntoView();
    const gaps = [];
    let last = await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < 240; frame++) {
        scroller.scrollLeft = (scroller.scrollWidth - scroller.clientWidth) * Math.abs(1 - (frame % 120) / 60);
        const now = await new Promise(requestAnimationFrame);
        gaps.push(now - last);
        last = now;
    }
    return gaps;
}"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, "--enable-precise-memory-info"])
        paper = write_page([paper_size_trace()], Path(folder) / "paper.html")
        print(f"paper-size page: {paper.stat().st_size / 1e6:.2f} MB, picture included")
        for name, selections in (("paper size", True), ("2,000 positions x 32 layers", False)):
            path = paper if selections else write_page([paper_size_trace(positions=2000)], Path(folder) / "long.html")
            context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
            page, session = context.new_page(), None
            page.set_default_timeout(SLOW)
            session = context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(f"file://{path}")
            page.wait_for_function("() => window.leo && performance.getEntriesByName('first-contentful-paint').length")
            painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            print(f"{name}: first paint after {painted:.0f} ms; {cpu(session):.0f} ms of the page's thread until all panels are drawn")
            if selections:
                choose(page, session)
                memory(page, session)
            scroll(page, session)
            context.close()
        browser.close()


def choose(page, session) -> None:
    walls, frames, own = [], [], []
    for turn in range(CHOICES):
        before = cpu(session)
        computed, frame = page.evaluate(STEP, turn)
        own.append(cpu(session) - before)
        walls.append(computed)
        frames.append(frame)
    for title, values in (("script", walls), ("with the frame painted", frames), ("the thread's own time", own)):
        print(f"  choice to new picture, {title}: median {statistics.median(values):.1f} ms, p95 {sorted(values)[int(0.95 * len(values))]:.1f} ms")


def memory(page, session) -> None:
    sizes = []
    for part in range(6):
        page.evaluate(f"async () => {{ const step = {STEP}; for (let i = 0; i < 200; i++) await step({part} * 200 + i); }}")
        session.send("HeapProfiler.collectGarbage")
        sizes.append(page.evaluate("performance.memory.usedJSHeapSize") / 1e6)
    print(f"  JS heap after each 200 of 1,200 choices: {', '.join(f'{size:.2f}' for size in sizes)} MB")


def scroll(page, session) -> None:
    before = cpu(session)
    gaps = page.evaluate(SCROLL)
    own = (cpu(session) - before) / len(gaps)
    p95 = sorted(gaps)[int(0.95 * len(gaps))]
    print(f"  scrolling: {1000 / statistics.mean(gaps):.0f} frames/s, p95 {p95:.0f} ms; {own:.1f} ms of the thread per frame")


def cpu(session) -> float:
    """Milliseconds that the page's main thread has worked."""
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return metrics["TaskDuration"] * 1000


def chromium() -> str | None:
    import shutil

    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


if __name__ == "__main__":
    main()
