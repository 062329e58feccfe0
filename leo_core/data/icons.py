"""Pictures of nameable things: icon packs in several drawing styles, rendered to RGBA sprites."""

import io
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import resvg_py
from PIL import Image

from leo_core.data.sprites import trimmed
from leo_core.errors import InputError, PartError

STYLES = ("noto", "fluent", "openmoji")
"""Drawing styles of the training pictures."""
UNSEEN_STYLE = "twemoji"
"""Only ever drawn for tests."""
STEPS = (128, 256)
"""Rendered sizes in pixels; other sizes are scaled down from the next step."""
CACHED = 1500
OBJECTS = Path(__file__).with_name("objects.txt")


def read_objects(path: Path = OBJECTS) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The vocabulary: name -> (category, icon ids that show it). The file's head explains its format."""
    category_of, icons_of = {}, defaultdict(list)
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        category, entries = line.split(":")
        for entry in entries.split():
            icon, _, given = entry.partition("=")
            name = given.replace("_", " ") if given else icon.replace("-", " ")
            category_of.setdefault(name, category)
            icons_of[name].append(icon)
    return {name: (category, tuple(icons_of[name])) for name, category in category_of.items()}


class Icons:
    """The icons of a folder that holds `<style>/icons.json` for each style (see `packs.fetch_packs`).

    names: sorted names of the vocabulary that every style can draw. Raises PartError for a missing or damaged pack.
    """

    def __init__(self, folder: Path, styles: Sequence[str] = STYLES):
        self.styles = tuple(styles)
        self._packs = {style: _read_pack(Path(folder) / style / "icons.json") for style in self.styles}
        known = set.intersection(*(set(pack["icons"]) for pack in self._packs.values()))
        self._icons, self._category = {}, {}
        for name, (category, icons) in read_objects().items():
            drawable = tuple(icon for icon in icons if icon in known)
            if drawable:
                self._icons[name], self._category[name] = drawable, category
        if not self._icons:
            raise PartError(f"The icon packs in {folder} share no icon of the vocabulary: fetch them again.")
        self.names = tuple(sorted(self._icons))
        self._draw = lru_cache(maxsize=CACHED)(self._draw)

    def category(self, name: str) -> str:
        """`animals`, `food`, `vehicles` ... Raises InputError for an unknown name."""
        return self._category[self._known(name)]

    def variants(self, name: str) -> int:
        """How many icons show this name (a cat, a cat's face, a black cat)."""
        return len(self._icons[self._known(name)])

    def render(self, name: str, style: str, size: int, variant: int = 0) -> Image.Image:
        """The icon as an RGBA sprite without empty margins, longer side exactly `size` pixels."""
        if style not in self.styles:
            raise InputError(f"There is no icon style '{style}': choose one of {', '.join(self.styles)}.")
        step = next((step for step in STEPS if step >= size), STEPS[-1])
        drawn = self._draw(self._icons[self._known(name)][variant], style, step)
        scale = size / max(drawn.size)
        return drawn.resize(tuple(max(1, round(side * scale)) for side in drawn.size), Image.Resampling.BICUBIC)

    def mean_colour(self, name: str, style: str, variant: int = 0) -> np.ndarray:
        """(3,) mean RGB 0..255 of the visible part: how much it stands out from a background."""
        drawn = np.asarray(self._draw(self._icons[self._known(name)][variant], style, STEPS[0]), dtype=np.float32)
        return np.average(drawn[..., :3].reshape(-1, 3), axis=0, weights=drawn[..., 3].reshape(-1))

    def _known(self, name: str) -> str:
        if name not in self._icons:
            raise InputError(f"There is no icon named '{name}': choose from Icons.names ({len(self._icons)} names).")
        return name

    def _draw(self, icon: str, style: str, step: int) -> Image.Image:
        pack = self._packs[style]
        entry = pack["icons"][icon]
        width, height = (entry.get(side, pack.get(side, 16)) for side in ("width", "height"))
        left, top = entry.get("left", 0), entry.get("top", 0)
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {width} {height}">{entry["body"]}</svg>'
        try:
            png = resvg_py.svg_to_bytes(svg_string=svg, width=step, skip_system_fonts=True)
        except ValueError as error:
            raise PartError(f"The icon '{icon}' of style '{style}' cannot be drawn ({error}): fetch the packs again.") from error
        return trimmed(Image.open(io.BytesIO(bytes(png))).convert("RGBA"))


def _read_pack(path: Path) -> dict:
    try:
        pack = json.loads(path.read_text(encoding="utf-8"))
        return {**pack, "icons": dict(pack["icons"])}
    except (OSError, ValueError, KeyError) as error:
        raise PartError(f"The icon pack {path} is missing or damaged: fetch it with leo_core.data.packs.fetch_packs.") from error
