"""What all token reducers share: their interface, and what an absent vision expert is."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from leo_core.experts.expert import PictureFeatures


@dataclass(frozen=True)
class TokenScores:
    """The four terms of CoTR's score for one expert, scaled as they are added (Eq. 2-6 of LEO-Mini).

    Only `query` differs between output tokens; `self_`, `cross` and `text` are one row shared by all.
    """

    query: Float[Tensor, "p v n"]
    self_: Float[Tensor, "p 1 n"]
    cross: Float[Tensor, "p 1 n"]
    text: Float[Tensor, "p 1 n"]

    @property
    def total(self) -> Float[Tensor, "p v n"]:
        return self.query + self.self_ + self.cross + self.text


@dataclass(frozen=True)
class Reduction:
    """A reduction taken apart, one entry per vision expert.

    tokens: reduced tokens before the concat. weights: share of each source token in each output token, rows sum to 1
    (0 for an expert that is absent or has no valid token). scores: CoTR's terms; empty for reducers without scores.
    """

    tokens: tuple[Float[Tensor, "p v d"], ...]
    weights: tuple[Float[Tensor, "p v n"], ...]
    scores: tuple[TokenScores, ...] = ()


class Reducer(nn.Module):
    """Base: from every expert's n_i tokens to the same number of tokens. Subclasses implement `reduce` and `explain`.

    `absent_i` (v, d_i) is what an absent expert delivers: the training mean of its reduced tokens, zeros until fitted.
    """

    def __init__(self, widths: tuple[int, ...], tokens: int):
        super().__init__()
        self.widths, self.tokens = widths, tokens
        for index, width in enumerate(widths):
            self.register_buffer(f"absent_{index}", torch.zeros(tokens, width))

    @property
    def absent(self) -> tuple[Float[Tensor, "v d"], ...]:
        return tuple(getattr(self, f"absent_{index}") for index in range(len(self.widths)))

    def set_absent(self, means: tuple[Float[Tensor, "v d"], ...]) -> None:
        """Fit what "absent" means from a training set's mean reduced tokens."""
        for buffer, mean in zip(self.absent, means, strict=True):
            buffer.copy_(mean)

    def forward(
        self,
        pictures: PictureFeatures,
        text: Float[Tensor, "p t d"],
        text_mask: Bool[Tensor, "p t"],
        expert_mask: Bool[Tensor, "p m"] | None = None,
    ) -> tuple[Float[Tensor, "p v d"], ...]:
        """Reduced tokens of each expert, before the concat; the fast path.

        text: embeddings of the question, text_mask: which of them count. expert_mask: False = the expert is absent.
        """
        present = self._present(pictures, expert_mask)
        reduced = self.reduce(pictures, text, text_mask, present)
        return tuple(
            torch.where(present[:, index, None, None], tokens, absent)
            for index, (tokens, absent) in enumerate(zip(reduced, self.absent, strict=True))
        )

    def _present(self, pictures: PictureFeatures, expert_mask: Tensor | None) -> Bool[Tensor, "p m"]:
        has_tokens = torch.stack([mask.any(dim=1) for mask in pictures.masks], dim=1)
        return has_tokens if expert_mask is None else has_tokens & expert_mask

    def reduce(self, pictures, text, text_mask, present) -> tuple[Float[Tensor, "p v d"], ...]:
        """Reduced tokens of each expert; rows of absent experts may hold anything finite."""
        return self.explain(pictures, text, text_mask, present).tokens

    def explain(self, pictures, text, text_mask, expert_mask=None) -> Reduction:
        """The same reduction with weights and scores apart; slower."""
        raise TypeError(f"{type(self).__name__} must implement explain.")

    def _finish(self, tokens, weights, present, scores=()) -> Reduction:
        """Absent experts deliver their mean and give weight to nothing."""
        here = [present[:, index, None, None] for index in range(len(tokens))]
        return Reduction(
            tuple(torch.where(h, t, a) for h, t, a in zip(here, tokens, self.absent, strict=True)),
            tuple(w * h for h, w in zip(here, weights, strict=True)),
            scores,
        )
