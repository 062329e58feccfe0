"""Rendered text to read: a word, a number, a price, a sign of two words, two lines; sometimes beside an icon."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from leo_core.data.asking import Group, choose, single, yes_and_no
from leo_core.data.backgrounds import COLOURS, LONG_SIDE, background, contrasting, distance, evenly, jittered
from leo_core.data.english import with_article
from leo_core.data.fonts import any_face, font
from leo_core.data.samples import Box, Question, Region, Sample
from leo_core.data.scene_questions import presence
from leo_core.data.scenes import IconSource
from leo_core.data.sprites import paste, text_sprite, turned

FORMS = {"word": 0.3, "sign": 0.15, "number": 0.15, "price": 0.15, "lines": 0.25}
WITH_ICON = 0.25
SMALLEST, LARGEST = 39, 84
"""Font sizes in pixels; capitals are 0.73 of it, so at least 28 pixels high."""
SIGN_WORD = 7
"""Most letters in a word of a sign: two of them fit the widest picture at the smallest size."""
LIGHTER = 85
"""Least difference in lightness (0..255) between ink and paper."""
TURNED, DEGREES = 1 / 3, 8

READ = {
    "word": ("What does it say?", "What is written here?", "Read the text.", "What does the text say?", "Which words are written?"),
    "number": ("What number is this?", "Which number is written here?", "Read the number.", "What is the number?"),
    "price": ("What is the price?", "How much does it cost?", "Read the price.", "Which price is written here?"),
}
LINE = ("What does the {which} line say?", "What is written on the {which} line?", "Read the {which} line.",
        "What is the text of the {which} line?")  # fmt: skip
IS_WORD = ('Does it say "{text}"?', 'Is the text "{text}"?', 'Does the picture say "{text}"?', 'Can you read "{text}" here?')
HAS_LINE = ('Does one line say "{text}"?', 'Is "{text}" written here?', 'Can you read "{text}" here?', 'Is one of the lines "{text}"?')
FIRST = ("What is the first letter?", "Which letter comes first?", "With which letter does the text begin?",
         "Name the first letter of the text.")  # fmt: skip
FORM = ("Is it a word, a number or a price?", "What is written: a word, a number or a price?",
        "Which is it: word, number or price?", "Does the picture show a word, a number or a price?")  # fmt: skip
INK = ("What colour is the text?", "What is the colour of the letters?", "Which colour is the writing?",
       "In which colour is the text written?")  # fmt: skip
PAPER = ("What colour is the background?", "What is the background colour?", "Which colour is behind the text?",
         "Name the colour of the background.")  # fmt: skip
NEXT_TO = ("What is the object next to the text?", "Which object is beside the text?", "What do you see besides the text?",
           "What is drawn with the text?")  # fmt: skip


@dataclass(frozen=True)
class Writing:
    """What is written: its lines, its form (a key of FORMS) and a text of the same form that is not there."""

    lines: tuple[str, ...]
    form: str
    decoy: str


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Common English words in lower case, alphabetical."""
    return tuple(Path(__file__).with_name("words.txt").read_text().split())


def draw_text(rng: np.random.Generator, source: IconSource, name: str) -> Sample:
    """A sample of the reading domain."""
    writing = write(rng)
    ink, paper, rgb = colours(rng)
    face, size = any_face(rng), int(rng.integers(SMALLEST, LARGEST + 1))
    widest = max(font(face, 100).getlength(line) / 100 for line in writing.lines)
    size = max(SMALLEST, min(size, int(0.86 * LONG_SIDE[1] / widest)))
    sprites = [text_sprite(line, font(face, size), rgb) for line in writing.lines]
    if rng.random() < TURNED:
        angle = rng.uniform(-DEGREES, DEGREES) if len(sprites) == 1 else 0
        sprites = [turned(sprite, angle) for sprite in sprites]
    icon = source.pick(rng, 1)[0] if len(sprites) == 1 and rng.random() < WITH_ICON else None
    drawn = [(sprite, line, True) for sprite, line in zip(sprites, writing.lines, strict=True)]
    if icon:
        sprite, colour = source.sprite(rng, icon, int(rng.uniform(70, 130)))
        if distance(colour, np.array(COLOURS[paper])) < 90:
            paper = contrasting(rng, [colour, np.array(rgb)], 150)
        drawn.insert(int(rng.integers(2)), (sprite, icon, False))
    picture, regions = _stack(rng, drawn, paper)
    return Sample(name, picture, _ask(rng, writing, ink, paper, icon, source), regions)


