"""Stage 2 may go on from a LoRA that is there: the decoder answers as with it from the first step, and all of it learns."""

import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

from leo_core.errors import CheckpointError
from leo_core.training.adapter import ADAPTER, LORA, lora_on

sys.path.insert(0, str(Path(__file__).parent))
from lab_recipe import decoder  # noqa: E402

IDS = torch.tensor([[3, 5, 7, 11, 2]])


@pytest.fixture
def trained(tmp_path) -> Path:
    """A LoRA that changes the answers, written as stage 2 writes it."""
    model = get_peft_model(decoder(40), LoraConfig(**LORA))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) * 0.2)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_it_answers_as_the_merged_adapter_and_learns(trained):
    merged = PeftModel.from_pretrained(decoder(40), trained).merge_and_unload()
    going_on = lora_on(decoder(40), trained)
    with torch.no_grad():
        assert torch.allclose(going_on(IDS).logits, merged(IDS).logits, atol=1e-5)
        assert not torch.allclose(going_on(IDS).logits, decoder(40)(IDS).logits, atol=1e-2)
    learns = {name for name, parameter in going_on.named_parameters() if parameter.requires_grad}
    assert learns == {name for name, _ in going_on.named_parameters() if "lora_" in name} and len(learns) == 2 * 7 * 2


def test_a_new_one_does_nothing_yet():
    with torch.no_grad():
        assert torch.equal(lora_on(decoder(40), None)(IDS).logits, decoder(40)(IDS).logits)


def test_weights_in_half_precision_learn_in_full(trained):
    from safetensors.torch import load_file, save_file

    save_file({key: value.half() for key, value in load_file(trained / ADAPTER).items()}, trained / ADAPTER)
    assert {parameter.dtype for parameter in lora_on(decoder(40), trained).parameters()} == {torch.float32}


@pytest.mark.parametrize("missing", [ADAPTER, "adapter_config.json", ""])
def test_a_folder_without_an_adapter_is_named(trained, missing):
    folder = trained / "nowhere" if not missing else trained
    if missing:
        (trained / missing).unlink()
    with pytest.raises(CheckpointError, match="no peft adapter.*adapter_config.json and adapter_model.safetensors"):
        lora_on(decoder(40), folder)


def test_an_adapter_of_another_decoder_is_refused(trained):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    with pytest.raises(CheckpointError, match="made for another"):
        lora_on(AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=40, **sizes)), trained)
