"""Exact match on cached pictures, per question kind, beside two controls: no picture, and another question's picture."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from leo_core.data.samples import Question
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.training.batches import question_batch
from leo_core.training.features import FeatureStore
from leo_core.training.recipe import model_inputs

CONTROLS = ("picture", "no picture", "another picture")


@dataclass(frozen=True)
class Graded:
    """One question with the answers under each condition."""

    question: Question
    answers: dict[str, str]

    def right(self, condition: str) -> bool:
        return normalised(self.answers[condition]) == normalised(self.question.answer)


def normalised(answer: str) -> str:
    """What exact match compares: lower case, without articles, surrounding punctuation and doubled spaces."""
    words = re.sub(r"\b(a|an|the)\b", " ", answer.lower().strip(" .!?\"'"))
    return " ".join(words.split())


def held_out_questions(store: FeatureStore, most: int, seed: int) -> list[tuple[int, Question]]:
    """A random draw of (picture index, question) pairs, at most `most`."""
    pairs = [(index, question) for index, sample in enumerate(store.samples) for question in sample.questions]
    order = np.random.default_rng(seed).permutation(len(pairs))[:most]
    return [pairs[i] for i in order]


@torch.no_grad()
def evaluate(
    model: LeoMini, processor: LeoProcessor, store: FeatureStore, pairs: Sequence[tuple[int, Question]],
    batch: int = 32, progress: Callable[[int, int], None] | None = None,
) -> list[Graded]:  # fmt: skip
    """Greedy answers under all three conditions. The other picture is the one of the question half the set further on."""
    graded, half = [], len(pairs) // 2
    for start in range(0, len(pairs), batch):
        rows = list(pairs[start : start + batch])
        others = [(pairs[(start + offset + half) % len(pairs)][0], question) for offset, (_, question) in enumerate(rows)]
        answers = {
            "picture": _answers(model, processor, question_batch(store, processor, rows, answered=False)),
            "another picture": _answers(model, processor, question_batch(store, processor, others, answered=False)),
            "no picture": _answers(model, processor, dict(processor([None] * len(rows), [q.text for _, q in rows], prepare=False))),
        }
        graded += [Graded(question, {name: answers[name][i] for name in CONTROLS}) for i, (_, question) in enumerate(rows)]
        if progress is not None:
            progress(min(start + batch, len(pairs)), len(pairs))
    return graded


def _answers(model: LeoMini, processor: LeoProcessor, inputs: dict) -> list[str]:
    tokenizer = processor.tokenizer
    inputs = model_inputs(inputs)
    output = model.generate(**inputs, max_new_tokens=16, do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id)
    return [text.strip() for text in tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)]


def table(graded: Sequence[Graded], resamples: int = 1000, seed: int = 0) -> list[dict]:
    """One row per (domain, kind) and one for all: n, share right per condition, and a bootstrap 95 % interval with the picture."""
    groups = defaultdict(list)
    for one in graded:
        groups[(one.question.domain, one.question.kind)].append(one)
    groups[("all", "all")] = list(graded)
    rng, rows = np.random.default_rng(seed), []
    for (domain, kind), members in sorted(groups.items()):
        right = {name: np.array([one.right(name) for one in members], dtype=float) for name in CONTROLS}
        draws = rng.choice(right["picture"], size=(resamples, len(members))).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        share = {name: float(values.mean()) for name, values in right.items()}
        rows.append({"domain": domain, "kind": kind, "n": len(members), **share, "interval": [float(low), float(high)]})
    return rows


def markdown(rows: Sequence[dict]) -> str:
    """The table of `table` for a model card."""
    lines = ["| domain | question | n | right [95 % interval] | no picture | another picture |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        low, high = row["interval"]
        cells = (f"{row['picture']:.0%} [{low:.0%}, {high:.0%}]", f"{row['no picture']:.0%}", f"{row['another picture']:.0%}")
        lines.append(f"| {row['domain']} | {row['kind']} | {row['n']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
