"""The projector's closed-form start: hidden units that read words and know things, and a linear part for what they leave.

A linear map says a mixture of all names that look alike. Of 4,845 cells of unseen scenes 52 % had the right name nearest
behind one, 64 % behind units that score names. Words are the clearest case: each is met three times in training, but how
it is spelled is known, so its unit needs no picture. Of 782 cells of words on unseen pictures 39 % had the right word
nearest when words were learned from pictures, 76 % behind units made from their spelling. Numbers are read character by
character, those too that no picture of training shows.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from leo_core.model import LeoMini
from leo_core.position import grid_boxes, position_code
from leo_core.processor import LeoProcessor
from leo_core.projector import MlpProjector
from leo_core.training.features import FeatureStore
from leo_core.training.ridge import named_cells, ridge, scores_of_names
from leo_core.training.spelled_units import LEAST_SCORE, SHARPNESS, Units, is_number, number_units, shows_writing, word_units
from leo_core.training.transcripts import place

RIDGE_PENALTY = 300.0
WORD_SHARE, THING_SHARE = 5 / 8, 1 / 4
"""Of the hidden units; the rest start silent, for training to use."""

PLACE_SHARE, DIRECTION_SHARE, CODE_SHARE = 0.5, 0.5, 0.25
"""In a visual token that also carries a thing's name: of its place's name, which is one of nine; of "right" less "left" and
"bottom" less "top", which grow with the distance from the middle: what is left of what, within a place too; and of a code that
differs in every row and column (as a share of a token's length): what stands above the label of a bar."""

LATER_SHARE = 0.7
"""Of each further piece of a name beside the one before it: a plain mean would say the same of 37 and of 73."""


def ridge_start(model: LeoMini, processor: LeoProcessor, store: FeatureStore, word_share: float = WORD_SHARE, thing_share: float = THING_SHARE) -> None:
    """The projector onto token embeddings: of the names of what the tokens show (`name_embedding`), and of their places.

    word_share, thing_share: of the hidden units; without any unit the linear part is all there is.
    """
    embedding, named = model.get_input_embeddings().weight.detach(), names_in(model, processor)
    projector = model.projector
    inputs, names = named_cells(store, model.reducer, background=True)
    targets = torch.stack([named(name) for name in names])
    hidden = projector.mlp[0].out_features
    told = [region.phrase for sample in store.samples for region in sample.regions]
    with torch.no_grad():
        words = word_units(model.vision_experts, told, int(word_share * hidden), named)
        numbers = number_units(model.vision_experts, told, _character(model, processor), hidden - int((word_share + thing_share) * hidden)) if word_share else None
        written = shows_writing(words, inputs, names)
        things = thing_units(inputs, [None if known else name for known, name in zip(written.tolist(), names, strict=True)], int(thing_share * hidden), named)
        _start_units(projector.mlp, [units for units in (words, numbers, things) if units], inputs, targets)
        weight, bias = ridge(inputs, targets - projector.mlp(inputs), RIDGE_PENALTY)
        projector.linear.weight.copy_(weight)
        projector.linear.bias.copy_(bias)
        projector.positions.copy_(_positions(model.reducer.grid, named, embedding))


def names_in(model: LeoMini, processor: LeoProcessor) -> Callable[[str], Float[Tensor, "d"]]:
    """From a name to its embedding in the decoder's input (kept: many cells show the same).

    A number is the sum of its characters, each at its place, and so may be read character by character; of other names the
    mean of their pieces, of which the first weighs most.
    """
    embedding, character = model.get_input_embeddings().weight.detach(), _character(model, processor)

    def named(phrase: str) -> Float[Tensor, "d"]:
        if is_number(phrase):
            return torch.stack([character(letter, place) for place, letter in enumerate(phrase)]).sum(dim=0)
        return name_embedding(embedding[processor.plain_ids(" " + phrase.lower())])

    return cache(named)


def name_embedding(pieces: Float[Tensor, "pieces d"]) -> Float[Tensor, "d"]:
    """The weighted mean of the embeddings of a name's pieces, of which the first weighs most."""
    weights = LATER_SHARE ** torch.arange(len(pieces)).to(pieces)
    return weights @ pieces / weights.sum()


def _character(model: LeoMini, processor: LeoProcessor) -> Callable[[str, int], Float[Tensor, "d"]]:
    """What a number's character at a place (0..) adds to its embedding: a number of two has the weights of a name of two pieces."""
    embedding = model.get_input_embeddings().weight.detach()
    return cache(lambda letter, place: LATER_SHARE**place / (1 + LATER_SHARE) * embedding[processor.plain_ids(letter)].mean(dim=0))


def thing_units(inputs: Float[Tensor, "rows d"], names: Sequence[str | None], most: int, named: Callable[[str], Tensor]) -> Units | None:
    """A unit for each of the most frequent names, from a ridge regression onto which one a row shows (None: another or writing)."""
    known, weight, bias = scores_of_names(inputs, names, most, RIDGE_PENALTY)
    said = [named(name) for name in known]
    return Units(known, SHARPNESS * weight, SHARPNESS * (bias - LEAST_SCORE), torch.stack(said)) if known else None


def _start_units(mlp: MlpProjector, groups: Sequence[Units], inputs: Tensor, targets: Tensor) -> None:
    """Each unit says what it stands for; each group speaks as loudly as fits best. The other units stay as they are: silent."""
    if not groups:
        return
    said = [units.said - units.said.mean(dim=0) for units in groups]
    spoken = [(units(inputs) @ voice).flatten() for units, voice in zip(groups, said, strict=True)]
    wanted = (targets - targets.mean(dim=0)).flatten()
    gram = torch.tensor([[float(one @ other) for other in spoken] for one in spoken], dtype=torch.float64)
    gram += 1e-9 * torch.eye(len(groups), dtype=torch.float64)
    loudness = torch.linalg.solve(gram, torch.tensor([float(one @ wanted) for one in spoken], dtype=torch.float64))
    start = 0
    for units, voice, loud in zip(groups, said, loudness.tolist(), strict=True):
        end = start + len(units.names)
        mlp[0].weight[start:end], mlp[0].bias[start:end] = units.weight, units.bias
        mlp[2].weight[:, start:end] = loud * voice.T
        start = end


def _positions(grid: tuple[int, int], named: Callable[[str], Tensor], embedding: Tensor) -> Float[Tensor, "v d"]:
    """What each place of the grid adds to its token, on average nothing."""
    boxes = grid_boxes(*grid)
    places = torch.stack([named(place(tuple(box), (1, 1))) for box in boxes.tolist()])
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 - 0.5
    directions = centres @ torch.stack([named("right") - named("left"), named("bottom") - named("top")])
    code = position_code(boxes, places.shape[1])
    code = code - code.mean(dim=0)
    length = embedding.norm(dim=1).mean() / code.norm(dim=1).mean()
    added = PLACE_SHARE * places + DIRECTION_SHARE * directions + CODE_SHARE * length * code
    return added - added.mean(dim=0)
