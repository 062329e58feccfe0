"""From the experts' joined channels to the decoder's width."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leo_core.config import ProjectorConfig


class MlpProjector(nn.Sequential):
    """Linear, GELU, Linear: the projector of Eagle and (second-hand) of LEO-Mini."""

    def __init__(self, width: int, text_width: int, hidden: int):
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, text_width))


class ResidualProjector(nn.Module):
    """A linear map plus an MLP that is silent at first, and one learned position vector per visual token.

    Departs from the paper's MLP so that it can start in closed form (`leo_core.training.closed_form.ridge_start`): a random
    start does not learn in the minutes that two processor cores allow.
    """

    def __init__(self, width: int, text_width: int, hidden: int, tokens: int):
        super().__init__()
        self.linear = nn.Linear(width, text_width)
        self.mlp = MlpProjector(width, text_width, hidden)
        self.positions = nn.Parameter(torch.zeros(tokens, text_width))
        nn.init.zeros_(self.mlp[-1].weight)
        nn.init.zeros_(self.mlp[-1].bias)

    def forward(self, tokens: Float[Tensor, "p v width"]) -> Float[Tensor, "p v d"]:
        return self.linear(tokens) + self.mlp(tokens) + self.positions


def build_projector(width: int, text_width: int, tokens: int, config: ProjectorConfig) -> nn.Module:
    """width: sum of the experts' widths. text_width: d_LLM."""
    hidden = config.hidden or text_width
    if config.kind == "mlp":
        return MlpProjector(width, text_width, hidden)
    return ResidualProjector(width, text_width, hidden, tokens)
