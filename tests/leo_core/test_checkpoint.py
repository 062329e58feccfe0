"""Checkpoints: written and read again a model answers the same, whole or with its frozen parts elsewhere."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from torch.testing import assert_close

from leo_core.checkpoint import WEIGHTS, is_frozen, load_model, load_processor
from leo_core.config import LeoConfig
from leo_core.experts.build import build_experts
from leo_core.model import LeoMini
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.saving import save_model


def path_of(source: dict) -> Path:
    return Path(source["path"])


def lines(name: str, graph: Path) -> dict:
    """Settings of an expert on the last tensor of a tiny graph."""
    settings = {"graph": {"path": str(graph), "tensors": ["last"]}, "pixels": {"size": [16, 24]}, "stride": 8, "width": 7}
    return {"name": name, "kind": "onnx", "domain": "lines", "settings": settings}


@pytest.fixture
def experts(expert_sources):
    built = build_experts(LeoConfig(experts=expert_sources).expert_sources, path_of)
    for expert in built.values():
        torch.nn.init.normal_(expert.mean)
        torch.nn.init.uniform_(expert.std, 0.5, 2.0)
    return built


@pytest.fixture
def pictures() -> list[Image.Image]:
    return [Image.effect_noise((90, 50), 80).convert("RGB"), Image.effect_mandelbrot((50, 120), (-2, -1, 1, 1), 20).convert("RGB")]


@pytest.fixture
def decoder_folder(make_decoder, tmp_path) -> Path:
    make_decoder(seed=3).save_pretrained(tmp_path / "decoder")
    return tmp_path / "decoder"


@torch.no_grad()
def logits(model: LeoMini, inputs: dict, pictures) -> torch.Tensor:
    return model(**inputs, pictures=model.vision_experts(model.vision_experts.prepare(pictures))).logits


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_whole_checkpoint_opens_anywhere(kind, tied, make_decoder, make_leo, make_prompts, experts, expert_sources, pictures, tmp_path):
    decoder = make_decoder(kind, tie_word_embeddings=tied)
    model = make_leo(decoder=decoder, vision_experts=experts, experts=expert_sources)
    model.reducer.set_absent(tuple(torch.randn(3, width) for width in experts.widths))
    inputs = make_prompts((1, 1), (4, 6))
    save_model(model, tmp_path / "whole")
    (tmp_path / "whole").rename(tmp_path / "moved")
    again = load_model(tmp_path / "moved")
    assert not again.training and torch.equal(logits(again, inputs, pictures), logits(model, inputs, pictures))
    for (name, one), two in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    assert (again.get_output_embeddings().weight is again.get_input_embeddings().weight) == tied
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    assert config["decoder_source"] is None and str(tmp_path) not in json.dumps(config["experts"])
    assert sorted(p.suffix for p in (tmp_path / "moved").iterdir() if p.is_file()) == [".json", ".safetensors"]


def test_a_checkpoint_of_the_trained_weights_holds_no_frozen_ones(
    decoder_folder, make_leo, make_prompts, experts, expert_sources, pictures, tmp_path
):  # fmt: skip
    from leo_core.decoder import load_decoder

    elsewhere = {"path": str(decoder_folder)}
    model = make_leo(decoder=load_decoder(decoder_folder), vision_experts=experts, experts=expert_sources, decoder_source=elsewhere)
    inputs = make_prompts((1, 1), (4, 6))
    save_model(model, tmp_path / "trained", trained_only=True)
    with safe_open(tmp_path / "trained" / WEIGHTS, "pt") as file:
        names = set(file.keys())
    assert names == {name for name in model.state_dict() if not is_frozen(name, model.config)}
    assert not any(name.startswith("decoder.") and "lora_" not in name and "router" not in name for name in names)
    assert not any(".model." in name for name in names if name.startswith("vision_experts")) and "vision_experts.clip.mean" in names
    again = load_model(tmp_path / "trained")
    assert torch.equal(logits(again, inputs, pictures), logits(model, inputs, pictures))


def test_a_whole_checkpoint_needs_nothing_of_what_its_model_came_from(decoder_folder, make_leo, make_prompts, make_graph, pictures, tmp_path):
    from leo_core.decoder import load_decoder

    graph = make_graph(tmp_path / "graphs" / "tiny.onnx")
    source = lines("last", graph)
    experts = build_experts(LeoConfig(experts=[source]).expert_sources, path_of)
    model = make_leo(decoder=load_decoder(decoder_folder), vision_experts=experts, experts=[source], decoder_source={"path": str(decoder_folder)})
    inputs = make_prompts((1, 1), (4, 6))
    expected = logits(model, inputs, pictures)
    save_model(model, tmp_path / "whole")
    decoder_folder.rename(tmp_path / "gone")
    graph.unlink()
    assert torch.equal(logits(load_model(tmp_path / "whole"), inputs, pictures), expected)


def test_a_checkpoint_may_be_written_and_read_in_half_precision(make_leo, make_prompts, make_features, tmp_path):
    model = make_leo(expert_widths=[12, 20, 33])
    save_model(model, tmp_path / "half", dtype=torch.bfloat16)
    again = load_model(tmp_path / "half")
    assert again.dtype == torch.float32 and load_model(tmp_path / "half", dtype=torch.bfloat16).dtype == torch.bfloat16
    for one, two in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert_close(one.bfloat16().float() if one.is_floating_point() else one, two)
    inputs = {**make_prompts((1, 1), (4, 6)), "pictures": make_features(pictures=2)}
    low = load_model(tmp_path / "half", dtype=torch.bfloat16)(**inputs).logits
    assert low.isfinite().all() and (low.float() - again(**inputs).logits).abs().mean() < 0.3


def test_an_interrupted_save_leaves_the_old_checkpoint(make_leo, tmp_path, monkeypatch):
    model = make_leo()
    save_model(model, tmp_path / "kept")
    before = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    torch.nn.init.zeros_(model.projector[0].weight)

    def full_disk(*args, **kwargs):
        raise RuntimeError("power cut")

    monkeypatch.setattr(LeoConfig, "save_pretrained", full_disk)  # after the weights were written
    with pytest.raises(RuntimeError):
        save_model(model, tmp_path / "kept")
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_saving_over_an_old_checkpoint_replaces_it_and_leaves_the_model_alone(make_leo, experts, expert_sources, tmp_path):
    model = make_leo(vision_experts=experts, experts=expert_sources)
    before = model.config.to_dict()
    save_model(model, tmp_path / "one")
    (tmp_path / "one" / "old.txt").write_text("old")
    save_model(model, tmp_path / "one")
    assert not (tmp_path / "one" / "old.txt").exists() and model.config.to_dict() == before
    save_model(load_model(tmp_path / "one"), tmp_path / "one")  # onto the very folder its experts came from
    assert load_model(tmp_path / "one").vision_experts.widths == experts.widths


def test_graphs_of_the_same_file_name_stay_apart(make_graph, make_leo, make_prompts, pictures, tmp_path):
    sources = [lines(name, make_graph(tmp_path / name / "model.onnx", seed)) for seed, name in enumerate(("first", "second"))]
    model = make_leo(vision_experts=build_experts(LeoConfig(experts=sources).expert_sources, path_of), experts=sources)
    save_model(model, tmp_path / "whole")
    inputs = make_prompts((1, 1), (4, 6))
    assert torch.equal(logits(load_model(tmp_path / "whole"), inputs, pictures), logits(model, inputs, pictures))


def test_the_processor_of_a_checkpoint_prepares_with_the_models_experts(make_leo, experts, expert_sources, tokenizer, pictures, tmp_path):
    model = make_leo(vision_experts=experts, experts=expert_sources)
    save_model(model, tmp_path / "whole")
    LeoProcessor(LeoImageProcessor(expert_sources), tokenizer, visual_tokens=3).save_pretrained(tmp_path / "whole")
    processor = load_processor(tmp_path / "whole", load_model(tmp_path / "whole"))
    data = processor(pictures, "What is in the picture?")
    assert list(data["prepared"]) == ["clip", "convnext", "last", "both"]
    for name, expert in experts.items():
        for one, picture in zip(data["prepared"][name], pictures, strict=True):
            assert torch.equal(one.pixels[0], expert.prepare(picture).pixels[0])
