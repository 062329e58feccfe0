"""Weights on the picture: exact places, nothing lost, nothing invented."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.geometry import grid_geometry, polygon_geometry, rectangles  # noqa: E402
from studio.figures import kept_map, likeness_matrix, term_shares, token_numbers  # noqa: E402
from studio.figures.picture_paint import lattice  # noqa: E402


@pytest.fixture
def trace():
    return made.make_trace()


def heat(fig):
    return next(one for one in fig.data if one.type == "heatmap")


def words(fig):
    return fig.layout.meta["caption"]


@pytest.mark.parametrize("token", [None, 0, 5])
def test_a_grid_is_drawn_on_the_geometry_s_own_edges_and_holds_all_weights(trace, token):
    one = trace.of_expert("scene")
    drawn = heat(kept_map(trace, "scene", token=token))
    cells = one.geometry.polygons.reshape(3, 5, 4, 2)
    assert np.array_equal(drawn.x, [*cells[0, :, 0, 0], made.WIDTH]) and np.array_equal(drawn.y, [*cells[:, 0, 0, 1], made.HEIGHT])
    assert drawn.x[-1] == 300 and drawn.y[-1] == 170
    expected = one.weights.mean(axis=0) if token is None else one.weights[token]
    assert np.allclose(np.asarray(drawn.z).ravel(), expected, atol=1e-7)
    assert drawn.zmin == 0


def test_the_picture_lies_exactly_under_its_axes(trace):
    fig = kept_map(trace, "scene")
    image = fig.layout.images[0]
    assert (image.x, image.y, image.sizex, image.sizey) == (0, 0, 300, 170) and image.source.startswith("data:image/png;base64,")
    assert fig.layout.xaxis.range == (0, 300) and fig.layout.yaxis.range == (170, 0) and fig.layout.yaxis.scaleanchor == "x"


def test_a_cropped_expert_keeps_its_class_token_out_and_marks_what_it_never_saw(trace):
    fig, one = kept_map(trace, "cropped"), trace.of_expert("cropped")
    drawn = heat(fig)
    assert drawn.x[0] == 65 and drawn.x[-1] == 235
    unplaced = one.weights.mean(axis=0)[0]
    assert np.nansum(drawn.z) + unplaced == pytest.approx(one.weights.sum() / made.V, abs=1e-6)
    assert f"On tokens without a place (1, not drawn): {unplaced:.1%} of the mass" in words(fig)
    unseen = next(one for one in fig.data if one.name == "never seen by this expert")
    assert {float(x) for x in unseen.x if np.isfinite(x)} == {0, 65, 235, 300}


def test_cells_of_padding_beyond_the_picture_do_not_disturb_the_lattice():
    geometry = grid_geometry((300, 170), (4, 4), window=(0.0, -65.0, 300.0, 235.0))
    x, y, cells = lattice(geometry)
    assert list(x) == [0, 75, 150, 225, 300] and list(y) == [0, 10, 85, 160, 170] and np.array_equal(cells.ravel(), np.arange(16))
    overlapping = polygon_geometry((30, 10), rectangles(np.array([[0, 0, 20, 10], [10, 0, 30, 10]])), rectangles(np.array([[0, 0, 30, 10]])))
    assert lattice(overlapping) is None


def test_rotated_text_columns_are_drawn_as_their_own_polygons(trace):
    fig, one = kept_map(trace, "reader"), trace.of_expert("reader")
    assert not any(each.type == "heatmap" for each in fig.data)
    values = next(each for each in fig.data if each.name == "values")
    assert values.customdata[:, 1].sum() == pytest.approx(one.weights.sum() / made.V, abs=1e-6)
    filled = [each for each in fig.data if each.fill == "toself"]
    drawn = np.concatenate([np.stack([each.x, each.y], axis=-1).reshape(-1, 6, 2)[:, :4] for each in filled])
    assert sorted(map(tuple, drawn.reshape(-1, 8))) == sorted(map(tuple, one.geometry.polygons.reshape(-1, 8)))
    assert any(each.name == "strips it read" for each in fig.data) and "was never seen" in words(fig)


def test_nan_is_hatched_and_never_coloured(trace):
    weights = trace.of_expert("scene").weights.copy()
    weights[:, 7] = np.nan
    fig = kept_map(made.with_weights(trace, "scene", weights), "scene")
    assert np.isnan(np.asarray(heat(fig).z)[1, 2]) and np.isnan(heat(fig).z).sum() == 1
    assert any(one.name == "not evaluated" for one in fig.data) and "Not evaluated (hatched): 1 of 15 tokens" in words(fig)
    everything = kept_map(made.with_weights(trace, "scene", weights * np.nan), "scene")
    assert not everything.data and "Not evaluated" in words(everything)


def test_a_constant_map_is_flat_and_called_constant(trace):
    fig = kept_map(made.with_weights(trace, "scene", np.full((6, 15), 1 / 15)), "scene")
    assert np.ptp(heat(fig).z) == 0 and "constant" in words(fig)
    assert "constant" not in words(kept_map(trace, "scene"))


def test_an_absent_expert_is_said_in_words(trace):
    gone = made.with_weights(trace, "reader", np.zeros((6, 14)))
    for figure in (kept_map, likeness_matrix, term_shares):
        fig = figure(gone, "reader")
        assert not fig.data and "absent" in words(fig) and "absent" in fig.layout.annotations[0].text


def test_a_picture_that_was_left_out_leaves_its_frame(trace):
    without = replace(trace, pictures=(replace(trace.pictures[0], content=None),))
    fig = kept_map(without, "scene")
    assert not fig.layout.images and len(fig.layout.shapes) == 1 and "not in the trace" in words(fig)
    odd = replace(trace, pictures=(replace(trace.pictures[0], media_type="image/svg+xml"),))
    assert not kept_map(odd, "scene").layout.images
    none = replace(trace, pictures=(), experts=())
    assert "without a picture" in words(kept_map(none, "scene"))


@pytest.mark.parametrize("term", ["query", "self", "cross", "text"])
def test_terms_are_scores_around_their_mean(trace, term):
    fig, one = kept_map(trace, "scene", term=term), trace.of_expert("scene")
    drawn = heat(fig)
    row = one.query.mean(axis=0) if term == "query" else getattr(one, {"self": "self_"}.get(term, term))
    assert np.allclose(np.ravel(drawn.z), row, atol=1e-6)
    assert (drawn.zmin + drawn.zmax) / 2 == pytest.approx(row.mean(), abs=1e-6)
    assert "score, not weight" in words(fig)


def test_a_reducer_without_scores_says_so(trace):
    plain = made.with_weights(trace, "scene", trace.of_expert("scene").weights, query=None, self_=None, cross=None, text=None)
    assert "without scores" in words(kept_map(plain, "scene", term="text")) and "without scores" in words(term_shares(plain, "scene"))


def test_wrong_names_and_places_are_refused(trace):
    with pytest.raises(KeyError):
        kept_map(trace, "nobody")
    with pytest.raises(IndexError):
        kept_map(trace, "scene", token=6)
    with pytest.raises(IndexError):
        kept_map(trace, "scene", token=-1)
    with pytest.raises(ValueError, match="term"):
        kept_map(trace, "scene", term="self_")


def test_numbers_equal_those_of_the_core(trace):
    torch = pytest.importorskip("torch")
    from leo_core.analysis import tokens

    for name in trace.expert_names:
        one, numbers = trace.of_expert(name), token_numbers(trace, name)
        weights = torch.from_numpy(one.weights).double()
        share, areas = tokens.mass(weights), torch.from_numpy(one.geometry.areas)
        assert numbers["effective_tokens"] == pytest.approx(float(tokens.effective_tokens(share[None])), rel=1e-6)
        assert numbers["effective_tokens_mean"] == pytest.approx(float(tokens.effective_tokens(weights).mean()), rel=1e-6)
        assert numbers["likeness"] == pytest.approx(float(tokens.likeness(weights)), rel=1e-6)
        for part in (0.5, 0.9):
            assert numbers[f"area_{part * 100:.0f}"] == pytest.approx(tokens.area_holding(share, areas, 300 * 170, part), rel=1e-6)


def test_term_shares_are_deviations_over_source_tokens(trace):
    bar, one = term_shares(trace, "scene").data[0], trace.of_expert("scene")
    assert np.allclose(bar.y, [one.query.std(axis=1).mean(), one.self_.std(), one.cross.std(), one.text.std()], atol=1e-6)


def test_likeness_leaves_empty_rows_unevaluated(trace):
    weights = trace.of_expert("scene").weights.copy()
    weights[2] = 0
    fig = likeness_matrix(made.with_weights(trace, "scene", weights), "scene")
    z = np.asarray(heat(fig).z)
    assert np.isnan(z[2]).all() and np.isnan(z[:, 2]).all() and z[0, 0] == pytest.approx(1)
    assert any(one.name == "not evaluated" for one in fig.data)
