"""Does a map show what the answer depends on? Deletion and insertion of its heaviest tokens against random and even ones.

Deletion masks the heaviest share of the tokens, insertion keeps only that share (Petsiuk et al. 2018, RISE, section 4.1, on
tokens in place of pixels). The value is the log-probability of the given answer, teacher-forced, end mark included (design
rule 7). Masking goes through `Interventions`: a masked source token is one that CoTR may not use, and an expert without any is
absent; a masked visual token is one that the decoder cannot attend to.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from leo_core.analysis.contributions import answer_log_probability, repeated, teacher_forced
from leo_core.analysis.maptest import MapTest
from leo_core.errors import InputError
from leo_core.model import LeoMini
from leo_core.tracing.intervene import Interventions
from leo_core.tracing.record import lock_of
from leo_core.tracing.run import Asked
from leo_core.tracing.trace import Trace

VISUAL = "visual tokens"
"""In place of an expert's name: the map is over the reduced tokens."""
SHARES = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Symmetric, so that what a random order keeps at one share is what its reverse deletes at another: measured once, used twice."""
SEEDS = 5
FEWEST_SEEDS = 5


@dataclass(frozen=True)
class Progress:
    """done of total evaluations of the model; total is at most, since equal sets of tokens are evaluated once."""

    done: int
    total: int


def source_map(trace: Trace, expert: str, picture: int = 0) -> Float[np.ndarray, "n"]:
    """What the picture of one vision expert shows: the mean weight of each source token over all output tokens."""
    return trace.of_expert(expert, picture).weights.mean(axis=0)


def visual_map(model: LeoMini, asked: Asked, answer_ids: Tensor, picture: int = 0) -> Float[np.ndarray, "v"]:
    """Input x gradient of the answer's log-probability for each visual token, in nats: a map of the reduced tokens to test."""
    inputs, count = teacher_forced(asked, answer_ids)
    owner = asked.inputs["picture_owner"]
    with lock_of(model), torch.enable_grad():
        reduced = tuple(t.detach().requires_grad_() for t in model.reduce(asked.features, inputs["input_ids"], inputs["question_mask"], owner))
        logits = model(**inputs, reduced=reduced, picture_owner=owner, logits_to_keep=count + 1).logits
        gradients = torch.autograd.grad(answer_log_probability(logits, answer_ids).sum(), reduced)
    return sum((t * g).sum(dim=-1)[picture] for t, g in zip(reduced, gradients, strict=True)).detach().double().cpu().numpy()


def test_map(
    model: LeoMini,
    asked: Asked,
    answer_ids: Int[Tensor, "a"],
    name: str,
    scores: Float[np.ndarray, "n"],
    picture: int = 0,
    shares: Sequence[float] = SHARES,
    seeds: int = SEEDS,
    batch: int = 16,
    stop: threading.Event | None = None,
) -> Iterator[Progress | MapTest]:
    """Test one map, batch by batch: yields Progress before each and the MapTest at the end; nothing more once `stop` is set.

    name: the vision expert whose source tokens `scores` rates, or VISUAL for the reduced tokens. scores: larger = tested
    first; one for each token of the expert's geometry (or each of v). answer_ids: the answer whose log-probability counts.
    The model is held for one batch at a time. Raises InputError before the first evaluation.
    """
    valid = _valid(model, asked, name, picture)
    scores = np.asarray(scores, dtype=np.float64)
    if seeds < FEWEST_SEEDS or not shares or not all(0 < share < 1 for share in shares) or list(shares) != sorted(set(shares)):
        raise InputError(f"The test of a map needs at least {FEWEST_SEEDS} seeds and increasing shares between 0 and 1.")
    if scores.ndim != 1 or not valid.max() < len(scores) or not np.isfinite(scores[valid]).all() or not len(answer_ids):
        raise InputError(f"The test of a map needs an answer and a finite score for each of the {len(valid)} tokens of '{name}'.")
    plan = _Plan(valid, scores[valid], (0.0, *shares, 1.0), seeds)
    found: dict[bytes, float] = {}
    for start in range(0, len(plan.sets), batch):
        yield Progress(start, len(plan.sets))
        if stop is not None and stop.is_set():
            return
        sets = list(plan.sets.items())[start : start + batch]
        found |= zip((key for key, _ in sets), _values(model, asked, answer_ids, name, picture, valid, [kept for _, kept in sets]), strict=True)
    yield Progress(len(plan.sets), len(plan.sets))
    yield plan.result(name, picture, found)


test_map.__test__ = False  # its name is no sign for pytest


def even_order(count: int) -> Int[np.ndarray, "n"]:
    """All numbers below `count`, each start of it spread evenly over them: the order in which equal weights are taken.

    Multiples of the golden ratio modulo 1, so that ties never favour one corner of the picture, as raster order would.
    """
    places = (np.arange(1, count + 1) * ((math.sqrt(5) - 1) / 2)) % 1
    return np.argsort(np.argsort(places, kind="stable"), kind="stable")


