"""Training stages as data: what learns, at which rates, for how long. One loop runs them all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

import numpy as np
from torch import nn

from leo_core.errors import InputError


@dataclass(frozen=True)
class Stage:
    """rates: pattern of parameter names -> learning rate; what no pattern matches is frozen. batch: questions per step.

    packed: questions behind one picture in a row (stage 2 only: CoTR and the routers see the question; a picture with fewer
    asks all it has). told: after which share of the steps no row asks any more for all that is named on its picture; until
    then ever fewer do. precision: of the decoder's matrix products, float32 or bfloat16 (weights and optimizer stay float32).
    """

    name: str
    rates: dict[str, float]
    steps: int
    batch: int
    warmup: int = 20
    weight_decay: float = 0.0
    expert_dropout: float = 0.0
    packed: int = 1
    told: float = 0.0
    precision: str = "float32"
    save_every: int = 50


COLD_STAGE_1 = Stage("stage1", {"projector.*": 1e-3}, steps=300, batch=36, packed=3, precision="bfloat16")
"""The projector from a random start; ridge regression needs no stage."""

PROJECTOR_RATES = {"projector.linear.*": 2e-5, "projector.mlp.*": 1e-4, "projector.positions": 3e-4}
"""For what starts in closed form. At 1e-3 its 2,000 inputs a token carry it away within 300 steps: tokens fourteen times as
long as the decoder's own, and the thing's name nearest in 16 of 157 cases where it had been in 112. The decoder then
ignored the picture for 370 steps; with these rates it names half of the things at step 90."""

STAGE_2 = Stage("stage2", {**PROJECTOR_RATES, "decoder.*lora_*": 6e-4}, steps=1100, batch=60, packed=5, told=0.7, precision="bfloat16")
"""All tokens, decoder through one LoRA on all its linear layers (merged afterwards), projector from the ridge start."""

STAGE_3 = Stage(
    "stage3",
    {**PROJECTOR_RATES, "reducer.*": 1e-4, "decoder.*.lora_a.*": 6e-4, "decoder.*.lora_b.*": 6e-4, "decoder.*.router.*": 6e-4},
    steps=900, batch=32, expert_dropout=0.1, precision="bfloat16",
)  # fmt: skip
"""Token reduction: CoTR, MMoE and projector; decoder and experts frozen (the paper's third stage)."""


def set_trainable(model: nn.Module, rates: dict[str, float]) -> list[dict]:
    """Freeze all but the parameters whose dotted name matches a pattern; the first match gives the rate.

    Returns optimizer groups. Raises InputError for a pattern that matches nothing: a misspelt stage must not train.
    """
    groups = {pattern: [] for pattern in rates}
    for name, parameter in model.named_parameters():
        pattern = next((p for p in rates if fnmatchcase(name, p)), None)
        parameter.requires_grad_(pattern is not None)
        if pattern is not None:
            groups[pattern].append(parameter)
    empty = [pattern for pattern, parameters in groups.items() if not parameters]
    if empty:
        raise InputError(f"The stage trains '{empty[0]}', which matches no parameter of the model.")
    return [{"params": parameters, "lr": rates[pattern]} for pattern, parameters in groups.items()]


def linear_decay(step: int, stage: Stage) -> float:
    """Factor on every rate: linear warm-up, then linear decay to zero at the last step."""
    return min((step + 1) / stage.warmup, (stage.steps - step) / max(1, stage.steps - stage.warmup))


def told_share(step: int, stage: Stage) -> float:
    """Share of the rows that ask for a transcript, and the weight of their loss beside the questions': from one to zero."""
    return max(0.0, 1 - step / (stage.told * stage.steps)) if stage.told else 0.0


def pictures_of(stage: Stage, count: int, seed: int) -> Callable[[int], list[int]]:
    """From a step number to the pictures (0..count-1) of its rows."""
    rows = stage.batch // stage.packed
    order = list(islice(shuffled(count, seed), stage.steps * rows))
    return lambda step: order[step * rows : (step + 1) * rows]


def shuffled(count: int, seed: int) -> Iterator[int]:
    """Endless passes over 0..count-1, each in a new order that depends on (seed, pass) only."""
    epoch = 0
    while True:
        yield from np.random.default_rng([seed, epoch]).permutation(count).tolist()
        epoch += 1
