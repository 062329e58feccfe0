"""The written format: a foreign writer's file opens, newer fields stay, sizes hold, and reading needs no torch."""

import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from leo_core.checkpoint import ASSETS
from leo_core.errors import LeoError
from leo_core.tracing import checks, tensor_file, trace_structure, trace_values
from leo_core.tracing.tensor_file import read_tensors
from leo_core.tracing.trace_file import load_trace, read_words, save_trace, validate_trace
from leo_core.tracing.trace_show import show_trace

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from paper_size import paper_size_trace  # noqa: E402


def foreign_writer(path):
    """What another project would write, from TRACE_FORMAT.md alone: a made-up reducer (6 x 4 tokens to 3) and MoE (4 experts, top 2)."""
    rng = np.random.default_rng(7)
    v, rows, columns, layers, experts = 3, 4, 6, 2, 4
    prompt, answer = [b"<s>", b"", b"", b"", b"How", b" many", b"?"], [b" two", b"</s>"]
    tokens = prompt + answer
    s, read, a, n = len(tokens), len(tokens) - 1, len(answer), rows * columns
    text = lambda token: base64.b64encode(token).decode()  # noqa: E731
    x, y = np.meshgrid(np.arange(columns) * 20.0, np.arange(rows) * 25.0)
    corner = np.stack([x.ravel(), y.ravel()], axis=-1)
    cells = np.stack([corner, corner + [20, 0], corner + [20, 25], corner + [0, 25]], axis=1)
    logits = rng.normal(size=(layers, read, experts))
    probability = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    used = probability >= np.sort(probability, axis=-1)[..., -2:-1]
    words = {
        "schema": "1.0", "question": "How many?", "answer": "two", "finished": True,
        "pictures": [{"width": 120, "height": 100}],
        "experts": [{"name": "encoder", "domain": "", "picture": 0, "grid": [rows, columns]}],
        "routing": {"layers": ["block 0", "block 1"], "general": False, "evaluated": True, "top_k": 2},
        "token_bytes": [text(token) for token in tokens], "top_bytes": [[text(token), text(b" x")] for token in answer],
        "provenance": {"model": "another lab's"},
    }  # fmt: skip
    arrays = {
        "experts.0.weights": rng.dirichlet(np.ones(n), size=v).astype(np.float16),
        "experts.0.polygons": cells.astype(np.float32), "experts.0.placed": np.ones(n, np.uint8),
        "experts.0.seen": np.array([[[0, 0], [120, 0], [120, 100], [0, 100]]], np.float32),
        "routing.probability": probability.astype(np.float16), "routing.coefficient": (used / 2).astype(np.float16),
        "routing.norm": (used * 0.1).astype(np.float16), "token_ids": np.arange(s), "roles": np.array([0, 2, 2, 2, 3, 3, 3, 4, 4]),
        "picture_index": np.array([-1, 0, 0, 0, -1, -1, -1, -1, -1]), "probability": np.array([0.9, 0.8], np.float32),
        "top_ids": np.zeros((a, 2), np.int64), "top_probability": np.array([[0.9, 0.1], [0.8, 0.2]], np.float32),
    }  # fmt: skip
    save_file(arrays, path, metadata={"leo_trace": json.dumps(words)})


