"""The command line as a user calls it, with the real embedded model."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "assets" / "examples" / "scene.png")


def call(*arguments: str, module="leo_core", **env) -> subprocess.CompletedProcess:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **env}
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def one_sentence(result: subprocess.CompletedProcess) -> str:
    assert result.returncode == 2, result.stdout + result.stderr
    text = result.stderr.strip()
    assert text and "Traceback" not in text and len(text.splitlines()) == 1, text
    return text


def test_ask_prints_json_with_the_answer_and_saves_a_trace(tmp_path):
    from leo_core.tracing.trace_file import load_trace

    result = call("ask", EXAMPLE, "Which corner is the snowman in?", "--json", "--trace", str(tmp_path / "run.safetensors"))
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["answer"] == load_trace(tmp_path / "run.safetensors").answer
    assert [one["name"] for one in report["experts"]] == ["objects", "details", "regions", "reading"]
    assert abs(report["completeness_error_nats"]) < 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "missing.png", "What?"], "does not exist"),
        (["ask", EXAMPLE, ""], "no question"),
        (["ask", EXAMPLE, "x" * 10_000], "10000 characters"),
        (["ask", EXAMPLE, "What?", "--model", "nowhere/at/all"], "no checkpoint folder"),
        (["ask", EXAMPLE, "What?", "--device", "nonsense"], "nonsense"),
        (["check", "assets/examples"], "no config.json"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, words):
    assert words in one_sentence(call(*arguments))


def test_parts_are_listed_with_licence_and_state():
    lines = call("parts").stdout.splitlines()
    assert len(lines) == 3 and all("present" in line and "Apache-2.0" in line for line in lines)


def test_an_own_copy_that_is_missing_is_named():
    assert "LEO_PART_SMOLLM2" in one_sentence(call("ask", EXAMPLE, "What?", LEO_PART_SMOLLM2="/nonexistent/file.gguf"))


def test_info_and_check():
    info = call("info")
    assert info.returncode == 0 and "reduced to 16 tokens" in info.stdout and "Reduced / all: FLOPs 0." in info.stdout
    check = call("check", "assets/embedded")
    assert check.returncode == 0 and "can be opened" in check.stdout


def test_a_port_in_use_is_said_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"Port {port}" in one_sentence(call("--port", port, module="studio"))


def own_pictures(folder: Path) -> Path:
    """Two pictures with a question each."""
    folder.mkdir()
    rows = []
    for name in ("scene", "word"):
        (folder / f"{name}.png").write_bytes((ROOT / "assets" / "examples" / f"{name}.png").read_bytes())
        turns = [{"from": "human", "value": "<image>\nIs it drawn?"}, {"from": "gpt", "value": "yes"}]
        rows.append({"id": name, "image": f"{name}.png", "conversations": turns})
    (folder / "rows.json").write_text(json.dumps(rows))
    return folder


def test_own_pictures_go_through_building_training_and_evaluating(tmp_path):
    own, run = own_pictures(tmp_path / "own"), str(tmp_path / "run")
    rows = json.loads((own / "rows.json").read_text())
    (own / "torn.png").write_bytes(b"no picture")
    torn = {**rows[0], "image": "torn.png"}
    (own / "rows.json").write_text(json.dumps([rows[0], torn, rows[1]]))
    build = ("data", "build", "--run", run, "--own", str(own), "--name", "mine")
    assert "torn.png" in one_sentence(call(*build))
    skipped = call(*build, "--on-bad", "skip")
    assert skipped.returncode == 0 and "torn.png" in skipped.stderr
    (own / "rows.json").write_text(json.dumps(rows))
    assert call(*build).returncode == 0, "the same pictures as were built"
    (own / "rows.json").write_text(json.dumps(rows[:1]))
    assert "remove it to build anew" in one_sentence(call(*build))
    train = ("train", "--run", run, "--data", "mine")
    assert "'none'" in one_sentence(call(*train, "none"))
    assert "--start cold" in one_sentence(call(*train))
    cold = (*train, "--start", "cold", "--steps1", "1", "--steps2", "1", "--steps3", "1", "--adapter")
    assert "'no-such-folder' is no peft adapter" in one_sentence(call(*cold, "no-such-folder"))
    assert call(*cold, str(ROOT / "assets" / "embedded" / "adapter")).returncode == 0
    assert call("evaluate", "--run", run, "--tests", "mine").returncode == 0
    report = json.loads((tmp_path / "run" / "evaluation" / "evaluation.json").read_text())
    assert report["tests"]["mine"]["rows"][0]["n"] == 2
    assert "--list" in one_sentence(call("experiment", "embedded", "--list", "--run", run))


def test_a_checkpoint_is_graded_with_the_features_of_its_own_vision_experts(tmp_path):
    import torch

    from leo_core.checkpoint import Sources, read_config
    from leo_core.experts.build import build_experts
    from leo_core.parts import Parts
    from leo_core.picture import load_picture
    from leo_core.training.features import FeatureStore

    shipped, own, run = ROOT / "assets" / "embedded", own_pictures(tmp_path / "own"), str(tmp_path / "run")
    assert call("data", "build", "--run", run, "--checkpoint", str(shipped), "--own", str(own), "--name", "mine").returncode == 0
    graded = call("evaluate", "--run", run, "--checkpoint", str(shipped), "--tests", "mine")
    assert graded.returncode == 0, graded.stderr
    experts = build_experts(read_config(shipped).expert_sources, Sources(shipped, Parts()))
    store = FeatureStore(sorted((tmp_path / "run" / "features" / "mine").glob("shard-*")), list(experts))
    for name, expert in experts.items():
        prepared = expert.prepare(load_picture(own / "scene.png"))
        assert torch.equal(store.tokens(name, 0, standardised=False)[0], expert.raw_features([prepared])[0].half().float())
    assert "no-such-folder" in one_sentence(call("data", "build", "--run", run, "--checkpoint", "no-such-folder"))


def test_the_steps_of_the_stages_are_those_the_help_names():
    from argparse import ArgumentParser

    from leo_core.commands.train import add_arguments
    from leo_core.training.stages import COLD_STAGE_1, STAGE_2, STAGE_3

    parser = ArgumentParser()
    add_arguments(parser)
    defaults = parser.parse_args([])
    assert (defaults.steps1, defaults.steps2, defaults.steps3) == (COLD_STAGE_1.steps, STAGE_2.steps, STAGE_3.steps)
    for steps in (defaults.steps1, defaults.steps2, defaults.steps3):
        assert f"(default: {steps})" in parser.format_help()
