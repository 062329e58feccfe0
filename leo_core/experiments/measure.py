"""What is measured of a trained lab model: which test questions it answers, under which condition, and at which cost.

"Answered" means teacher-forced: every token of the right answer, end mark included, is the likeliest one. Greedy decoding would
then give exactly that answer; nothing else counts as right.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool
from torch import Tensor

from leo_core.accounting import cost
from leo_core.analysis.contributions import shapley_values, subset_masks
from leo_core.experiments.configuration import TERMS
from leo_core.experiments.lab import Asked, Lab
from leo_core.experiments.lab_model import nobody, pictures_of
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.model import LeoMini
from leo_core.training.batches import answered

BATCH = 128
CONDITIONS = ("picture", "no picture", "another picture")
LONGEST_ANSWER = 8
"""Tokens decoded where the model's own answer is needed."""


@torch.no_grad()
def answers(lab: Lab, model: LeoMini, asked: Sequence[Asked], condition: str = "picture", experts: Bool[Tensor, "m"] | None = None) -> list[bool]:
    """Which questions are answered. The other picture is that of the question half the set further on.

    experts: which vision experts are present, for all questions (default: all).
    """
    right = []
    for start in range(0, len(asked), BATCH):
        some = asked[start : start + BATCH]
        rows = lab.rows(some, 0 if condition == "no picture" else model.reducer.tokens)
        inputs, labels = _pictures(lab, asked, start, condition, experts), rows.pop("labels")
        longest = max(len(one.answer) for one in some) + 1
        right += answered(model(**rows, **inputs, logits_to_keep=longest).logits, labels)
    return right


def _pictures(lab: Lab, asked: Sequence[Asked], start: int, condition: str, experts: Tensor | None) -> dict:
    if condition == "no picture":
        return {}
    shift = len(asked) // 2 if condition == "another picture" else 0
    count = min(BATCH, len(asked) - start)
    shown = [asked[(start + offset + shift) % len(asked)] for offset in range(count)]
    return {"pictures": pictures_of(lab.test, shown), "expert_mask": None if experts is None else experts.expand(count, -1)}


@contextmanager
def term_off(model: LeoMini, term: str) -> Iterator[None]:
    """CoTR without one of its terms inside the block."""
    temperature, index = model.reducer.temperature, TERMS.index(term)
    kept = temperature[index].item()
    try:
        with torch.no_grad():
            temperature[index] = 0.0
        yield
    finally:
        with torch.no_grad():
            temperature[index] = kept


def expert_subsets() -> dict[str, Tensor]:
    """Readable name -> which vision experts are present, for each left out and each alone."""
    masks = {}
    for index, name in enumerate(EXPERTS):
        alone = torch.arange(len(EXPERTS)) == index
        masks |= {f"without {name}": ~alone, f"{name} alone": alone}
    return masks


@torch.no_grad()
def shapley(lab: Lab, model: LeoMini, asked: Sequence[Asked]) -> list[list[float]]:
    """Shapley values (nats) of the vision experts for each question: v(S) = log p of the full model's own greedy answer."""
    own = [Asked(one.picture, one.question, one.tokens, one.after, answer) for one, answer in zip(asked, greedy(lab, model, asked), strict=True)]
    rows = lab.rows(own, model.reducer.tokens)
    labels, longest = rows.pop("labels"), max(len(one.answer) for one in own) + 1
    labels = labels[:, -longest:][:, 1:]
    values = []
    for mask in subset_masks(len(EXPERTS)):
        logits = model(**rows, pictures=pictures_of(lab.test, own), expert_mask=mask.expand(len(own), -1), logits_to_keep=longest).logits[:, :-1]
        chosen = logits.float().log_softmax(dim=-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        values.append((chosen * (labels != -100)).sum(dim=1).double())
    return [shapley_values(one).tolist() for one in torch.stack(values, dim=1)]


@torch.no_grad()
def greedy(lab: Lab, model: LeoMini, asked: Sequence[Asked]) -> list[tuple[int, ...]]:
    """The model's own answers, end mark included (cut after LONGEST_ANSWER tokens)."""
    rows = lab.rows(asked, model.reducer.tokens, answered=False)
    rows.pop("labels")
    end = lab.tokenizer.eos_token_id
    output = model.generate(
        **rows,
        pictures=pictures_of(lab.test, asked),
        max_new_tokens=LONGEST_ANSWER,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=lab.tokenizer.pad_token_id,
    )
    found = []
    for row in output[:, rows["input_ids"].shape[1] :].tolist():
        found.append(tuple(row[: row.index(end) + 1] if end in row else row))
    return found


@torch.no_grad()
def prefill_ms(lab: Lab, model: LeoMini, repeats: int = 7) -> float:
    """Median milliseconds of a question's prefill (reducer, projector and decoder) in a batch of 32, on the threads there are."""
    asked = lab.test.questions[:32]
    rows, pictures = lab.rows(asked, model.reducer.tokens, answered=False), pictures_of(lab.test, asked)
    rows.pop("labels")
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        model(**rows, pictures=pictures, logits_to_keep=1)
        times.append((time.perf_counter() - started) * 1000 / len(asked))
    return statistics.median(times)


def flops(lab: Lab, model: LeoMini) -> dict[str, float]:
    """Positions, FLOPs of the decoder's prefill (MMoE included) and cache bytes of a question of mean length."""
    text = statistics.mean(len(one.tokens) + len(one.after) for one in lab.test.questions)
    found = cost(model.config, model.reducer.tokens, round(text))
    return {"positions": found.positions, "flops": found.flops, "cache_bytes": found.cache_bytes}


def blind(count: int) -> Tensor:
    """No vision expert present: what a run without pictures was trained with."""
    return nobody(count)[0]
