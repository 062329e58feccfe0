"""One lab run from configuration to file: train, measure, write down."""

import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import torch

from leo_core.accounting import parameters
from leo_core.experiments.configuration import TERMS, Configuration, Training
from leo_core.experiments.lab import Lab
from leo_core.experiments.measure import CONDITIONS, answers, blind, expert_subsets, flops, prefill_ms, shapley, term_off
from leo_core.experiments.routes import look, route_information
from leo_core.experiments.runs import Questions, Run, accuracy, bits
from leo_core.experiments.stage3 import train
from leo_core.model import LeoMini

LOOKED_AT = 400
"""Test questions whose weights and routes are recorded."""
SHAPLEY_ON = 200
"""Test questions with Shapley values: evenly spread over the set."""


def questions_of(lab: Lab) -> Questions:
    asked = lab.test.questions
    return Questions(np.array([one.picture for one in asked]), tuple(one.question.domain for one in asked), tuple(one.question.kind for one in asked))


def lab_run(
    configuration: Configuration,
    seed: int = 0,
    steps: int | None = None,
    lab: Lab | None = None,
    report: Callable[[int, float], None] | None = None,
    questions: int | None = None,
    training: Training | None = None,
) -> tuple[Run, LeoMini]:
    """Train and measure one configuration; returns the run (not written) and its model in evaluation mode.

    steps: of training (default: Training.steps), or `training` whole. questions: only the first so many test questions, for a quick look.
    report(step, loss) after each step. About half a minute on one core with the defaults.
    """
    lab = lab or Lab()
    training = training or (Training() if steps is None else Training(steps=steps, warmup=min(Training.warmup, steps)))
    started = time.monotonic()
    longer = replace(training, steps=training.steps * configuration.times)
    model, losses = train(lab, configuration, seed, longer, report)
    trained = time.monotonic()
    asked = lab.test.questions[:questions]
    known = questions_of(lab)
    known = Questions(known.picture[:questions], known.domain[:questions], known.kind[:questions])
    right = _right(lab, model, configuration, asked)
    measures = {
        "cost": {**flops(lab, model), "prefill_ms": prefill_ms(lab, model), "threads": torch.get_num_threads()},
        "parameters": parameters(model),
    }
    measures |= _looked(lab, model, configuration, asked)
    run = Run(
        name=configuration.name, identity=configuration.identity(training), study="lab", seed=seed, steps=longer.steps, data=lab.hash,
        configuration={**configuration.content(), "training": asdict(training)},
        seconds={"train": round(trained - started, 2), "evaluate": round(time.monotonic() - trained, 2)}, versions=versions(),
        loss=float(np.mean(losses[-max(1, len(losses) // 10) :])), right=right, accuracy=accuracy(right, known), measures=measures,
    )  # fmt: skip
    return run, model


def _right(lab: Lab, model: LeoMini, configuration: Configuration, asked) -> dict[str, str]:
    if configuration.blind:
        return {"picture": bits(answers(lab, model, asked, experts=blind(1)))}
    right = {condition: bits(answers(lab, model, asked, condition)) for condition in CONDITIONS}
    if "terms" in configuration.looks:
        for term in TERMS:
            with term_off(model, term):
                right[f"{term.upper()} off"] = bits(answers(lab, model, asked))
    if "experts" in configuration.looks:
        right |= {name: bits(answers(lab, model, asked, experts=mask)) for name, mask in expert_subsets().items()}
    return right


def _looked(lab: Lab, model: LeoMini, configuration: Configuration, asked) -> dict:
    if configuration.blind:
        return {}
    some = asked[:: max(1, len(asked) // LOOKED_AT)][:LOOKED_AT]
    seen = look(lab, model, some)
    found = {"effective_tokens": seen.effective, "likeness": seen.likeness, "output_likeness": seen.output_likeness}
    if seen.shares is not None:
        routes = route_information(seen.shares, [one.question.domain for one in some])
        found["routes"] = {**asdict(routes), "load": seen.shares.mean(axis=0).tolist(), "entropy_bits": seen.entropy}
    if configuration.reducer.kind == "cotr" and configuration.reducer.similarity == "cosine":
        found["temperatures"] = dict(zip(TERMS, model.reducer.temperature.tolist(), strict=True))
    if "experts" in configuration.looks:
        spread = asked[:: max(1, len(asked) // SHAPLEY_ON)][:SHAPLEY_ON]
        found["shapley"] = {
            "domain": [one.question.domain for one in spread],
            "picture": [one.picture for one in spread],
            "values": shapley(lab, model, spread),
        }
    return found


def versions() -> dict[str, str]:
    """Of python and the libraries that a result depends on."""
    libraries = ("leo-studio", "torch", "transformers", "numpy")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in libraries}}
