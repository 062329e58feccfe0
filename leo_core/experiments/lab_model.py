"""A lab model as a configuration asks for it, at the common start."""

import torch
from jaxtyping import Bool
from torch import Tensor

from leo_core.errors import InputError
from leo_core.experiments.configuration import TERMS, Configuration
from leo_core.experiments.lab import Lab
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.model import LeoMini
from leo_core.reducers import block_means
from leo_core.training.text_start import start_text

MEAN_OVER = 192
"""Training pictures whose mean is what an absent expert delivers."""


def new_model(lab: Lab, configuration: Configuration, seed: int) -> LeoMini:
    """Decoder and projector from stage 2; reducer and MMoE new, drawn with `seed`."""
    torch.manual_seed(seed)
    model = LeoMini(lab.config(configuration.reducer, configuration.mmoe))
    weights = lab.start(configuration.start)
    positions = block_means(lab.config().reducer_config.grid, model.reducer.tokens) @ weights["projector.positions"]
    report = model.load_state_dict({**weights, "projector.positions": positions}, strict=False)
    new = [name for name in report.missing_keys if not name.startswith("reducer.") and not is_mmoe(name) and name != "decoder.lm_head.weight"]
    if new or report.unexpected_keys:
        raise InputError(f"The lab's start does not fit its model ({(new + report.unexpected_keys)[0]}): build the lab again.")
    model.decoder.tie_weights()
    model.decoder.set_attn_implementation("eager")  # for short rows its backward pass is faster on a CPU than the fused kernel's
    if configuration.query_std is not None:
        with torch.no_grad():
            for query in model.reducer.query:
                query.mul_(configuration.query_std / query.std())
    if configuration.text_start:
        start_text(model, lab.processor, lab.train.store)
    keep_terms_absent(model, configuration)
    fit_absent(model, lab)
    return model


def is_mmoe(name: str) -> bool:
    """Whether a parameter belongs to LoRA experts or routers."""
    return any(mark in name for mark in (".lora_a.", ".lora_b.", ".router."))


@torch.no_grad()
def keep_terms_absent(model: LeoMini, configuration: Configuration) -> None:
    """Temperature zero for the terms that a configuration does without; to be repeated after every step."""
    for term in configuration.without:
        model.reducer.temperature[TERMS.index(term)] = 0.0


@torch.no_grad()
def fit_absent(model: LeoMini, lab: Lab) -> None:
    """What an absent expert delivers: the mean reduced tokens over training pictures, each with its first question."""
    asked = [lab.train.questions[numbers[0]] for numbers in lab.train.of_picture()[:MEAN_OVER] if numbers]
    was, sums = model.training, None
    model.eval()
    for start in range(0, len(asked), 64):
        some = asked[start : start + 64]
        rows = lab.rows(some, 0, answered=False)
        reduced = model.reduce(pictures_of(lab.train, some), rows["input_ids"], rows["question_mask"], torch.arange(len(some)))
        parts = [tokens.sum(dim=0) for tokens in reduced]
        sums = parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]
    model.reducer.set_absent(tuple(total / len(asked) for total in sums))
    model.train(was)


def pictures_of(chosen, asked):
    """Features of each question's picture."""
    return chosen.features.pick(torch.tensor([one.picture for one in asked]))


def nobody(count: int) -> Bool[Tensor, "p m"]:
    """All vision experts absent."""
    return torch.zeros(count, len(EXPERTS), dtype=torch.bool)
