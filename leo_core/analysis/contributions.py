"""What each vision expert contributed to an answer: exact Shapley values, leave-one-out, and captum's attributions.

The value v(S) of a set of experts S is the sum of log-probabilities of the answer's tokens, end mark included,
teacher-forced on the full model's answer, with the experts outside S absent (design rule 7).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from captum.attr import InputXGradient, IntegratedGradients
from jaxtyping import Bool, Float
from torch import Tensor

from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures
from leo_core.model import LeoMini
from leo_core.tracing.record import lock_of
from leo_core.tracing.run import Asked

MOST_EXPERTS = 8
"""2^8 = 256 subsets: beyond that exact Shapley values are refused."""


@dataclass(frozen=True)
class Contributions:
    """All in nats of the answer's log-probability. shapley adds up to v_all - v_none, up to completeness_error.

    leave_one_out: v(all) - v(all without this one). subsets: v(S), index = bit mask over experts, first expert = bit 0.
    """

    names: tuple[str, ...]
    shapley: Float[Tensor, "m"]
    leave_one_out: Float[Tensor, "m"]
    subsets: Float[Tensor, "2**m"]

    @property
    def v_all(self) -> float:
        return float(self.subsets[-1])

    @property
    def v_none(self) -> float:
        return float(self.subsets[0])

    @property
    def completeness_error(self) -> float:
        return abs(float(self.shapley.sum()) - (self.v_all - self.v_none))


def subset_masks(experts: int) -> Bool[Tensor, "2**m m"]:
    """Every subset, row = bit mask, first expert = bit 0."""
    return torch.tensor([[bool(row >> expert & 1) for expert in range(experts)] for row in range(2**experts)])


def shapley_values(values: Float[Tensor, "2**m"]) -> Float[Tensor, "m"]:
    """Exact Shapley values from the value of every subset (Shapley 1953)."""
    experts = int(math.log2(len(values)))
    weight = [math.factorial(k) * math.factorial(experts - k - 1) / math.factorial(experts) for k in range(experts)]
    result = torch.zeros(experts, dtype=values.dtype)
    for expert in range(experts):
        others = [other for other in range(experts) if other != expert]
        for size in range(experts):
            for chosen in combinations(others, size):
                subset = sum(1 << other for other in chosen)
                result[expert] += weight[size] * (values[subset | 1 << expert] - values[subset])
    return result


def teacher_forced(asked: Asked, answer_ids: Tensor) -> tuple[dict[str, Tensor], int]:
    """(inputs with the answer appended, number of answer tokens), for one forward pass."""
    count = len(answer_ids)
    grown = {}
    for name, fill in (("input_ids", None), ("attention_mask", 1), ("question_mask", 0)):
        tail = answer_ids[None].to(asked.inputs[name]) if fill is None else torch.full((1, count), fill).to(asked.inputs[name])
        grown[name] = torch.cat([asked.inputs[name], tail], dim=1)
    return grown, count


def answer_log_probability(logits: Float[Tensor, "b kept vocabulary"], answer_ids: Tensor) -> Float[Tensor, "b a"]:
    """Log-probability of each answer token. logits: of the last a + 1 positions of a teacher-forced pass."""
    count = len(answer_ids)
    rows = logits[:, -count - 1 : -1].float().log_softmax(dim=-1)
    return rows.gather(-1, answer_ids.to(rows.device).expand(len(rows), -1)[..., None])[..., 0]


@torch.no_grad()
def values_of(
    model: LeoMini, asked: Asked, answer_ids: Tensor, expert_masks: Bool[Tensor, "k m"], batch: int = 16, progress: Callable[[int, int], None] | None = None
) -> Float[Tensor, "k"]:
    """v(S) for each row of expert_masks, in batches of copies of the same prompt."""
    inputs, count = teacher_forced(asked, answer_ids)
    pictures = asked.features.pictures
    values = []
    with lock_of(model):
        for start in range(0, len(expert_masks), batch):
            masks = expert_masks[start : start + batch].to(model.device)
            copies = len(masks)
            rows = {name: tensor.expand(copies, -1) for name, tensor in inputs.items()}
            logits = model(
                **rows,
                pictures=repeated(asked.features, copies),
                picture_owner=torch.arange(copies, device=model.device).repeat_interleave(pictures),
                expert_mask=masks.repeat_interleave(pictures, dim=0),
                logits_to_keep=count + 1,
            ).logits
            values.append(answer_log_probability(logits, answer_ids).sum(dim=1).double().cpu())
            if progress is not None:
                progress(min(start + batch, len(expert_masks)), len(expert_masks))
    return torch.cat(values)


def repeated(features: PictureFeatures, copies: int) -> PictureFeatures:
    """The same pictures for each of `copies` samples, without copying memory when there is one picture."""
    if features.pictures == 1:
        grow = lambda parts: tuple(part.expand(copies, *part.shape[1:]) for part in parts)  # noqa: E731
        return PictureFeatures(grow(features.features), grow(features.masks), grow(features.boxes))
    return features.pick(torch.arange(features.pictures, device=features.features[0].device).repeat(copies))


def contributions(model: LeoMini, asked: Asked, answer_ids: Tensor, progress: Callable[[int, int], None] | None = None) -> Contributions:
    """Exact Shapley values and leave-one-out of every vision expert, from all 2^m subsets."""
    names = tuple(model.vision_experts)
    if asked.features is None:
        raise InputError("Without a picture no vision expert contributes: give a picture.")
    if len(names) > MOST_EXPERTS:
        raise InputError(f"Exact Shapley values need 2^{len(names)} runs; at most {MOST_EXPERTS} vision experts are allowed.")
    values = values_of(model, asked, answer_ids, subset_masks(len(names)), progress=progress)
    full = 2 ** len(names) - 1
    left_out = torch.stack([values[full] - values[full ^ (1 << expert)] for expert in range(len(names))])
    return Contributions(names, shapley_values(values), left_out, values)


def attributions(model: LeoMini, asked: Asked, answer_ids: Tensor, method: str = "input_x_gradient", steps: int = 32) -> Float[Tensor, "m"]:
    """captum's attribution of the answer's log-probability to each expert's reduced tokens before the concat, summed.

    method: input_x_gradient (baseline: zero, the mean of standardised features), or integrated_gradients from what an
    absent expert delivers, in `steps` steps. Only the path through the visual tokens is followed, routers included.
    """
    inputs, count = teacher_forced(asked, answer_ids)
    with lock_of(model), torch.enable_grad():
        owner = asked.inputs["picture_owner"]
        reduced = tuple(t.detach().requires_grad_() for t in model.reduce(asked.features, inputs["input_ids"], inputs["question_mask"], owner))

        def value(*tokens: Tensor) -> Tensor:
            copies = len(tokens[0]) // len(owner)
            rows = {name: tensor.expand(copies, -1) for name, tensor in inputs.items()}
            owners = torch.arange(copies, device=owner.device).repeat_interleave(len(owner))
            logits = model(**rows, reduced=tokens, picture_owner=owners, logits_to_keep=count + 1).logits
            return answer_log_probability(logits, answer_ids).sum(dim=1)

        result = _captum(method, value, reduced, model.reducer.absent, steps)
    return torch.stack([one.sum() for one in result]).detach().cpu()


def _captum(method: str, value, reduced: tuple[Tensor, ...], absent: Sequence[Tensor], steps: int) -> tuple[Tensor, ...]:
    if method == "input_x_gradient":
        return InputXGradient(value).attribute(reduced)
    if method == "integrated_gradients":
        if len(reduced[0]) != 1:
            raise InputError("Integrated gradients are computed for one picture at a time.")
        baselines = tuple(mean[None] for mean in absent)
        return IntegratedGradients(value).attribute(reduced, baselines=baselines, n_steps=steps, internal_batch_size=8)
    raise InputError(f"method is {method!r}; allowed are 'input_x_gradient' and 'integrated_gradients'.")
