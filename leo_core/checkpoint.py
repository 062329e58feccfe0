"""Reading checkpoints: config.json and safetensors, whole or only what was trained, with the frozen parts named.

A checkpoint of only the trained weights names its frozen parts in config.json (`decoder_source`, each expert's settings).
A part that is missing raises: nothing is ever filled with random weights.
"""

import contextlib
import hashlib
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from leo_core.config import LeoConfig
from leo_core.decoder import converted_folder, load_decoder, load_tokenizer
from leo_core.errors import CheckpointError
from leo_core.experts.build import build_experts
from leo_core.model import LeoMini
from leo_core.parts import Parts
from leo_core.processor import LeoImageProcessor, LeoProcessor

WEIGHTS = "model.safetensors"
ASSETS = Path(__file__).parents[1] / "assets"
EMBEDDED = ASSETS / "embedded"
"""The checkpoint of the embedded model that the project ships."""

_TRAINED_IN_DECODER = ("*.lora_a.*", "*.lora_b.*", "*.router.*")


class Sources:
    """From the sources a config names to files: parts in the cache, shipped assets, paths (relative to the checkpoint)."""

    def __init__(self, checkpoint: Path, parts: Parts | None = None):
        self.checkpoint, self.parts = checkpoint, parts or Parts()

    def __call__(self, source: dict) -> Path:
        if "part" in source:
            return self.parts.path(source["part"])
        path = ASSETS / source["asset"] if "asset" in source else self.checkpoint / source["path"]
        if not path.exists():
            raise CheckpointError(f"The checkpoint needs '{path.name}', which is not at {path.parent}: put it there or correct config.json.")
        return path


def load_model(
    path: str | Path = EMBEDDED,
    parts: Parts | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    config: LeoConfig | None = None,
) -> LeoMini:
    """A LeoMini from a folder or a hub id, in evaluation mode. Raises CheckpointError or PartError in words."""
    folder = checkpoint_folder(path)
    config = config or read_config(folder)
    sources = Sources(folder, parts)
    with _spoken_config(folder):
        decoder = _decoder(config, sources, dtype)
        experts = build_experts(config.expert_sources, sources) if config.expert_sources else None
        model = LeoMini(config, decoder, experts)
    load_weights(model, folder)
    model.origin = {"model": folder.name, "weights_sha256": _weights_hash(folder)}
    return model.to(device=device, dtype=dtype).eval()


def load_processor(path: str | Path = EMBEDDED, model: LeoMini | None = None) -> LeoProcessor:
    """The checkpoint's processor; with a model, its vision experts do the preprocessing."""
    folder = checkpoint_folder(path)
    try:
        processor = LeoProcessor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"The processor in '{folder.name}' cannot be loaded ({str(error).splitlines()[0]}).") from None
    if model is not None and model.vision_experts is not None:
        processor.image_processor.attach(model.vision_experts)
    return processor


def load(path: str | Path = EMBEDDED, parts: Parts | None = None, device="cpu", dtype=torch.float32) -> tuple[LeoMini, LeoProcessor]:
    """(model, processor), ready for pictures and questions."""
    model = load_model(path, parts, device, dtype)
    return model, load_processor(path, model)


def checkpoint_folder(path: str | Path) -> Path:
    """The folder itself, or a hub repository's snapshot."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or str(path).count("/") != 1 or str(path).startswith("."):
        raise CheckpointError(f"There is no checkpoint folder '{path}': name a folder with config.json and {WEIGHTS}, or a hub id.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(path), allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.onnx", "*.txt"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = type(error).__name__
        raise CheckpointError(f"'{path}' is no folder, and the hub did not deliver it ({reason}): check the name and the network.") from None


def read_config(folder: Path) -> LeoConfig:
    """config.json of a checkpoint. Raises CheckpointError when it is missing, damaged or of another model."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"'{folder.name}' has no config.json: it is not a LEO-Mini checkpoint.")
    try:
        values, _ = LeoConfig.get_config_dict(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"config.json in '{folder.name}' cannot be read ({type(error).__name__}): restore it.") from None
    if values.get("model_type") != LeoConfig.model_type:
        raise CheckpointError(f"'{folder.name}' holds a '{values.get('model_type')}' model; the studio opens '{LeoConfig.model_type}' checkpoints.")
    with _spoken_config(folder):
        config = LeoConfig.from_dict(values)
        _ = config.reducer_config, config.mmoe_config, config.projector_config, config.expert_sources  # refuse what cannot work now
    return config


