"""Token reducers other than CoTR, behind the same interface: the controls and comparators of every experiment."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from leo_core.config import ReducerConfig, squarest
from leo_core.cotr import CoTR
from leo_core.position import grid_boxes, grid_codes, position_code
from leo_core.reducer import Reducer, Reduction


def overlap(cells: Float[Tensor, "g 4"], boxes: Float[Tensor, "p n 4"], mask: Bool[Tensor, "p n"]) -> Float[Tensor, "p g n"]:
    """Share of each cell's covered area that belongs to each token; rows sum to 1, or to 0 where no token lies in the cell.

    Exact for any layout of axis-parallel boxes: finer tokens are averaged by area, coarser ones repeated.
    """
    low = torch.maximum(cells[None, :, None, :2], boxes[:, None, :, :2])
    high = torch.minimum(cells[None, :, None, 2:], boxes[:, None, :, 2:])
    area = (high - low).clamp(min=0).prod(dim=-1) * mask[:, None]
    cell = (cells[:, 2:] - cells[:, :2]).prod(dim=-1)[None, :, None]
    area = torch.where(area > 1e-5 * cell, area, torch.zeros_like(area))  # rounding of edges is no cover
    covered = area.sum(dim=-1, keepdim=True)
    return area / torch.where(covered > 0, covered, torch.ones_like(covered))


class GridReducer(Reducer):
    """Base of the reducers that need equal grids: each expert is resampled onto one common grid in picture coordinates.

    A subclass states how cells become output tokens: `mixing()` is (v, cells), rows sum to 1.
    """

    def __init__(self, widths: tuple[int, ...], config: ReducerConfig):
        super().__init__(widths, config.tokens)
        self.grid = config.grid

    def mixing(self, like: Tensor) -> Float[Tensor, "v cells"]:
        raise TypeError(f"{type(self).__name__} must state its mixing of grid cells.")

    def explain(self, pictures, text, text_mask, expert_mask=None) -> Reduction:
        cells = grid_boxes(*self.grid).to(pictures.features[0])
        mixing = self.mixing(cells)
        tokens, weights = [], []
        for features, boxes, mask, absent in zip(pictures.features, pictures.boxes, pictures.masks, self.absent, strict=True):
            weight = mixing @ overlap(cells, boxes, mask)
            share = weight.sum(dim=-1, keepdim=True)  # below 1 where cells hold no token: the rest is the absent mean
            weights.append(weight)
            tokens.append(weight @ features + (1 - share) * absent)
        return self._finish(tokens, weights, self._present(pictures, expert_mask))


class KeepAll(GridReducer):
    """No reduction: every cell of the common grid is an output token."""

    def mixing(self, like: Tensor) -> Float[Tensor, "v cells"]:
        return torch.eye(self.tokens).to(like)


def block_means(grid: tuple[int, int], tokens: int) -> Float[Tensor, "v cells"]:
    """Share of each grid cell in each of `tokens` equal blocks (the squarest arrangement); rows sum to 1."""
    cells = grid_boxes(*grid)
    return overlap(grid_boxes(*squarest(tokens)), cells[None], torch.ones(1, len(cells), dtype=torch.bool))[0]


class AveragePooling(GridReducer):
    """Mean over equal blocks of the common grid."""

    def mixing(self, like: Tensor) -> Float[Tensor, "v cells"]:
        return block_means(self.grid, self.tokens).to(like)


class RandomChoice(GridReducer):
    """Cells drawn at random, in raster order: a new draw for each call in training, the seed's own in evaluation."""

    def __init__(self, widths: tuple[int, ...], config: ReducerConfig, seed: int = 0):
        super().__init__(widths, config)
        draw = torch.randperm(self.grid[0] * self.grid[1], generator=torch.Generator().manual_seed(seed))
        self.register_buffer("chosen", draw[: self.tokens].sort().values)

    def mixing(self, like: Tensor) -> Float[Tensor, "v cells"]:
        cells = self.grid[0] * self.grid[1]
        chosen = torch.randperm(cells)[: self.tokens].sort().values if self.training else self.chosen
        return F.one_hot(chosen, cells).to(like)


class Resampler(Reducer):
    """Learned queries with multi-head cross-attention and a value projection, blind to the question (as in Q-Former-like
    projectors). Weights are the mean over heads: a reading of what was attended to, not the whole computation."""

    def __init__(self, widths: tuple[int, ...], config: ReducerConfig):
        super().__init__(widths, config.tokens)
        self.heads, self.amplitude = config.heads, config.position_amplitude
        width = config.projection
        self.query = nn.ParameterList(nn.Parameter(grid_codes(config.tokens, width)) for _ in widths)
        self.key_proj = nn.ModuleList(nn.Linear(d, width) for d in widths)
        self.value_proj = nn.ModuleList(nn.Linear(d, width) for d in widths)
        self.out_proj = nn.ModuleList(nn.Linear(width, d) for d in widths)

    def _heads(self, rows: Tensor) -> Float[Tensor, "p h n d"]:
        return rows.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _rows(self, index: int, pictures) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        features, boxes, mask = pictures.features[index], pictures.boxes[index], pictures.masks[index]
        located = features + self.amplitude * position_code(boxes, features.shape[-1])
        query = self.query[index].expand(len(features), -1, -1)
        usable = (mask | ~mask.any(dim=1, keepdim=True))[:, None, None]
        return self._heads(query), self._heads(self.key_proj[index](located)), self._heads(self.value_proj[index](features)), usable

    def reduce(self, pictures, text, text_mask, present) -> tuple[Float[Tensor, "p v d"], ...]:
        reduced = []
        for index, out_proj in enumerate(self.out_proj):
            query, key, value, usable = self._rows(index, pictures)
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=usable)
            reduced.append(out_proj(mixed.transpose(1, 2).flatten(2)))
        return tuple(reduced)

    def explain(self, pictures, text, text_mask, expert_mask=None) -> Reduction:
        present = self._present(pictures, expert_mask)
        weights = []
        for index in range(len(self.widths)):
            query, key, _, usable = self._rows(index, pictures)
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            scores = scores.masked_fill(~usable, torch.finfo(scores.dtype).min)
            weights.append(scores.softmax(dim=-1).mean(dim=1))
        return self._finish(self.reduce(pictures, text, text_mask, present), weights, present)


def build_reducer(widths: tuple[int, ...], text_width: int, config: ReducerConfig) -> Reducer:
    """The reducer that `config.kind` names."""
    if config.kind == "cotr":
        return CoTR(widths, text_width, config)
    return {"keep_all": KeepAll, "average": AveragePooling, "random": RandomChoice, "resampler": Resampler}[config.kind](widths, config)
