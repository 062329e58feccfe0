"""The viewer draws what the trace holds: the same numbers as the Plotly figures, in the cells that Geometry gives."""

from dataclasses import replace

import numpy as np
import pytest
from figures_trace import make_trace, with_weights
from viewer_page import chromium, opened, shown

from leo_core.geometry import grid_geometry
from leo_core.tracing.trace_file import load_trace, save_trace
from studio.figures import kept_map, routing_map, token_numbers
from studio.figures.style import SEQUENTIAL, at
from studio.viewer import write_page


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """As the file holds it: both the figures and the page then start from the same fp16 values."""
    path = tmp_path_factory.mktemp("trace") / "run.safetensors"
    save_trace(make_trace(), path)
    return load_trace(path)


@pytest.fixture
def view(browser, tmp_path):
    pages = []

    def open_trace(*traces, fragment=""):
        pages.append(opened(browser, write_page(traces, tmp_path / f"page{len(pages)}.html"), fragment))
        return pages[-1]

    yield open_trace
    for page in pages:
        assert page.complaints == []
        page.context.close()


@pytest.fixture(scope="module")
def plain(browser, trace, tmp_path_factory):
    page = opened(browser, write_page([trace], tmp_path_factory.mktemp("plain") / "page.html"))
    yield page
    assert page.complaints == []
    page.context.close()


def drawn_by_plotly(figure) -> tuple[dict[int, float], tuple[float, float]]:
    """Value of each source token in a kept_map, and the ends of its colour scale."""
    for one in figure.data:
        if one.type == "heatmap":
            tokens, z = np.asarray(one.customdata)[..., 0].astype(int).ravel() - 1, np.asarray(one.z, dtype=float).ravel()
            return {t: v for t, v in zip(tokens.tolist(), z.tolist(), strict=True) if t >= 0}, (one.zmin, one.zmax)
        if one.name == "values":
            return {int(row[0]) - 1: row[1] for row in np.asarray(one.customdata, dtype=float).tolist()}, (one.marker.cmin, one.marker.cmax)
    raise AssertionError("the figure has no values")


