"""What differs between two traces, and by how much: settings, tokens, the reducer's weights, and routes."""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Int

from leo_core.tracing.trace import Trace

IGNORED = ("run", "created")
"""Provenance that differs between any two runs; timings are not compared either."""


@dataclass(frozen=True)
class TokenDiff:
    """prompt_changed: positions of each prompt outside the common start and end. answer_common: tokens until the answers part.
    log_probability: of each whole answer in nats, None where it is no finite number."""

    question: tuple[str, str]
    answer: tuple[str, str]
    prompt_length: tuple[int, int]
    prompt_changed: tuple[int, int]
    answer_length: tuple[int, int]
    answer_common: int
    log_probability: tuple[float | None, float | None]

    @property
    def same(self) -> bool:
        return self.prompt_changed == (0, 0) and self.answer_length == (self.answer_common,) * 2 and self.question[0] == self.question[1]


@dataclass(frozen=True)
class WeightDiff:
    """One vision expert on one picture. moved: share of the weight of an output token that lies elsewhere, 0..1 (half the sum
    of absolute differences), mean and largest over output tokens; output_token: where it is largest. not_compared: why."""

    expert: str
    picture: int
    not_compared: str = ""
    moved_mean: float = 0.0
    moved_most: float = 0.0
    output_token: int = -1
    largest: float = 0.0


@dataclass(frozen=True)
class RouteDiff:
    """Over layers and the positions that both runs read with the same token. changed: share of places with other experts in use;
    by_layer: the same for each layer. probability_mean, probability_most: absolute difference. not_compared: why."""

    not_compared: str = ""
    positions: int = 0
    changed: float = 0.0
    probability_mean: float = 0.0
    probability_most: float = 0.0
    by_layer: tuple[float, ...] = ()


@dataclass(frozen=True)
class TraceDiff:
    """settings: dotted name (settings.… or provenance.…) to both values, None where there is none. pictures: sentences."""

    settings: dict[str, tuple]
    pictures: tuple[str, ...]
    tokens: TokenDiff
    weights: tuple[WeightDiff, ...]
    routes: RouteDiff

    @property
    def same(self) -> bool:
        weights = any(one.not_compared or one.largest for one in self.weights)
        routes = self.routes.not_compared or self.routes.changed or self.routes.probability_most
        return self.tokens.same and not (self.settings or self.pictures or weights or routes)

    def as_dict(self) -> dict:
        """Plain values for JSON."""
        return {"same": self.same, **asdict(self)}


def diff_traces(one: Trace, other: Trace) -> TraceDiff:
    """Compare two runs. What cannot be compared is said, not left out."""
    before, after = ({**_flat("settings", t.settings), **_flat("provenance", t.provenance)} for t in (one, other))
    settings = {
        name: (before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and name.removeprefix("provenance.") not in IGNORED
    }
    return TraceDiff(settings, tuple(_pictures(one, other)), _tokens(one, other), tuple(_weights(one, other)), _routes(one, other))


def _flat(name: str, value) -> dict:
    if not isinstance(value, dict) or not value:
        return {name: list(value) if isinstance(value, tuple) else value} if value != {} else {}
    return {dotted: leaf for key, inner in value.items() for dotted, leaf in _flat(f"{name}.{key}", inner).items()}


def _pictures(one: Trace, other: Trace):
    if len(one.pictures) != len(other.pictures):
        yield f"{len(one.pictures)} and {len(other.pictures)} pictures"
    for index, (a, b) in enumerate(zip(one.pictures, other.pictures, strict=False)):
        if (a.width, a.height) != (b.width, b.height):
            yield f"picture {index} is {a.width} x {a.height} and {b.width} x {b.height}"
        elif a.content is not None and b.content is not None and a.content != b.content:
            yield f"picture {index} has other bytes"


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """Entries until two sequences part."""
    length = min(len(one), len(other))
    parted = np.flatnonzero(one[:length] != other[:length])
    return int(parted[0]) if len(parted) else length


def aligned(one: Trace, other: Trace) -> tuple[Int[np.ndarray, "x"], Int[np.ndarray, "x"]]:
    """Positions of both runs with the same token: the prompts' common start and end, and the answers' common start."""
    p, q = one.prompt_length, other.prompt_length
    start = _common(one.token_ids[:p], other.token_ids[:q])
    end = _common(one.token_ids[start:p][::-1], other.token_ids[start:q][::-1])
    answer = _common(one.token_ids[p:], other.token_ids[q:])
    positions = lambda prompt: np.r_[0:start, prompt - end : prompt, prompt : prompt + answer]  # noqa: E731
    return positions(p), positions(q)


def _tokens(one: Trace, other: Trace) -> TokenDiff:
    p, q = one.prompt_length, other.prompt_length
    answer = _common(one.token_ids[p:], other.token_ids[q:])
    shared = len(aligned(one, other)[0]) - answer
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [float(np.log(t.probability.astype(np.float64)).sum()) for t in (one, other)]
    return TokenDiff(
        (one.question, other.question), (one.answer, other.answer), (p, q), (p - shared, q - shared),
        (len(one.probability), len(other.probability)), answer, tuple(value if np.isfinite(value) else None for value in logs),
    )  # fmt: skip


def _weights(one: Trace, other: Trace):
    before, after = ({(e.name, e.picture): e.weights for e in t.experts} for t in (one, other))
    for key in dict.fromkeys([*before, *after]):
        if key not in before or key not in after:
            yield WeightDiff(*key, f"only in the {'first' if key in before else 'second'} trace")
        elif before[key].shape != after[key].shape:
            yield WeightDiff(*key, f"{' x '.join(map(str, before[key].shape))} and {' x '.join(map(str, after[key].shape))} weights")
        elif not (np.isfinite(before[key]).all() and np.isfinite(after[key]).all()):
            yield WeightDiff(*key, "some weights are no numbers")
        elif before[key].size:
            difference = np.abs(before[key].astype(np.float64) - after[key])
            moved = difference.sum(axis=1) / 2
            yield WeightDiff(*key, "", float(moved.mean()), float(moved.max()), int(moved.argmax()), float(difference.max()))


def _routes(one: Trace, other: Trace) -> RouteDiff:
    a, b = one.routing, other.routing
    if a.layers != b.layers or a.probability.shape[2] != b.probability.shape[2]:
        return RouteDiff(f"{len(a.layers)} layers x {a.probability.shape[2]} experts and {len(b.layers)} x {b.probability.shape[2]}")
    if not a.evaluated and not b.evaluated:
        return RouteDiff()
    if not (a.evaluated and b.evaluated):
        return RouteDiff(f"routing was not evaluated in the {'second' if a.evaluated else 'first'} trace")
    here, there = aligned(one, other)
    read = (here < a.probability.shape[1]) & (there < b.probability.shape[1])
    here, there = here[read], there[read]
    if not len(here) or not a.probability.size:
        return RouteDiff("no position was read by both with the same token")
    difference = np.abs(a.probability[:, here].astype(np.float64) - b.probability[:, there])
    if not np.isfinite(difference).all():
        return RouteDiff("some probabilities are no numbers")
    changed = ((a.coefficient[:, here] != 0) != (b.coefficient[:, there] != 0)).any(axis=-1)
    by_layer = tuple(changed.mean(axis=1).tolist())
    return RouteDiff("", len(here), float(changed.mean()), float(difference.mean()), float(difference.max()), by_layer)
