"""The shipped lab and its results: a short run from start to file, resumption, and texts that follow from the files."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leo_core.experiments.configuration import TERMS, Configuration, Training
from leo_core.experiments.grids import ALL_TOKENS, BLIND, GRIDS, LORA_ACTIVE, REFERENCE, distinct
from leo_core.experiments.lab import EXPERTS, Lab
from leo_core.experiments.lab_model import fit_absent, new_model
from leo_core.experiments.lab_run import lab_run
from leo_core.experiments.measure import answers, greedy, shapley, term_off
from leo_core.experiments.readme import readme
from leo_core.experiments.results import results
from leo_core.experiments.runner import Job, is_finished, run_jobs
from leo_core.experiments.runs import RESULTS, load, load_all, load_questions
from leo_core.experiments.tables import table

ROOT = Path(__file__).parents[2]
SHORT = Training(steps=3, batch=8, warmup=1)
FINISHED = load_all()


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="module")
def small(lab) -> Lab:
    """The same lab with the first test questions only."""
    small = Lab()
    small.test = replace(lab.test, questions=lab.test.questions[:48])
    return small


def test_the_shipped_results_come_from_the_shipped_lab(lab):
    assert FINISHED and {run.data for run in FINISHED} == {lab.hash}
    known = load_questions()
    assert known.picture.tolist() == [one.picture for one in lab.test.questions]
    assert known.domain == tuple(one.question.domain for one in lab.test.questions)
    assert all(len(answers) == len(known.domain) for run in FINISHED for answers in run.right.values())


def test_the_lab_loads_without_parts_icons_or_network():
    program = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "from leo_core.experiments.lab import Lab\n"
        "lab = Lab(); print(len(lab.test.questions))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "LEO_CACHE": "/nonexistent"}, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0 and int(done.stdout) > 500, done.stderr[-500:]


def test_a_short_run_is_written_as_documented_and_not_repeated(small, tmp_path):
    jobs = [Job(REFERENCE, 0), Job(BLIND, 0)]
    steps = []
    progress = list(run_jobs(jobs, tmp_path, SHORT, small, lambda job, step, loss: steps.append((job.configuration.name, step))))
    assert [one.done for one in progress] == [1, 2] and steps[:3] == [(REFERENCE.name, 1), (REFERENCE.name, 2), (REFERENCE.name, 3)]
    path = jobs[0].path(tmp_path, SHORT)
    values = json.loads(path.read_text())
    assert {"name", "identity", "seed", "steps", "data", "configuration", "seconds", "versions", "right", "accuracy", "measures", "schema"} <= set(
        values
    )
    assert set(values["right"]) >= {"picture", "no picture", "another picture", *(f"{term.upper()} off" for term in TERMS), "objects alone"}
    assert all(set(answers) <= {"0", "1"} and len(answers) == 48 for answers in values["right"].values())
    share = values["accuracy"]["picture"]["all"]
    assert share[0] == pytest.approx(values["right"]["picture"].count("1") / 48, abs=1e-4) and share[1] <= share[0] <= share[2]
    assert set(values["measures"]) >= {"cost", "parameters", "effective_tokens", "likeness", "output_likeness", "routes", "shapley", "temperatures"}
    assert values["configuration"]["reducer"]["tokens"] == REFERENCE.reducer.tokens
    before = path.stat().st_mtime_ns
    assert list(run_jobs(jobs, tmp_path, SHORT, small)) == [] and path.stat().st_mtime_ns == before
    path.unlink()
    again = list(run_jobs(jobs, tmp_path, SHORT, small))
    assert len(again) == 1 and again[0].done == 2
    assert {key: value for key, value in load(path).right.items()} == values["right"]  # the same bits a second time
    assert not is_finished(jobs[0], tmp_path, SHORT, "another lab")


def test_terms_absent_stay_absent_and_come_back_after_a_look(small):
    run, model = lab_run(Configuration("x", without=("text", "query")), 0, 3, small)
    assert run.measures["temperatures"]["text"] == run.measures["temperatures"]["query"] == 0.0
    assert model.reducer.temperature[1] != 0
    kept = model.reducer.temperature.clone()
    with term_off(model, "self"):
        assert model.reducer.temperature[1] == 0
    assert torch.equal(kept, model.reducer.temperature)


def test_the_start_is_the_same_for_all_and_only_what_may_learn_learns(small):
    start = small.start("stage2")
    plain = new_model(small, Configuration("x", mmoe=LORA_ACTIVE.mmoe, train_projector=False), 1)
    _, trained = lab_run(Configuration("x", mmoe=LORA_ACTIVE.mmoe, train_projector=False), 1, 3, small)
    state = trained.state_dict()
    for name, value in start.items():
        if name != "projector.positions":
            assert torch.equal(plain.state_dict()[name], value) and torch.equal(state[name], value), name
    assert not torch.equal(state["reducer.query.0"], plain.state_dict()["reducer.query.0"])


def test_answered_is_what_greedy_decoding_gives(small):
    model = new_model(small, ALL_TOKENS, 0).eval()
    asked = small.test.questions
    decoded = greedy(small, model, asked)
    assert [one.answer == own for one, own in zip(asked, decoded, strict=True)] == answers(small, model, asked)


def test_shapley_values_add_up_to_what_the_experts_add(small):
    model = new_model(small, REFERENCE, 0).eval()
    fit_absent(model, small)
    asked = small.test.questions[:6]
    values = np.array(shapley(small, model, asked))
    assert values.shape == (6, len(EXPERTS)) and np.isfinite(values).all()
    own = [replace(one, answer=answer) for one, answer in zip(asked, greedy(small, model, asked), strict=True)]

    def value(mask):
        rows = small.rows(own, model.reducer.tokens)
        from leo_core.experiments.lab_model import pictures_of

        labels = rows.pop("labels")
        with torch.no_grad():
            logits = model(**rows, pictures=pictures_of(small.test, own), expert_mask=mask.expand(len(own), -1)).logits.log_softmax(-1)
        return [sum(logits[i, j - 1, labels[i, j]].item() for j in range(labels.shape[1]) if labels[i, j] >= 0) for i in range(len(own))]

    gain = np.array(value(torch.ones(1, 3, dtype=torch.bool))) - np.array(value(torch.zeros(1, 3, dtype=torch.bool)))
    assert values.sum(axis=1) == pytest.approx(gain, abs=1e-3)


def test_tables_and_readme_follow_from_the_files():
    found = results()
    assert (RESULTS / "README.md").read_text() == readme(found)
    for grid in GRIDS:
        assert (RESULTS / f"{grid.name}.md").read_text() == table(grid, results(grid)), grid.name


def test_numbers_in_the_files_can_be_made_again_from_the_answers():
    for run in FINISHED:
        for condition, domains in run.accuracy.items():
            value, low, high, n = domains["all"]
            assert value == pytest.approx(run.answered(condition).mean(), abs=1e-4) and low <= value <= high and n == len(run.answered(condition))


def test_files_are_named_for_what_they_hold():
    wanted = {one.identity(Training()): one.name for one in distinct()}
    for run in FINISHED:
        assert wanted[run.identity] == run.name
        assert set(asdict(run)) == set(json.loads(next((RESULTS / "runs").glob(f"*.{run.identity}.seed{run.seed}.json")).read_text()))
