"""Which pictures are for training and which for each test: names and drawing styles are kept apart here, and only here.

new_scenes: seen names in seen styles, unseen scenes. new_style: seen names in a style that training never draws.
new_names: names that training never draws or asks for; only where, count, colour and yes/no can be answered, and naming
them has no target. easy_vqa_*: the public benchmark's own split (see easy_vqa).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from leo_core.data import easy_vqa
from leo_core.data.build import generate, split_names
from leo_core.data.icons import STYLES, UNSEEN_STYLE, Icons
from leo_core.data.samples import Sample
from leo_core.errors import InputError
from leo_core.files import cache_folder


@dataclass(frozen=True)
class PictureSet:
    """seed: of its scenes; count: pictures by default; held_out: draws the names that training never sees.

    easy_vqa: the benchmark's split to take the pictures from, with `questions` of each (None = all). names: the only ones
    drawn (none given = all that are seen in training); domains: shares of the kinds of pictures (None = the usual mix).
    """

    name: str
    seed: int
    count: int
    styles: Sequence[str] = STYLES
    held_out: bool = False
    scenes_only: bool = False
    easy_vqa: str = ""
    questions: int | None = None
    names: Sequence[str] = ()
    domains: Mapping[str, float] | None = None


SETS = (
    PictureSet("new_scenes", 999, 500),
    PictureSet("new_style", 998, 250, (UNSEEN_STYLE,), scenes_only=True),
    PictureSet("new_names", 997, 250, held_out=True, scenes_only=True),
    PictureSet("train", 1, 9000),
    PictureSet("easy_vqa_test", 0, 200, easy_vqa="test"),
    PictureSet("easy_vqa_train", 0, 1500, easy_vqa="train", questions=3),
)

LAB_NAMES = (
    "apple", "banana", "bell", "bicycle", "bus", "butterfly", "cactus", "candle", "castle", "crab", "crown", "drum",
    "elephant", "fish", "guitar", "key", "lion", "mushroom", "penguin", "robot", "rocket", "snail", "star", "umbrella",
)  # fmt: skip
_LAB = {"styles": STYLES[:2], "names": LAB_NAMES, "domains": {"scenes": 0.45, "reading": 0.3, "charts": 0.25}}
LAB_SETS = (PictureSet("lab_train", 21, 2200, **_LAB), PictureSet("lab_test", 979, 450, **_LAB))
"""Few names in two styles, for a decoder that starts from nothing (leo_core.experiments); built only when asked for."""


def set_named(name: str) -> PictureSet:
    """Raises InputError for an unknown name."""
    for one in (*SETS, *LAB_SETS):
        if one.name == name:
            return one
    raise InputError(f"There is no picture set '{name}': choose one of {', '.join(one.name for one in (*SETS, *LAB_SETS))}.")


def pictures(chosen: PictureSet, icons: Icons, count: int, first: int = 0) -> Iterator[Sample]:
    """`count` samples of a set from number `first` on. icons: all styles, the unseen one included."""
    if chosen.easy_vqa:
        folder = easy_vqa.fetch(cache_folder() / "easy-vqa")
        samples = easy_vqa.samples(folder, chosen.easy_vqa, first + count, chosen.questions, chosen.seed)
        return islice(samples, first, None)
    seen, unseen = split_names(icons.names)
    domains = {"scenes": 1.0} if chosen.scenes_only else chosen.domains
    names = unseen if chosen.held_out else chosen.names or seen
    return generate(icons, count, chosen.seed, names, chosen.styles, domains, first)
