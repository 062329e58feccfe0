"""Figures of analyses: every value where its name says, zero in the middle, and words where there is nothing."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.analysis.maptest import MapTest  # noqa: E402
from leo_core.errors import InputError  # noqa: E402
from studio.export.save import save_picture  # noqa: E402
from studio.figures import against, information_per_layer, map_curves, map_gains, signed_matrix, table  # noqa: E402

WORDS = {"title": "A title", "caption": "What it is."}
SHARES = np.array([0.0, 0.25, 0.75, 1.0])


def caption(figure):
    return figure.layout.meta["caption"]


def test_a_signed_matrix_holds_each_value_under_its_names_with_white_at_zero():
    values = np.array([[2.0, -0.5], [np.nan, 0.25], [-1.0, 0.0]])
    figure = signed_matrix(values, ["r1", "r2", "r3"], ["a", "b <b>"], row_title="run", column_title="expert", **WORDS)
    layer = figure.data[0]
    assert (layer.zmin, layer.zmax) == (-2, 2) and layer.colorscale[5] == (0.5, "#f7f7f7")
    shown = table(figure)
    cells = {tuple(row[shown.columns.index(name)] for name in ("run", "expert")): row[shown.columns.index("nats")] for row in shown.rows[:5]}
    assert cells == {("r1", "a"): 2, ("r1", "b <b>"): -0.5, ("r2", "b <b>"): 0.25, ("r3", "a"): -1, ("r3", "b <b>"): 0}
    assert "n = 3 x 2" in caption(figure) and "1 of 6 values" in caption(figure) and figure.data[1].name == "not evaluated"
    assert "b &lt;b&gt;" in figure.layout.xaxis.ticktext


def test_colours_end_where_they_are_told_and_the_caption_counts_what_lies_beyond():
    figure = signed_matrix([[9.0, -0.5]], ["r"], ["a", "b"], reach=1.0, **WORDS)
    assert figure.data[0].zmax == 1 and figure.data[0].z[0][0] == 9 and "1 values lie beyond" in caption(figure)
    assert signed_matrix([[0.0]], ["r"], ["a"], **WORDS).data[0].zmax == 1
    assert signed_matrix(np.zeros((1, 16)), ["r"], list(map(str, range(16))), **WORDS).data[0].texttemplate is None


def test_values_and_names_must_fit():
    with pytest.raises(ValueError, match="3 rows and 2 columns"):
        signed_matrix(np.zeros((2, 2)), ["a", "b", "c"], ["d", "e"], **WORDS)
    with pytest.raises(ValueError, match="a group and a label"):
        against([1.0], [1.0, 2.0], ["a"], ["b"], "x", "y", **WORDS)
    with pytest.raises(ValueError, match="2 layers"):
        information_per_layer([0.1], [[0.1]], ["1", "2"], **WORDS)


@pytest.mark.parametrize(
    "figure",
    [
        signed_matrix([[np.nan]], ["r"], ["a"], **WORDS), against([np.nan], [1.0], ["g"], ["one"], "x", "y", **WORDS), map_gains(made.make_trace()),
        map_curves(made.make_trace(), "scene"),
    ],
)  # fmt: skip
def test_where_there_is_nothing_words_stand(figure):
    assert not figure.data and figure.layout.annotations[0].text


def test_points_keep_their_group_and_label_and_the_missing_are_counted():
    figure = against([1.0, -2.0, np.nan], [0.5, 1.5, 0.0], ["a", "b", "a"], ["one", "two", "three"], "left", "right", **WORDS)
    rows = [dict(zip(table(figure).columns, row, strict=True)) for row in table(figure).rows]
    assert rows == [{"series": "a", "left": 1, "right": 0.5, "label": "one"}, {"series": "b", "left": -2, "right": 1.5, "label": "two"}]
    line = figure.data[0]
    assert line.name == "equal" and list(line.x) == list(line.y) == [-2, 1.5] and "n = 2 points" in caption(figure) and "1 points" in caption(figure)
    assert len(against([1.0], [1.0], ["a"], ["one"], "x", "y", diagonal=False, **WORDS).data) == 1


def test_information_lies_over_the_percentiles_of_its_null():
    null = np.random.default_rng(0).random((200, 3))
    figure = information_per_layer([2.0, 0.5, 0.0], null, ["1", "2", "3"], **WORDS)
    high, low, middle, mine = (np.asarray(one.y, dtype=float) for one in figure.data)
    assert np.allclose([low, middle, high], np.percentile(null, [5, 50, 95], axis=0)) and mine.tolist() == [2.0, 0.5, 0.0]
    assert "200 shuffles; 1 of 3 layers" in caption(figure) and figure.layout.yaxis.range[1] > 2


def judged(name: str, gain: float) -> MapTest:
    """A map whose deletion curve lies `gain` below the random ones, and its insertion curve as much above."""
    fall = -4 * SHARES
    drawn = np.stack([fall - 0.1, fall, fall + 0.1])
    return MapTest(name, 0, 8, SHARES, fall - gain, fall[::-1] + gain, drawn, drawn[:, ::-1].copy(), fall, fall[::-1].copy())


def test_map_curves_are_the_test_s_own_with_the_range_of_all_random_orders():
    trace = replace(made.make_trace(), analyses={one.key: one.as_dict() for one in (judged("scene", 1.0), judged("reader", 0.0))})
    figure, one = map_curves(trace, "scene"), judged("scene", 1.0)
    by_series = {layer.meta["series"]: layer for layer in figure.data[:4]}
    assert np.allclose(by_series["the map, deletion"].y, one.deletion) and np.allclose(by_series["equal weights, deletion"].y, one.equal_deletion)
    assert np.allclose(by_series["random orders, highest"].y, one.random_deletion.max(axis=0))
    assert np.allclose(by_series["random orders, lowest"].y, one.random_deletion.min(axis=0))
    assert np.allclose(figure.data[-1].y, one.insertion) and one.verdict in caption(figure)
    assert "not tested" in caption(map_curves(trace, "cropped")) and "scene, reader" in caption(map_curves(trace, "cropped"))


def test_map_gains_show_each_map_with_its_spread():
    tests = (judged("scene", 1.0), judged("reader", 0.0))
    trace = replace(made.make_trace(), analyses={one.key: one.as_dict() for one in tests})
    deletion, insertion = map_gains(trace).data
    assert np.allclose(deletion.y, [one.deletion_gain for one in tests]) and np.allclose(insertion.y, [one.insertion_gain for one in tests])
    assert np.allclose(deletion.error_y.array, [one.spread[0] for one in tests])
    assert np.allclose(insertion.error_y.arrayminus, [one.spread[1] for one in tests])


def test_a_picture_is_saved_as_its_name_says(tmp_path):
    figure = signed_matrix([[1.0]], ["r"], ["a"], **WORDS)
    assert b"<svg" in save_picture(figure, tmp_path / "one.svg", seconds=300).read_bytes()
    assert save_picture(figure, tmp_path / "one.png", dpi=96, seconds=300).read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match=".svg or .png"):
        save_picture(figure, tmp_path / "one.pdf")
    with pytest.raises(InputError, match="no program"):
        save_picture(figure, tmp_path / "two.svg", chromium="no-such-browser")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "one.svg"]
