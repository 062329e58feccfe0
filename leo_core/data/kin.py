"""Names that must not meet in one question: with a duck on the picture, "Is there a bird?" has no clear answer."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def _listed() -> dict[str, frozenset[str]]:
    pairs = defaultdict(set)
    for line in Path(__file__).with_name("kin.txt").read_text().splitlines():
        if not line.startswith("#"):
            general, specific = line.split(": ")
            for name in specific.split(", "):
                pairs[general].add(name)
                pairs[name].add(general)
    return {name: frozenset(others) for name, others in pairs.items()}


def akin(first: str, second: str) -> bool:
    """Is one a kind of the other, or as good as? By the list of kin.txt, or by name (`polar bear` is a `bear`)."""
    return second in _listed().get(first, ()) or first.endswith(f" {second}") or second.endswith(f" {first}")
