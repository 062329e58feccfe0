"""Grading on cached pictures: exact match and log-probability of the right answer, with the picture and under two controls."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from leo_core.data.samples import Question
from leo_core.errors import InputError
from leo_core.files import atomic_path
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.training.batches import answered, model_inputs, question_batch
from leo_core.training.features import FeatureStore

CONDITIONS = ("picture", "no picture", "another picture")
LONGEST_ANSWER = 16
"""Tokens."""


@dataclass(frozen=True)
class Graded:
    """One question under each condition: the greedy answer, and log p of the right one (end token included, nats).

    picture: number of its picture in the set.
    """

    picture: int
    question: Question
    answers: dict[str, str]
    log_probability: dict[str, float]

    def right(self, condition: str = "picture") -> bool:
        return normalised(self.answers[condition]) == normalised(self.question.answer)


def normalised(answer: str) -> str:
    """What exact match compares: lower case, without surrounding punctuation, doubled spaces and articles before something else."""
    words = answer.lower().strip(" .!?\"'").split()
    return " ".join([word for word in words if word not in ("a", "an", "the")] or words)  # the label A is no article


def drawn_questions(store: FeatureStore, most: int, seed: int, kinds: Sequence[str] = ()) -> list[tuple[int, Question]]:
    """A random draw of (picture, question) pairs, at most `most`; only of `kinds` where some are given."""
    pairs = [(i, q) for i, sample in enumerate(store.samples) for q in sample.questions if not kinds or q.kind in kinds]
    order = np.random.default_rng(seed).permutation(len(pairs))[:most]
    return [pairs[i] for i in order]


@torch.no_grad()
def grade(model: LeoMini, processor: LeoProcessor, store: FeatureStore, pairs: Sequence[tuple[int, Question]], batch: int = 32) -> Iterator[list[Graded]]:
    """Yields one batch after the other. The other picture is the one of the question half the set further on, or of the first
    behind it that is about another picture. Raises InputError where all questions are about one picture."""
    if pairs and len({index for index, _ in pairs}) == 1:
        raise InputError("All questions are about one picture, and answers with another one are compared: evaluate on two pictures at least.")
    for start in range(0, len(pairs), batch):
        rows = list(pairs[start : start + batch])
        others = [(_another(pairs, start + offset), question) for offset, (_, question) in enumerate(rows)]
        results = {}
        for condition, asked in zip(CONDITIONS, (rows, [(None, q) for _, q in rows], others), strict=True):
            open_, closed = (question_inputs(processor, store, asked, with_answers) for with_answers in (False, True))
            results[condition] = greedy_answers(model, processor, open_), teacher_forced(model, closed).log_probability
        yield [
            Graded(picture, question, {c: results[c][0][i] for c in CONDITIONS}, {c: results[c][1][i] for c in CONDITIONS})
            for i, (picture, question) in enumerate(rows)
        ]


def _another(pairs: Sequence[tuple[int, Question]], at: int) -> int:
    """A picture that is not the one of question `at`."""
    half = len(pairs) // 2
    return next(index for index, _ in (pairs[(at + half + step) % len(pairs)] for step in range(len(pairs))) if index != pairs[at][0])


def graded_into(path: Path, model: LeoMini, processor: LeoProcessor, store: FeatureStore, pairs: Sequence, batch: int = 32) -> Iterator[list[Graded]]:
    """As `grade`, one line of JSON per question appended to `path`; goes on behind the lines that are there."""
    done = read_graded(path) if path.exists() else []
    whole = len(done) if len(done) == len(pairs) else len(done) // batch * batch  # a batch that was cut off is done again
    if [one.question for one in done] != [question for _, question in pairs[: len(done)]]:
        raise InputError(f"{path.name} holds answers to other questions: remove it or choose another folder.")
    with atomic_path(path) as temporary:
        temporary.write_text("".join(_line(one) for one in done[:whole]))
    if whole:
        yield done[:whole]
    for results in _from(model, processor, store, pairs, batch, whole):
        with open(path, "a") as file:
            file.write("".join(_line(one) for one in results))
        yield results


def _from(model, processor, store, pairs, batch: int, first: int) -> Iterator[list[Graded]]:
    """The batches behind `first`: pairs are turned round, so that "half the set further on" stays the same question."""
    if first >= len(pairs):
        return
    for number, results in enumerate(grade(model, processor, store, [*pairs[first:], *pairs[:first]], batch)):
        if first + number * batch >= len(pairs):
            return
        yield results[: len(pairs) - first - number * batch]


def read_graded(path: Path) -> list[Graded]:
    """The lines of `graded_into`; a last one that a kill cut off does not count."""
    lines = path.read_text().rpartition("\n")[0].splitlines()
    return [Graded(**{**one, "question": Question(**one["question"])}) for one in map(json.loads, lines)]


def _line(one: Graded) -> str:
    return json.dumps(asdict(one)) + "\n"


def question_inputs(processor: LeoProcessor, store: FeatureStore, pairs: Sequence, with_answers: bool) -> dict:
    """Inputs of the model for (picture, question) pairs, whose pictures may be None; with_answers: the right answers as labels."""
    if pairs[0][0] is not None:
        return model_inputs(question_batch(store, processor, pairs, with_answers))
    questions, answers = [q.text for _, q in pairs], [q.answer for _, q in pairs]
    return model_inputs(dict(processor([None] * len(pairs), questions, answers if with_answers else None, prepare=False)))


def greedy_answers(model: LeoMini, processor: LeoProcessor, inputs: dict) -> list[str]:
    """At most LONGEST_ANSWER tokens for each row of `question_inputs`."""
    tokenizer = processor.tokenizer
    end = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.eos_token_id}
    output = model.generate(**_on(model.device, inputs), max_new_tokens=LONGEST_ANSWER, do_sample=False, **end)
    return [text.strip() for text in tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)]


def _on(device: torch.device, inputs: dict) -> dict:
    return {name: value.to(device) for name, value in inputs.items()}


class Forced(NamedTuple):
    """For each row log p of the right answer (end token included, nats), and whether each of its tokens is the likeliest."""

    log_probability: list[float]
    right: list[bool]


def teacher_forced(model: LeoMini, inputs: dict) -> Forced:
    """What the model makes of the right answers, which `inputs` hold as labels (`question_inputs`)."""
    inputs = _on(model.device, inputs)
    labels: Tensor = inputs.pop("labels")
    keep = int((labels != -100).sum(dim=1).max()) + 1
    logits = model(**inputs, logits_to_keep=keep).logits
    right = answered(logits, labels)
    labels = labels[:, -keep:][:, 1:]
    chosen = logits[:, :-1].float().log_softmax(dim=-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return Forced((chosen * (labels != -100)).sum(dim=1).tolist(), right)
