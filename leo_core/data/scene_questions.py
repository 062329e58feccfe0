"""What can be asked about a scene, each question only where the picture decides the answer."""

from collections import Counter

import numpy as np

from leo_core.data.asking import Group, choose, single, yes_and_no
from leo_core.data.english import NUMBERS, counted, listed, plural, with_article
from leo_core.data.samples import Question
from leo_core.data.scenes import IconSource, Scene, corner_name

WHAT = ("What is in the picture?", "What do you see?", "Name what the picture shows.", "What is shown here?")
ONE = (*WHAT, "What is this?", "Which object is this?")
WHERE = ("Where is the {name}?", "In which corner is the {name}?", "Which corner is the {name} in?",
         "Where in the picture is the {name}?")  # fmt: skip
CORNER = ("What is in the {corner} corner?", "What is at the {corner}?", "Which object is at the {corner}?",
          "What do you see in the {corner} corner?")  # fmt: skip
SIDE = ("Is the {name} on the {first} or on the {second}?", "Which side is the {name} on, {first} or {second}?",
        "On which side is the {name}: {first} or {second}?", "Do you find the {name} on the {first} or the {second}?")  # fmt: skip
LEVEL = ("Is the {name} at the {first} or at the {second}?", "Where is the {name}, {first} or {second}?",
         "Is the {name} in the {first} half or the {second} half?", "Do you find the {name} at the {first} or the {second}?")  # fmt: skip
COUNT = ("How many {names} are there?", "How many {names} do you see?", "Count the {names}.", "How many {names} are in the picture?")
TOTAL = ("How many objects are there?", "How many things are in the picture?", "Count the objects.", "How many objects do you see?")
COLOUR = ("What colour is the background?", "What is the background colour?", "Which colour is behind the objects?",
          "Name the colour of the background.")  # fmt: skip
YES_NO = ("Is there {a} in the picture?", "Can you see {a}?", "Does the picture show {a}?", "Do you see {a} here?",
          "Is {a} visible?")  # fmt: skip
BESIDE = {
    "left": ("What is to the left of the {name}?", "What is left of the {name}?", "Which object is on the left of the {name}?",
             "What stands left of the {name}?"),
    "right": ("What is to the right of the {name}?", "What is right of the {name}?", "Which object is on the right of the {name}?",
              "What stands right of the {name}?"),
    "above": ("What is above the {name}?", "What is over the {name}?", "Which object is above the {name}?",
              "What do you see above the {name}?"),
    "below": ("What is below the {name}?", "What is under the {name}?", "Which object is below the {name}?",
              "What do you see below the {name}?"),
}  # fmt: skip
RELATED = ("Is the {name} {side} the {other}?", "Do you see the {name} {side} the {other}?",
           "Does the {name} appear {side} the {other}?", "Is it true that the {name} is {side} the {other}?")  # fmt: skip
SIDES = {"x": ("to the left of", "to the right of"), "y": ("above", "below")}


def ask_scene(rng: np.random.Generator, scene: Scene, source: IconSource) -> tuple[Question, ...]:
    """Three to five questions. Yes/no questions come as a yes with a no; not every scene has them: they teach least."""
    names = list(dict.fromkeys(region.phrase for region in scene.regions))
    must, optional = [], [background_colour(rng, scene), presence(rng, names, source)]
    if scene.layout == "one":
        must.append(single(rng, ONE, with_article(names[0]), "what", "objects"))
    elif scene.layout == "crowd":
        must.append(counts(rng, scene))
        optional += [*_what_crowd(rng, names, scene), _total(rng, scene)]
    elif scene.layout == "corners":
        must += [_where(rng, scene), _corner(rng, scene)]
        optional.append(_total(rng, scene))
    if scene.layout in ("row", "column"):
        must.append(single(rng, WHAT, listed([with_article(name) for name in names]), "what", "scenes"))
        optional += [_beside(rng, scene), _side(rng, scene)]
    if -1 not in scene.cells[0]:
        optional.append(_where(rng, scene))
    if scene.layout in ("row", "column", "corners"):
        optional += _related(rng, scene)[:1]
    return choose(rng, must, optional)


def presence(rng: np.random.Generator, names: list[str], source: IconSource) -> Group:
    """Is there a ...? once for a thing that is there and once for one that is not, half of the time of its category."""
    here = names[rng.integers(len(names))]
    absent = source.other(rng, names, here)
    fields = ({"a": with_article(here)}, {"a": with_article(absent)})
    return yes_and_no(rng, YES_NO, *fields, "yesno", "scenes")


def background_colour(rng: np.random.Generator, scene: Scene) -> Group:
    return single(rng, COLOUR, scene.colour, "colour", "scenes")


def counts(rng: np.random.Generator, scene: Scene) -> Group:
    """How many of the first name; its number is drawn evenly from one to five."""
    name = scene.regions[0].phrase
    number = sum(region.phrase == name for region in scene.regions)
    return single(rng, COUNT, NUMBERS[number], "count", "scenes", names=plural(name))


def _total(rng: np.random.Generator, scene: Scene) -> Group:
    return single(rng, TOTAL, NUMBERS[len(scene.regions)], "count", "scenes")


def _what_crowd(rng: np.random.Generator, names: list[str], scene: Scene) -> list[Group]:
    if len(names) > 1:
        return []
    number = Counter(region.phrase for region in scene.regions)[names[0]]
    return [single(rng, WHAT, counted(number, names[0]), "what", "scenes")]


def _where(rng: np.random.Generator, scene: Scene) -> Group:
    i = rng.integers(len(scene.cells))
    return single(rng, WHERE, corner_name(scene.cells[i]), "where", "scenes", name=scene.regions[i].phrase)


def _corner(rng: np.random.Generator, scene: Scene) -> Group:
    i = rng.integers(len(scene.cells))
    answer, corner = with_article(scene.regions[i].phrase), corner_name(scene.cells[i])
    return single(rng, CORNER, answer, "corner", "scenes", corner=corner)


def _side(rng: np.random.Generator, scene: Scene) -> Group:
    """Left or right, top or bottom: the two words stand in the question, in random order."""
    i = int(rng.integers(2))
    words, templates = (("left", "right"), SIDE) if scene.layout == "row" else (("top", "bottom"), LEVEL)
    first, second = words if rng.random() < 0.5 else words[::-1]
    name = scene.regions[i].phrase
    return single(rng, templates, words[i], "where", "scenes", name=name, first=first, second=second)


def _beside(rng: np.random.Generator, scene: Scene) -> Group:
    """What is left of the dog? - of two things in a row or a column, so that there is one answer."""
    i = int(rng.integers(2))
    word = (("left", "right") if scene.layout == "row" else ("above", "below"))[i]
    answer, name = with_article(scene.regions[i].phrase), scene.regions[1 - i].phrase
    return single(rng, BESIDE[word], answer, "relation", "scenes", name=name)


def _related(rng: np.random.Generator, scene: Scene) -> list[Group]:
    """Is the dog left of the cat? for two things in different columns or rows; the no says the opposite side."""
    i, j = rng.permutation(len(scene.cells))[:2]
    groups = []
    for axis, (near, far) in SIDES.items():
        mine, yours = (scene.cells[k][axis == "y"] for k in (i, j))
        if mine != yours:
            right, wrong = (near, far) if mine < yours else (far, near)
            fields = {"name": scene.regions[i].phrase, "other": scene.regions[j].phrase}
            groups.append(yes_and_no(rng, RELATED, {**fields, "side": right}, {**fields, "side": wrong}, "relation", "scenes"))
    return groups
