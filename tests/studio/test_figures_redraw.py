"""Every figure can be drawn again by its own lines, and its table holds what it shows."""

import csv
import inspect
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.analysis.maptest import MapTest  # noqa: E402
from leo_core.errors import InputError  # noqa: E402
from leo_core.tracing.trace_file import load_trace, save_trace  # noqa: E402
from studio import figures  # noqa: E402
from studio.figures import code, code_of_all, csv_text, table  # noqa: E402

SHARES = dict(
    names=["a", "it's <b>", 'say "x"\n'], shapley=np.array([0.5, -0.25, 0.1]), leave_one_out=(0.5, float("nan"), 0.2),
    attribution=[1.0, -2.0, np.float32(0.5)], total=(-1.0, -1.35), completeness_error=1e-9,
)  # fmt: skip
FALL = np.linspace(-1.0, -5.0, 4)
RISE = FALL[::-1].copy()
TESTED = MapTest("scene", 0, 15, np.array([0.0, 0.2, 0.8, 1.0]), FALL, RISE, np.stack([FALL, FALL + 0.5]), np.stack([RISE, RISE - 0.5]), FALL, RISE)
PLAIN = {"title": "A title", "caption": "n = 2."}
CASES = {
    "kept_map": [{"expert": "scene"}, {"expert": "cropped", "token": 2, "opacity": 0.4}, {"expert": "reader", "term": "cross", "dark": True}],
    "term_shares": [{"expert": "scene"}],
    "likeness_matrix": [{"expert": "reader", "dark": True}],
    "routing_map": [{}, {"experts": range(2), "roles": ("answer", "picture"), "phase": "prefill", "quantity": "norm"}],
    "load_per_layer": [{"roles": ["answer"], "dark": True}],
    "routing_entropy": [{"phase": "decode"}],
    "expert_norms": [{}],
    "answer_tokens": [{}, {"without_picture_probability": np.array([0.1, np.nan, 0.2, 0.3])}],
    "answer_table": [{"candidates": 2}],
    "answer_shares": [{}],
    "expert_shares": [SHARES],
    "bars": [dict(PLAIN, groups=["a", "b"], series=["x"], values=[[1.0, float("nan")]], unit="s", lines=[["paper", 0.5]])],
    "curves": [dict(PLAIN, x=[1, 4], series=["x"], values=np.array([[1.0, 2.0]]), x_title="tokens", unit="s", log_x=True)],
    "differences": [dict(PLAIN, names=["a", "b"], values=[0.1, -0.2], low=[0.0, -0.3], high=[0.2, -0.1], unit="share", reference="all", dark=True)],
    "scores": [dict(PLAIN, models=["a", "b"], benchmarks=["GQA"], values=[[1.0], [float("nan")]], certain=[True, False])],
    "against": [dict(x=[1.0, -2.0, np.nan], y=[0.5, 1.0, 1.0], groups=["a", "b <i>", "b <i>"], labels=["one", "two", "three"], x_title="x",
                     y_title="y",
                     title="A against B", caption="Words.")],
    "information_per_layer": [dict(bits=[0.1, 0.3], null=np.array([[0.1, 0.2], [0.2, 0.1]]), layers=["1", "2"], title="Bits", caption="Words.")],
    "signed_matrix": [dict(values=np.array([[0.5, np.nan], [-0.25, 9.0]]), rows=["r", "s"], columns=["a", "b <b>"], title="Matrix", caption="Words.",
                           reach=1.0, row_title="row")],
    "map_curves": [{"tested": "scene"}, {"tested": "nothing"}],
    "map_gains": [{}],
    "notice": [{"text": "Nothing\nhere \u202e'\"", "title": "A <title>"}],
}
"""Of every public figure function the arguments beside the trace."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("redraw") / "a run's.safetensors"
    values = dict(names=["scene", "reader"], shapley=[0.25, 0.5], leave_one_out=[0.125, 0.5], v_all=-1.0, v_none=-1.75, completeness_error=0.0)
    analyses = {"contributions": {**values, "input_x_gradient": [1.0, -3.0]}, TESTED.key: TESTED.as_dict()}
    save_trace(replace(made.make_trace(), analyses=analyses), path)
    return path


def drawn(name, arguments, trace):
    function = getattr(figures, name)
    return function(trace, **arguments) if "trace" in inspect.signature(function).parameters else function(**arguments)


def public_figures():
    return {name for name in figures.__all__ if inspect.signature(getattr(figures, name)).return_annotation is go.Figure}


def test_every_public_figure_function_is_covered_here_and_remembers_its_call():
    assert public_figures() == set(CASES)
    assert all(getattr(getattr(figures, name), "redrawable", False) for name in CASES)


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, cases in CASES.items() for each in cases])
def test_the_lines_of_a_figure_draw_exactly_this_figure(saved, name, arguments):
    figure = drawn(name, arguments, load_trace(saved))
    space = {}
    exec(code(figure, str(saved)), space)
    assert json.loads(space["figure"].to_json()) == json.loads(figure.to_json())
    assert code(space["figure"], str(saved)) == code(figure, str(saved))
    other = drawn(name, {**arguments, "dark": not arguments.get("dark", False)}, load_trace(saved))
    assert other.to_json() != figure.to_json() and code(other) != code(figure)


def test_the_lines_of_a_whole_set_draw_it(saved):
    trace = load_trace(saved)
    named = {f"{name} {index}": drawn(name, each, trace) for name, cases in CASES.items() for index, each in enumerate(cases)}
    space = {}
    exec(code_of_all(named, str(saved)), space)
    assert {name: each.to_json() for name, each in space["figures"].items()} == {name: each.to_json() for name, each in named.items()}


def test_a_figure_of_another_origin_has_no_lines(saved):
    with pytest.raises(InputError, match="does not know its call"):
        code(go.Figure())
    with pytest.raises(TypeError, match="numbers, words or lists"):
        figures.expert_shares(**{**SHARES, "total": object()})


# --- tables: the same numbers from the trace, another way ---


@pytest.fixture
def trace(saved):
    return load_trace(saved)


def test_a_map_s_table_holds_each_placed_token_once_and_sums_to_the_weights(trace):
    for name in trace.expert_names:
        one, shown = trace.of_expert(name), table(figures.kept_map(trace, name))
        rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
        tokens = {row["source token"]: row["share of the mass"] for row in rows if row["source token"] != ""}
        assert sorted(tokens) == list(np.flatnonzero(one.geometry.placed) + 1)
        padding = one.weights.mean(axis=0)[~one.geometry.placed].sum()
        assert sum(tokens.values()) + padding == pytest.approx(one.weights.sum() / made.V, abs=1e-6)
        for row in rows if name != "reader" else ():
            if row["source token"] != "":
                corners = one.geometry.polygons[row["source token"] - 1]
                assert [row["x from"], row["y from"], row["x to"], row["y to"]] == [*corners[0], *corners[2]]


def test_hatched_regions_are_rows_without_a_number(trace):
    weights = trace.of_expert("scene").weights.copy()
    weights[:, 7] = np.nan
    shown = table(figures.kept_map(made.with_weights(trace, "scene", weights), "scene"))
    row = next(row for row in shown.rows if "not evaluated" in row)
    values = dict(zip(shown.columns, row, strict=True))
    assert values["share of the mass"] == "" and [values[n] for n in ("x from", "x to")] == [120, 180] and len(shown.rows) == 15


def test_a_routing_table_has_one_row_a_cell_with_token_layer_and_strength(trace):
    shown = table(figures.routing_map(trace))
    cells = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    read = [one for one in cells if one["series"] != "not evaluated"]
    assert len(read) == made.L * (len(trace.roles) - 1)
    for one in read:
        probability = trace.routing.probability[int(one["layer"]), one["position"] - 1]
        assert one["series"] == f"expert {probability.argmax() + 1}" and one["router probability"] == pytest.approx(probability.max(), abs=1e-6)


def test_tables_of_bars_and_lines_equal_the_trace(trace):
    answers = table(figures.answer_tokens(trace))
    assert answers.column("number") == [1, 2, 3, 4] and np.allclose(answers.column("probability"), trace.probability)
    load = table(figures.load_per_layer(trace))
    assert sum(load.column("share of positions that used the expert")) == pytest.approx(made.L)
    shares = table(figures.expert_shares(**SHARES))
    assert shares.column("vision expert")[:3] == SHARES["names"] and shares.column("change of log-probability (nats)")[:3] == [0.5, -0.25, 0.1]
    assert shares.column("change of log-probability (nats)")[4] == ""
    rows = table(figures.answer_table(trace))
    assert rows.column("bytes")[1:3] == ["F0 9F", "98 80"] and rows.column("token")[1:3] == ["⟨F0⟩⟨9F⟩‿ (😀)", "‿⟨98⟩⟨80⟩ (😀)"]


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, cases in CASES.items() for each in cases])
def test_csv_reads_back_as_the_table(trace, name, arguments):
    figure = drawn(name, arguments, trace)
    shown = table(figure)
    head, *rows = csv.reader(io.StringIO(csv_text(figure), newline=""))
    assert tuple(head) == shown.columns and len(rows) == len(shown.rows) > 0
    for written, row in zip(rows, shown.rows, strict=True):
        for cell, value in zip(written, row, strict=True):
            assert float(cell) == value if isinstance(value, int | float) else cell.lstrip("'") == value.lstrip("'")


def test_a_spreadsheet_runs_nothing(trace):
    hostile = replace(trace, token_bytes=(*trace.token_bytes[:-4], b"=1+cmd|x", b"@x", b"-", b"<|end|>"))
    text = csv_text(figures.answer_tokens(hostile))
    assert ",'=1+cmd|x," in text and ",'@x," in text and ",-," in text
