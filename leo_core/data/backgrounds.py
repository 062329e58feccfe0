"""Picture sizes and backgrounds: plain, gradient, noisy or cloudy, in a named colour."""

import numpy as np
from PIL import Image

LONG_SIDE = (224, 448)
COLOURS = {
    "red": (214, 40, 40), "orange": (245, 140, 30), "yellow": (248, 220, 60), "green": (60, 160, 75),
    "blue": (50, 100, 215), "purple": (130, 60, 175), "pink": (248, 150, 190), "white": (248, 248, 248),
    "gray": (135, 135, 135), "black": (22, 22, 22),
}  # fmt: skip
EXTREMES = ("white", "black")
"""Colours that contrast with most things: drawn half as often, so that all colours come out about equally often."""
PATTERNS = ("plain", "gradient", "noise", "clouds")


def picture_size(rng: np.random.Generator) -> tuple[int, int]:
    """(width, height) in pixels: long side 224..448, sides 1:2 to 2:1, three in four between 3:4 and 4:3."""
    limit = 4 / 3 if rng.random() < 0.75 else 2.0
    ratio = limit ** rng.uniform(-1, 1)
    long = int(rng.integers(LONG_SIDE[0], LONG_SIDE[1] + 1))
    short = int(np.ceil(long * min(ratio, 1 / ratio)))
    return (long, short) if ratio > 1 else (short, long)


def jittered(rng: np.random.Generator, colour: str, amount: int = 12) -> np.ndarray:
    """(3,) RGB near the named colour, still inside 0..255."""
    return np.clip(np.array(COLOURS[colour]) + rng.integers(-amount, amount + 1, 3), 0, 255)


def background(rng: np.random.Generator, size: tuple[int, int], colour: str) -> Image.Image:
    """An RGB picture of `size` (width, height) that anyone would call `colour`."""
    base = jittered(rng, colour).astype(np.float32)
    pattern = PATTERNS[rng.choice(len(PATTERNS), p=(0.4, 0.25, 0.15, 0.2))]
    if pattern == "plain":
        return Image.new("RGB", size, tuple(int(value) for value in base))
    width, height = size
    if pattern == "gradient":
        corners = rng.uniform(-26, 26, (2, 2)).astype(np.float32)
        shade = _enlarged(corners, size)
    elif pattern == "noise":
        shade = rng.normal(0, rng.uniform(4, 12), (height, width)).astype(np.float32)
    else:
        shade = _enlarged(rng.normal(0, 14, (6, 6)).astype(np.float32), size)
        shade += _enlarged(rng.normal(0, 6, (24, 24)).astype(np.float32), size)
    return Image.fromarray(np.clip(base + shade[..., None], 0, 255).astype(np.uint8))


def _enlarged(grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A coarse grid of shades, smoothly brought to (height, width)."""
    return np.array(Image.fromarray(grid).resize(size, Image.Resampling.BICUBIC))


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """How different two RGB colours look, 0..765: a weighted sum of channel differences."""
    return float(np.abs(np.asarray(first, np.float32) - np.asarray(second, np.float32)) @ np.array([0.9, 1.2, 0.9]))


def evenly(rng: np.random.Generator, names: list[str]) -> str:
    """One of the colour names, EXTREMES half as likely as the others."""
    weights = np.array([0.5 if name in EXTREMES else 1.0 for name in names])
    return names[rng.choice(len(names), p=weights / weights.sum())]


def contrasting(rng: np.random.Generator, others: list[np.ndarray], least: float = 120.0) -> str:
    """A colour name that stands out from all `others`, drawn at random; the best one there is when none does."""
    gaps = {name: min((distance(rgb, other) for other in others), default=999.0) for name, rgb in COLOURS.items()}
    good = [name for name, gap in gaps.items() if gap >= least]
    return evenly(rng, good) if good else max(gaps, key=gaps.get)
