"""Writing checkpoints: whole, so that the folder opens anywhere, or only what was trained."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save_file

from leo_core.checkpoint import WEIGHTS, is_frozen
from leo_core.config import LeoConfig
from leo_core.errors import CheckpointError
from leo_core.experts.transformers_expert import TransformersExpert
from leo_core.files import atomic_folder
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor


def save_model(
    model: LeoMini, folder: str | Path, trained_only: bool = False, dtype: torch.dtype | None = None, extra: Iterable[Path] = (),
    processor: LeoProcessor | None = None,
) -> None:  # fmt: skip
    """Write config.json and model.safetensors, atomically; with a processor, its files too: the folder is complete or absent.

    trained_only: leave out frozen parts, which the config must name. Otherwise everything is written, the experts' files
    included, and the folder opens anywhere. extra: folders to copy into the checkpoint (a decoder adapter).
    """
    config = LeoConfig.from_dict(model.config.to_dict())
    with atomic_folder(folder) as fresh:
        if not trained_only:
            config.decoder_source = None
            config.experts = _copy_experts(model, config, fresh)
        elif config.decoder_source is None:
            raise CheckpointError("trained_only needs a decoder that config.decoder_source names: this model's decoder has no other place.")
        weights, known = {}, set()
        for name, tensor in model.state_dict().items():
            own_expert = name.startswith("vision_experts.") and ".model." in name
            if own_expert or tensor.data_ptr() in known or (trained_only and is_frozen(name, config)):
                continue  # encoders are files of their own; tied weights are written once
            known.add(tensor.data_ptr())
            weights[name] = tensor.to(dtype if dtype and tensor.is_floating_point() else tensor.dtype).cpu().contiguous()
        save_file(weights, fresh / WEIGHTS, metadata={"format": "pt"})
        config.architectures = [type(model).__name__]
        config.text_config._name_or_path = ""  # where the decoder lay on this machine is nobody's business
        config.save_pretrained(fresh)
        for path in extra:
            shutil.copytree(path, fresh / Path(path).name)
        if processor is not None:
            processor.save_pretrained(fresh)


def _copy_experts(model: LeoMini, config: LeoConfig, folder: Path) -> list[dict]:
    """Write every expert's encoder below the checkpoint; return settings that point there."""
    written = []
    for source in config.experts:
        source = {**source, "settings": dict(source["settings"])}
        expert = (model.vision_experts or {})[source["name"]]
        if isinstance(expert, TransformersExpert):
            target = folder / "experts" / source["name"]
            expert.model.save_pretrained(target)
            expert.image_processor.save_pretrained(target)
            source["settings"]["source"] = {"path": f"experts/{source['name']}"}
        for key, attribute in (("graph", "graph"), ("detector", "detector"), ("recogniser", "recogniser")):
            if key in source["settings"]:
                graph = getattr(expert, attribute)
                name = f"{graph.sha256[:12]}-{graph.path.name}"  # two files of one name stay apart
                (folder / "experts").mkdir(exist_ok=True)
                shutil.copy(graph.path, folder / "experts" / name)
                source["settings"][key] = {"path": f"experts/{name}", "tensors": list(graph.tensors)}
        written.append(source)
    return written