def rewritten(path, change, arrays=None):
    """The same file with other words."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        metadata = dict(file.metadata())
    words = json.loads(metadata["leo_trace"])
    change(words)
    save_file({**load_file(path), **(arrays or {})}, path, metadata={**metadata, "leo_trace": json.dumps(words)})


def test_a_foreign_file_opens_is_valid_and_shows(tmp_path):
    foreign_writer(tmp_path / "foreign.safetensors")
    assert validate_trace(tmp_path / "foreign.safetensors") == []
    trace = load_trace(tmp_path / "foreign.safetensors")
    assert trace.pictures[0].content is None and trace.experts[0].geometry.token_at(50, 60) == 2 * 6 + 2
    assert trace.experts[0].query is None and trace.prompt_length == 7 and trace.predicting(0) == 6
    shown = show_trace(trace)
    assert "another lab's" in shown and "top 2" in shown and "used at" in shown and "  two" not in shown.splitlines()[0]
    save_trace(trace, tmp_path / "again.safetensors")
    assert validate_trace(tmp_path / "again.safetensors") == [] and show_trace(load_trace(tmp_path / "again.safetensors")) == shown


def test_fields_of_a_newer_minor_version_are_kept(tmp_path):
    path = tmp_path / "newer.safetensors"
    foreign_writer(path)

    def newer(words):
        words["schema"], words["mylab_mood"], words["routing"]["shape"] = "1.7", {"deep": [1, None, "ä"]}, "ring"
        words["experts"][0]["colour"], words["pictures"][0]["camera"] = "red", ["x"]

    rewritten(path, newer, {"mylab.map": np.arange(6, dtype=np.int16).reshape(2, 3), "experts.0.extra": np.ones(3, np.float64)})
    trace = replace(load_trace(path), answer=" two")  # known fields may change meanwhile
    save_trace(trace, path)
    save_trace(load_trace(path), path)
    words, arrays = read_words(path), load_file(path)
    assert words["schema"] == "1.7" and words["mylab_mood"] == {"deep": [1, None, "ä"]} and words["routing"]["shape"] == "ring"
    assert words["experts"][0]["colour"] == "red" and words["pictures"][0]["camera"] == ["x"] and words["answer"] == " two"
    assert arrays["mylab.map"].dtype == np.int16 and arrays["mylab.map"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["experts.0.extra"].dtype == np.float64


@pytest.mark.parametrize("schema", ["2.0", "0.9", "1", "one.two", ""])
def test_another_major_version_is_refused_in_words(tmp_path, schema):
    foreign_writer(tmp_path / "other.safetensors")
    rewritten(tmp_path / "other.safetensors", lambda words: words.update(schema=schema))
    with pytest.raises(LeoError, match="this version reads 1.x: update the studio"):
        load_trace(tmp_path / "other.safetensors")


def test_our_reader_agrees_with_safetensors(tmp_path):
    save_trace(paper_size_trace(), tmp_path / "run.safetensors")
    metadata, ours = read_tensors(tmp_path / "run.safetensors")
    theirs = load_file(tmp_path / "run.safetensors")
    assert set(ours) == set(theirs) and list(metadata) == ["leo_trace"]
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype and value.flags.writeable
        np.testing.assert_array_equal(value, theirs[name])


def test_a_paper_size_run_is_small_and_every_field_comes_back(tmp_path):
    from test_trace_file import same

    trace, path = paper_size_trace(), tmp_path / "paper.safetensors"
    save_trace(trace, path, pictures=False)
    assert path.stat().st_size < 2_000_000
    assert load_trace(path).pictures[0].content is None
    save_trace(trace, path)
    again = load_trace(path)
    same(trace, again)
    assert validate_trace(path) == []
    assert len(trace.experts) == 4 and all(one.weights.shape == (64, 576) for one in trace.experts)
    assert trace.routing.probability.shape == (32, 149, 3) and b"".join(trace.token_bytes[trace.prompt_length :]).decode().startswith(trace.answer)
    save_trace(again, tmp_path / "twice.safetensors")
    assert (tmp_path / "twice.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", sorted((ASSETS / "recorded").glob("*.safetensors")), ids=lambda path: path.stem)
def test_recorded_runs_are_valid(path):
    assert validate_trace(path) == []


BLOCKED = "import sys; sys.modules['torch'] = None; sys.modules['transformers'] = None;"


def test_reading_needs_no_torch(tmp_path):
    path = next((ASSETS / "recorded").glob("*.safetensors"))
    code = f"{BLOCKED} from leo_core.tracing.trace_file import load_trace, save_trace; save_trace(load_trace({str(path)!r}), {str(tmp_path / 'x')!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_bytes() == path.read_bytes()


def test_the_commands_need_no_torch(tmp_path):
    path = str(next((ASSETS / "recorded").glob("*.safetensors")))
    calls = [["show", path], ["validate", path], ["diff", path, path, "--json"], ["index", str(tmp_path)]]
    code = f"{BLOCKED} from leo_core.__main__ import main; sys.exit(sum(main(['trace', *call]) for call in {calls!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and '"same": true' in done.stdout and not done.stderr, done.stderr


@pytest.mark.parametrize("order", ["import leo_core", "import leo_core.config"])
def test_auto_classes_know_leo_mini_whoever_is_imported_first(order):
    code = f"{order}; from transformers import AutoConfig; config = AutoConfig.for_model('leo_mini'); import leo_core; assert type(config) is leo_core.LeoConfig"
    code += "; from transformers import AutoModel; assert AutoModel._model_mapping[leo_core.LeoConfig] is leo_core.LeoMini"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_document_names_every_rule_field_and_limit():
    text = (ROOT / "leo_core" / "tracing" / "TRACE_FORMAT.md").read_text(encoding="utf-8")
    sources = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (trace_structure, trace_values, checks))
    said = set(re.findall(r'\.say\(\s*"([a-z0-9-]+)"', sources))
    assert said and said == set(re.findall(r"\[([a-z][a-z0-9-]+)\](?!\()", text)) - {"brackets"}
    for fields in trace_structure.FIELDS.values():
        assert all(f"`{name}`" in text for name in fields)
    limits = [getattr(tensor_file, name) for name in ("MOST_BYTES", "MOST_VALUES", "MOST_TENSORS")]
    for limit in (*limits, trace_structure.MOST_PIXELS, trace_structure.MOST_COORDINATE):
        assert f"{limit:,}" in text
