"""The decoder learns to look before it learns to see: named things are first shown as the embeddings of their names.

A language model that has never met visual tokens ignores them for hundreds of steps, although the ridge start already
says two names out of three: the tokens are noisy, and attending to them pays only once something reads them. For some
steps of stage 2 the tokens of named things are therefore blended with what ridge regression was fitted to. Not from the
first step: shown to a decoder that did not know yet what answers look like, the names were lost again as they faded.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from leo_core.model import LeoMini
from leo_core.position import grid_boxes
from leo_core.processor import LeoProcessor
from leo_core.training.features import StoredSample


def name_embedding(model: LeoMini, processor: LeoProcessor, phrase: str) -> Float[Tensor, "d"]:
    """Mean token embedding of a phrase as it stands inside a lower-case sentence."""
    return model.get_input_embeddings().weight.detach()[processor.plain_ids(" " + phrase.lower())].mean(dim=0)


def named_tokens(sample: StoredSample, grid: tuple[int, int]) -> dict[str, Bool[Tensor, "v"]]:
    """For each name on the picture the cells of a regular grid whose centres lie in its regions; names without a cell are left out."""
    cells, size = grid_boxes(*grid), torch.tensor(sample.size)
    centres, found = (cells[:, :2] + cells[:, 2:]) / 2, {}
    for region in sample.regions:
        low, high = torch.tensor(region.box).view(2, 2) / size
        inside = ((centres >= low) & (centres <= high)).all(dim=1)
        if inside.any():
            found[region.phrase] = found.get(region.phrase, torch.zeros_like(inside)) | inside
    return found


def shown_names(model: LeoMini, processor: LeoProcessor, samples: Sequence[StoredSample], share: float) -> Callable[[Tensor], Tensor]:
    """A function from visual tokens (p, v, d) to the same with `share` (0..1) of each named one replaced by its name and place.

    For a reducer whose tokens sit on a regular grid (KeepAll) and a projector with learned positions.
    """
    grid, positions = model.reducer.grid, model.projector.positions.detach()

    def show(visual: Float[Tensor, "p v d"]) -> Float[Tensor, "p v d"]:
        target = visual.detach().clone()
        for row, sample in enumerate(samples):
            for phrase, inside in named_tokens(sample, grid).items():
                target[row, inside] = (name_embedding(model, processor, phrase) + positions[inside]).to(target)
        return visual + share * (target - visual)

    return show
