"""Scenes: one to six icons on a coloured background, each in a place that words can name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from leo_core.data.backgrounds import background, contrasting, picture_size
from leo_core.data.icons import Icons
from leo_core.data.kin import akin
from leo_core.data.samples import Region
from leo_core.data.sprites import mirrored, paste, turned

LAYOUTS = {"one": 0.3, "pair": 0.25, "corners": 0.25, "crowd": 0.2}
"""Share of each layout: a single thing; two side by side or one over the other; two to four things in different
corners; one thing several times, often among another."""

CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))
Cell = tuple[float, float, float, float]
"""x0, y0, x1, y1 as shares of the picture."""


@dataclass(frozen=True)
class Scene:
    """layout: one of LAYOUTS, or `row`/`column` for a pair; cells: the (column, row) of each region's half or corner,
    (-1, -1) where the place has no name."""

    picture: Image.Image
    regions: tuple[Region, ...]
    layout: str
    colour: str
    cells: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class IconSource:
    """Which icons a sample may use: names and drawing styles of `icons`."""

    icons: Icons
    names: Sequence[str]
    styles: Sequence[str]

    def pick(self, rng: np.random.Generator, number: int) -> list[str]:
        """Different names, each after the first half of the time from the category of the first."""
        chosen = [self.names[rng.integers(len(self.names))]]
        while len(chosen) < number:
            chosen.append(self.other(rng, chosen, chosen[0]))
        return chosen

    def other(self, rng: np.random.Generator, taken: Sequence[str], like: str) -> str:
        """A name not in `taken` nor akin to one of them; half of the time from the category of `like`."""
        rest = [name for name in self.names if name not in taken]
        free = [name for name in rest if not any(akin(name, one) for one in taken)] or rest
        alike = [name for name in free if self.icons.category(name) == self.icons.category(like)]
        pool = alike if alike and rng.random() < 0.5 else free
        return pool[rng.integers(len(pool))]

    def sprite(self, rng: np.random.Generator, name: str, size: int) -> tuple[Image.Image, np.ndarray]:
        """A freshly varied picture of `name` (style, variant, mirrored, turned a little) and its mean colour."""
        style = self.styles[rng.integers(len(self.styles))]
        variant = int(rng.integers(self.icons.variants(name)))
        sprite = self.icons.render(name, style, size, variant)
        if rng.random() < 0.5:
            sprite = mirrored(sprite)
        if rng.random() < 0.4:
            sprite = turned(sprite, rng.uniform(-12, 12))
        return sprite, self.icons.mean_colour(name, style, variant)


def draw_scene(rng: np.random.Generator, source: IconSource) -> Scene:
    """A new scene. Icons fill 25-55 % of the short side (a single one up to 75 %) and never overlap."""
    layout = list(LAYOUTS)[rng.choice(len(LAYOUTS), p=list(LAYOUTS.values()))]
    width, height = picture_size(rng)
    if layout == "one":
        return _single(rng, source, (width, height))
    if layout == "pair":
        row = rng.random() < 0.5 if 0.75 < width / height < 4 / 3 else width > height
        names, places = source.pick(rng, 2), [(0, -1), (1, -1)] if row else [(-1, 0), (-1, 1)]
        layout, boxes = ("row" if row else "column"), [_half(place) for place in places]
    elif layout == "corners":
        number = int(rng.integers(2, 5))
        names = source.pick(rng, number)
        places = [CORNERS[i] for i in rng.permutation(4)[: len(names)]]
        boxes = [_half(place) for place in places]
    else:
        names, boxes = _crowd(rng, source, width > height)
        places = [(-1, -1)] * len(names)
    return _compose(rng, source, (width, height), names, boxes, places, layout)


def _single(rng: np.random.Generator, source: IconSource, size: tuple[int, int]) -> Scene:
    place = CORNERS[rng.integers(4)] if rng.random() < 0.4 else (-1, -1)
    box = (0.06, 0.06, 0.94, 0.94) if place == (-1, -1) else _half(place)
    return _compose(rng, source, size, source.pick(rng, 1), [box], [place], "one")


def _crowd(rng: np.random.Generator, source: IconSource, wide: bool) -> tuple[list[str], list[Cell]]:
    """One name one to five times, in six cells; in half of the scenes another name fills some of the rest."""
    number = int(rng.integers(1, 6))
    first, second = source.pick(rng, 2)
    more = int(rng.integers(1, 7 - number)) if rng.random() < 0.5 else 0
    names = [first] * number + [second] * more
    columns, rows = (3, 2) if wide else (2, 3)
    cells = [(x / columns, y / rows, (x + 1) / columns, (y + 1) / rows) for x in range(columns) for y in range(rows)]
    return names, [cells[i] for i in rng.permutation(6)[: len(names)]]


def _half(place: tuple[int, int]) -> Cell:
    """The half or corner of the picture at (column, row); -1 means the whole length, kept near its middle."""
    (x0, x1), (y0, y1) = ((0.2, 0.8) if index < 0 else (index / 2, (index + 1) / 2) for index in place)
    return x0, y0, x1, y1


def _compose(
    rng: np.random.Generator,
    source: IconSource,
    size: tuple[int, int],
    names: list[str],
    boxes: list[Cell],
    places: list[tuple[int, int]],
    layout: str,
) -> Scene:
    """Draw each name inside its cell, small enough for it and off the middle lines, on a background that contrasts."""
    width, height = size
    most = 0.75 if layout == "one" and places[0] == (-1, -1) else 0.55
    sprites, colours = [], []
    for name, (x0, y0, x1, y1) in zip(names, boxes, strict=True):
        room = min((x1 - x0) * width, (y1 - y0) * height)
        largest = min(0.94 * room, most * min(size))
        sprite, colour = source.sprite(rng, name, int(rng.uniform(max(0.25 * min(size), 0.62 * largest), largest)))
        if max(sprite.size) > 0.96 * room:
            sprite.thumbnail((int(0.96 * room), int(0.96 * room)))
        sprites.append(sprite)
        colours.append(colour)
    colour = contrasting(rng, colours)
    picture = background(rng, size, colour)
    regions = []
    for name, sprite, cell in zip(names, sprites, boxes, strict=True):
        centre = _somewhere(rng, cell[0::2], width, sprite.width), _somewhere(rng, cell[1::2], height, sprite.height)
        regions.append(Region(paste(picture, sprite, centre), name))
    return Scene(picture, tuple(regions), layout, colour, tuple(places))


def _somewhere(rng: np.random.Generator, span: tuple[float, float], length: int, sprite: int) -> float:
    """A centre in pixels inside the span, at most a tenth of the picture away from the middle of the span."""
    slack = max(0.0, ((span[1] - span[0]) * length - sprite) / 2)
    slack = min(slack, 0.1 * length)
    return (span[0] + span[1]) / 2 * length + rng.uniform(-slack, slack)


def corner_name(cell: tuple[int, int]) -> str:
    """`top left` ... of a (column, row)."""
    return f"{('top', 'bottom')[cell[1]]} {('left', 'right')[cell[0]]}"
