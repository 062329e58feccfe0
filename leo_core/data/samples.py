"""What the generator delivers: a picture, questions with short answers, and the named things on it."""

from dataclasses import dataclass

from PIL import Image

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in picture pixels."""


@dataclass(frozen=True)
class Question:
    """One question whose answer can be seen on the picture; written words are answered in lower case. kind: what is asked; domain: which skill it belongs to."""

    text: str
    answer: str
    kind: str
    domain: str


@dataclass(frozen=True)
class Region:
    """A named thing and the box it fills: an icon's name, a word as it is written."""

    box: Box
    phrase: str


@dataclass(frozen=True)
class Sample:
    """One RGB picture, long side 224 to 448 pixels, with its questions (all texts differ) and regions."""

    name: str
    picture: Image.Image
    questions: tuple[Question, ...]
    regions: tuple[Region, ...]
