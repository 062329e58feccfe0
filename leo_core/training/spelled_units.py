"""Hidden units that read: made from how words and numbers are spelled, so that no picture is needed.

A word has a unit of its own. A number is read character by character: a unit for each character at each place, so that numbers
no picture shows are read as well.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from leo_core.experts.expert import VisionExpert, VisionExperts
from leo_core.training.ridge import ridge

WORD_PENALTY, NUMBER_PENALTY = 10.0, 0.1
SHARPNESS, LEAST_READ, LEAST_DIGIT, LEAST_SCORE = 8.0, 0.7, 0.3, 0.1
"""How steep units are, and the scores below which those of words, of a number's characters and of things are nearly silent.
What stands alone in its cell scores 1, each of two that share it about a half: words then speak of neither, digits of both."""

MOST_CHARACTERS, MADE_UP = 7, 200
"""Of a number that have units (`$129.95` has seven), and how many numbers of each length are made up for their fit."""


class Units(NamedTuple):
    """Hidden units with what each says: unit i is gelu(weight[i] x + bias[i]) times said[i]."""

    names: list[str]
    weight: Float[Tensor, "k d"]
    bias: Float[Tensor, "k"]
    said: Float[Tensor, "k width"]

    def __call__(self, inputs: Float[Tensor, "rows d"]) -> Float[Tensor, "rows k"]:
        return F.gelu(inputs @ self.weight.T + self.bias)


def is_number(name: str) -> bool:
    """Digits with or without signs: `7`, `3520`, `$4.50`."""
    return any(map(str.isdigit, name)) and not any(letter.isalpha() or letter.isspace() for letter in name)


def word_units(experts: VisionExperts, names: Sequence[str], most: int, named: Callable[[str], Tensor]) -> Units | None:
    """A unit for each of the most frequent names that are one word of letters.

    Scores are a ridge regression of the spelled words onto which one it is, so that words of like letters are told apart; each
    word scores 1 on itself. None where no expert reads.
    """
    known = [name for name, _ in Counter(name.lower() for name in names if name.isalpha()).most_common(most)]
    spelled = written(experts, known)
    if not spelled.any():
        return None
    gram = (spelled.T @ spelled).double()
    gram += WORD_PENALTY * torch.eye(len(gram), dtype=gram.dtype)
    weight = torch.linalg.solve(gram, spelled.T.double()).T.to(spelled)
    weight = weight / (weight * spelled).sum(dim=1, keepdim=True)
    bias = torch.full((len(known),), -SHARPNESS * LEAST_READ)
    return Units(known, SHARPNESS * weight, bias, torch.stack([named(name) for name in known]))


def number_units(experts: VisionExperts, names: Sequence[str], said: Callable[[str, int], Tensor], most: int) -> Units | None:
    """A unit for each character that stands at some place of a number among `names`; it scores 1 on what has that character there.

    said: from a character and its place (0..) to what it adds to a number's embedding. Fitted on these and on made-up numbers,
    and on the words, which score 0. None where no expert reads or nothing is a number.
    """
    numbers = sorted({name.lower() for name in names if is_number(name)})
    places = sorted({at for name in numbers for at in enumerate(name[:MOST_CHARACTERS])})[:most]
    texts = [*numbers, *_made_up(places), *sorted({name.lower() for name in names if name.isalpha()})]
    spelled = written(experts, texts)
    if not places or not spelled.any():
        return None
    has = torch.tensor([[float(is_number(text) and text[place : place + 1] == letter) for place, letter in places] for text in texts])
    weight, bias = ridge(spelled, has, NUMBER_PENALTY)
    units = [f"{letter} at {place}" for place, letter in places]
    return Units(units, SHARPNESS * weight, SHARPNESS * (bias - LEAST_DIGIT), torch.stack([said(letter, place) for place, letter in places]))


def _made_up(places: Sequence[tuple[int, str]]) -> list[str]:
    """Numbers of every length whose characters all occur at their places."""
    at = [[letter for place, letter in places if place == i] for i in range(MOST_CHARACTERS)]
    rng, found = np.random.default_rng(0), []
    for length in range(1, next((i for i, letters in enumerate(at) if not letters), MOST_CHARACTERS) + 1):
        found += ["".join(rng.choice(letters) for letters in at[:length]) for _ in range(MADE_UP)]
    return [text for text in found if is_number(text)]


def written(experts: VisionExperts, texts: Sequence[str]) -> Float[Tensor, "texts d"]:
    """What the experts' joined channels are where each text stands alone; zero for experts that do not read."""
    rows = [torch.cat([_feature(expert, text) for expert in experts.values()]) for text in texts]
    return torch.stack(rows) if rows else torch.zeros(0, sum(experts.widths))


def _feature(expert: VisionExpert, text: str) -> Float[Tensor, "d"]:
    feature = expert.written(text)
    return torch.zeros(expert.width) if feature is None else feature


def shows_writing(words: Units | None, inputs: Float[Tensor, "rows d"], names: Sequence[str]) -> Bool[Tensor, "rows"]:
    """Which rows show their name as writing: numbers, and words that their unit reads ("lion" may be a drawing or a word)."""
    numbers = torch.tensor([is_number(name) for name in names])
    if words is None:
        return torch.zeros_like(numbers)
    number = {name: i for i, name in enumerate(words.names)}
    index = torch.tensor([number.get(name.lower(), -1) for name in names])
    own = index.clamp(min=0)
    return numbers | (index >= 0) & ((inputs * words.weight[own]).sum(dim=1) + words.bias[own] > 0)
