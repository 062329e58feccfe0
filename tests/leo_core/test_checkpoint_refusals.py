"""What is wrong with a checkpoint is said in one sentence, and nothing is ever filled with random weights."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from leo_core.checkpoint import WEIGHTS, load_model, load_processor
from leo_core.errors import CheckpointError, LeoError, PartError
from leo_core.saving import save_model


@pytest.fixture
def folder(make_decoder, make_leo, expert_sources, tmp_path) -> Path:
    """A checkpoint of trained weights; its decoder is beside it."""
    from leo_core.config import LeoConfig
    from leo_core.decoder import load_decoder
    from leo_core.experts.build import build_experts

    make_decoder(seed=3).save_pretrained(tmp_path / "decoder")
    experts = build_experts(LeoConfig(experts=expert_sources).expert_sources, lambda source: Path(source["path"]))
    model = make_leo(
        decoder=load_decoder(tmp_path / "decoder"), vision_experts=experts, experts=expert_sources, decoder_source={"path": "../decoder"}
    )  # fmt: skip
    save_model(model, tmp_path / "checkpoint", trained_only=True)
    load_model(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def weights(folder: Path, change) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def config(folder: Path, change) -> None:
    values = json.loads((folder / "config.json").read_text())
    change(values)
    (folder / "config.json").write_text(json.dumps(values))


def cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def poison(tensors) -> None:
    tensors["projector.0.weight"][0, 0] = float("nan")


def an_unknown_decoder_weight(folder: Path) -> None:
    tensors = load_file(folder.parent / "decoder" / WEIGHTS)
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder.parent / "decoder" / WEIGHTS, metadata={"format": "pt"})


FAULTS = {
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "incomplete"),
    "weights cut": (lambda f: cut(f / WEIGHTS, 0.7), "damaged"),
    "weights empty": (lambda f: cut(f / WEIGHTS, 0), "damaged"),
    "weights garbage": (lambda f: (f / WEIGHTS).write_bytes(b"\xff" * 100), "damaged"),
    "no config": (lambda f: (f / "config.json").unlink(), "no config.json"),
    "config cut": (lambda f: cut(f / "config.json", 0.5), "cannot be read"),
    "other model": (lambda f: config(f, lambda c: c.update(model_type="llama")), "llama"),
    "no model type": (lambda f: config(f, lambda c: c.pop("model_type")), "None"),
    "a weight missing": (lambda f: weights(f, lambda w: w.pop("projector.0.weight")), "projector.0.weight"),
    "a buffer missing": (lambda f: weights(f, lambda w: w.pop("reducer.absent_1")), "absent_1"),
    "a weight too many": (lambda f: weights(f, lambda w: w.update(extra=torch.zeros(3))), "extra"),
    "another width": (lambda f: weights(f, lambda w: w.update({"projector.0.weight": torch.zeros(32, 5)})), "width"),
    "not a number": (lambda f: weights(f, poison), "not numbers"),
    "another token count": (lambda f: config(f, lambda c: c["reducer"].update(tokens=5)), "width"),
    "no decoder": (lambda f: (f.parent / "decoder").rename(f.parent / "away"), "decoder"),
    "decoder without weights": (lambda f: (f.parent / "decoder" / WEIGHTS).unlink(), "decoder"),
    "decoder lacks a weight": (an_unknown_decoder_weight, "up_proj"),
    "unknown part": (lambda f: config(f, lambda c: c.update(decoder_source={"part": "no-such-part"})), "no-such-part"),
    "no expert's file": (lambda f: config(f, lambda c: c["experts"][2]["settings"]["graph"].update(path="gone.onnx")), "gone.onnx"),
    "no such tensor": (lambda f: config(f, lambda c: c["experts"][2]["settings"]["graph"].update(tensors=["nowhere"])), "nowhere"),
    "unknown kind of expert": (lambda f: config(f, lambda c: c["experts"][2].update(kind="jax")), "jax"),
    "unknown option": (lambda f: config(f, lambda c: c["reducer"].update(pool="max")), "max"),
    "unknown field": (lambda f: config(f, lambda c: c["mmoe"].update(colour=1)), "colour"),
}


def is_one_sentence(text: str) -> bool:
    return "\n" not in text and 20 < len(text) < 400 and text[-1] in ".:`'" and "Traceback" not in text


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_checkpoint(fault, folder):
    damage, named = FAULTS[fault]
    damage(folder)
    with pytest.raises(LeoError, match=named) as caught:
        load_model(folder)
    if fault not in ("unknown kind of expert", "unknown option", "unknown field"):  # InputError: of the config's own check
        assert isinstance(caught.value, (CheckpointError, PartError))
    assert is_one_sentence(str(caught.value)), str(caught.value)


UNCAUGHT = {
    "no text_config": lambda c: c.update(text_config=None, decoder_source=None),
    "unknown decoder family": lambda c: c["text_config"].update(model_type="no_such_family"),
    "an expert without its settings": lambda c: c["experts"][2]["settings"].pop("stride"),
    "reducer is no table": lambda c: c.update(reducer=3),
    "expert with broken pixels": lambda c: c["experts"][2]["settings"]["pixels"].update(fill="white"),
    "a source that names nothing": lambda c: c["experts"][2]["settings"]["graph"].pop("path"),
}


@pytest.mark.parametrize("fault", UNCAUGHT)
def test_faults_of_a_config(fault, folder):
    config(folder, UNCAUGHT[fault])
    with pytest.raises(LeoError):
        load_model(folder)


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "a/b/c", "nowhere"])
def test_a_folder_that_is_not_there(name):
    with pytest.raises(CheckpointError, match="no checkpoint folder"):
        load_model(name)


def test_a_hub_id_without_a_network(monkeypatch):
    with pytest.raises(CheckpointError, match="hub"):
        load_model("nobody/no-such-model")


def test_a_folder_without_a_processor(folder):
    with pytest.raises(CheckpointError, match="processor"):
        load_processor(folder)


def test_trained_only_needs_a_named_decoder(make_leo, tmp_path):
    with pytest.raises(CheckpointError, match="trained_only"):
        save_model(make_leo(), tmp_path / "new", trained_only=True)
    assert not list(tmp_path.iterdir())
