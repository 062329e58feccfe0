"""A trace survives the disk, opens without a model, and a damaged file is refused in words."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studio"))
from figures_trace import make_trace  # noqa: E402 - the made-up trace of the figures' tests

from leo_core.checkpoint import ASSETS
from leo_core.errors import LeoError
from leo_core.tracing.trace_file import load_trace, save_trace


def same(one, other, where=""):
    """Every field, to half precision for arrays."""
    if isinstance(one, np.ndarray):
        np.testing.assert_allclose(np.asarray(other, dtype=float), one.astype(float), rtol=2e-3, atol=2e-3, err_msg=where)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple) and one and dataclasses.is_dataclass(one[0]):
        assert len(one) == len(other), where
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{where}[{index}]")
    else:
        assert one == other, where


def test_every_field_comes_back(tmp_path):
    trace = make_trace()
    save_trace(trace, tmp_path / "run.safetensors")
    same(trace, load_trace(tmp_path / "run.safetensors"))


def test_pictures_can_be_left_out(tmp_path):
    save_trace(make_trace(), tmp_path / "run.safetensors", pictures=False)
    picture = load_trace(tmp_path / "run.safetensors").pictures[0]
    assert picture.content is None and (picture.width, picture.height) == (make_trace().pictures[0].width, make_trace().pictures[0].height)


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, 0.99])
def test_a_cut_file_is_refused_in_one_sentence(tmp_path, keep):
    path = tmp_path / "run.safetensors"
    save_trace(make_trace(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(LeoError) as refused:
        load_trace(path)
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def test_a_missing_file_and_a_newer_schema_are_refused(tmp_path, monkeypatch):
    with pytest.raises(LeoError, match="does not exist"):
        load_trace(tmp_path / "none.safetensors")
    monkeypatch.setattr("leo_core.tracing.trace_file.SCHEMA", "9.0")
    save_trace(make_trace(), tmp_path / "newer.safetensors")
    monkeypatch.setattr("leo_core.tracing.trace_file.SCHEMA", "1.0")
    with pytest.raises(LeoError, match="schema 9.0"):
        load_trace(tmp_path / "newer.safetensors")


@pytest.mark.parametrize("path", sorted((ASSETS / "recorded").glob("*.safetensors")), ids=lambda path: path.stem)
def test_recorded_runs_open_and_are_small(path):
    trace = load_trace(path)
    assert path.stat().st_size < 1_000_000 and trace.answer and len(trace.experts) == 4
    assert "run" not in trace.provenance
