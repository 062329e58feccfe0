"""CoTR, conditional token reduction (LEO-Mini, section 3.2, Eq. 2-7).

Each of the N^V output tokens of expert i is a weighted mean of its raw tokens I_i. The weights are a softmax over the
sum of four similarities: to a learnable query, to the expert's own tokens, to the other experts' tokens, and to the
question. The last three are the same for all output tokens, so

    alpha_i = softmax((a_i Qh_i + b_i g_i) Ih_i^T),     g_i = sum over present experts of pool(Ih_j) + pool(Th)

and the fast path is one attention call. `explain` computes the four terms apart, as the paper writes them.
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from leo_core.config import ReducerConfig
from leo_core.experts.expert import PictureFeatures
from leo_core.position import grid_codes, position_code
from leo_core.reducer import Reducer, Reduction, TokenScores


def pooled(rows: Float[Tensor, "p n d"], mask: Bool[Tensor, "p n"], pool: str) -> Float[Tensor, "p d"]:
    """Mean or sum over the valid rows; zeros where none is valid."""
    total = torch.einsum("pnd,pn->pd", rows, mask.to(rows))
    return total if pool == "sum" else total / mask.sum(dim=1, keepdim=True).clamp(min=1)


class CoTR(Reducer):
    """The reducer of LEO-Mini. Options: ReducerConfig; text_width: d_LLM, width of the question's embeddings."""

    def __init__(self, widths: tuple[int, ...], text_width: int, config: ReducerConfig):
        super().__init__(widths, config.tokens)
        self.config = config
        linear = lambda width: nn.Linear(width, config.projection, bias=False)  # noqa: E731
        self.token_proj = nn.ModuleList(linear(width) for width in widths)
        self.query_proj = nn.ModuleList(linear(width) for width in widths)
        self.text_proj = linear(text_width)
        self.query = nn.ParameterList(nn.Parameter(torch.empty(config.tokens, width)) for width in widths)
        self.temperature = nn.Parameter(torch.tensor(config.temperatures), requires_grad=config.similarity == "cosine")
        scales = {"sqrt_d": lambda d: (d**-0.5, d**-0.5), "sqrt_proj": lambda d: (config.projection**-0.5,) * 2, "d_shared": lambda d: (1.0, 1 / d)}
        self.scales = tuple(scales[config.scale](width) for width in widths)
        self._folded: dict[int, tuple] = {}  # a cache of what the weights determine, not a record of any run
        self.score = self._cosine_rows if config.similarity == "cosine" else self._dot_rows
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.text_proj.weight)
        for query, query_proj, token_proj, (a, _) in zip(self.query, self.query_proj, self.token_proj, self.scales, strict=True):
            nn.init.orthogonal_(token_proj.weight)
            if self.config.query_init == "grid":
                query.copy_(grid_codes(*query.shape) * self.config.position_amplitude)
                query_proj.weight.copy_(token_proj.weight)
            else:
                nn.init.orthogonal_(query_proj.weight)
                # unit-variance tokens, orthogonal frames: a * Qh Ih^T then has the standard deviation 1
                width, projection = query.shape[1], self.config.projection
                nn.init.normal_(query, std=math.sqrt(projection) / (a * min(width, projection)))

    # --- shared pieces ---

    def located(self, pictures: PictureFeatures) -> tuple[list[Tensor], list[Tensor]]:
        """Per expert (p, n, d): tokens as the similarity sees them, and as they are averaged; they differ by the position code."""
        if self.config.position == "none":
            return list(pictures.features), list(pictures.features)
        located = [
            tokens + self.config.position_amplitude * position_code(boxes, tokens.shape[-1])
            for tokens, boxes in zip(pictures.features, pictures.boxes, strict=True)
        ]
        return located, located if self.config.position == "token" else list(pictures.features)

    def folded_query(self, index: int) -> Float[Tensor, "v d"]:
        """a_i Qh_i P_i: the query moved to the side of the raw tokens. Kept for as long as the three weights stay the same."""
        weights = (self.query[index], self.query_proj[index].weight, self.token_proj[index].weight)
        if torch.is_grad_enabled():
            return self._fold(index)
        state = tuple((weight.data_ptr(), weight._version, weight.dtype) for weight in weights)
        known, folded = self._folded.get(index, (None, None))
        if known != state:
            folded = self._fold(index)
            self._folded[index] = (state, folded)
        return folded

    def _fold(self, index: int) -> Float[Tensor, "v d"]:
        return self.scales[index][0] * self.query_proj[index](self.query[index]) @ self.token_proj[index].weight

    # --- fast path ---

    def reduce(self, pictures, text, text_mask, present) -> tuple[Float[Tensor, "p v d"], ...]:
        keys, values = self.located(pictures)
        rows = self.score(keys, pictures.masks, text, text_mask, present)
        reduced = []
        for (query, key), value, mask in zip(rows, values, pictures.masks, strict=True):
            usable = mask | ~mask.any(dim=1, keepdim=True)  # a row without any valid key would give NaN
            one_head = (rows[:, None] for rows in (query, key, value))  # four dimensions: the layout its fast kernels know
            reduced.append(F.scaled_dot_product_attention(*one_head, attn_mask=usable[:, None, None], scale=1.0)[:, 0])
        return tuple(reduced)

    def _dot_rows(self, keys, masks, text, text_mask, present) -> list[tuple[Tensor, Tensor]]:
        """(query, key) per expert such that query key^T is the score; the projection moved to the query's side."""
        # pooling commutes with the projection, so only one pooled vector per expert is projected, never the tokens
        pools = [proj(pooled(key, mask, self.config.pool)) for proj, key, mask in zip(self.token_proj, keys, masks, strict=True)]
        shared = self.text_proj(pooled(text, text_mask, self.config.pool))
        shared = shared + torch.einsum("pmd,pm->pd", torch.stack(pools, dim=1), present.to(shared))
        rows = []
        for index, (proj, key) in enumerate(zip(self.token_proj, keys, strict=True)):
            row = self.scales[index][1] * shared @ proj.weight
            rows.append((self.folded_query(index) + row[:, None], key))
        return rows

    def _cosine_rows(self, keys, masks, text, text_mask, present) -> list[tuple[Tensor, Tensor]]:
        """As above under cosine: the tokens are projected, since their norms are needed."""
        projected = [F.normalize(proj(key), dim=-1) for proj, key in zip(self.token_proj, keys, strict=True)]
        terms = self._cosine_terms(keys, masks, text, text_mask, present)
        rows = []
        for key, (query, own, cross, question) in zip(projected, terms, strict=True):
            t = self.temperature
            rows.append((t[0] * query + (t[1] * own + t[2] * cross + t[3] * question)[:, None], key))
        return rows

    def _cosine_terms(self, keys, masks, text, text_mask, present) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        pools = [proj(pooled(key, mask, self.config.pool)) for proj, key, mask in zip(self.token_proj, keys, masks, strict=True)]
        everyone = torch.einsum("pmd,pm->pd", torch.stack(pools, dim=1), present.to(pools[0]))
        question = F.normalize(self.text_proj(pooled(text, text_mask, self.config.pool)), dim=-1)
        terms = []
        for index, pool in enumerate(pools):
            others = everyone - pool * present[:, index, None]
            query = F.normalize(self.query_proj[index](self.query[index]), dim=-1)
            terms.append((query, F.normalize(pool, dim=-1), F.normalize(others, dim=-1), question))
        return terms

    # --- explaining path ---

    def explain(self, pictures, text, text_mask, expert_mask=None) -> Reduction:
        present = self._present(pictures, expert_mask)
        keys, values = self.located(pictures)
        score = self._cosine_scores if self.config.similarity == "cosine" else self._dot_scores
        scores = score(keys, pictures.masks, text, text_mask, present)
        weights, tokens = [], []
        for one, value, mask in zip(scores, values, pictures.masks, strict=True):
            weight = one.total.masked_fill(~mask[:, None], torch.finfo(value.dtype).min).softmax(dim=-1) * mask[:, None]
            weights.append(weight)
            tokens.append(weight @ value)
        return self._finish(tokens, weights, present, tuple(scores))

    def _dot_scores(self, keys, masks, text, text_mask, present) -> list[TokenScores]:
        projected = [proj(key) for proj, key in zip(self.token_proj, keys, strict=True)]
        pools = [pooled(rows, mask, self.config.pool) for rows, mask in zip(projected, masks, strict=True)]
        question = pooled(self.text_proj(text), text_mask, self.config.pool)
        scores = []
        for i, rows in enumerate(projected):
            a, b = self.scales[i]
            others = sum((pools[j] * present[:, j, None] for j in range(len(pools)) if j != i), torch.zeros_like(question))
            along = lambda vector: b * torch.einsum("pd,pnd->pn", vector, rows)[:, None]  # noqa: E731, B023 - used at once
            query = a * self.query_proj[i](self.query[i]) @ rows.transpose(1, 2)
            scores.append(TokenScores(query, along(pools[i]), along(others), along(question)))
        return scores

    def _cosine_scores(self, keys, masks, text, text_mask, present) -> list[TokenScores]:
        projected = [F.normalize(proj(key), dim=-1) for proj, key in zip(self.token_proj, keys, strict=True)]
        terms = self._cosine_terms(keys, masks, text, text_mask, present)
        scores = []
        for rows, term in zip(projected, terms, strict=True):
            query, *shared = (t * vector for t, vector in zip(self.temperature, term, strict=True))
            scores.append(TokenScores(query @ rows.transpose(1, 2), *(torch.einsum("pd,pnd->pn", s, rows)[:, None] for s in shared)))
        return scores


def without_terms(scores: TokenScores, *names: str) -> TokenScores:
    """Scores with the named terms (query, self_, cross, text) set to zero: what the weights would be without them."""
    return replace(scores, **{name: torch.zeros_like(getattr(scores, name)) for name in names})
