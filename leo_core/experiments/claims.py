"""Claims of the papers, and of ours, as data: what was expected, and what the results say. Verdicts come from intervals alone."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.experiments.results import Results
from leo_core.statistics import Estimate, bootstrap, difference

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot tell"
NEAR = 0.02
"""Two shares answered are as good as equal when the interval of their difference stays inside this on either side."""


@dataclass(frozen=True)
class Finding:
    """measured: what the results say, in words with numbers; verdict: HOLDS, FAILS or OPEN."""

    measured: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """sentence: what is claimed; expected: with which size or sign, and where that is from.
    grid: whose table has the numbers. measure raises nothing: what was not run cannot be told."""

    sentence: str
    expected: str
    grid: str
    measure: Callable[[Results], Finding]

    @property
    def command(self) -> str:
        return f"python -m leo_core experiment {self.grid}"


NOTHING = Finding("not run", OPEN)


def say(gain: Estimate) -> str:
    return f"{100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def verdict_of(gain: Estimate) -> str:
    """Is the difference above zero?"""
    return {1: HOLDS, -1: FAILS, 0: OPEN}[gain.sign]


def better(first: str, second: str, **how) -> Callable[[Results], Finding]:
    """`first` answers more questions than `second`."""

    def measure(found: Results) -> Finding:
        gain = found.compare(first, second, **how)
        return NOTHING if gain is None else Finding(f"{say(gain)} ({first} - {second})", verdict_of(gain))

    return measure


def all_of(*parts: Callable[[Results], Finding]) -> Callable[[Results], Finding]:
    """Holds where every part holds, fails where one fails."""

    def measure(found: Results) -> Finding:
        findings = [part(found) for part in parts]
        verdicts = {one.verdict for one in findings}
        verdict = FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else OPEN
        return Finding("; ".join(one.measured for one in findings), verdict)

    return measure


def gains_more(first: str, before: str, second: str, other_before: str) -> Callable[[Results], Finding]:
    """first - before is larger than second - other_before, question by question."""

    def measure(found: Results) -> Finding:
        seeds = found.seeds(first, before, second, other_before)
        if not seeds:
            return NOTHING
        parts = [found.answered(name, seeds).astype(float) for name in (first, before, second, other_before)]
        gain = difference(parts[0] - parts[1], parts[2] - parts[3], found.questions.picture)
        return Finding(f"{say(gain)} (gain of {before} - gain of {other_before})", verdict_of(gain))

    return measure


def as_good(first: str, second: str) -> Callable[[Results], Finding]:
    """`first` loses at most NEAR against `second`: holds or fails where the interval says so."""

    def measure(found: Results) -> Finding:
        gain = found.compare(first, second)
        if gain is None:
            return NOTHING
        verdict = HOLDS if gain.low > -NEAR else FAILS if gain.high < -NEAR else OPEN
        return Finding(f"{say(gain)} ({first} - {second})", verdict)

    return measure


def needed(reference: str, view: str) -> Callable[[Results], Finding]:
    """Taking something away from a trained model at inference costs answers."""

    def measure(found: Results) -> Finding:
        if not found.of(reference):
            return NOTHING
        gain = found.compare(reference, reference, "picture", view)
        return Finding(f"{say(gain)} ({view})", verdict_of(gain))

    return measure


def rising(*names: str) -> Callable[[Results], Finding]:
    """Each next configuration answers more than the one before."""
    return all_of(*(better(later, earlier) for earlier, later in pairwise(names)))


def information(name: str) -> Callable[[Results], Finding]:
    """Mutual information between chosen expert and domain lies above its null in every seed."""

    def measure(found: Results) -> Finding:
        routes = found.measure(name, "routes")
        if not routes:
            return NOTHING
        above = [one["information"] > one["null_95"] for one in routes]
        numbers = ", ".join(f"{one['information']:.3f} bits against {one['null_95']:.3f}" for one in routes)
        return Finding(f"{numbers} (95 % of the null), seed by seed", HOLDS if all(above) else FAILS if not any(above) else OPEN)

    return measure


def more_information(name: str, other: str) -> Callable[[Results], Finding]:
    """The chosen expert of `name` tells more about the domain than that of `other`, in every seed."""

    def measure(found: Results) -> Finding:
        pairs = list(zip(found.measure(name, "routes", "information"), found.measure(other, "routes", "information"), strict=False))
        if not pairs:
            return NOTHING
        numbers = ", ".join(f"{first:.3f} bits against {second:.3f}" for first, second in pairs)
        verdict = HOLDS if all(a > b for a, b in pairs) else FAILS if all(a < b for a, b in pairs) else OPEN
        return Finding(f"{numbers}, seed by seed ({name} against {other})", verdict)

    return measure


def balanced(name: str, other: str) -> Callable[[Results], Finding]:
    """The busiest expert of `name` takes a smaller share than that of `other`, in every seed."""

    def busiest(found: Results, one: str) -> list[float]:
        return [float(np.mean([max(layer) for layer in routes["load"]])) for routes in found.measure(one, "routes")]

    def measure(found: Results) -> Finding:
        first, second = busiest(found, name), busiest(found, other)
        if not first or not second:
            return NOTHING
        pairs = list(zip(first, second, strict=False))
        verdict = HOLDS if all(a < b for a, b in pairs) else FAILS if all(a > b for a, b in pairs) else OPEN
        return Finding(f"busiest expert {np.mean(first):.0%} with, {np.mean(second):.0%} without ({len(pairs)} seeds)", verdict)

    return measure


def shapley_by_domain(found: Results, name: str) -> dict[str, list[Estimate]]:
    """Domain -> Shapley value of each vision expert, mean over questions and seeds, in nats; "all" first."""
    measured = found.measure(name, "shapley")
    if not measured:
        return {}
    domains, pictures = np.array(measured[0]["domain"]), np.array(measured[0]["picture"])
    values = np.mean([one["values"] for one in measured], axis=0)
    masks = {"all": np.ones(len(domains), dtype=bool), **{domain: domains == domain for domain in sorted(set(domains.tolist()))}}
    return {domain: [bootstrap(values[mask, i], pictures[mask]) for i in range(len(EXPERTS))] for domain, mask in masks.items()}


def shapley_positive(name: str) -> Callable[[Results], Finding]:
    """Every vision expert has a positive Shapley value on average."""

    def measure(found: Results) -> Finding:
        table = shapley_by_domain(found, name)
        if not table:
            return NOTHING
        signs = {one.sign for one in table["all"]}
        numbers = ", ".join(f"{expert} {one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]" for expert, one in zip(EXPERTS, table["all"], strict=True))
        return Finding(f"{numbers} nats", FAILS if -1 in signs else HOLDS if signs == {1} else OPEN)

    return measure
