"""The viewer in a real Chromium without a network: from disk, by keyboard, by link, two runs at once, with hostile text."""

from dataclasses import replace

import numpy as np
import pytest
from figures_trace import make_trace, with_weights
from paper_size import other_question, paper_size_trace
from viewer_page import chromium, opened, shown

from leo_core.roles import ANSWER
from studio.viewer import Viewer, write_page

HOSTILE = '<script>alert(1)</script><!-- "onerror= <img src=x onerror=alert(2)> </script> %SCRIPT% \u2028'


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture
def view(browser, tmp_path):
    pages = []

    def open_traces(*traces, fragment="", names=None, **options):
        page = opened(browser, write_page(traces, tmp_path / f"page{len(pages)}.html", names), fragment, **options)
        pages.append(page)
        return page

    yield open_traces
    for page in pages:
        assert page.complaints == [] and page.outside == []
        page.context.close()


def answering(tokens: list[bytes]):
    """A run whose answer is these tokens."""
    base = make_trace()
    prompt, count = base.prompt_length, len(tokens)
    pad = lambda values: np.concatenate([values[:, :prompt], np.repeat(values[:, -1:], count - 1, axis=1)], axis=1)  # noqa: E731
    routing = replace(base.routing, **{name: pad(getattr(base.routing, name)) for name in ("probability", "coefficient", "norm")})
    row = lambda values: np.repeat(values[:1], count, axis=0)  # noqa: E731
    return replace(
        base, answer=b"".join(tokens).decode(), token_bytes=base.token_bytes[:prompt] + tuple(tokens), routing=routing,
        roles=np.concatenate([base.roles[:prompt], np.full(count, ANSWER)]), token_ids=np.arange(prompt + count),
        picture_index=np.concatenate([base.picture_index[:prompt], np.full(count, -1)]), probability=row(base.probability),
        top_ids=row(base.top_ids), top_bytes=base.top_bytes[:1] * count, top_probability=row(base.top_probability),
    )  # fmt: skip


def test_a_thousand_random_selections_leave_no_complaint(view):
    weights = np.array(make_trace().of_expert("reader").weights)
    weights[2:4, 5] = np.nan
    page = view(with_weights(make_trace(), "reader", weights))
    done = page.evaluate("""() => {
        let seed = 7;
        const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
        const [choices, positions] = [leo.choices(), leo.positions()[0]];
        for (let turn = 0; turn < 1000; turn++) {
            const change = { position: random(9) ? positions[random(positions.length)] : null, opacity: random(21) / 20 };
            for (const [name, rule] of Object.entries(choices)) {
                if (Array.isArray(rule)) change[name] = rule[random(rule.length)];
                else if (typeof rule === "number") change[name] = random(3) ? random(rule) : null;
            }
            leo.select(change);
        }
        return leo.shown()[0].details.length;
    }""")
    assert done > 0


def test_hostile_text_is_shown_as_it_is(view):
    base = make_trace()
    token = HOSTILE.encode()
    experts = (replace(base.experts[0], name=HOSTILE, domain=HOSTILE), *base.experts[1:])
    run = replace(
        base, question=HOSTILE, answer=HOSTILE, token_bytes=(*base.token_bytes[:-2], token, base.token_bytes[-1]), experts=experts,
        top_bytes=tuple((token,) * 5 for _ in base.top_bytes), settings={HOSTILE: HOSTILE, "nan": float("nan")}, provenance={"model": HOSTILE},
        routing=replace(base.routing, layers=(HOSTILE, *base.routing.layers[1:])), analyses={"without_picture": {"answer": HOSTILE}},
    )  # fmt: skip
    page = view(run, names=[HOSTILE])
    shown(page, position=f"answer:{len(run.probability) - 2}", layer=0, expert=HOSTILE)
    for place in (".asked", ".said", ".run", ".picture h3", ".segmented", ".token", ".details .bars", ".numbers q", ".numbers pre"):
        text = page.locator(place, has_text="alert(1)").first.text_content()
        assert "<script>" in text and "onerror=" in text, place
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("document.querySelectorAll('img').length") == 1


