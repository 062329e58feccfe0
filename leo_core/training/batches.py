"""Questions about cached pictures as tensors: one row per question, or some questions of a picture packed in one row."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from leo_core.data.samples import Question
from leo_core.experts.expert import PictureFeatures
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.roles import PICTURE
from leo_core.training.features import FeatureStore
from leo_core.training.transcripts import KIND as TRANSCRIPT


def question_batch(
    store: FeatureStore, processor: LeoProcessor, pairs: Sequence[tuple[int, Question]], answered: bool = True, device: torch.device | str = "cpu"
) -> dict:
    """Inputs of LeoMini.forward for (picture index, question) pairs, left padded so that answers end together; on `device`."""
    placeholder = [[object()]] * len(pairs)  # one picture each; its features come from the store
    texts, answers = [question.text for _, question in pairs], [question.answer for _, question in pairs]
    inputs = dict(processor(placeholder, texts, answers if answered else None, prepare=False))
    inputs["pictures"] = store.features(torch.tensor([index for index, _ in pairs]))
    return {name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()}


def model_inputs(batch: dict) -> dict:
    """What LeoMini.forward takes of a processor's batch."""
    return {name: batch[name] for name in ("input_ids", "attention_mask", "question_mask", "pictures", "picture_owner", "labels") if name in batch}


@dataclass(frozen=True)
class PackedBatch:
    """Several questions per row behind one picture. Each question sees the picture and itself only (`attention`)."""

    input_ids: Int[Tensor, "p s"]
    labels: Int[Tensor, "p s"]
    position_ids: Int[Tensor, "p s"]
    attention: Bool[Tensor, "p 1 s s"]
    pictures: PictureFeatures
    segments: Int[Tensor, "p s"]
    """0 = shared by all questions, 1.. = number of the question, -1 = padding."""
    told: Bool[Tensor, "p s"]
    """Places of transcripts."""

    def to(self, device: torch.device | str) -> "PackedBatch":
        return PackedBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class PackedLoss(NamedTuple):
    """Mean cross-entropy over the answers' tokens of questions and over those of transcripts (0 where there are none)."""

    questions: Float[Tensor, ""]
    transcripts: Float[Tensor, ""]
    right: dict[tuple[int, int], bool]
    """Whether all tokens of (row, number of the question) are right."""


def packed_batch(store: FeatureStore, processor: LeoProcessor, index: Sequence[int], questions: Sequence[Sequence[Question]]) -> PackedBatch:
    """The pictures' places are computed once for all their questions: only for reducers and decoders blind to the question."""
    rows = [_packed_row(processor, asked) for asked in questions]
    length = max(len(row[0]) for row in rows)
    pad = lambda values, fill: torch.tensor([row + [fill] * (length - len(row)) for row in values])  # noqa: E731
    input_ids, labels, positions, segments, told = (pad([row[i] for row in rows], fill) for i, fill in enumerate((0, -100, 0, -1, False)))
    same = (segments[:, :, None] == segments[:, None, :]) | (segments[:, None, :] == 0)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    attention = same & causal | torch.eye(length, dtype=torch.bool)
    return PackedBatch(input_ids, labels, positions, attention[:, None], store.features(torch.tensor(index)), segments, told)


def _packed_row(processor: LeoProcessor, asked: Sequence[Question]) -> tuple[list, ...]:
    ids, labels, positions, segments, told = [], [], [], [], []
    for number, question in enumerate(asked, start=1):
        parts = processor.segments(1, question.text, None)
        last_picture = max(i for i, (role, _, _) in enumerate(parts) if role == PICTURE)
        if number == 1:  # everything up to the picture is common to all questions: segment 0
            shared = [token for _, _, tokens in parts[: last_picture + 1] for token in tokens]
            ids, labels, segments = list(shared), [-100] * len(shared), [0] * len(shared)
            positions, told = list(range(len(shared))), [False] * len(shared)
        prompt = [token for _, _, tokens in parts[last_picture + 1 :] for token in tokens]
        answer = processor.answer_ids(question.answer)
        ids += prompt + answer
        labels += [-100] * len(prompt) + answer
        positions += range(len(shared), len(shared) + len(prompt) + len(answer))
        segments += [number] * (len(prompt) + len(answer))
        told += [question.kind == TRANSCRIPT] * (len(prompt) + len(answer))
    return ids, labels, positions, segments, told


def packed_loss(model: LeoMini, body: nn.Module, batch: PackedBatch) -> PackedLoss:
    """Losses of a packed batch; logits are computed at the answers' positions only.

    body: the decoder without its head (inside a peft wrapper it has another name).
    """
    batch = batch.to(model.device)
    nothing = torch.zeros(len(batch.input_ids), 0, 1, device=model.device)
    visual = model.project(model.reducer(batch.pictures, nothing, nothing[..., 0].bool()))
    embeds = model.get_input_embeddings()(batch.input_ids)
    places = batch.input_ids == model.config.image_token_id
    embeds = embeds.masked_scatter(places[..., None], visual.to(embeds))
    mask = torch.zeros(batch.attention.shape, device=model.device).masked_fill(~batch.attention, torch.finfo(embeds.dtype).min)  # what every kind of attention reads
    states = body(inputs_embeds=embeds, attention_mask=mask, position_ids=batch.position_ids, use_cache=False)
    counted = batch.labels[:, 1:] != -100
    logits = model.get_output_embeddings()(states.last_hidden_state[:, :-1][counted])
    labels = batch.labels[:, 1:][counted]
    wrong = logits.detach().argmax(dim=-1) != labels
    rows, columns = counted.nonzero(as_tuple=True)
    owners = list(zip(rows.tolist(), batch.segments[:, 1:][rows, columns].tolist(), strict=True))
    right = dict.fromkeys(owners, True)
    for owner, missed in zip(owners, wrong.tolist(), strict=True):
        right[owner] &= not missed
    losses, told = F.cross_entropy(logits.float(), labels, reduction="none"), batch.told[:, 1:][counted]
    mean = lambda chosen: (losses * chosen).sum() / chosen.sum().clamp(min=1)  # noqa: E731
    return PackedLoss(mean(~told), mean(told), right)


def answered(logits: Float[Tensor, "b k vocabulary"], labels: Int[Tensor, "b s"]) -> list[bool]:
    """Which rows have every answer token as the likeliest one (teacher-forced; greedy decoding would give that answer)."""
    labels = labels[:, -logits.shape[1] :][:, 1:]
    return ((logits[:, :-1].argmax(dim=-1) == labels) | (labels == -100)).all(dim=1).tolist()


YES_NO_WEIGHT = 0.5
"""How often a yes/no question is drawn beside one with an open answer: it says least about the picture."""


def some_questions(questions: Sequence[Question], most: int, seed: Sequence[int]) -> list[Question]:
    """At most `most` different ones of a picture's questions."""
    weight = np.array([YES_NO_WEIGHT if question.answer in ("yes", "no") else 1.0 for question in questions])
    chosen = np.random.default_rng(seed).choice(len(questions), min(most, len(questions)), replace=False, p=weight / weight.sum())
    return [questions[i] for i in chosen]


def by_domain(questions: Sequence[Question], right: Sequence[bool]) -> dict[str, float]:
    """Share right of each domain that occurs, as metrics `right.DOMAIN`, and of all as `right`."""
    domains = {f"right.{question.domain}": [] for question in questions}
    for question, one in zip(questions, right, strict=True):
        domains[f"right.{question.domain}"].append(one)
    return {name: sum(values) / len(values) for name, values in domains.items()} | {"right": sum(right) / len(right)}
