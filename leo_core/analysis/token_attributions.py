"""captum's attributions of an answer to every visual token of every vision expert, before the channels are joined."""

import torch
from captum.attr import InputXGradient, IntegratedGradients
from jaxtyping import Float, Int
from torch import Tensor

from leo_core.analysis.contributions import answer_log_probability, teacher_forced
from leo_core.errors import InputError
from leo_core.model import LeoMini
from leo_core.tracing.record import lock_of
from leo_core.tracing.run import Asked

METHODS = ("input_x_gradient", "integrated_gradients")


def token_attributions(
    model: LeoMini, asked: Asked, answer_ids: Int[Tensor, "a"], method: str = "input_x_gradient", steps: int = 32
) -> Float[Tensor, "m v"]:
    """Nats of the answer's log-probability per expert and visual token; summed over tokens, they are `contributions.attributions`.

    input_x_gradient: against zero. integrated_gradients: along the line from what an absent expert delivers, in `steps` steps; its
    sum would be v(all) - v(none) if the value had no jumps, and every change of a hard route is one. One picture at a time.
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}; allowed are {', '.join(METHODS)}.")
    if asked.features is None or asked.features.pictures != 1:
        raise InputError("Attributions to visual tokens are computed for one picture at a time: give exactly one.")
    inputs, count = teacher_forced(asked, answer_ids)

    def value(*reduced: Tensor) -> Tensor:
        rows = {name: tensor.expand(len(reduced[0]), -1) for name, tensor in inputs.items()}
        logits = model(**rows, reduced=reduced, logits_to_keep=count + 1).logits
        return answer_log_probability(logits, answer_ids).sum(dim=1)

    with lock_of(model), torch.enable_grad():
        reduced = model.reduce(asked.features, inputs["input_ids"], inputs["question_mask"], asked.inputs["picture_owner"])
        reduced = tuple(tokens.detach().requires_grad_() for tokens in reduced)
        if method == "input_x_gradient":
            result = InputXGradient(value).attribute(reduced)
        else:
            baselines = tuple(mean[None] for mean in model.reducer.absent)
            result = IntegratedGradients(value).attribute(reduced, baselines=baselines, n_steps=steps, internal_batch_size=8)
    return torch.stack([one[0].sum(dim=-1) for one in result]).detach().cpu()
