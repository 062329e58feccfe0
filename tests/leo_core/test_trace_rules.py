"""Every rule of the format is named when it is broken, and files from strangers give one sentence, never a stack trace."""

import base64
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file
from test_trace_format import foreign_writer, rewritten

from leo_core.errors import LeoError
from leo_core.tracing.trace import Trace
from leo_core.tracing.trace_diff import diff_traces
from leo_core.tracing.trace_file import load_trace, save_trace, validate_trace
from leo_core.tracing.trace_show import show_trace


def setting(*path):
    """A change of the words: all but the last two of `path` lead to an object; then a name and its new value (... removes it)."""

    def change(words):
        *place, name, value = path
        for step in place:
            words = words[step]
        if value is ...:
            del words[name]
        else:
            words[name] = value

    return change


@pytest.fixture
def foreign(tmp_path):
    foreign_writer(tmp_path / "run.safetensors")
    return tmp_path / "run.safetensors"


STRUCTURE = [
    ("field", "answer", setting("answer", ...), {}),
    ("field", "finished", setting("finished", 1), {}),
    ("field", "routing.top_k", setting("routing", "top_k", True), {}),
    ("field", "experts.0", setting("experts", 0, "encoder"), {}),
    ("field", "experts.0.name", setting("experts", 0, "name", None), {}),
    ("field", "routing.layers", setting("routing", "layers", ["a", 2]), {}),
    ("field", "top_bytes.1", setting("top_bytes", 1, "x"), {}),
    ("nesting", "leo_trace", setting("settings", json.loads("[" * 40 + "]" * 40)), {}),
    ("range", "experts.0.picture", setting("experts", 0, "picture", 1), {}),
    ("range", "pictures.0", setting("pictures", 0, "width", 10**300), {}),
    ("range", "routing.top_k", setting("routing", "top_k", -1), {}),
    ("media-type", "pictures.0.media_type", setting("pictures", 0, "media_type", "image/svg+xml"), {}),
    ("expert-twice", "experts.1", lambda words: words["experts"].append(words["experts"][0]), {}),
    ("grid", "experts.0.grid", setting("experts", 0, "grid", [5, 6]), {}),
    ("grid", "experts.0.grid", setting("experts", 0, "grid", [24]), {}),
    ("base64", "token_bytes.2", setting("token_bytes", 2, "?"), {}),
    ("tensor-shape", "token_bytes", setting("token_bytes", ["", ""]), {}),
    ("tensor-missing", "experts.1.weights", lambda words: words["experts"].append({**words["experts"][0], "name": "b"}), {}),
    ("tensor-type", "roles", None, {"roles": np.ones(9)}),
    ("tensor-type", "experts.0.placed", None, {"experts.0.placed": np.ones(24, np.float16)}),
    ("tensor-shape", "experts.0.query", None, {"experts.0.query": np.ones((4, 24), np.float16)}),
    ("tensor-shape", "experts.0.polygons", None, {"experts.0.polygons": np.ones((24, 2, 4), np.float16)}),
    ("tensor-shape", "routing.norm", setting("routing", "general", True), {}),
    ("range", "roles", None, {"roles": np.full(9, 6)}),
    ("range", "picture_index", None, {"picture_index": np.full(9, 1)}),
    ("range", "token_ids", None, {"token_ids": np.full(9, 2**31)}),
    ("range", "experts.0.polygons", None, {"experts.0.polygons": np.full((24, 4, 2), np.nan, np.float32)}),
    ("positions", "routing.probability", None, {f"routing.{name}": np.zeros((2, 5, 4)) for name in ("probability", "coefficient", "norm")}),
]  # fmt: skip


def cases(table):
    return pytest.mark.parametrize(("rule", "where", "change", "arrays"), table, ids=[f"{rule} {where}" for rule, where, *_ in table])


