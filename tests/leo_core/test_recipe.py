"""The recipe from stage 1 to stage 3 at lab size: killed without warning and started again, it ends with the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = Path(__file__).with_name("lab_recipe.py")


def run(folder: Path, *kill: str, start: str = "ridge") -> int:
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "LAB_START": start, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(PROGRAM), str(folder), *kill], env=env, capture_output=True, text=True)
    assert done.returncode in (0, -9), done.stderr[-2000:]
    return done.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("lab") / "whole"
    assert run(folder) == 0
    return load_file(folder / "result.safetensors")


def test_a_run_that_is_killed_twice_ends_with_the_same_bits(whole, tmp_path):
    assert run(tmp_path / "killed", "stage2", "5") == -9
    assert run(tmp_path / "killed", "stage3", "4") == -9
    assert (tmp_path / "killed" / "stage2").is_dir() and not (tmp_path / "killed" / "result.safetensors").exists()
    assert run(tmp_path / "killed") == 0
    again = load_file(tmp_path / "killed" / "result.safetensors")
    assert again.keys() == whole.keys() and any(name.startswith("reducer.absent") for name in whole)
    for name, value in whole.items():
        assert torch.equal(value, again[name]), name


def test_a_cold_start_trains_the_projector_and_differs_from_ridge(whole, tmp_path):
    assert run(tmp_path / "cold", start="cold") == 0
    log = (tmp_path / "cold" / "stage1.jsonl").read_text().splitlines()
    assert len(log) == 7
    other = load_file(tmp_path / "cold" / "result.safetensors")
    assert not torch.equal(other["projector.linear.weight"], whole["projector.linear.weight"])
