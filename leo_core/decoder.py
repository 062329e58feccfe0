"""The decoder and its tokenizer from a part, converted once to a plain checkpoint in the user's cache."""

import hashlib
import logging
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from leo_core.errors import CheckpointError
from leo_core.files import atomic_folder, cache_folder


def converted_folder(gguf: Path) -> Path:
    """Folder with the part's weights as float32 safetensors and its tokenizer; made at the first call (10 to 20 s, 540 MB)."""
    with open(gguf, "rb") as file:
        mark = hashlib.sha256(file.read(1 << 20) + str(gguf.stat().st_size).encode()).hexdigest()[:12]  # own copies differ
    folder = cache_folder() / "decoders" / f"{gguf.stem}-{mark}"
    if not (folder / "config.json").exists():
        with atomic_folder(folder) as fresh:
            model = _from_gguf(gguf)
            # transformers will not save a model marked as quantised, though its weights are plain by now
            model.config.__dict__.pop("quantization_config", None)
            plain = type(model)(model.config)
            plain.load_state_dict(model.state_dict())
            plain.generation_config = model.generation_config
            plain.save_pretrained(fresh)
            AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(fresh)
    return folder


def _from_gguf(gguf: Path) -> PreTrainedModel:
    logging.getLogger("transformers.modeling_gguf_pytorch_utils").setLevel(logging.ERROR)
    try:
        return AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    except (ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"Decoder '{gguf.name}' cannot be read ({type(error).__name__}); fetch its part again.") from None


def load_decoder(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A causal language model from a folder. Raises CheckpointError; never returns random weights."""
    try:
        model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"Decoder in '{folder.name}' cannot be loaded: {str(error).splitlines()[0]}") from None
    if report["missing_keys"]:
        raise CheckpointError(f"Decoder in '{folder.name}' lacks the weights of {sorted(report['missing_keys'])[0]} and others.")
    return model


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer saved beside a decoder."""
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)