def write(rng: np.random.Generator) -> Writing:
    """Draw a text of a random form, and its decoy."""
    form = list(FORMS)[rng.choice(len(FORMS), p=list(FORMS.values()))]
    case: Callable[[str], str] = (str.upper, str.lower, str.capitalize)[rng.integers(3)]
    pool = [word for word in words() if form != "sign" or len(word) <= SIGN_WORD]

    def pick() -> str:
        return case(pool[rng.integers(len(pool))])

    if form in ("word", "sign", "lines"):
        parts = [pick() for _ in range({"word": 1, "sign": 2, "lines": 2}[form])]
        other = pick()
        while other in parts or parts[0] == parts[-1] and len(parts) > 1:
            parts[-1], other = pick(), pick()
        lines = tuple(parts) if form == "lines" else (" ".join(parts),)
        return Writing(lines, form, f"{parts[0]} {other}" if form == "sign" else other)
    draw = _number if form == "number" else _price
    text, decoy = draw(rng), draw(rng)
    while decoy == text:
        decoy = draw(rng)
    return Writing((text,), form, decoy)


def _number(rng: np.random.Generator) -> str:
    return str(int(rng.integers(1, 10 ** int(rng.integers(1, 5)))))


def _price(rng: np.random.Generator) -> str:
    return f"${int(rng.integers(1, 10 ** int(rng.integers(1, 4))))}.{('00', '50', '95', '99', '25', '75', '49')[rng.integers(7)]}"


def colours(rng: np.random.Generator) -> tuple[str, str, tuple[int, int, int]]:
    """Names of the ink and the paper, which contrast in lightness, and the ink's RGB."""
    names = list(COLOURS)
    light = {name: float(np.dot(rgb, (0.3, 0.59, 0.11))) for name, rgb in COLOURS.items()}
    ink = names[rng.integers(len(names))]
    papers = [name for name in names if abs(light[name] - light[ink]) > LIGHTER]
    paper = evenly(rng, papers)
    return ink, paper, tuple(int(value) for value in jittered(rng, ink, 8))


def word_regions(box: Box, line: str) -> list[Region]:
    """One region a word: the line's box cut by numbers of characters, as if all were equally wide."""
    x0, y0, x1, y1 = box
    pitch, regions, at = (x1 - x0) / len(line), [], 0
    for word in line.split(" "):
        regions.append(Region((x0 + at * pitch, y0, x0 + (at + len(word)) * pitch, y1), word))
        at += len(word) + 1
    return regions


def _stack(rng: np.random.Generator, drawn: list[tuple[Image.Image, str, bool]], paper: str) -> tuple[Image.Image, tuple[Region, ...]]:
    """Sprites one under the other with a margin, on a picture of an allowed size."""
    gap = int(rng.integers(14, 30))
    tall = sum(sprite.height for sprite, *_ in drawn) + gap * (len(drawn) + 1)
    wide = max(sprite.width for sprite, *_ in drawn) + 2 * gap
    wide, tall = max(wide, int(rng.integers(LONG_SIDE[0], 360))), max(tall, int(rng.integers(120, 280)))
    wide, tall = min(max(wide, tall // 2), LONG_SIDE[1]), min(max(tall, wide // 2), LONG_SIDE[1])
    picture = background(rng, (wide, tall), paper)
    slack, y, regions = (tall - sum(sprite.height for sprite, *_ in drawn)) / (len(drawn) + 1), 0.0, []
    for sprite, phrase, written in drawn:
        y += slack + sprite.height / 2
        room = max(0.0, (wide - sprite.width) / 2 - 4)
        box = paste(picture, sprite, (wide / 2 + rng.uniform(-room, room), y))
        regions += word_regions(box, phrase) if written else [Region(box, phrase)]
        y += sprite.height / 2
    return picture, tuple(regions)


def _ask(
    rng: np.random.Generator, writing: Writing, ink: str, paper: str, icon: str | None, source: IconSource
) -> tuple[Question, ...]:
    plain = {"sign": "word"}.get(writing.form, writing.form)
    must: list[Group] = []
    if writing.form == "lines":
        for which, line in zip(("first", "second"), writing.lines, strict=True):
            must.append(single(rng, LINE, line.lower(), "line", "reading", which=which))
    else:
        must.append(single(rng, READ[plain], writing.lines[0].lower(), plain, "reading"))
    line = writing.lines[rng.integers(len(writing.lines))]
    must.append(yes_and_no(rng, IS_WORD if len(writing.lines) == 1 else HAS_LINE, {"text": line}, {"text": writing.decoy},
                           "is_word", "reading"))  # fmt: skip
    optional = [single(rng, INK, ink, "text_colour", "reading"),
                single(rng, PAPER, paper, "colour", "reading")]  # fmt: skip
    if writing.form in READ:
        optional.append(single(rng, FORM, writing.form, "text_form", "reading"))
    if plain == "word":
        optional.append(single(rng, FIRST, writing.lines[0][0].lower(), "letter", "reading"))
    if icon:
        must.append(single(rng, NEXT_TO, with_article(icon), "what", "objects"))
        optional.append(presence(rng, [icon], source))
    return choose(rng, must, optional)
