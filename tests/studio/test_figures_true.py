"""True pictures: exact edges for any size, sums that hold, padding never painted, constants flat, and no number out of nothing."""

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.geometry import grid_geometry, polygon_geometry  # noqa: E402
from leo_core.tracing.trace_file import load_trace, save_trace  # noqa: E402
from studio import figures  # noqa: E402
from studio.figures.table import table  # noqa: E402


def run(geometry, weights=None, size=None):
    """A run of one vision expert with this geometry on a picture of its size."""
    rng = np.random.default_rng(1)
    one = made.expert(rng, "one", "things", geometry)
    if weights is not None:
        one = replace(one, weights=np.asarray(weights, np.float32))
    return replace(made.make_trace(), pictures=(made.picture(geometry.width, geometry.height),), experts=(one,))


def painted(figure):
    return [layer for layer in figure.data if layer.type == "heatmap"]


@pytest.mark.parametrize("size", [(301, 171), (7, 1013), (1, 1), (640, 427)])
@pytest.mark.parametrize("grid", [(3, 5), (1, 1), (7, 2), (24, 24)])
def test_edges_are_exact_ratios_also_after_a_file(tmp_path, size, grid):
    trace = run(grid_geometry(size, grid))
    save_trace(trace, tmp_path / "run.safetensors")
    for each in (trace, load_trace(tmp_path / "run.safetensors")):
        (layer,) = painted(figures.kept_map(each, "one"))
        for edges, length, count in ((layer.x, size[0], grid[1]), (layer.y, size[1], grid[0])):
            assert len(edges) == count + 1 and edges[0] == 0 and edges[-1] == length
            exact = [float(Fraction(length * place, count)) for place in range(count + 1)]
            assert np.allclose(edges, exact, rtol=1e-7, atol=0)
        assert np.nansum(layer.z) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("window", [(0.0, -65.0, 300.0, 235.0), (-35.5, 0.0, 335.5, 170.0), (20.5, 10.25, 280.5, 160.25)])
def test_letterboxed_and_cropped_weights_are_painted_on_the_picture_only_and_the_rest_is_said(window):
    geometry = grid_geometry((300, 170), (6, 4), window=window, leading=1, trailing=2)
    trace = run(geometry)
    figure = figures.kept_map(trace, "one")
    (layer,) = painted(figure)
    assert layer.x.min() >= 0 and layer.x.max() <= 300 and layer.y.min() >= 0 and layer.y.max() <= 170
    share = trace.experts[0].weights.mean(axis=0)
    off = share[~geometry.placed].sum()
    assert (~geometry.placed).sum() >= 3 and np.nansum(layer.z) + off == pytest.approx(share.sum(), abs=1e-6)
    assert f"({(~geometry.placed).sum()}, not drawn): {off:.1%} of the mass" in figure.layout.meta["caption"]


def test_all_weight_on_padding_paints_zero_and_says_so():
    geometry = grid_geometry((30, 20), (2, 3), trailing=1)
    weights = np.zeros((6, 7))
    weights[:, 6] = 1
    figure = figures.kept_map(run(geometry, weights), "one")
    assert np.nansum([layer.z for layer in painted(figure)]) == 0 and "(1, not drawn): 100.0% of the mass" in figure.layout.meta["caption"]


def test_rotated_boxes_keep_their_corners_and_their_sum():
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    boxes = np.array([[[0, 0], [20, 0], [20, 8], [0, 8]]]) @ turn + np.array([[[30, 20]], [[70, 40]], [[100, 5]]])
    trace = run(polygon_geometry((151, 77), boxes, boxes))
    shown = table(figures.kept_map(trace, "one"))
    rows = {row[shown.columns.index("source token")]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}
    for token, corners in enumerate(boxes, start=1):
        assert np.allclose([[rows[token][f"{axis}{k}"] for axis in "xy"] for k in range(1, 5)], corners)
    assert sum(row["share of the mass"] for row in rows.values()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("term", ["total", "cross"])
@pytest.mark.parametrize("rotated", [False, True])
def test_what_is_no_number_is_hatched_and_leaves_the_scale_alone(bad, term, rotated):
    geometry = made.reading_geometry() if rotated else grid_geometry((300, 170), (2, 7))
    trace = run(geometry)
    one = trace.experts[0]
    weights, cross = one.weights.copy(), one.cross.copy()
    weights[:, 3] = cross[3] = bad
    holed = replace(trace, experts=(replace(one, weights=weights, cross=cross),))
    figure = figures.kept_map(holed, "one", term=term)
    hatch = next(layer for layer in figure.data if layer.name == "not evaluated")
    assert {(x, y) for x, y in zip(hatch.x, hatch.y, strict=True) if np.isfinite(x)} == {tuple(corner) for corner in geometry.polygons[3]}
    assert hatch.fillpattern.shape == "/" and f"Not evaluated (hatched): 1 of {len(geometry)} tokens" in figure.layout.meta["caption"]
    shown = table(figure)
    assert sorted(token for token in shown.column("source token") if token != "") == [t + 1 for t in range(len(geometry)) if t != 3]
    if rotated:
        scale = next(layer for layer in figure.data if layer.name == "values").marker
        ends = (scale.cmin, scale.cmax)
    else:
        ends = (painted(figure)[0].zmin, painted(figure)[0].zmax)
    assert np.isfinite(ends).all() and ends[0] < ends[1]


@pytest.mark.parametrize("term", ["total", "text"])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_a_constant_map_is_one_colour_in_the_middle_and_called_constant(term, noise):
    trace = run(grid_geometry((31, 17), (3, 5)), np.full((6, 15), 1 / 15))
    ripple = noise * np.arange(15)
    one = replace(trace.experts[0], weights=1 / 15 + np.tile(ripple, (6, 1)), text=250.0 + 250 * ripple)
    figure = figures.kept_map(replace(trace, experts=(one,)), "one", term=term)
    (layer,) = painted(figure)
    place = (np.asarray(layer.z) - layer.zmin) / (layer.zmax - layer.zmin)
    assert np.allclose(place, 0.5, atol=1e-3) and "The map is constant" in figure.layout.meta["caption"]
    varied = figures.kept_map(run(grid_geometry((31, 17), (3, 5))), "one", term=term)
    assert "constant" not in varied.layout.meta["caption"]


def test_layers_without_a_value_are_hatched_over_their_whole_height():
    trace = made.make_trace()
    hole = lambda array: np.where(np.arange(made.L)[:, None, None] == 2, np.nan, array)  # noqa: E731
    r = trace.routing
    holed = replace(trace, routing=replace(r, probability=hole(r.probability), coefficient=hole(r.coefficient), norm=hole(r.norm)))
    for draw in (figures.load_per_layer, figures.routing_entropy, figures.expert_norms):
        figure = draw(holed)
        hatch = next(layer for layer in figure.data if layer.name == "not evaluated")
        x, y = (np.asarray(one, float) for one in (hatch.x, hatch.y))
        assert (np.nanmin(x), np.nanmax(x)) == (1.5, 2.5) and (np.nanmin(y), np.nanmax(y)) == tuple(figure.layout.yaxis.range)
        assert f"1 of {made.L} layers" in figure.layout.meta["caption"]
        assert not any(layer.name == "not evaluated" for layer in draw(trace).data)
