"""From raw features to files that can be shipped: fewer channels (PCA), fewer region tokens, one byte a number.

The files have the layout of `leo_core.training.features`, so FeatureStore reads them; rows are int8 (one step for all
channels of an expert, so standardising undoes it) and boxes fp16.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from leo_core.data.asking import phrased
from leo_core.data.samples import Question
from leo_core.data.text import FIRST
from leo_core.files import atomic_path
from leo_core.position import grid_boxes
from leo_core.reducers import overlap
from leo_core.training.features import FeatureStore, StoredSample

CHANNELS = {"objects": 42, "regions": 12, "reading": 128}
"""Principal components kept of each expert."""
COARSER = {"regions": 2}
"""Tokens of these experts are averaged over this many rows and columns."""
STEP = 1 / 30
"""Of int8 in standard deviations of a component: the range is about four of them on either side."""
KINDS = {
    "scenes": ("what", "where", "corner", "relation", "count", "colour", "yesno"),
    "objects": ("what",),
    "reading": ("letter", "text_form", "colour"),
    "charts": ("largest", "smallest", "bars", "chart_type"),
}
"""Question kinds that a lab model can learn, by domain; of relations those that ask for a name."""
MOST = {"lab_train": (8, 2), "lab_test": (3, 1)}
"""Questions kept of a picture, and of one kind."""


def fit(store: FeatureStore, name: str, most: int = 15_000) -> dict[str, Tensor]:
    """mean (d,) and components (k, d) of an expert's raw tokens, such that (rows - mean) components^T has unit variances."""
    rows = store._parts[f"{name}.rows"]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
    rows = rows[order].float()
    mean, std = rows.mean(dim=0), rows.std(dim=0)
    std = std.clamp(min=float(std.square().mean().sqrt()))  # a channel that hardly ever speaks must not become the loudest
    scaled = (rows - mean) / std
    values, vectors = torch.linalg.eigh(scaled.T.double() @ scaled.double() / len(scaled))
    kept = min(CHANNELS[name], rows.shape[1])
    values, vectors = values.flip(0)[:kept], vectors.flip(1)[:, :kept]
    return {"mean": mean, "components": ((vectors / values.clamp(min=1e-6).sqrt()).T / std).float()}


def coarser(rows: Float[Tensor, "n d"], boxes: Float[Tensor, "n 4"], factor: int) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k 4"]]:
    """Area-weighted means over a regular grid with `factor` times fewer rows and columns (rounded up)."""
    columns, lines = (len(boxes[:, axis].mul(1e4).round().unique()) for axis in (0, 1))
    cells = grid_boxes(-(-lines // factor), -(-columns // factor)).to(rows)
    weights = overlap(cells, boxes[None], torch.ones(1, len(boxes), dtype=torch.bool))[0]
    return weights @ rows, cells


def reduced_shard(path: Path, store: FeatureStore, fitted: dict[str, dict[str, Tensor]], questions: Sequence[tuple[Question, ...]]) -> None:
    """Write a set as one file. Atomic."""
    tensors = {}
    for name in store.names:
        rows, boxes = [], []
        for index in range(len(store)):
            one, where = store.tokens(name, index, standardised=False)
            if name in COARSER:
                one, where = coarser(one, where, COARSER[name])
            rows.append((one - fitted[name]["mean"]) @ fitted[name]["components"].T)
            boxes.append(where)
        tensors[f"{name}.rows"] = (torch.cat(rows) / STEP).round().clamp(-127, 127).to(torch.int8)
        tensors[f"{name}.boxes"] = torch.cat(boxes).half()
        tensors[f"{name}.counts"] = torch.tensor([len(one) for one in rows])
    kept = [
        {"name": sample.name, "size": sample.size, "questions": [asdict(one) for one in asked], "regions": [asdict(one) for one in sample.regions]}
        for sample, asked in zip(store.samples, questions, strict=True)
    ]
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"samples": json.dumps(kept, separators=(",", ":"))})


def chosen_questions(sample: StoredSample, most: int, each: int, seed: Sequence[int]) -> tuple[Question, ...]:
    """At most `most` answerable questions of a picture, at most `each` of one kind (a yes and a no count as one each)."""
    rng, taken, chosen = np.random.default_rng(seed), defaultdict(int), []
    questions = [*sample.questions, *first_letter(sample, rng)]
    for i in rng.permutation(len(questions)):
        question = questions[i]
        if len(chosen) < most and answerable(question) and taken[question.kind] < each:
            taken[question.kind] += 1
            chosen.append(question)
    return tuple(chosen)


def answerable(question: Question) -> bool:
    """Whether a lab model is asked this."""
    if question.kind not in KINDS.get(question.domain, ()):
        return False
    return question.kind != "relation" or question.answer not in ("yes", "no")


def first_letter(sample: StoredSample, rng: np.random.Generator) -> list[Question]:
    """The question for the first letter, where a word is to be read and it is not asked anyway."""
    kinds = {question.kind: question for question in sample.questions}
    if "word" not in kinds or "letter" in kinds:
        return []
    return [Question(phrased(rng, FIRST), kinds["word"].answer[0], "letter", "reading")]


def reduce_sets(raw: Path, folder: Path, names: Sequence[str]) -> None:
    """`raw`/SET shards to `folder`/train.safetensors and test.safetensors, and the fitted maps to reduction.safetensors."""
    stores = {kind: FeatureStore(sorted((raw / kind).glob("shard-*.safetensors")), names) for kind in MOST}
    fitted = {name: fit(stores["lab_train"], name) for name in names}
    with atomic_path(folder / "reduction.safetensors") as temporary:
        save_file({f"{name}.{key}": value for name, maps in fitted.items() for key, value in maps.items()}, temporary)
    for kind, store in stores.items():
        questions = [chosen_questions(sample, *MOST[kind], seed=[7, index]) for index, sample in enumerate(store.samples)]
        reduced_shard(folder / f"{kind.removeprefix('lab_')}.safetensors", store, fitted, questions)
