"""Experiments as data: what is one run, which controls a grid has, how runs are shared out and resumed."""

import json
from dataclasses import replace

import pytest

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.experiments.claim_list import CLAIMS
from leo_core.experiments.configuration import COTR, MMOE, Configuration, Training
from leo_core.experiments.grids import CONTROLS, GRIDS, LORA_TOTAL, NO_MMOE, REFERENCE, distinct, grid_named, total_rank
from leo_core.experiments.runner import jobs

TRAINING = Training()


def test_every_grid_contains_its_controls():
    for grid in GRIDS:
        kinds = {(one.reducer.kind, one.blind) for one in grid.configurations}
        assert {("random", False), ("average", False), ("cotr", True)} <= kinds, grid.name
        assert set(CONTROLS) <= set(grid.configurations)


def test_shared_configurations_have_one_identity_and_run_once():
    asked = [one for grid in GRIDS for one in grid.configurations]
    identities = {one.identity(TRAINING) for one in asked}
    assert len(distinct()) == len(identities) < len(asked)
    assert len({one.name for one in distinct()}) == len(distinct())


def test_identity_is_content_not_name():
    assert Configuration("a").identity(TRAINING) == Configuration("b").identity(TRAINING)
    changes = [
        {"reducer": replace(COTR, tokens=4)}, {"mmoe": replace(MMOE, rank=4)}, {"start": "stage2_without_stage1"}, {"train_projector": False},
        {"without": ("text",)}, {"query_std": 0.02}, {"blind": True}, {"times": 2}, {"text_start": True}, {"looks": ("terms",)},
    ]  # fmt: skip
    identities = {Configuration("a", **change).identity(TRAINING) for change in changes}
    assert len(identities) == len(changes) and Configuration("a").identity(TRAINING) not in identities
    assert Configuration("a").identity(replace(TRAINING, steps=3)) != Configuration("a").identity(TRAINING)


def test_identity_survives_a_trip_through_json():
    from leo_core.experiments.configuration import identity_of

    content = json.loads(json.dumps({**REFERENCE.content(), "training": TRAINING.__dict__}))
    assert identity_of(content) == REFERENCE.identity(TRAINING)


def test_the_shares_of_several_processes_are_all_runs_and_each_once():
    whole = jobs(["all"], range(2))
    parts = [jobs(["all"], range(2), share=f"{i}/3") for i in (1, 2, 3)]
    assert sorted((job.seed, job.configuration.name) for part in parts for job in part) == sorted((job.seed, job.configuration.name) for job in whole)
    assert len(whole) == 2 * len(distinct())


@pytest.mark.parametrize("share", ["0/2", "3/2", "one"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InputError, match="I/N"):
        jobs(["all"], range(1), share=share)


def test_patterns_choose_by_name():
    assert {job.configuration.name for job in jobs(["mmoe"], [0], "ROUTER*")} == {"router: hidden", "router: hidden, visual", "router: hidden, text"}
    with pytest.raises(InputError, match="list"):
        jobs(["mmoe"], [0], "nothing like it")
    with pytest.raises(InputError, match="reducers"):
        grid_named("reducer")


def test_a_term_can_be_absent_under_cosine_only():
    with pytest.raises(InputError, match="cosine"):
        Configuration("x", replace(COTR, similarity="dot"), without=("text",))
    with pytest.raises(InputError, match="query"):
        Configuration("x", without=("question",))


def test_the_single_lora_of_equal_parameters_has_as_many_as_the_mmoe():
    from leo_core.experiments.lab_sizes import DECODER_LAYER
    from leo_core.mmoe import MMoELinear

    text_width, inner = DECODER_LAYER
    count = lambda mmoe: sum(p.numel() for name, p in MMoELinear(inner, text_width, False, text_width, mmoe).named_parameters() if name != "weight")  # noqa: E731
    per_rank = text_width + inner
    assert abs(count(MMOE) - count(LORA_TOTAL.mmoe)) <= per_rank / 2
    assert LORA_TOTAL.mmoe.rank == total_rank() and not NO_MMOE.mmoe.installed
    assert isinstance(LORA_TOTAL.mmoe, MMoEConfig)


def test_claims_speak_of_configurations_and_grids_that_exist():
    from leo_core.experiments.results import Results
    from leo_core.experiments.runs import Questions

    asked = []

    class Spy(Results):
        def of(self, name):
            asked.append(name)
            return ()

    import numpy as np

    empty = Spy({}, Questions(np.zeros(0, dtype=int), (), ()))
    for claim in CLAIMS:
        assert claim.measure(empty).verdict == "cannot tell"
        assert claim.grid in {grid.name for grid in GRIDS}
    names = {one.name for one in distinct()}
    assert asked and set(asked) <= names
    assert len({claim.sentence for claim in CLAIMS}) == len(CLAIMS)
