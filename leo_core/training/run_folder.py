"""The folder of a training run of the embedded model: its cached features, and the model before training and after stage 2."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel

from leo_core.checkpoint import EMBEDDED, Sources, load_model, new_processor
from leo_core.config import LeoConfig
from leo_core.decoder import converted_folder, load_decoder
from leo_core.embedded import ANSWER_PREFIX, CHAT_TEMPLATE, IMAGE_TOKEN, embedded_config, embedded_experts
from leo_core.errors import InputError
from leo_core.experts.build import build_experts
from leo_core.experts.expert import VisionExperts
from leo_core.model import LeoMini
from leo_core.parts import Parts
from leo_core.processor import LeoProcessor
from leo_core.training.features import FeatureStore
from leo_core.training.recipe import fit_scaling

TRAINED_ON = ("train", "easy_vqa_train")
"""Picture sets by default; what of them was not built is left out."""


class Raw(NamedTuple):
    """Everything before any training: the decoder as it came, the experts' scaling fitted on the store."""

    config: LeoConfig
    decoder: PreTrainedModel
    experts: VisionExperts
    processor: LeoProcessor
    store: FeatureStore


class RunFolder:
    """`folder`: features/SET/shard-*.safetensors, stage1, stage2, stage3. parts: all that the embedded model needs, fetched."""

    def __init__(self, folder: Path, parts: Parts):
        self.folder, self.parts = folder, parts
        self.decoder_folder = converted_folder(parts.path("smollm2"))

    def store(self, experts: VisionExperts, *sets: str) -> FeatureStore:
        """Features of picture sets, not standardised. Raises InputError for a set that was not built, but for one of TRAINED_ON."""
        found = {name: sorted((self.folder / "features" / name).glob("shard-*.safetensors")) for name in sets}
        if missing := [name for name, shards in found.items() if not shards and tuple(sets) != TRAINED_ON]:
            raise InputError(f"{self.folder} holds no features of the picture set '{missing[0]}': build it with 'python -m leo_core data build' first.")
        return FeatureStore([shard for shards in found.values() for shard in shards], list(experts))

    def standardised(self, experts: VisionExperts, *sets: str) -> FeatureStore:
        """The same, with the experts' own scaling."""
        return self.store(experts, *sets).standardise_as(experts)

    def config(self, text_config) -> tuple[LeoConfig, LeoProcessor]:
        """The embedded model's configuration around a decoder's, with a processor."""
        config = embedded_config(text_config)
        processor = new_processor(self.decoder_folder, config, IMAGE_TOKEN, CHAT_TEMPLATE)
        processor.answer_prefix = ANSWER_PREFIX
        config.image_token_id = processor.image_token_id
        return config, processor

    def raw(self, *sets: str) -> Raw:
        experts = build_experts(embedded_experts(), Sources(EMBEDDED, self.parts))
        store = self.store(experts, *sets)
        fit_scaling(experts, store)
        decoder = load_decoder(self.decoder_folder)
        config, processor = self.config(decoder.config)
        return Raw(config, decoder, experts, processor, store)

    def after_stage_2(self) -> LeoMini:
        """The model of all tokens. Raises InputError where the run has none yet."""
        has_stage_2(self.folder)
        return load_model(self.folder / "stage2", self.parts)


def has_stage_2(folder: Path) -> None:
    """Raises InputError where a run's folder holds no finished stage 2."""
    if not all((folder / "stage2" / name).exists() for name in ("model.safetensors", "processor_config.json")):
        raise InputError(f"{folder} has no stage2: train it first with 'python -m leo_core train --stage 2 --run {folder}'.")


def data_hash(run: Path) -> str:
    """sha256 over stage 2's weights and the names and sizes of the feature files."""
    digest = hashlib.sha256((run / "stage2" / "model.safetensors").read_bytes())
    for path in sorted((run / "features").rglob("shard-*.safetensors")):
        digest.update(f"{path.parent.name}/{path.name} {path.stat().st_size}\n".encode())
    return digest.hexdigest()
