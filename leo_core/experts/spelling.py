"""From a text recogniser's posteriors to words, and from words to vectors that say how they are spelled.

A recogniser trained with CTC gives, for each column of a strip, a distribution over characters and "blank". A run of
columns with the same most likely character is one character. A word's vector holds one distribution over a small
alphabet for each of its first `SLOTS` characters: linear in the posteriors, and the same wherever the word stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
SYMBOLS = "$€£%.,:;!?&-'/+#"
ALPHABET = LETTERS + SYMBOLS
CODE = len(ALPHABET) + 2
"""Channels of one character: the alphabet, "another character", and "it is a capital"."""
SLOTS = 12
"""Characters of a word that have channels of their own; the rest of a longer word is not seen."""
EXTRA = 6
"""Further channels: length, height and number of its strip, place in it, strips in the picture, "nothing was read"."""
WIDTH = SLOTS * CODE + EXTRA
GAP = 2.3
"""Two characters further apart than this many times the strip's median distance belong to different words."""


@dataclass(frozen=True)
class Word:
    """A word of one strip. start, end: columns (end exclusive); text: most likely characters; codes: one row a character."""

    start: int
    end: int
    text: str
    codes: Float[np.ndarray, "characters code"]


class Spelling:
    """Knows a recogniser's classes: 0 is the blank, then `characters`, then the space."""

    def __init__(self, characters: Sequence[str]):
        self.characters = ("", *characters, " ")
        self._code = np.zeros((len(self.characters), CODE), dtype=np.float32)
        for index, character in enumerate(self.characters):
            if index == 0 or character == " ":
                continue
            place = ALPHABET.find(character.lower())
            self._code[index, place if place >= 0 else len(ALPHABET)] = 1
            self._code[index, -1] = float(character.isupper())

    def words(self, posterior: Float[np.ndarray, "columns classes"]) -> list[Word]:
        """The words of one strip from left to right; none where every column is blank."""
        best = posterior.argmax(axis=1)
        runs, start = [], 0
        for end in range(1, len(best) + 1):
            if end == len(best) or best[end] != best[start]:
                if best[start] != 0:
                    runs.append((start, end))
                start = end
        return [self._word(posterior, best, group) for group in self._groups(best, runs)]

    def _groups(self, best: np.ndarray, runs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        centres = np.array([(start + end) / 2 for start, end in runs])
        usual = np.median(np.diff(centres)) if len(centres) > 2 else np.inf
        groups, last = [[]], None
        for run, centre in zip(runs, centres, strict=True):
            space = self.characters[best[run[0]]] == " "
            if space or last is not None and centre - last > GAP * usual:
                groups.append([])
            if not space:
                groups[-1].append(run)
            last = centre
        return [group for group in groups if group]

    def _word(self, posterior: np.ndarray, best: np.ndarray, runs: list[tuple[int, int]]) -> Word:
        codes = np.stack([posterior[start:end].mean(axis=0) @ self._code for start, end in runs])
        return Word(runs[0][0], runs[-1][1], "".join(self.characters[best[start]] for start, _ in runs), codes)


def word_vector(word: Word, height: float, strip: int, strips: int, place: float) -> Float[np.ndarray, "width"]:
    """height: of the strip as a share of the picture's; strip: its number from the top; place: 0..1 along the strip."""
    slots = np.zeros((SLOTS, CODE), dtype=np.float32)
    slots[: len(word.codes)] = word.codes[:SLOTS]
    extra = [len(word.codes) / SLOTS, height, strip / 12, place, strips / 12, 0.0]
    return np.concatenate([slots.reshape(-1), np.array(extra, dtype=np.float32)])


def spelled_as(text: str) -> Float[np.ndarray, "width"]:
    """The vector of a word that is read as `text`; nan where the text does not decide it (capitals, height, place)."""
    vector = np.full(WIDTH, np.nan, dtype=np.float32)
    slots = vector[: SLOTS * CODE].reshape(SLOTS, CODE)  # a view
    slots[:, :-1] = 0
    for slot, character in zip(slots, text.lower(), strict=False):
        place = ALPHABET.find(character)
        slot[place if place >= 0 else len(ALPHABET)] = 1
    vector[SLOTS * CODE], vector[-1] = len(text) / SLOTS, 0
    return vector


@dataclass(frozen=True)
class Spelled:
    """A word's vector read back: its first characters in lower case, and the number and height of its strip."""

    text: str
    strip: int
    height: float


def spelled(vector: Float[np.ndarray, "width"]) -> Spelled:
    """The recogniser's own reading, from a vector that was not standardised; no text for `nothing_vector`."""
    slots = vector[: SLOTS * CODE].reshape(SLOTS, CODE)[:, :-1]
    text = "".join((ALPHABET + "?")[slot.argmax()] for slot in slots if slot.max() > 0.3)
    return Spelled(text, round(float(vector[-4]) * 12), float(vector[-5]))


def nothing_vector() -> Float[np.ndarray, "width"]:
    """The one token of a picture in which nothing could be read."""
    vector = np.zeros(WIDTH, dtype=np.float32)
    vector[-1] = 1
    return vector