def test_tokens_are_byte_exact_and_tied_to_their_neighbours(view):
    family = "👩‍👩‍👧".encode()
    accents = "ế".encode() + "e\u0302".encode()
    split = [family[:2], family[2:9], family[9:], accents[:2], accents[2:]]
    tokens = [*split, b" ", b"\t", b"\n", b" again", b" again", "மி".encode()[:4], "மி".encode()[4:], b"<end>"]
    page = view(answering(tokens))
    line = page.locator(".segment.role-answer")
    assert line.locator(".chip").count() == len(tokens)
    joined = line.locator(".joined").all_text_contents()
    assert joined[0] == family.decode() and "மி" in joined
    labels = line.locator(".chip").all_text_contents()
    assert labels.count("␣again") == 2 and "⏎" in labels and "⇥" in labels and "␣" in labels
    assert "F0" in labels[0] and "9F" in labels[0]
    assert page.locator(".said").text_content() == b"".join(tokens).decode()
    line.locator(".chip", has_text="⇥").click()
    assert page.evaluate("leo.state().position") == "answer:6"
    assert "bytes 09" in page.locator(".details").inner_text()


def test_right_to_left_text_runs_right_to_left(view):
    word = "مرحبا بك".encode()
    page = view(answering([word[:5], word[5:8], word[8:], b"<end>"]))
    line = page.locator(".segment.role-answer .line")
    assert line.get_attribute("dir") == "rtl"
    boxes = [line.locator(".chip").nth(i).bounding_box()["x"] for i in (0, 3)]
    assert boxes[0] > boxes[1]
    assert page.evaluate("getComputedStyle(document.querySelector('.said')).direction") == "rtl"
    assert page.locator(".segment.role-question .line").get_attribute("dir") == "ltr"


def test_everything_is_linked(view):
    trace = make_trace()
    page = view(trace)
    one = trace.of_expert("scene")
    drawn = shown(page, expert="scene", source=7)
    best = int(np.argmax(one.weights[:, 7]))
    assert page.locator(".details .bars .link").first.inner_text() == f"output token {best + 1}"
    page.locator(".details .bars .link").first.click()
    assert page.evaluate("leo.state().token") == best and page.evaluate("leo.state().position") == f"picture:{best}"
    fired = np.flatnonzero(trace.routing.coefficient[1, :, 0] > 0)
    drawn = shown(page, layer=1, lora=0, token=None, source=None, position=None)
    assert page.locator(".chip.fires").count() == len(fired)
    visual = [int(p) - 1 for p in fired if trace.roles[p] == 2]  # the picture's tokens follow one special token
    if visual:
        wanted = one.weights[visual].mean(axis=0)
        np.testing.assert_allclose([cell["value"] for cell in drawn["picture"]["cells"]], wanted, atol=1e-3)
    else:
        assert "No output token" in drawn["picture"]["trouble"]
    page.locator(".segment.role-answer .chip").nth(1).click()
    assert "answer token 2 of 4" in page.locator(".details").inner_text().lower()


def test_the_keyboard_reaches_and_moves_everything(view):
    page = view(make_trace())
    state = lambda name: page.evaluate(f"leo.state().{name}")  # noqa: E731
    page.locator(".stage").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert state("source") == 6  # first cell, one to the right, one down in rows of five
    page.locator(".thumbs").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert state("token") == 4 and state("position") == "picture:4"
    page.locator(".segments").focus()
    page.keyboard.press("End")
    assert state("position") == "answer:3"
    page.locator(".scroller").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert state("layer") == 1 and state("position") == "answer:2"
    page.keyboard.press("e")
    page.keyboard.press("t")
    assert (state("expert"), state("term")) == ("cropped", "query")
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert [state(name) for name in ("source", "token", "position", "layer")] == [None] * 4
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, select, input, [tabindex='0']")].filter((one) =>
        !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label")?.textContent.trim())).length""")
    assert unnamed == 0


