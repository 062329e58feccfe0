"""How concentrated, how wide and how alike the reducer's weights are: pure functions on (.., v, n) weights."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def effective_tokens(weights: Float[Tensor, "*b v n"]) -> Float[Tensor, "*b v"]:
    """exp(entropy) of each row: 1 = one source token, n = all equally. 0 for a row without weight."""
    total = weights.sum(dim=-1)
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)
    return torch.where(total > 0, entropy.exp(), torch.zeros_like(total))


def likeness(weights: Float[Tensor, "*b v n"]) -> Float[Tensor, "*b"]:
    """Mean cosine between the rows of different output tokens, 0..1: 1 = all look at the same (collapse).

    1 when there is only one output token; rows without weight count as unlike everything.
    """
    rows = torch.nn.functional.normalize(weights, dim=-1)
    count = rows.shape[-2]
    if count == 1:
        return torch.ones(weights.shape[:-2])
    gram = rows @ rows.transpose(-1, -2)
    return (gram.sum(dim=(-1, -2)) - gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1)) / (count * (count - 1))


def mass(weights: Float[Tensor, "*b v n"]) -> Float[Tensor, "*b n"]:
    """Share of each source token in all output tokens together; sums to 1 (0 for an absent expert)."""
    return weights.mean(dim=-2)


def tokens_holding(share: Float[Tensor, "n"], part: float) -> Int[Tensor, "k"]:
    """The fewest source tokens that hold at least `part` (0..1) of the mass, heaviest first. Empty without mass."""
    order = share.argsort(descending=True, stable=True)
    running = share[order].cumsum(0)
    total = running[-1] if len(running) else running.new_zeros(())
    if total <= 0:
        return order[:0]
    needed = int((running < part * total * (1 - 1e-6)).sum()) + 1
    return order[:needed]


def area_holding(share: Float[Tensor, "n"], areas: Float[Tensor, "n"], picture_area: float, part: float) -> float:
    """Share of the picture, 0..1, under the fewest tokens that hold `part` of the mass. Overlapping tokens count once each,
    so text strips that overlap can make this an overestimate; it is capped at 1."""
    held = tokens_holding(share, part)
    return min(1.0, float(areas[held].sum()) / picture_area)
