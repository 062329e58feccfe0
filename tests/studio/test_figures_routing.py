"""Routes, answers and contributions: right positions, right sums, and words where there is nothing."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from studio import figures  # noqa: E402
from studio.figures.positions import names, select  # noqa: E402
from studio.figures.token_text import readable, visible  # noqa: E402

PER_ROUTE = (figures.routing_map, figures.load_per_layer, figures.routing_entropy, figures.expert_norms)


@pytest.fixture
def trace():
    return made.make_trace()


def words(fig):
    return fig.layout.meta["caption"]


def experts_of(fig):
    """Heat maps of a routing map, without the invisible one that answers for hover."""
    return [np.asarray(one.z) for one in fig.data if one.type == "heatmap" and one.name != "hover"]


@pytest.mark.parametrize("quantity", ["probability", "coefficient", "norm"])
def test_each_cell_has_the_leading_expert_s_colour_and_strength(trace, quantity):
    cells = np.stack(experts_of(figures.routing_map(trace, quantity=quantity)))
    values = getattr(trace.routing, quantity)[..., 1 if quantity == "norm" else 0 :]
    assert cells.shape == (made.E, made.L, len(trace.roles))
    assert np.isfinite(cells[..., :-1]).sum(axis=0).max() == np.isfinite(cells[..., :-1]).sum(axis=0).min() == 1
    assert np.allclose(np.nansum(cells[..., :-1], axis=0), values.max(axis=-1))
    assert np.array_equal(np.nanargmax(cells[..., :-1], axis=0), values.argmax(axis=-1))


def test_the_last_generated_token_is_not_evaluated(trace):
    fig = figures.routing_map(trace)
    assert all(np.isnan(cells[:, -1]).all() for cells in experts_of(fig))
    grey = next(one for one in fig.data if one.name == "not evaluated")
    last = len(trace.roles) - 1
    assert {float(x) for x in grey.x if np.isfinite(x)} == {last - 0.5, last + 0.5} and "never read" in words(fig)
    hover = next(one for one in fig.data if one.name == "hover")
    assert "not evaluated" in hover.text[0][-1] and np.isnan(np.asarray(hover.customdata)[:, -1]).all()
    assert not any(one.name == "not evaluated" for one in figures.routing_map(trace, phase="prefill").data)


def test_roles_and_phases_choose_positions(trace):
    assert len(select(trace, None, "all")) == len(trace.roles) - 1
    assert len(select(trace, None, "prefill")) == trace.prompt_length and len(select(trace, ["answer"], "decode")) == 3
    assert len(select(trace, ["answer"], "prefill")) == 0 and len(select(trace, ["picture"], "all")) == made.V
    padded = replace(trace, roles=np.where(np.arange(len(trace.roles)) == 0, 5, trace.roles))
    assert 0 not in select(padded, None, "all") and list(select(padded, ["pad"], "all")) == [0]
    with pytest.raises(ValueError, match="roles"):
        select(trace, ["image"], "all")
    with pytest.raises(ValueError, match="phase"):
        select(trace, None, "training")
    for figure in PER_ROUTE:
        assert "No position" in words(figure(trace, roles=["answer"], phase="prefill"))


@pytest.mark.parametrize("figure", PER_ROUTE)
def test_captions_state_the_settings(trace, figure):
    text = words(figure(trace, roles=["picture", "question"], phase="prefill"))
    assert "n = 10 positions (prefill; roles: picture, question) in 4 layers" in text
    assert "padding left out" in words(figure(trace))


def test_load_sums_to_k_and_entropy_stays_below_its_maximum(trace):
    load = [one for one in figures.load_per_layer(trace).data if one.type == "bar"]
    assert np.allclose(np.sum([one.y for one in load], axis=0), 1)
    assert np.allclose(load[1].y, (trace.routing.coefficient[..., 1] > 0).mean(axis=1))
    mean = next(one for one in figures.routing_entropy(trace).data if one.name == "mean")
    assert (np.asarray(mean.y) <= np.log2(3)).all()
    p = trace.routing.probability.astype(np.float64)
    assert np.allclose(mean.y, -(p * np.log2(p)).sum(axis=-1).mean(axis=1))


def test_norms_name_the_general_expert(trace):
    fig = figures.expert_norms(trace)
    assert [one.name for one in fig.data] == ["general (always on)", "expert 1", "expert 2", "expert 3"]
    assert np.allclose(fig.data[2].y, trace.routing.norm[..., 2].mean(axis=1))


def test_no_routed_experts_and_no_picture_are_said_in_words(trace):
    bare = made.without_routed_experts(trace)
    unasked = replace(trace, routing=replace(trace.routing, evaluated=False))
    for figure in PER_ROUTE[:3]:
        assert "no routed LoRA experts" in words(figure(bare)) and not figure(bare).data
        assert "Not evaluated" in words(figure(unasked)) and not figure(unasked).data
    assert [one.name for one in figures.expert_norms(bare).data] == ["general (always on)"]
    assert [one.name for one in figures.expert_norms(unasked).data] == ["general (always on)"]


def test_nan_in_a_layer_stays_a_gap(trace):
    hole = lambda array: np.where(np.arange(made.L)[:, None, None] == 1, np.nan, array)  # noqa: E731
    r = trace.routing
    holed = replace(trace, routing=replace(r, probability=hole(r.probability), coefficient=hole(r.coefficient), norm=hole(r.norm)))
    fig = figures.routing_map(holed)
    assert all(np.isnan(cells[1]).all() for cells in experts_of(fig)) and any(one.name == "not evaluated" for one in fig.data)
    for figure in PER_ROUTE[1:]:
        lines = [np.asarray(one.y, dtype=float) for one in figure(holed).data if one.y is not None and len(one.y) == made.L]
        assert lines and all(np.isnan(line[1]) and np.isfinite(line[0]) for line in lines)


def test_answer_tokens_show_probability_and_alternatives(trace):
    fig = figures.answer_tokens(trace, [0.1, np.nan, 0.2, 0.3])
    assert np.allclose(fig.data[0].y, trace.probability) and fig.data[1].name == "without the picture"
    assert any(one.name == "not evaluated" for one in fig.data) and "Not evaluated (hatched): 1 of 8 probabilities" in words(fig)
    assert "&lt;i&gt;x&lt;/i&gt;" in fig.data[0].customdata[0]
    nothing = replace(trace, probability=trace.probability[:0], top_ids=trace.top_ids[:0], top_bytes=(), top_probability=trace.top_probability[:0])
    assert "empty" in words(figures.answer_tokens(nothing))


def test_shares_show_exact_numbers_and_both_scales():
    fig = figures.expert_shares(["a", "<b>"], [0.75, -0.25], [0.5, np.nan], [3.0, -1.0], (-1.0, -1.5), 2e-7)
    assert [list(one.text) for one in fig.data] == [["+0.750", "-0.250"], ["+0.500", ""], ["+0.750", "-0.250"]]
    assert [note.text for note in fig.layout.annotations] == ["not evaluated"]
    assert "v(all) = -1 nats" in words(fig) and "v(none) = -1.5 nats" in words(fig) and "2e-07" in words(fig)
    assert fig.layout.xaxis.ticktext == ("a", "&lt;b&gt;") and fig.data[2].yaxis == "y2"
    assert len(figures.expert_shares(["a"], [0.1], [0.1], None, (0.0, -0.1), None).data) == 2


def every_figure(trace, dark):
    yield from (figures.kept_map(trace, name, dark=dark) for name in trace.expert_names)
    yield figures.kept_map(trace, "reader", term="cross", token=1, dark=dark)
    yield from (figure(trace, "scene", dark=dark) for figure in (figures.term_shares, figures.likeness_matrix))
    yield from (figure(trace, dark=dark) for figure in (*PER_ROUTE, figures.answer_tokens))
    yield figures.expert_shares(["a", "b"], [0.1, 0.2], [0.1, 0.2], [1, 2], (0.0, -0.3), 0.0, dark=dark)
    yield figures.notice("Nothing <b>here</b>.", "Title <i>", dark)


@pytest.mark.parametrize("dark", [False, True])
def test_every_figure_has_title_axes_caption_and_no_live_html(trace, dark):
    papers = set()
    for fig in every_figure(trace, dark):
        assert fig.layout.title.text and fig.layout.xaxis.title.text and fig.layout.yaxis.title.text and words(fig)
        papers.add(fig.layout.template.layout.paper_bgcolor)
        shown = fig.to_dict()
        shown["layout"].pop("meta")  # the caption is plain text
        shown["layout"].pop("template")
        assert not any(bad in repr(shown) for bad in ("<script", "<i>", "$a$", "objects <b>"))
    assert len(papers) == 1


def test_tokens_are_shown_exactly(trace):
    assert visible(b" <b>&$x$\n\t") == "␣&lt;b&gt;&amp;&#36;x&#36;⏎⇥"
    assert [readable(part) for part in made.ANSWER[1:3]] == ["⟨F0⟩⟨9F⟩", "⟨98⟩⟨80⟩"]
    assert readable(b"\xe4") == "⟨E4⟩" and readable("ä".encode()) == "ä" and readable(b"") == "⟨empty⟩"
    assert readable("\u202ea\u0301".encode()) == "⟨U+202E⟩a\u0301" and readable("\u0301".encode()) == "◌\u0301"
    assert names(trace)[1] == "picture 1 · 1" and names(trace)[made.V] == f"picture 1 · {made.V}"


def test_a_long_run_stays_small_and_quick():
    import time

    trace = made.make_trace()
    s, layers = 2001, 32
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(3), size=(layers, s - 1)).astype(np.float32)
    routing = replace(trace.routing, layers=tuple(map(str, range(layers))), probability=probability, coefficient=probability, norm=np.ones((layers, s - 1, 4)))
    long = replace(trace, routing=routing, roles=np.r_[np.full(s - 4, 3), np.full(4, 4)], picture_index=np.full(s, -1), token_bytes=(b" word",) * s)
    start = time.perf_counter()
    fig = figures.routing_map(long)
    size = len(fig.to_json())
    assert time.perf_counter() - start < 15 and size < 10e6
    assert len(fig.layout.xaxis.tickvals) <= 60
