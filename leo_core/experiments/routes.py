"""Does the chosen LoRA expert tell the question's domain? Mutual information against a null of shuffled domains."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from leo_core.analysis.tokens import effective_tokens, likeness
from leo_core.experiments.lab import Asked, Lab
from leo_core.experiments.lab_model import pictures_of
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.model import LeoMini
from leo_core.tracing.record import record

SHUFFLES = 500


@dataclass(frozen=True)
class RouteInformation:
    """In bits, mean over layers. null: its mean when domains are shuffled among questions; null_95: its 95 % quantile;
    p: share of shuffles with as much or more."""

    information: float
    null: float
    null_95: float
    p: float
    per_layer: tuple[float, ...]


def mutual_information(joint: Float[np.ndarray, "*l d e"]) -> Float[np.ndarray, "*l"]:
    """Bits between rows and columns of a table of non-negative weights."""
    p = joint / joint.sum(axis=(-2, -1), keepdims=True)
    outer = p.sum(axis=-1, keepdims=True) * p.sum(axis=-2, keepdims=True)
    return np.where(p > 0, p * np.log2(np.where(p > 0, p, 1) / np.where(outer > 0, outer, 1)), 0).sum(axis=(-2, -1))


def route_information(shares: Float[np.ndarray, "q l e"], domains: Sequence[str], shuffles: int = SHUFFLES, seed: int = 0) -> RouteInformation:
    """shares: how often each question's positions went to each expert, rows sum to 1. Whole questions are shuffled, so that
    positions of one question stay together."""
    kinds = sorted(set(domains))
    member = np.array([[domain == kind for kind in kinds] for domain in domains], dtype=float)
    joint = lambda order: np.einsum("qd,qle->lde", member[order], shares)  # noqa: E731
    per_layer = mutual_information(joint(np.arange(len(domains))))
    rng = np.random.default_rng(seed)
    null = np.array([mutual_information(joint(rng.permutation(len(domains)))).mean() for _ in range(shuffles)])
    found = float(per_layer.mean())
    return RouteInformation(found, float(null.mean()), float(np.quantile(null, 0.95)), float((null >= found).mean()), tuple(map(float, per_layer)))


@dataclass(frozen=True)
class Looked:
    """Means over questions. effective, likeness: per vision expert, of the reducer's weights; output_likeness: mean cosine
    between different output tokens (joined channels). shares (q, l, e): see route_information; None without a router."""

    effective: dict[str, float]
    likeness: dict[str, float]
    output_likeness: float
    shares: Float[np.ndarray, "q l e"] | None
    entropy: float | None


@torch.no_grad()
def look(lab: Lab, model: LeoMini, asked: Sequence[Asked], batch: int = 128) -> Looked:
    """Reducer's weights and routes of some questions, as recorded. Routes: of the positions from the question's first token to
    the one that predicts the answer's end; visual tokens and padding are left out."""
    effective, alike, outputs, shares, entropies = [], [], [], [], []
    for start in range(0, len(asked), batch):
        some = asked[start : start + batch]
        rows = lab.rows(some, model.reducer.tokens)
        rows.pop("labels")
        with record(model) as seen:
            model(**rows, pictures=pictures_of(lab.test, some))
        reduction = seen.reductions[0]
        effective.append(torch.stack([effective_tokens(weights).mean(dim=1) for weights in reduction.weights], dim=1))
        alike.append(torch.stack([likeness(weights) for weights in reduction.weights], dim=1))
        outputs.append(likeness(torch.cat(reduction.tokens, dim=-1)))
        if model.config.mmoe_config.num_experts:
            read = rows["attention_mask"].bool() & (rows["input_ids"] != model.config.image_token_id)
            read[:, -1] = False  # nothing is predicted from the end mark
            chosen = (seen.stacked("coefficient") > 0).float() * read[:, None, :, None]
            shares.append((chosen.sum(dim=2) / chosen.sum(dim=(2, 3), keepdim=True)[..., 0, :]).numpy())
            probability = seen.stacked("probability").double()
            entropies.append((torch.special.entr(probability).sum(dim=-1) * read[:, None]).sum(dim=(1, 2)) / read.sum(dim=1) / probability.shape[1])
    means = lambda parts: dict(zip(EXPERTS, torch.cat(parts).mean(dim=0).tolist(), strict=True))  # noqa: E731
    entropy = float(torch.cat(entropies).mean() / np.log(2)) if entropies else None
    return Looked(means(effective), means(alike), float(torch.cat(outputs).mean()), np.concatenate(shares) if shares else None, entropy)
