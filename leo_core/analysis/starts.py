"""How CoTR starts: the size of its four score terms on random tokens, before anything is learned.

A softmax over scores of standard deviation 100 is a choice of one token; over scores of 0.01 it is a mean. Which of the two a
reading of the paper's equations starts as follows from its pooling, its scale and its queries' size alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leo_core.analysis.tokens import effective_tokens, likeness
from leo_core.config import ReducerConfig
from leo_core.cotr import CoTR
from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures
from leo_core.position import grid_boxes


@dataclass(frozen=True)
class Start:
    """Of the first expert. query, self_, cross, text: standard deviation of each term over source tokens (query: mean over output tokens).

    effective: source tokens that an output token is spread over, exp(entropy), mean. cosine: mean cosine between two output
    tokens, -1..1 (1 = all are the same). weights_likeness: the same between their weights.
    """

    config: ReducerConfig
    common: float
    query_std: float | None
    query: float
    self_: float
    cross: float
    text: float
    effective: float
    cosine: float
    weights_likeness: float


def random_tokens(experts: int, grid: tuple[int, int], width: int, common: float, seed: int = 0) -> PictureFeatures:
    """Unit-variance features of one picture. common: share of that variance, 0..1, which all tokens of an expert have in common."""
    if not 0 <= common <= 1:
        raise InputError(f"common is {common}; it is a share of the variance, 0 to 1.")
    random = torch.Generator().manual_seed(seed)
    count = grid[0] * grid[1]
    shared = [torch.randn(1, 1, width, generator=random) * common**0.5 for _ in range(experts)]
    own = [torch.randn(1, count, width, generator=random) * (1 - common) ** 0.5 for _ in range(experts)]
    boxes, mask = grid_boxes(*grid)[None], torch.ones(1, count, dtype=torch.bool)
    return PictureFeatures(tuple(a + b for a, b in zip(shared, own, strict=True)), (mask,) * experts, (boxes,) * experts)


def started(config: ReducerConfig, widths: tuple[int, ...], text_width: int, query_std: float | None = None, seed: int = 0) -> CoTR:
    """A CoTR before training. query_std: Xavier projections and raw queries of this standard deviation, as in a plain
    implementation; None: the project's own start, which fits the queries to the scale.
    """
    torch.manual_seed(seed)
    reducer = CoTR(widths, text_width, config).eval()
    if query_std is not None:
        for linear in (*reducer.token_proj, *reducer.query_proj, reducer.text_proj):
            nn.init.xavier_uniform_(linear.weight)
        for query in reducer.query:
            nn.init.normal_(query, std=query_std)
    return reducer


@torch.no_grad()
def start(
    config: ReducerConfig, pictures: PictureFeatures, text: Float[Tensor, "1 t d"], common: float = float("nan"),
    query_std: float | None = None, seed: int = 0,
) -> Start:  # fmt: skip
    """Scores, weights and outputs of a fresh CoTR on one picture's tokens. common is only noted down."""
    reducer = started(config, tuple(one.shape[-1] for one in pictures.features), text.shape[-1], query_std, seed)
    reduction = reducer.explain(pictures, text, torch.ones(text.shape[:2], dtype=torch.bool))
    scores, weights = reduction.scores[0], reduction.weights[0]
    spread = lambda rows: float(rows.std(dim=-1).mean())  # noqa: E731
    return Start(
        config, common, query_std, spread(scores.query), spread(scores.self_), spread(scores.cross), spread(scores.text),
        float(effective_tokens(weights).mean()), float(likeness(reduction.tokens[0])), float(likeness(weights)),
    )  # fmt: skip