def test_a_link_reopens_the_same_view(view, browser):
    page = view(make_trace(), fragment="expert=reader&token=2&position=answer%3A1&layer=3&term=query&opacity=0.4&hidden=pad%2Cspecial")
    shown(page, source=5, lora=1)
    page.wait_for_function("() => location.hash.includes('source=5')")
    before = page.evaluate("JSON.stringify([leo.state(), leo.shown()])")
    again = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page()
    again.goto(page.url)
    again.wait_for_function("() => window.leo")
    assert again.evaluate("JSON.stringify([leo.state(), leo.shown()])") == before
    assert again.evaluate("leo.state().hidden") == ["pad", "special"]
    again.goto(page.url.split("#")[0] + "#expert=nobody&token=99&layer=x&position=<b>")
    assert again.evaluate("leo.state().expert") == "scene" and again.evaluate("leo.state().token") is None
    again.context.close()


def test_a_page_opens_on_what_its_maker_chose(browser, tmp_path):
    chosen = {"expert": "reader", "token": 2, "theme": "dark", "layer": 99, "nothing": "<b>"}
    page = opened(browser, write_page([make_trace()], tmp_path / "page.html", selection=chosen))
    state = page.evaluate("leo.state()")
    assert (state["expert"], state["token"], state["theme"], state["layer"]) == ("reader", 2, "dark", None)
    assert page.evaluate("location.hash") == "" and page.complaints == []
    page.context.close()


def test_two_runs_share_one_selection_and_say_where_they_differ(view):
    first = paper_size_trace(layers=6)
    page = view(first, other_question(first), fragment="expert=eva&token=20", size=(1700, 900))
    sides = page.evaluate("leo.shown()")
    assert len(sides) == 2 and all(side["picture"]["expert"] == "eva" for side in sides)
    for side, trace in zip(sides, (first, other_question(first)), strict=True):
        wanted = trace.of_expert("eva").weights[20].astype(np.float16).astype(float)
        np.testing.assert_allclose([cell["value"] for cell in side["picture"]["cells"]], wanted, atol=1e-7)
    small = make_trace()
    page = view(first, small, fragment="expert=eva&token=20&position=answer%3A9&layer=5")
    sides = page.evaluate("leo.shown()")
    assert sides[0]["picture"]["cells"] and "no vision expert" in sides[1]["picture"]["trouble"]
    assert "no answer token 10 here: this run has 4 answer tokens" in sides[1]["details"]
    assert "no layer 5 here: this run has 4 layers" in sides[1]["details"]
    assert "no output token 21 here" in shown(page, 1, expert="scene")["picture"]["trouble"]


def test_it_works_in_a_frame_and_fits_every_width(browser, tmp_path):
    host = tmp_path / "notebook.html"
    host.write_text(f"<!doctype html><meta charset=utf-8><body>{Viewer(make_trace(), height=700)._repr_html_()}</body>", "utf-8")
    page = browser.new_context(offline=True).new_page()
    errors = []
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(f"file://{host}")
    inside = page.frames[1]
    inside.wait_for_function("() => window.leo")
    assert inside.evaluate("() => { leo.select({ expert: 'reader', token: 1 }); return leo.shown()[0].picture.expert; }") == "reader"
    page.wait_for_timeout(400)
    assert errors == []
    page.context.close()
    for width in (360, 768, 1920):
        page = opened(browser, write_page([make_trace()], tmp_path / "page.html"), size=(width, 800))
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.complaints == []
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_switch(view, scheme):
    page = view(make_trace(), color_scheme=scheme)
    theme = lambda: page.evaluate("document.documentElement.dataset.theme")  # noqa: E731
    assert theme() == scheme
    page.get_by_role("radiogroup", name="Theme").get_by_label("dark" if scheme == "light" else "light").check()
    assert theme() != scheme
