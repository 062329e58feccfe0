"""Collecting every broken rule of a trace file instead of stopping at the first."""

from dataclasses import dataclass, field

import numpy as np

FLOAT, INT, BYTES, FLAG = "f", "iu", "u", "bu"
"""Kinds of number types as numpy names them."""
_KIND_WORDS = {FLOAT: "a floating type", INT: "a whole-number type", BYTES: "U8", FLAG: "U8 or BOOL"}
_TYPE_WORDS = {str: "text", bool: "true or false", list: "a list", dict: "an object", int: "a whole number"}


@dataclass(frozen=True)
class Broken:
    """One broken rule: its name in TRACE_FORMAT.md, the field or tensor, and what is wrong in words."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what} [{self.rule}]"


@dataclass
class Checks:
    """Rules asked of JSON objects and of arrays by name; `broken` collects those that do not hold."""

    arrays: dict[str, np.ndarray]
    broken: list[Broken] = field(default_factory=list)
    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def say(self, rule: str, where: str, what: str) -> None:
        self.broken.append(Broken(rule, where, what))

    def fields(self, found, wanted: dict[str, type], optional: set[str], place: str) -> bool:
        """Whether `found` is an object whose known fields are there and of their type."""
        if not isinstance(found, dict):
            self.say("field", place.rstrip("."), "it is not an object")
            return False
        before = len(self.broken)
        for name, kind in wanted.items():
            if name not in found:
                if name not in optional:
                    self.say("field", place + name, "it is missing")
            elif not isinstance(found[name], kind) or (kind is int and isinstance(found[name], bool)):
                self.say("field", place + name, f"it is not {_TYPE_WORDS[kind]}")
        return len(self.broken) == before

    def tensor(self, name: str, kinds: str, *axes: int | str, optional: bool = False) -> np.ndarray | None:
        """The tensor when its type and shape are right, else None. Axes of one name are of one size, wherever they appear."""
        if name not in self.arrays:
            if not optional:
                self.say("tensor-missing", name, "this tensor is not there")
            return None
        value = self.arrays[name]
        if value.dtype.kind not in kinds or (kinds in (BYTES, FLAG) and value.dtype.itemsize != 1):
            self.say("tensor-type", name, f"its type {value.dtype} is not {_KIND_WORDS[kinds]}")
            return None
        if value.ndim != len(axes):
            self.say("tensor-shape", name, f"its shape {value.shape} must have {len(axes)} axes: {', '.join(map(str, axes))}")
            return None
        agree = [self.size(axis, size, name) for axis, size in zip(axes, value.shape, strict=True)]  # a list: every wrong axis is said
        return value if all(agree) else None

    def size(self, axis: int | str, size: int, where: str) -> bool:
        """Whether this size agrees with the first one under the same name (or with the number)."""
        wanted, first = (axis, "the format") if isinstance(axis, int) else self.sizes.setdefault(axis, (size, where))
        if size != wanted:
            self.say("tensor-shape", where, f"its axis {axis} has {size}, but {wanted} by {first}")
        return size == wanted

    def within(self, name: str, value: np.ndarray | None, low: float, high: float) -> bool:
        """Whether all values are numbers from low to high."""
        right = value is not None and (not value.size or bool(value.min() >= low and value.max() <= high))  # False for NaN
        if value is not None and not right:
            self.say("range", name, f"its values must be numbers from {low:,} to {high:,}")
        return right
