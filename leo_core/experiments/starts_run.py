"""The closed-form starts measured on a run's features, kept in assets/results/starts.json and .md; goes on where it was stopped."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
from leo_core.experiments.starts import REDUCER_STARTS, UNITS, cells_right, questions_right, started
from leo_core.experiments.tables import interval, markdown
from leo_core.files import atomic_path
from leo_core.model import LeoMini
from leo_core.parts import Parts
from leo_core.statistics import Estimate
from leo_core.training.closed_form import ridge_start
from leo_core.training.evaluate import drawn_questions
from leo_core.training.recipe import replace_reducer
from leo_core.training.run_folder import TRAINED_ON, RunFolder, data_hash, has_stage_2
from leo_core.training.text_start import start_text

TEST = "new_scenes"
TRAINED = "after stage 2"

TEXT = """# What the closed-form starts are worth

Measured before anything is trained, on unseen scenes (`{test}`), one draw of pictures; intervals are bootstrap 95 % over pictures.
`python -m leo_core experiment starts --run RUN`

## The projector: cells whose visual token is nearest to the name of what they show

{cells}

## The reducer, behind the decoder of stage 2

{n} questions, teacher-forced: right where every token of the answer is the likeliest; log p: of the right answer, in nats. TEXT at a temperature: fitted in closed form.

{rows}"""


def run_starts(run: Path, results: Path, questions: int = 300) -> Iterator[str]:
    """Measure what `results`/starts.json lacks, yielding a line for each start, and write the table beside it.

    run: folder of a trained run (`stage2`, `features`). Another stage 2, other features or another number of questions begin anew.
    """
    has_stage_2(run)
    here, path = RunFolder(run, Parts()), results / "starts.json"
    fresh = {"data": data_hash(run), "questions": questions, "cells": {}, "questions_right": {}}
    known = json.loads(path.read_text()) if path.exists() else {}
    found = known if all(known.get(key) == fresh[key] for key in ("data", "questions")) else fresh
    parts = {"cells": _cells(here, found["cells"]), "questions_right": _questions(here, questions, found["questions_right"])}
    for part, measured in parts.items():
        for name, values in measured:
            found[part][name] = values
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps(found, indent=1) + "\n")
            yield name
    with atomic_path(results / "starts.md") as temporary:
        temporary.write_text(table(found))


def _cells(here: RunFolder, known: dict) -> Iterator[tuple[str, dict]]:
    todo = [name for name in UNITS if name not in known]
    if todo:
        raw = here.raw(*TRAINED_ON)
        torch.manual_seed(0)
        model = LeoMini(replace_reducer(raw.config, KEEP_ALL, PLAIN_DECODER), raw.decoder, raw.experts).eval()
        raw.processor.visual_tokens = KEEP_ALL.tokens
        tests = here.standardised(raw.experts, TEST)
        silent = {name: value.clone() for name, value in model.projector.state_dict().items()}
        for name in todo:
            model.projector.load_state_dict(silent)
            ridge_start(model, raw.processor, raw.store, *UNITS[name])
            yield name, {kind: asdict(one) for kind, one in cells_right(model, raw.processor, tests).items()}
    if TRAINED not in known:
        model = here.after_stage_2()
        _, processor = here.config(model.config.text_config)
        yield TRAINED, {kind: asdict(one) for kind, one in cells_right(model, processor, here.standardised(model.vision_experts, TEST)).items()}


def _questions(here: RunFolder, count: int, known: dict) -> Iterator[tuple[str, dict]]:
    todo = [start for start in REDUCER_STARTS if start.name not in known]
    if not todo:
        return
    stage2 = here.after_stage_2()
    _, processor = here.config(stage2.config.text_config)
    tests, fitted = here.standardised(stage2.vision_experts, TEST), {}
    pairs = drawn_questions(tests, count, 0)
    for start in todo:
        model, amplitude = started(start, stage2), start.reducer.position_amplitude
        if start.text and amplitude not in fitted:
            start_text(model, processor, here.standardised(stage2.vision_experts, *TRAINED_ON))
            fitted[amplitude] = model.reducer.text_proj.weight.detach().clone()
        if start.reducer.kind == "cotr":
            with torch.no_grad():
                model.reducer.text_proj.weight.copy_(fitted.get(amplitude, model.reducer.text_proj.weight))
                model.reducer.temperature[3] = start.text
        log_probability, right = questions_right(model, processor, tests, pairs)
        yield start.name, {"log p": asdict(log_probability), "right": asdict(right)}


def table(found: dict) -> str:
    """Markdown of what `run_starts` has measured."""
    kinds = sorted({kind for row in found["cells"].values() for kind in row})
    first = next(iter(found["cells"].values()))
    head = ["projector", *(f"{kind} (n {first[kind]['n']})" for kind in kinds)]
    cells = [[name, *(interval(Estimate(**row[kind])) for kind in kinds)] for name, row in found["cells"].items()]
    rows = [[name, interval(Estimate(**row["right"])), _nats(Estimate(**row["log p"]))] for name, row in found["questions_right"].items()]
    return TEXT.format(cells=markdown(head, cells), rows=markdown(["reducer", "right [95 %]", "log p [95 %]"], rows), n=found["questions"], test=TEST)


def _nats(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"
