"""One process's part of work that several processes do: `--share I/N`."""

from collections.abc import Sequence
from typing import TypeVar

from leo_core.errors import InputError

Item = TypeVar("Item")


def share_of(items: Sequence[Item], text: str) -> Sequence[Item]:
    """Every N-th item from the I-th on, for a text `I/N`. Raises InputError unless 1 <= I <= N."""
    first, _, of = text.partition("/")
    if not (first.isdigit() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise InputError(f"--share takes I/N with I from 1 to N, for example 1/2; got '{text}'.")
    return items[int(first) - 1 :: int(of)]