@cases(STRUCTURE)
def test_broken_structure_is_named_and_refused(foreign, rule, where, change, arrays):
    rewritten(foreign, change or (lambda words: None), arrays)
    assert (rule, where) in [(one.rule, one.where) for one in validate_trace(foreign)]
    with pytest.raises(LeoError, match="breaks a rule of the format") as refused:
        load_trace(foreign)
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def changed(name, index, value):
    """One value of one tensor of the foreign file, changed."""

    def change(path):
        array = load_file(path)[name].copy()
        array[index] = value
        return {name: array}

    return change


VALUES = [
    ("range", "experts.0.weights", None, changed("experts.0.weights", (1, 2), np.nan)),
    ("range", "experts.0.cross", None, lambda path: {"experts.0.cross": np.full(24, np.inf, np.float32)}),
    ("range", "routing.coefficient", None, changed("routing.coefficient", (0, 0, 0), np.inf)),
    ("range", "routing.norm", None, changed("routing.norm", (0, 0, 0), -1)),
    ("range", "probability", None, changed("probability", 0, 2)),
    ("weights-sum", "experts.0.weights", None, changed("experts.0.weights", (1, slice(3)), 1)),
    ("probability-sum", "routing.probability", None, changed("routing.probability", (1, 2), 0.1)),
    ("not-evaluated", "routing.coefficient", setting("routing", "evaluated", False), None),
    ("top-k", "routing.coefficient", setting("routing", "top_k", 1), None),
    ("answer-last", "roles", None, changed("roles", 4, 4)),
    ("picture-role", "picture_index", None, changed("picture_index", 0, 0)),
    ("picture-places", "picture_index", None, changed("picture_index", 1, -1)),
    ("top-order", "top_probability", None, changed("top_probability", 0, [0.1, 0.9])),
    ("top-order", "probability", None, changed("top_probability", 0, [0.5, 0.5])),
    ("top-sum", "top_probability", None, changed("top_probability", 0, [0.9, 0.8])),
    ("answer-bytes", "token_bytes", setting("token_bytes", 7, base64.b64encode(b"three").decode()), None),
    ("picture-bytes", "pictures.0", None, lambda path: {"pictures.0": np.frombuffer(b"<svg/>", np.uint8)}),
]  # fmt: skip


@cases(VALUES)
def test_broken_values_are_named_and_the_trace_still_opens(foreign, rule, where, change, arrays):
    rewritten(foreign, change or (lambda words: None), arrays(foreign) if arrays else {})
    assert (rule, where) in [(one.rule, one.where) for one in validate_trace(foreign)]
    assert show_trace(load_trace(foreign))


def test_all_broken_rules_are_named_at_once(foreign):
    def change(words):
        words["finished"], words["pictures"][0]["width"] = "yes", 0

    rewritten(foreign, change)
    assert [one.where for one in validate_trace(foreign)] == ["finished"]  # types first: the rest cannot be asked
    rewritten(foreign, lambda words: words.update(finished=True, token_bytes=["?"] * 9), {"roles": np.ones(9), "top_ids": np.ones((2, 3), int)})
    found = validate_trace(foreign)
    assert {one.rule for one in found} == {"range", "base64", "tensor-type", "tensor-shape"} and sum(one.rule == "base64" for one in found) == 9


