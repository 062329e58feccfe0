"""Stage 2's LoRA on the decoder: a new one or one to go on from, and its copy for shipping."""

import json
from pathlib import Path

from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from leo_core.errors import CheckpointError

ADAPTER = "adapter_model.safetensors"

LORA = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}


def lora_on(decoder: PreTrainedModel, adapter: Path | None) -> PeftModel:
    """The decoder with one trainable LoRA: a new one, or the one in the peft folder `adapter`.

    Raises CheckpointError when the folder holds no adapter, or one of another decoder or kind.
    """
    if adapter is None:
        return get_peft_model(decoder, LoraConfig(**LORA))
    has_adapter(adapter)
    try:
        return PeftModel.from_pretrained(decoder, adapter, is_trainable=True)
    except (RuntimeError, ValueError, TypeError) as error:  # shapes, modules or options that do not fit, in peft's many words
        raise CheckpointError(f"The adapter '{adapter}' does not fit this decoder: it was made for another one.") from error


def has_adapter(folder: Path) -> None:
    """Raises CheckpointError for a folder without an adapter in safetensors; peft would unpickle one in its older format."""
    if not all((folder / name).is_file() for name in (ADAPTER, "adapter_config.json")):
        raise CheckpointError(f"'{folder}' is no peft adapter: name a folder with adapter_config.json and {ADAPTER}, as stage 2 writes it.")


def write_half(adapter: Path, folder: Path) -> None:
    """A copy of the adapter in half precision, with the decoder's name in place of this machine's path."""
    folder.mkdir()
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "SmolLM2-135M-Instruct"}, indent=1) + "\n")
    weights = load_file(adapter / ADAPTER)
    save_file({key: value.half() for key, value in weights.items()}, folder / ADAPTER, metadata={"format": "pt"})
