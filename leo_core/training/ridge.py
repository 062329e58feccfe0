"""Ridge regression for stage 1 in closed form: from what tokens show onto the token embeddings of its name.

A random projector does not learn in minutes on two cores; one that sends a named thing's tokens to the mean embedding of
its name does.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from leo_core.errors import InputError
from leo_core.position import centred_in, grid_boxes
from leo_core.training.features import FeatureStore, StoredSample


def ridge(inputs: Float[Tensor, "rows d"], targets: Float[Tensor, "rows k"], penalty: float) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k"]]:
    """(weight, bias) minimising |inputs W^T + b - targets|^2 + penalty |W|^2; the bias is not penalised."""
    x_mean, y_mean = inputs.mean(dim=0), targets.mean(dim=0)
    x, y = (inputs - x_mean).double(), (targets - y_mean).double()
    gram = x.T @ x + penalty * torch.eye(x.shape[1], dtype=torch.float64)
    weight = torch.linalg.solve(gram, x.T @ y).T.to(inputs)
    return weight, y_mean - weight @ x_mean


BACKGROUND = ("scenes", "colour"), ("reading", "colour")
"""Domain and kind of the questions whose answer is the colour of all that no named region covers."""

FREE_CELLS = 4
"""Cells of a background that count: there are many more of them than of named ones, and they look alike."""


def named_cells(store: FeatureStore, reducer: nn.Module, most: int = 6000, background: bool = False) -> tuple[Float[Tensor, "rows d"], list[str]]:
    """(joined reduced tokens, name) of the output cells that show a named region (see `named_tokens`).

    reducer: one whose output tokens sit on a regular grid (KeepAll). background: also some cells that lie in no region, named by
    their colour where a question tells it; without them the fit has no use for colours and drops them. Raises InputError where
    no picture names anything.
    """
    inputs, names = [], []
    empty = torch.zeros(1, 0, 1)
    for start in range(0, min(most, len(store)), 50):
        index = torch.arange(start, min(start + 50, most, len(store)))
        tokens = torch.cat(reducer(store.features(index), empty, empty[..., 0].bool()), dim=-1)
        for row, i in enumerate(index.tolist()):
            showing = [*named_tokens(store.samples[i], reducer.grid).items()]
            showing += background_tokens(store.samples[i], reducer.grid).items() if background else ()
            for phrase, inside in showing:
                inputs.append(tokens[row, inside])
                names += [phrase] * int(inside.sum())
    if not inputs:
        raise InputError("The pictures have no named regions, which the ridge start needs: train with --start cold, or add the set 'train' to --data.")
    return torch.cat(inputs), names


def scores_of_names(inputs: Float[Tensor, "rows d"], names: Sequence[str | None], most: int, penalty: float) -> tuple[list[str], Tensor, Tensor]:
    """The (at most `most`) names with most rows, and a ridge regression (weight (k, d), bias (k)) onto which of them a row shows.

    None: a row that shows none of the names that count.
    """
    known = [name for name, _ in Counter(name for name in names if name is not None).most_common(most)]
    number = {name: i for i, name in enumerate(known)}
    shown = torch.zeros(len(names), len(known))
    for row, name in enumerate(names):
        if name in number:
            shown[row, number[name]] = 1
    return known, *ridge(inputs, shown, penalty)


def named_tokens(sample: StoredSample, grid: tuple[int, int]) -> dict[str, Bool[Tensor, "v"]]:
    """For each name on the picture the cells of a regular grid whose centres lie in its regions; for a region that is too small
    for that, as two of three labels of charts are, the cell that holds its centre."""
    cells, size, found = grid_boxes(*grid), torch.tensor([*sample.size, *sample.size]), {}
    for region in sample.regions:
        box = torch.tensor([region.box]) / size
        inside = centred_in(cells, box)
        if not inside.any():
            inside[holding((box[0, :2] + box[0, 2:]) / 2, grid)] = True
        found[region.phrase] = found.get(region.phrase, torch.zeros_like(inside)) | inside
    return found


def holding(point: Float[Tensor, "2"], grid: tuple[int, int]) -> int:
    """Number of the cell in which a point (x, y in 0..1) lies."""
    rows, columns = grid
    column, row = (min(count - 1, max(0, int(at * count))) for at, count in zip(point.tolist(), (columns, rows), strict=True))
    return row * columns + column


def background_tokens(sample: StoredSample, grid: tuple[int, int]) -> dict[str, Bool[Tensor, "v"]]:
    """The colour of the background, where a question tells it, with at most FREE_CELLS cells spread over what no region covers."""
    colour = next((question.answer for question in sample.questions if (question.domain, question.kind) in BACKGROUND), None)
    if colour is None:
        return {}
    cells, size = grid_boxes(*grid), torch.tensor([*sample.size, *sample.size])
    covered = [centred_in(cells, torch.tensor([region.box]) / size) for region in sample.regions]
    free = (~torch.stack([*covered, torch.zeros(len(cells), dtype=torch.bool)]).any(dim=0)).nonzero()[:, 0]
    if not len(free):
        return {}
    chosen = torch.zeros(len(cells), dtype=torch.bool)
    chosen[free[torch.linspace(0, len(free) - 1, min(FREE_CELLS, len(free))).round().long()]] = True
    return {colour: chosen}
