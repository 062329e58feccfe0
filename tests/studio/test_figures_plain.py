"""Figures of plain numbers: bars, curves, differences, and several reducers' maps side by side."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.geometry import grid_geometry, polygon_geometry  # noqa: E402
from studio.figures import bars, curves, differences, scores, table  # noqa: E402
from studio.figures.differences import verdict  # noqa: E402
from studio.figures.map_panels import map_panels, term_panels  # noqa: E402
from studio.figures.markdown import markdown_table  # noqa: E402
from studio.figures.token_text import escaped  # noqa: E402

NAN = float("nan")


def test_bars_show_their_values_and_say_what_is_missing():
    figure = bars("Cost", "n = 2.", ["a <b>", "c"], ["one", "two"], [[1.0, 2.0], [3.0, NAN]], "TFLOPs", group_title="system", lines=[("paper", 2.5)])
    assert [list(layer.y[:1]) for layer in figure.data] == [[1.0], [3.0]]
    assert "Not evaluated: 1 of 4" in figure.layout.meta["caption"] and figure.layout.yaxis.title.text == "TFLOPs"
    rows = table(figure)
    assert rows.column("system") == ["a <b>", "c", "a <b>", "c"] and rows.column("TFLOPs") == [1, 2, 3, ""]
    assert any("paper" in note.text for note in figure.layout.annotations)


def test_bars_stack_and_carry_intervals():
    figure = bars("Cost", "", ["a"], ["one", "two"], [[1], [2]], "x", stacked=True)
    assert figure.layout.barmode == "stack"
    figure = bars("Right", "", ["a"], ["one"], [[0.5]], "share", low=[[0.4]], high=[[0.7]])
    assert figure.data[0].error_y.array[0] == pytest.approx(0.2) and figure.data[0].error_y.arrayminus[0] == pytest.approx(0.1)
    assert "no values" in bars("Right", "", ["a"], ["one"], [[NAN]], "share").layout.annotations[0].text


@pytest.mark.parametrize("draw", [lambda: bars("t", "", ["a", "b"], ["s"], [[1.0]], "u"), lambda: curves("t", "", [1, 2], ["s"], [[1.0]], "x", "u")])
def test_names_and_values_must_match(draw):
    with pytest.raises(ValueError, match="values of shape"):
        draw()


def test_curves_draw_a_line_a_series_with_gaps_and_whiskers():
    figure = curves(
        "Budget", "n = 3.", [1, 4, 16], ["CoTR", "pooling"], [[0.1, 0.2, 0.3], [0.1, NAN, 0.2]], "tokens", "share", low=np.zeros((2, 3)),
        high=np.ones((2, 3)), log_x=True, lines=[("all", 0.5)],
    )  # fmt: skip
    assert figure.layout.xaxis.type == "log" and list(figure.data[0].x) == [1, 4, 16] and np.isnan(figure.data[1].y[1])
    assert figure.data[0].error_y.array[0] == pytest.approx(0.9) and "Not evaluated: 1 of 6" in figure.layout.meta["caption"]


def test_verdicts_come_from_intervals():
    assert [verdict(0.1, 0.2), verdict(-0.2, -0.1), verdict(-0.1, 0.1), verdict(0.0, 0.1)] == ["better", "worse", "cannot tell", "cannot tell"]
    values, low, high = [0.2, -0.3, NAN], [0.1, -0.4, NAN], [0.3, -0.2, NAN]
    figure = differences("Terms", "n = 9.", ["no text", "sum <pool>", "late"], values, low, high, "share right", "CoTR")
    shown = {layer.name: list(layer.x) for layer in figure.data}
    assert shown == {"better": [0.2], "worse": [-0.3], "cannot tell": []}
    assert list(figure.layout.yaxis.ticktext) == ["no text", "sum &lt;pool&gt;", "late"] and list(figure.layout.yaxis.tickvals) == [2, 1, 0]
    assert "no differences" in differences("Terms", "", [], [], [], [], "x", "y").layout.annotations[0].text


@pytest.mark.parametrize("regular", [True, False])
def test_panels_share_one_scale_and_show_every_weight(regular):
    picture = made.picture(30, 20)
    geometry = grid_geometry((30, 20), (2, 3))
    if not regular:
        geometry = polygon_geometry((30, 20), geometry.polygons + np.array([[[0, 0], [1, 0], [1, 1], [0, 0.5]]]) * 0.2, geometry.seen)
    rng = np.random.default_rng(0)
    weights = {name: rng.dirichlet(np.ones(6), size=4) for name in ("CoTR", "pooling, by area")}
    figure = map_panels(picture, geometry, weights, [0, 3], "Side by side")
    most = max(rows[[0, 3]].max() for rows in weights.values())
    assert figure.layout.coloraxis.cmax == 0.25 < most and f"up to {most:.0%}" in figure.layout.meta["caption"]
    assert map_panels(picture, geometry, weights, [0, 3], "Side by side", top=0.99).layout.coloraxis.cmax == most
    assert len(figure.layout.images) == 2 * 3
    if regular:
        heat = [np.asarray(layer.z).ravel() for layer in figure.data]
        wanted = [panel for rows in weights.values() for panel in (rows.mean(axis=0), rows[0], rows[3])]
        assert np.allclose(heat, wanted)
    else:
        drawn = [np.asarray(layer.marker.color, dtype=float) for layer in figure.data if layer.name == "values"]
        assert len(drawn) == 6 and np.allclose([one.sum() for one in drawn], 1)
    with pytest.raises(IndexError):
        map_panels(picture, geometry, weights, [4], "Side by side")


def test_terms_stand_question_by_question_and_only_what_moves_differs():
    first = made.make_trace()
    one = first.of_expert("scene")
    second = replace(first, question="Another <one>?", experts=(replace(one, text=one.text[::-1] * 2),))
    figure = term_panels([first, second], "scene")
    layers = {layer.name: np.asarray(layer.z) for layer in figure.data}
    names = [f"{escaped(trace.question)}, " for trace in (first, second)]
    found = {name.rsplit(", ", 1)[1].split(" ")[0] for name in layers}
    assert found == {"query", "self", "cross", "text"} and len(layers) == 8
    for term in found:
        rows = [next(z for name, z in layers.items() if name.startswith(start) and f", {term} " in name) for start in names]
        assert np.allclose(rows[0], rows[1]) == (term != "text") and max(np.abs(row).max() for row in rows) == pytest.approx(1)
    without = [replace(first, experts=(replace(one, query=None, self_=None, cross=None, text=None),))]
    assert "hold no score" in term_panels(without, "scene").layout.annotations[0].text


def test_scores_are_hollow_where_they_are_not_certain():
    figure = scores("Scores", "As reported.", ["ours", "theirs"], ["GQA", "MMB"], [[64.5, 77.0], [NAN, 60.1]], [False, True])
    ours, theirs = figure.data
    assert ours.marker.symbol.endswith("-open") and not theirs.marker.symbol.endswith("-open")
    assert list(theirs.x) == [60.1] and list(theirs.y) == [0] and "Not reported: 1 of 4" in figure.layout.meta["caption"]
    with pytest.raises(ValueError, match="values of shape"):
        scores("Scores", "", ["ours"], ["GQA"], [[1.0, 2.0]], [True])


def test_markdown_tables_keep_numbers_short_and_texts_whole():
    text = markdown_table(["name", "value"], [["a|b", 0.12345], ["c", 12345.6], ["d", NAN], ["e", 7]])
    assert text.splitlines() == ["| name | value |", "| --- | --- |", "| a\\|b | 0.123 |", "| c | 12,346 |", "| d | not evaluated |", "| e | 7 |"]
