"""Where a token is, as numbers: a 2-D sine-cosine code of a box in picture coordinates.

CoTR has no positions of its own and features of convolutional networks carry almost none.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from leo_core.config import squarest

_LOWEST, _HIGHEST = 0.5 * math.pi, 8 * math.pi  # a quarter period to four periods across the picture


def position_code(boxes: Float[Tensor, "*batch 4"], width: int) -> Float[Tensor, "*batch width"]:
    """Code of boxes (x0, y0, x1, y1) in 0..1: three quarters of the channels for the centre, one quarter for the size.

    Channels come in sine-cosine pairs over geometric frequencies; channels that do not fill a pair are zero.
    """
    x0, y0, x1, y1 = boxes.unbind(-1)
    quantities = ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
    pairs = (3 * width // 16, 3 * width // 16, width // 16, width // 16)
    waves = []
    for quantity, count in zip(quantities, pairs, strict=True):
        steps = torch.linspace(0, 1, count, device=boxes.device, dtype=boxes.dtype) if count else boxes.new_zeros(0)
        angle = quantity[..., None] * _LOWEST * (_HIGHEST / _LOWEST) ** steps
        waves += [angle.sin(), angle.cos()]
    code = torch.cat(waves, dim=-1)
    return torch.nn.functional.pad(code, (0, width - code.shape[-1]))


def grid_boxes(rows: int, columns: int) -> Float[Tensor, "cells 4"]:
    """Boxes (x0, y0, x1, y1) in 0..1 of a regular grid, raster order."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([x / columns, y / rows, (x + 1) / columns, (y + 1) / rows], dim=-1).reshape(-1, 4)


def centred_in(places: Float[Tensor, "n 4"], boxes: Float[Tensor, "k 4"]) -> Bool[Tensor, "n"]:
    """Which places have their centre in one of the boxes; both in picture coordinates."""
    centres = ((places[:, :2] + places[:, 2:]) / 2)[:, None]
    return ((centres >= boxes[:, :2]) & (centres <= boxes[:, 2:])).all(dim=-1).any(dim=-1)


def grid_codes(count: int, width: int) -> Float[Tensor, "count width"]:
    """Position codes of `count` cells on the squarest grid there is: the start of queries with query_init = grid."""
    return position_code(grid_boxes(*squarest(count)), width)
