"""Frozen experts' features of generated pictures, kept on disk: they never change, so they are computed once.

One safetensors file per shard: for each expert NAME `NAME.rows` (all pictures' raw tokens one after another, fp16),
`NAME.boxes` (fp32, picture coordinates) and `NAME.counts` (tokens of each picture); questions and regions as JSON in
the metadata under `samples`.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from leo_core.data.samples import Question, Region, Sample
from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures, VisionExperts, pad_tokens
from leo_core.files import atomic_path


@dataclass(frozen=True)
class StoredSample:
    """What is kept of a sample beside its features. size: (width, height) of the picture; region boxes in pixels."""

    name: str
    size: tuple[int, int]
    questions: tuple[Question, ...]
    regions: tuple[Region, ...]


def write_shard(path: Path, samples: Iterable[Sample], experts: VisionExperts) -> None:
    """Compute and store the raw features of some samples. Atomic: the file is whole or absent. Raises InputError without samples."""
    rows = {name: [] for name in experts}
    boxes = {name: [] for name in experts}
    kept = []
    for sample in samples:
        for name, expert in experts.items():
            prepared = expert.prepare(sample.picture)
            rows[name].append(expert.raw_features([prepared])[0].half())
            boxes[name].append(torch.from_numpy(prepared.geometry.boxes).float())
        questions = [asdict(question) for question in sample.questions]
        kept.append({"name": sample.name, "size": sample.picture.size, "questions": questions, "regions": [asdict(r) for r in sample.regions]})
    if not kept:
        raise InputError(f"There is no picture for '{path}': ask for fewer.")
    tensors = {}
    for name in experts:
        tensors[f"{name}.rows"], tensors[f"{name}.boxes"] = torch.cat(rows[name]), torch.cat(boxes[name])
        tensors[f"{name}.counts"] = torch.tensor([len(one) for one in rows[name]])
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"samples": json.dumps(kept)})


class FeatureStore:
    """All shards of a folder in memory (about 0.35 MB a picture for the embedded experts)."""

    def __init__(self, shards: Sequence[Path], names: Sequence[str]):
        if not shards:
            raise InputError("There are no cached features: run 'python -m leo_core data build' first.")
        self.names, self.samples = tuple(names), []
        keys = [f"{name}.{kind}" for name in names for kind in ("rows", "boxes", "counts")]
        for shard in shards:
            with safe_open(shard, "pt") as file:
                if missing := [name for name in names if f"{name}.rows" not in file.keys()]:
                    raise InputError(f"'{shard}' holds no features of vision expert '{missing[0]}': build them for this model, with 'python -m leo_core data build --checkpoint PATH'.")
                self.samples += [_stored(one) for one in json.loads(file.metadata()["samples"])]
        self._parts = {key: _joined(shards, key) for key in keys}  # one key after the other: never two copies of everything
        self._starts = {name: torch.cat([torch.zeros(1, dtype=torch.long), self._parts[f"{name}.counts"].cumsum(0)]) for name in names}
        zeros = {name: (torch.zeros(self.width(name)), torch.ones(self.width(name))) for name in names}
        self._scaling = zeros

    def __len__(self) -> int:
        return len(self.samples)

    def identity(self) -> str:
        """sha256 of the samples (names, sizes, questions, regions) and of how many tokens each expert has for each."""
        digest = hashlib.sha256(json.dumps([asdict(sample) for sample in self.samples]).encode())
        for name in self.names:
            digest.update(f"{name} {self.width(name)} {self._parts[f'{name}.counts'].tolist()}".encode())
        return digest.hexdigest()

    def width(self, name: str) -> int:
        return self._parts[f"{name}.rows"].shape[1]

    def scaling(self, name: str, most: int = 200_000) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel over (a prefix of) the tokens.

        A deviation below the root mean square of all is raised to it: a channel that is nearly always zero (a rare letter
        late in a word) would otherwise become the loudest one whenever it speaks.
        """
        rows = self._parts[f"{name}.rows"][:most].float()
        std = rows.std(dim=0)
        return rows.mean(dim=0), std.clamp(min=float(std.square().mean().sqrt()))

    def standardise_as(self, experts: VisionExperts) -> "FeatureStore":
        """Deliver features as these experts would; returns self."""
        self._scaling = {name: (experts[name].mean.cpu(), experts[name].std.cpu()) for name in self.names}
        return self

    def tokens(self, name: str, index: int, standardised: bool = True) -> tuple[Tensor, Tensor]:
        """One picture's tokens of one expert (n, d), and their boxes (n, 4) in picture coordinates."""
        mean, std = self._scaling[name]
        span = slice(int(self._starts[name][index]), int(self._starts[name][index + 1]))
        rows = self._parts[f"{name}.rows"][span].float()
        return (rows - mean) / std if standardised else rows, self._parts[f"{name}.boxes"][span]

    def features(self, index: Int[Tensor, "p"]) -> PictureFeatures:
        """Standardised float32 features of the pictures at `index`, padded."""
        features, masks, boxes = [], [], []
        for name in self.names:
            mean, std = self._scaling[name]
            spans = [slice(int(self._starts[name][i]), int(self._starts[name][i + 1])) for i in index]
            padded, mask = pad_tokens([(self._parts[f"{name}.rows"][span].float() - mean) / std for span in spans])
            features.append(padded)
            masks.append(mask)
            boxes.append(pad_tokens([self._parts[f"{name}.boxes"][span] for span in spans])[0])
        return PictureFeatures(tuple(features), tuple(masks), tuple(boxes))


def _joined(shards: Sequence[Path], key: str) -> Tensor:
    """One tensor of all shards along the first axis."""
    parts = []
    for shard in shards:
        with safe_open(shard, "pt") as file:
            parts.append(file.get_tensor(key))
    return torch.cat(parts)


def _stored(one: dict) -> StoredSample:
    questions = tuple(Question(**question) for question in one["questions"])
    regions = tuple(Region(tuple(region["box"]), region["phrase"]) for region in one["regions"])
    return StoredSample(one["name"], tuple(one["size"]), questions, regions)
