"""validate, diff, show and index as a user calls them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_trace_format import foreign_writer, rewritten

from leo_core.__main__ import main
from leo_core.errors import LeoError
from leo_core.tracing.terminal_text import terminal_text
from leo_core.tracing.trace_diff import aligned, diff_traces
from leo_core.tracing.trace_file import load_trace, save_trace
from leo_core.tracing.trace_index import read_index, write_index


@pytest.fixture
def files(tmp_path):
    """a: the foreign run; b: another question, one output token moved, one route changed, another setting."""
    foreign_writer(tmp_path / "a.safetensors")
    trace = load_trace(tmp_path / "a.safetensors")
    weights, coefficient = trace.experts[0].weights.copy(), trace.routing.coefficient.copy()
    weights[1] = np.eye(24, dtype=np.float32)[5]
    coefficient[1, 2] = np.roll(coefficient[1, 2], 1)
    probability = trace.routing.probability.copy()
    probability[0, 0] = probability[0, 0][::-1]
    ids, tokens = trace.token_ids.copy(), list(trace.token_bytes)
    ids[5], tokens[5] = 77, b" few"
    other = replace(
        trace, question="How few?", token_ids=ids, token_bytes=tuple(tokens), experts=(replace(trace.experts[0], weights=weights),),
        routing=replace(trace.routing, coefficient=coefficient, probability=probability), settings={"decoding": {"kind": "greedy"}},
    )  # fmt: skip
    save_trace(other, tmp_path / "b.safetensors")
    return str(tmp_path / "a.safetensors"), str(tmp_path / "b.safetensors")


def test_validate_names_rules_and_ends_with_1(files, capsys):
    assert main(["trace", "validate", *files]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{files[0]}: valid", f"{files[1]}: valid"]
    rewritten(files[1], lambda words: words.update(finished=3))
    assert main(["trace", "validate", *files, "nowhere.safetensors"]) == 1
    out = capsys.readouterr().out
    assert "[field]" in out and f"{files[0]}: valid" in out and "does not exist" in out


def test_diff_says_what_changed_and_how_much(files, capsys):
    one, other = map(load_trace, files)
    diff = diff_traces(one, other)
    assert not diff.same and diff.settings == {"settings.decoding.kind": (None, "greedy")} and not diff.pictures
    assert diff.tokens.prompt_changed == (1, 1) and diff.tokens.answer_common == 2
    assert diff.tokens.log_probability[0] == pytest.approx(np.log(0.72), abs=1e-5)
    here, there = aligned(one, other)
    assert here.tolist() == there.tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    (weights,) = diff.weights
    assert weights.output_token == 1 and weights.moved_most == pytest.approx(1 - one.experts[0].weights[1, 5], abs=1e-3)
    assert weights.moved_mean == pytest.approx(weights.moved_most / 3)
    moved = bool((one.routing.coefficient[1, 2] != other.routing.coefficient[1, 2]).any())
    assert moved and diff.routes.positions == 7 and diff.routes.by_layer == (0, 1 / 7) and diff.routes.changed == pytest.approx(1 / 14)
    assert diff.routes.probability_most == pytest.approx(np.abs(one.routing.probability[0, 0] - other.routing.probability[0, 0]).max())
    assert main(["trace", "diff", *files]) == 1
    out = capsys.readouterr().out
    assert "How many? -> How few?" in out and "in output token 1" in out and "2 layers x 7 positions, most in layer 1" in out
    assert main(["trace", "diff", "--json", *files]) == 1
    assert json.loads(capsys.readouterr().out)["weights"][0]["moved_most"] == weights.moved_most


def test_diff_of_equal_runs_and_of_runs_that_cannot_be_compared(files, capsys):
    one = load_trace(files[0])
    save_trace(replace(one, timings={"answer": 9.0}, provenance={**one.provenance, "run": "x", "created": "now"}), files[1])
    assert main(["trace", "diff", *files]) == 0 and capsys.readouterr().out == "No difference.\n"
    routing = replace(one.routing, layers=("a",), **{name: getattr(one.routing, name)[:1] for name in ("probability", "coefficient", "norm")})
    save_trace(replace(one, routing=routing, experts=()), files[1])
    assert main(["trace", "diff", *files]) == 1
    out = capsys.readouterr().out
    assert "not compared: only in the first trace" in out and "not compared: 2 layers x 4 experts and 1 x 4" in out


def test_show_lets_no_control_character_through(files, capsys):
    hostile = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\n"
    trace = load_trace(files[0])
    tokens = (*trace.token_bytes[:7], hostile.encode(), b"\xf0\x9f")
    named = (replace(trace.experts[0], name=hostile, domain=hostile),)
    hostile_run = replace(
        trace, question=hostile, answer=hostile, token_bytes=tokens, top_bytes=((hostile.encode(),) * 2,) * 2, experts=named,
        provenance={"model": hostile}, analyses={hostile: {}}, settings={hostile: hostile},
    )  # fmt: skip
    save_trace(hostile_run, files[1])
    for arguments in (["show", files[1]], ["diff", *files], ["validate", files[1]]):
        main(["trace", *arguments])
        out = capsys.readouterr().out
        assert all(line.isprintable() for line in out.split("\n"))
    assert main(["trace", "show", files[1]]) == 0
    out = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07\\x1b[2J\\u202eevil\\r\\n" in out and "\\xf0\\x9f" in out


def test_terminal_text_keeps_what_can_be_read():
    assert terminal_text("naïve 中文 🦁 தமிழ்") == "naïve 中文 🦁 தமிழ்"
    assert terminal_text("a\\n\n\u200d") == "a\\\\n\\n\\u200d" and terminal_text("abcdef", 3) == "abc…" and terminal_text("abc", 3) == "abc"


def test_index_lists_traces_and_names_what_is_none(files, tmp_path, capsys):
    save_trace(replace(load_trace(files[1]), provenance={"created": "2026-01-31T12:00:00+00:00"}), files[1])
    entries, refused = write_index(tmp_path)
    assert [one.file for one in entries] == ["a.safetensors", "b.safetensors"] and not refused
    assert entries[1].created == "2026-01-31T12:00:00+00:00" and entries[1].model == "" and entries[0].model == "another lab's"
    assert read_index(tmp_path) == entries
    (tmp_path / "c.safetensors").write_bytes(b"nothing")
    assert main(["trace", "index", str(tmp_path)]) == 1
    result = capsys.readouterr()
    assert "lists 2 traces" in result.out and "c.safetensors" in result.err
    assert main(["trace", "index", str(tmp_path / "nowhere")]) == 2


def naming(file: str) -> str:
    return json.dumps({"schema": "1.0", "traces": [{"file": file, "question": "", "answer": "", "model": "", "created": ""}]})


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"schema": "1.0", "traces": [{}]}', '{"schema": "2.0", "traces": []}', *map(naming, ("../a", "/a", "", "a\\b"))],
)
def test_an_index_from_elsewhere_is_refused_in_words(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(LeoError, match="index.json cannot be used"):
        read_index(tmp_path)
