"""A LoRA expert as a peft adapter, and back: for use in any tool that speaks peft."""

from pathlib import Path

import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file

from leo_core.config import MMoEConfig
from leo_core.errors import CheckpointError, InputError
from leo_core.files import atomic_folder
from leo_core.mmoe import mmoe_layers
from leo_core.model import LeoMini

_PREFIX = "base_model.model."


def _group(config: MMoEConfig, expert: int | str) -> int:
    """Index of a LoRA expert among the groups of an MMoELinear; "general" or a number from 0."""
    if expert == "general" and config.general:
        return 0
    if isinstance(expert, int) and 0 <= expert < config.num_experts:
        return expert + int(config.general)
    raise InputError(f"There is no LoRA expert {expert!r}; there are {'general, ' if config.general else ''}0 to {config.num_experts - 1}.")


def export_expert(model: LeoMini, expert: int | str, folder: str | Path, base: str | None = None) -> Path:
    """Write one expert ("general" or its number) of all layers as a peft LoRA adapter folder.

    In peft, the decoder with *general and that expert* both active gives the logits of the model forced to that route with
    coefficient 1. base: name of the decoder checkpoint to write into the adapter's config.
    """
    mmoe = model.config.mmoe_config
    group = _group(mmoe, expert)
    weights = {}
    for name, layer in mmoe_layers(model.decoder).items():
        a, b = layer.expert(group)
        weights[f"{_PREFIX}{name}.lora_A.weight"] = a.detach().cpu().contiguous().clone()
        weights[f"{_PREFIX}{name}.lora_B.weight"] = b.detach().cpu().contiguous().clone()
    config = LoraConfig(
        r=mmoe.rank, lora_alpha=mmoe.alpha, target_modules=sorted({name.rsplit(".", 1)[-1] for name in mmoe_layers(model.decoder)}),
        lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", base_model_name_or_path=base, inference_mode=True,
    )  # fmt: skip
    with atomic_folder(folder) as fresh:
        config.save_pretrained(fresh)
        save_file(weights, fresh / "adapter_model.safetensors", metadata={"format": "pt"})
    return Path(folder)


@torch.no_grad()
def import_expert(model: LeoMini, expert: int | str, folder: str | Path) -> None:
    """Read a peft LoRA adapter into one expert. Raises CheckpointError when rank, scale or layers differ."""
    mmoe, folder = model.config.mmoe_config, Path(folder)
    group = _group(mmoe, expert)
    if not (folder / "adapter_model.safetensors").is_file():
        raise CheckpointError(f"'{folder.name}' has no adapter_model.safetensors: it is no peft adapter of the kind that can be read.")
    config, weights = LoraConfig.from_pretrained(str(folder)), load_file(folder / "adapter_model.safetensors")
    if config.r != mmoe.rank or config.use_rslora or config.use_dora or config.lora_alpha / config.r != mmoe.alpha / mmoe.rank:
        raise CheckpointError(
            f"The adapter has rank {config.r} and alpha {config.lora_alpha}; the model's experts have rank {mmoe.rank} and alpha {mmoe.alpha:g}, plain LoRA."
        )
    for name, layer in mmoe_layers(model.decoder).items():
        for half, target in zip(("A", "B"), layer.expert(group), strict=True):
            key = f"{_PREFIX}{name}.lora_{half}.weight"
            if key not in weights or weights[key].shape != target.shape:
                raise CheckpointError(f"The adapter has no weight of shape {tuple(target.shape)} for '{name}': it was made for another decoder.")
            target.copy_(weights[key])