@contextlib.contextmanager
def _spoken_config(folder: Path):
    """A config.json of valid JSON may still ask for the impossible: say so in one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = (str(error).splitlines() or [""])[0][:160]
        raise CheckpointError(f"config.json in '{folder.name}' asks for something that cannot be built ({type(error).__name__}: {reason}).") from None


def part_names(path: str | Path) -> list[str]:
    """The parts a checkpoint's frozen pieces come from; none for one that holds everything itself."""
    config = read_config(checkpoint_folder(path))
    sources = [config.decoder_source or {}]
    sources += [value for one in config.experts for value in one["settings"].values() if isinstance(value, dict)]
    return list(dict.fromkeys(source["part"] for source in sources if "part" in source))


def _decoder(config: LeoConfig, sources: Sources, dtype: torch.dtype) -> PreTrainedModel:
    source = config.decoder_source
    if source is None:
        return AutoModelForCausalLM.from_config(config.text_config, dtype=dtype)  # its weights are in the checkpoint, checked below
    path = sources({key: value for key, value in source.items() if key != "adapter"})
    decoder = load_decoder(converted_folder(path) if path.suffix == ".gguf" else path, dtype)
    if source.get("adapter"):
        from peft import PeftModel

        adapter = sources({"path": source["adapter"]})
        decoder = PeftModel.from_pretrained(decoder, adapter).merge_and_unload()
    config.text_config = decoder.config
    return decoder


def is_frozen(name: str, config: LeoConfig) -> bool:
    """Whether a weight comes from a named part and so is left out of a checkpoint of the trained weights."""
    if name.startswith("vision_experts."):
        return ".model." in name
    return name.startswith("decoder.") and config.decoder_source is not None and not any(fnmatchcase(name, p) for p in _TRAINED_IN_DECODER)


def load_weights(model: LeoMini, folder: Path) -> None:
    """Fill the model from the folder's safetensors. Raises CheckpointError naming the first weight that does not fit."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"'{folder.name}' has no {WEIGHTS}: the checkpoint is incomplete.")
    own, seen = model.state_dict(), set()
    for file in files:
        try:
            with safe_open(file, "pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - not a dict
                    _fill(own, name, tensors.get_tensor(name), folder)
                    seen.add(name)
        except SafetensorError as error:
            raise CheckpointError(f"'{file.name}' is damaged ({error}): restore it.") from None
    tied = set(getattr(model.decoder, "_tied_weights_keys", None) or ()) if model.config.text_config.tie_word_embeddings else set()
    missing = [name for name in own if name not in seen and not is_frozen(name, model.config) and name.removeprefix("decoder.") not in tied]
    if missing:
        raise CheckpointError(f"'{folder.name}' lacks {len(missing)} weights, the first is '{missing[0]}': it does not fit its config.json.")
    model.decoder.tie_weights()


def _weights_hash(folder: Path) -> str:
    """sha256 over the weight files; for more than a gigabyte only over their headers and sizes, and said so."""
    files = sorted(folder.glob("*.safetensors"))
    whole, digest = sum(file.stat().st_size for file in files) < 2**30, hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(content.read() if whole else content.read(2**20) + str(file.stat().st_size).encode())
    return digest.hexdigest() if whole else f"headers:{digest.hexdigest()}"


def _fill(own: dict[str, Tensor], name: str, tensor: Tensor, folder: Path) -> None:
    if name not in own:
        raise CheckpointError(f"'{folder.name}' holds the weight '{name}', which its config.json has no place for.")
    if own[name].shape != tensor.shape:
        raise CheckpointError(
            f"Weight '{name}' in '{folder.name}' has the shape {tuple(tensor.shape)}, but config.json asks for {tuple(own[name].shape)}: "
            "the checkpoint is of another width."
        )
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise CheckpointError(f"Weight '{name}' in '{folder.name}' holds values that are not numbers: the checkpoint is damaged.")
    own[name].copy_(tensor)


def new_processor(tokenizer_folder: Path, config: LeoConfig, image_token: str, chat_template: str | None = None) -> LeoProcessor:
    """A processor for a model that has none yet."""
    tokenizer = load_tokenizer(tokenizer_folder)
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    return LeoProcessor(LeoImageProcessor(config.experts), tokenizer, image_token=image_token, visual_tokens=config.reducer_config.tokens)