def with_header(header: dict | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


HUGE = {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}
DAMAGED = {
    "empty": (b"", "ends at byte 0"),
    "announces too much": (with_header(b"{}", length=2**60), "announce a header of 1,152,921,504,606,846,976 bytes"),
    "no JSON": (with_header(b"{nonsense}"), "no JSON at byte 9"),
    "no UTF-8": (with_header(b'{"\xff": 1}'), "no UTF-8 at byte 10"),
    "a list": (with_header(b"[]"), "no JSON object"),
    "name twice": (with_header(b'{"a": 1, "a": 2}'), "there twice"),
    "deep": (with_header(b'{"a":' + b"[" * 100_000), "nested too deeply"),
    "not a number": (with_header(b'{"a": NaN}'), "no number of JSON"),
    "huge tensor": (with_header({"x": HUGE}), "tensor 'x' has no shape"),
    "beyond the end": (with_header({"x": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, b"12"), "tensor 'x' lies at bytes"),
    "shape and bytes": (with_header({"x": {"dtype": "F16", "shape": [3], "data_offsets": [0, 2]}}, b"12"), "needs 6 bytes"),
    "overlap": (with_header({n: {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]} for n in "xy"}, b"12"), "without gaps"),
    "left over": (with_header({"__metadata__": {}}, b"12"), "belong to no tensor"),
    "no words": (with_header({"__metadata__": {"other": "x"}}), "no 'leo_trace'"),
    "words no JSON": (with_header({"__metadata__": {"leo_trace": "{} x"}}), "at character 3"),
    "half a pair": (with_header({"__metadata__": {"leo_trace": '{"schema": "\\ud800"}'}}), "half a surrogate pair"),
    "unknown type": (with_header({"x": {"dtype": "PICKLE", "shape": [], "data_offsets": [0, 0]}}), "has the type 'PICKLE'"),
    "hostile name": (with_header({"\x1b[2J\n": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 0]}}), "'\\x1b[2J\\n' has no shape"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_said_with_its_place(tmp_path, kind):
    content, words = DAMAGED[kind]
    path = tmp_path / "bad\x1b[31m.safetensors"
    path.write_bytes(content)
    with pytest.raises(LeoError) as refused:
        load_trace(path)
    text = str(refused.value)
    assert words in text and text.isprintable() and text.endswith("."), text


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One of: flipped bits anywhere, flipped bits in the data, a cut, a piece of the header doubled, a JSON value replaced."""
    kind = rng.integers(5)
    raw = bytearray(data)
    header = 8 + int.from_bytes(data[:8], "little")
    if kind < 2:
        for place in rng.integers(0 if kind == 0 else header, len(raw), size=int(rng.integers(1, 6))):
            raw[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        raw = raw[: int(rng.integers(len(raw)))]
    elif kind == 3:
        start, length = int(rng.integers(header)), int(rng.integers(1, 40))
        raw[start:start] = raw[start : start + length]
    else:
        words = json.loads(data[8:header])
        run = json.loads(words["__metadata__"]["leo_trace"])
        owner = [run, run["routing"], run["experts"][0], run["pictures"][0], words["token_ids"], words["experts.0.weights"]][int(rng.integers(6))]
        values = [None, -1, 2**70, 1e308, "", "\u202e", [], {}, [[]], True, "AAAA", [0], [2**40, 2**40]]
        owner[list(owner)[int(rng.integers(len(owner)))]] = values[int(rng.integers(len(values)))]
        words["__metadata__"]["leo_trace"] = json.dumps(run)
        return with_header(words, data[header:])
    return bytes(raw)


def test_fuzzed_files_give_a_sentence_or_a_trace_that_can_be_used(foreign, tmp_path):
    data, path, opened, refused = foreign.read_bytes(), tmp_path / "fuzzed.safetensors", 0, 0
    whole = load_trace(foreign)
    for seed in range(800):
        path.write_bytes(mutated(data, np.random.default_rng(seed)))
        try:
            trace = load_trace(path)
        except LeoError as error:
            refused += 1
            assert str(error).isprintable() and str(error).endswith("."), (seed, error)
            continue
        opened += 1
        assert isinstance(trace, Trace)
        broken = "\n".join(map(str, validate_trace(path)))
        shown = show_trace(trace)
        assert all(line.isprintable() for line in (broken + shown).split("\n")), seed
        json.dumps(diff_traces(whole, trace).as_dict(), allow_nan=False)
        save_trace(trace, path)
        assert len(load_trace(path).roles) == len(trace.roles)
    assert opened > 80 and refused > 250