class _Plan:
    """Which sets of kept tokens need a value, each once, and how the curves are put together from them."""

    def __init__(self, valid: Int[np.ndarray, "n"], scores: Float[np.ndarray, "n"], shares: tuple[float, ...], seeds: int):
        self.shares, self.count = shares, len(valid)
        even = even_order(self.count)
        top = even[np.argsort(-scores[even], kind="stable")]
        drawn = [np.random.default_rng(seed).permutation(self.count) for seed in range(seeds)]
        self.sets: dict[bytes, Bool[np.ndarray, "n"]] = {}
        self.deletion, self.insertion = self._deleting(top), self._inserting(top)
        self.equal_deletion, self.equal_insertion = self._deleting(even), self._inserting(even)
        self.random_insertion = [self._inserting(order) for order in drawn]
        self.random_deletion = [self._deleting(order[::-1]) for order in drawn]

    def _inserting(self, order) -> list[bytes]:
        return [self._set(order[: self._number(share)]) for share in self.shares]

    def _deleting(self, order) -> list[bytes]:
        return [self._set(order[self._number(share) :]) for share in self.shares]

    def _number(self, share: float) -> int:
        return math.floor(share * self.count + 0.5)

    def _set(self, kept) -> bytes:
        mask = np.zeros(self.count, dtype=bool)
        mask[kept] = True
        self.sets.setdefault(mask.tobytes(), mask)
        return mask.tobytes()

    def result(self, name: str, picture: int, found: dict[bytes, float]) -> MapTest:
        curve = lambda keys: np.array([found[key] for key in keys])  # noqa: E731
        return MapTest(
            name, picture, self.count, np.array(self.shares), curve(self.deletion), curve(self.insertion),
            np.stack([curve(keys) for keys in self.random_deletion]), np.stack([curve(keys) for keys in self.random_insertion]),
            curve(self.equal_deletion), curve(self.equal_insertion),
        )  # fmt: skip


def _valid(model: LeoMini, asked: Asked, name: str, picture: int) -> Int[np.ndarray, "n"]:
    """Numbers of the tokens that can be masked."""
    if asked.features is None:
        raise InputError("Without a picture there is no map to test: give a picture.")
    if not 0 <= picture < asked.features.pictures:
        raise InputError(f"There is no picture {picture}; there are {asked.features.pictures}, numbered from 0.")
    if name == VISUAL:
        return np.arange(model.reducer.tokens)
    names = list(model.vision_experts)
    if name not in names:
        raise InputError(f"There is no vision expert '{name}'; there are {', '.join(names)}, and '{VISUAL}'.")
    valid = asked.features.masks[names.index(name)][picture].nonzero()[:, 0].cpu().numpy()
    if not len(valid):
        raise InputError(f"Vision expert '{name}' gave no token for this picture, so there is no map to test.")
    return valid


@torch.no_grad()
def _values(model, asked: Asked, answer_ids: Tensor, name: str, picture: int, valid, kept_sets) -> list[float]:
    """Log-probability of the answer with only the kept tokens, for each set, in one forward pass."""
    inputs, count = teacher_forced(asked, answer_ids)
    copies, pictures = len(kept_sets), asked.features.pictures
    changed = [_masked(model, asked, name, picture, valid[~kept]) for kept in kept_sets]
    features = repeated(asked.features, copies)
    stacked = tuple(torch.cat(masks) for masks in zip(*(one["pictures"].masks for one in changed), strict=True))
    with lock_of(model):
        logits = model(
            **{key: tensor.expand(copies, -1) for key, tensor in inputs.items()},
            pictures=type(features)(features.features, stacked, features.boxes),
            picture_owner=torch.arange(copies, device=model.device).repeat_interleave(pictures),
            visual_mask=torch.cat([one["visual_mask"] for one in changed]).to(model.device),
            logits_to_keep=count + 1,
        ).logits
    return answer_log_probability(logits, answer_ids).sum(dim=1).double().cpu().tolist()


def _masked(model, asked: Asked, name: str, picture: int, dropped: Int[np.ndarray, "x"]) -> dict:
    """Inputs with these tokens dropped in this picture. Interventions drop in every picture: the others are set back."""
    numbers = tuple(dropped.tolist())
    change = Interventions(drop_visual=numbers) if name == VISUAL else Interventions(drop_sources={name: numbers})
    inputs, before = change.model_inputs(model, asked.features), Interventions().model_inputs(model, asked.features)
    here = (torch.arange(asked.features.pictures) == picture)[:, None]
    masks = tuple(torch.where(here.to(new.device), new, old) for new, old in zip(inputs["pictures"].masks, before["pictures"].masks, strict=True))
    return {
        "pictures": type(asked.features)(asked.features.features, masks, asked.features.boxes),
        "visual_mask": torch.where(here, inputs["visual_mask"], before["visual_mask"]),
    }