@pytest.mark.parametrize("expert", ["scene", "cropped", "reader"])
@pytest.mark.parametrize("term,token", [("weights", None), ("weights", 2), ("query", 1), ("query", None), ("self", 0), ("text", None)])
def test_a_map_has_the_numbers_of_its_figure(plain, trace, expert, term, token):
    figure = kept_map(trace, expert, token=token, term="total" if term == "weights" else term)
    values, ends = drawn_by_plotly(figure)
    drawn = shown(plain, expert=expert, term=term, token=token, position=None)["picture"]
    assert {cell["token"] for cell in drawn["cells"]} == set(values)
    np.testing.assert_allclose([cell["value"] for cell in drawn["cells"]], [values[cell["token"]] for cell in drawn["cells"]], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose([drawn["low"], drawn["high"]], ends, rtol=1e-5, atol=1e-7)


def test_polygons_and_colours_are_those_of_the_geometry_and_the_scale(plain, trace):
    for name in trace.expert_names:
        one = trace.of_expert(name)
        drawn = shown(plain, expert=name, term="weights", token=3)["picture"]
        for cell in drawn["cells"]:
            np.testing.assert_allclose(cell["polygon"], one.geometry.polygons[cell["token"]], rtol=1e-6)
            wanted = at(SEQUENTIAL, cell["value"] / drawn["high"], 1)
            colour = [int(cell["colour"][i : i + 2], 16) for i in (1, 3, 5)]
            np.testing.assert_allclose(colour, [int(part) for part in wanted[5:].split(",")[:3]], atol=2)


def test_drawn_and_padding_make_up_all_weights(plain, trace):
    for name in trace.expert_names:
        for token in (None, 0, 4):
            drawn = shown(plain, expert=name, term="weights", token=token)["picture"]
            numbers = token_numbers(trace, name, token=token)
            assert sum(cell["value"] for cell in drawn["cells"]) == pytest.approx(drawn["drawn"], abs=1e-9)
            assert drawn["drawn"] + drawn["padding"] == pytest.approx(numbers["total_mass"], abs=1e-6)
            assert drawn["padding"] == pytest.approx(numbers["unplaced_mass"], abs=1e-7)
            assert drawn["effective"] == pytest.approx(numbers["effective_tokens"], rel=1e-5)
    assert shown(plain, expert="cropped", token=0)["picture"]["padding"] > 0


@pytest.mark.parametrize("quantity", ["probability", "coefficient", "norm"])
@pytest.mark.parametrize("phase,figures_phase", [("all", "all"), ("prompt", "prefill"), ("answer", "decode")])
def test_the_routing_map_has_the_numbers_of_its_figure(plain, trace, quantity, phase, figures_phase):
    figure = routing_map(trace, phase=figures_phase, quantity=quantity)
    maps = [one for one in figure.data if one.type == "heatmap" and one.name != "hover"]
    drawn = shown(plain, quantity=quantity, phase=phase, colour=None)["routing"]
    leader, strength = np.array(drawn["leader"]), np.array(drawn["strength"], dtype=float)
    assert len(maps) == trace.routing.probability.shape[-1]
    for expert, one in enumerate(maps):
        mine = np.where(leader == expert, strength, np.nan)
        np.testing.assert_allclose(mine, np.asarray(one.z, dtype=float), rtol=1e-5)
    assert (drawn["low"], drawn["high"]) == (pytest.approx(maps[0].zmin, rel=1e-6), pytest.approx(maps[0].zmax, rel=1e-6))
    shown(plain, quantity="probability", phase="all")


def test_the_last_answer_token_is_not_evaluated_rather_than_zero(plain, trace):
    last = len(trace.probability) - 1
    drawn = shown(plain, position=f"answer:{last}", route="reads", layer=1)
    assert "Not evaluated" in drawn["details"]
    column = drawn["routing"]["positions"].index(len(trace.roles) - 1)
    assert all(row[column] is None for row in drawn["routing"]["strength"])
    assert all(row[column] == -2 for row in drawn["routing"]["leader"])
    predicted = shown(plain, position=f"answer:{last}", route="predicted")["details"]
    assert f"Route of position {trace.predicting(last) + 1} " in predicted and "Not evaluated" not in predicted


def test_details_name_the_experts_that_were_used_at_the_predicting_position(plain, trace):
    used = (trace.routing.coefficient[:, trace.predicting(1)] > 0).sum(axis=0)
    text = shown(plain, position="answer:1", route="predicted")["details"]
    assert ", ".join(f"expert {e + 1} in {count}" for e, count in enumerate(used)) in text


def test_a_marked_source_token_is_painted_where_geometry_puts_it(view):
    geometry = grid_geometry((300, 170), (7, 3), window=(-20.0, 10.0, 260.0, 200.0), leading=2)
    weights = np.zeros((6, len(geometry)), dtype=np.float32)
    marked = 2 + 3 * 4 + 1
    weights[:, marked] = 1
    run = with_weights(make_trace(), "cropped", weights, geometry=geometry, query=None, self_=None, cross=None, text=None)
    page = view(replace(run, pictures=(replace(run.pictures[0], content=None),)), fragment="expert=cropped&opacity=1")
    page.wait_for_function("() => document.querySelector('.cells').width > 100")
    found = page.evaluate("""() => {
        const canvas = document.querySelector(".cells");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let box = [Infinity, Infinity, -Infinity, -Infinity];
        for (let i = 0; i < pixels.length; i += 4) {
            if (pixels[i] < 240 || pixels[i + 3] < 255) continue;  // the bright end of the scale
            const [x, y] = [(i / 4) % canvas.width, Math.floor(i / 4 / canvas.width)];
            box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x + 1), Math.max(box[3], y + 1)];
        }
        return { box, width: canvas.width, height: canvas.height };
    }""")
    scale = np.array([300 / found["width"], 170 / found["height"]] * 2)
    corners = geometry.polygons[marked]
    assert found["width"] / found["height"] == pytest.approx(300 / 170, rel=0.01)
    np.testing.assert_allclose(found["box"] * scale, [*corners[0], *corners[2]], atol=scale.max())


def test_a_constant_map_is_called_constant_and_nan_is_hatched(view):
    base = make_trace()
    flat = with_weights(base, "scene", np.full((6, 15), 1 / 15, dtype=np.float32))
    holes = np.array(flat.of_expert("reader").weights)
    holes[:, 3] = np.nan
    page = view(with_weights(flat, "reader", holes))
    drawn = shown(page, expert="scene", token=None)["picture"]
    assert drawn["constant"] and len({cell["colour"] for cell in drawn["cells"]}) == 1
    assert "constant" in page.locator(".picture .caption").inner_text()
    drawn = shown(page, expert="reader", token=1)["picture"]
    assert drawn["missing"] == 1 and [cell["token"] for cell in drawn["cells"] if cell["value"] is None and cell["colour"] is None] == [3]
    assert "Not evaluated (hatched): 1 of 14" in page.locator(".picture .caption").inner_text()


def test_what_is_not_there_is_said_in_words(view):
    base = make_trace()
    absent = with_weights(base, "reader", np.zeros((6, 14), dtype=np.float32))
    unscored = with_weights(absent, "scene", base.of_expert("scene").weights, query=None, self_=None, cross=None, text=None)
    routing = replace(base.routing, evaluated=False)
    page = view(replace(unscored, routing=routing, pictures=(replace(base.pictures[0], content=None),)))
    assert "absent" in shown(page, expert="reader")["picture"]["trouble"]
    assert "no query term" in shown(page, expert="scene", term="query")["picture"]["trouble"]
    assert "without a picture" in shown(page)["routing"]["trouble"]
    assert shown(page, expert="scene", term="weights")["picture"]["cells"]
    assert "The picture itself is not in the trace" in page.locator(".picture .caption").inner_text()
