"""Interleaved medians: every variant once per round, so that a noisy machine is noisy for all of them alike."""

import statistics
import time
from collections.abc import Callable


def medians(variants: dict[str, Callable[[], object]], rounds: int = 25, warm: int = 3) -> dict[str, float]:
    """Median seconds of each variant over `rounds` interleaved rounds after `warm` unmeasured ones."""
    seconds = {name: [] for name in variants}
    for turn in range(warm + rounds):
        for name, run in variants.items():
            started = time.perf_counter()
            run()
            if turn >= warm:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(title: str, seconds: dict[str, float], baseline: str) -> None:
    """One line per variant: milliseconds, and its time over the baseline's."""
    print(title)
    for name, value in seconds.items():
        print(f"  {name:<34}{value * 1e3:>10.2f} ms   x{value / seconds[baseline]:.2f} of {baseline}")
