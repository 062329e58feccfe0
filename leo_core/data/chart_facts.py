"""What a chart says: its kind, labels, values and colours, drawn so that their order can be seen."""

from dataclasses import dataclass

import numpy as np

KINDS = ("vertical", "horizontal", "pie", "line")
SHARES = (1 / 6, 1 / 6, 1 / 3, 1 / 3)
LABELS = (
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    ("A", "B", "C", "D", "E", "F", "G", "H"),
    ("Rome", "Oslo", "Lima", "Paris", "Cairo", "Tokyo", "Delhi", "Bern"),
    ("Tea", "Milk", "Rice", "Corn", "Fish", "Nuts", "Beans", "Salt"),
    ("2019", "2020", "2021", "2022", "2023", "2024", "2025"),
    ("Team", "Home", "Work", "School", "Games", "Music", "Food"),
    ("North", "South", "East", "West", "Core"),
)
FILLS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "gray")


@dataclass(frozen=True)
class Chart:
    """What a chart shows. kind: one of KINDS; printed: the text of each value; fills: colour name of each part."""

    kind: str
    labels: tuple[str, ...]
    values: tuple[int, ...]
    printed: tuple[str, ...]
    fills: tuple[str, ...]


def invent(rng: np.random.Generator) -> Chart:
    """Labels and values whose order can be seen: neighbours in size differ by a tenth of the scale or more."""
    kind = KINDS[rng.choice(len(KINDS), p=SHARES)]
    number = int(rng.integers(3, 6))
    pool = LABELS[rng.integers(len(LABELS))]
    start = int(rng.integers(len(pool) - number + 1))
    labels = pool[start : start + number]
    largest = int(rng.choice((10, 20, 50, 90, 100)))
    gap = max(1, largest // 8)
    ladder = gap + np.arange(number) * gap + np.sort(rng.integers(0, largest - number * gap + 1, number))
    if kind == "pie":
        ladder += largest // 5  # no slice so thin that its label meets the next
    values = tuple(int(value) for value in rng.permutation(ladder))
    fills = tuple(FILLS[i] for i in rng.permutation(len(FILLS))[:number])
    if kind == "line" or (kind != "pie" and rng.random() < 0.3):
        fills = (fills[0],) * number
    return Chart(kind, labels, values, tuple(str(value) for value in values), fills)
