"""The linear probe against a ridge regression by hand, on two experts whose grids differ."""

import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from leo_core.data.samples import Question
from leo_core.experts.expert import VisionExperts
from leo_core.training.ceilings import PROBE_PENALTY, feature_of, fit_probe, probed
from leo_core.training.features import FeatureStore, write_shard
from leo_core.training.recipe import fit_scaling

sys.path.append(str(Path(__file__).parent))
from lab_recipe import Cells, samples  # noqa: E402


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> FeatureStore:
    experts = VisionExperts([Cells("fine", 6, 8), Cells("coarse", 2, 3)])
    shard = tmp_path_factory.mktemp("ceilings") / "shard-0000.safetensors"
    write_shard(shard, samples(24), experts)
    store = FeatureStore([shard], list(experts))
    fit_scaling(experts, store)
    return store


def test_a_things_feature_is_the_mean_of_the_tokens_inside_its_box_of_each_expert(store):
    sample, whole = store.samples[0], (0.0, 0.0, *map(float, store.samples[0].size))
    fine, coarse = (store.tokens(name, 0)[0] for name in ("fine", "coarse"))
    assert_close(feature_of(store, ("fine", "coarse"), 0, whole), torch.cat([fine.mean(dim=0), coarse.mean(dim=0)]))
    features, boxes = store.tokens("fine", 0)
    x0, y0, x1, y1 = box = (0.0, 0.0, sample.size[0] / 2, sample.size[1] / 3)
    chosen = []
    for row, (left, top, right, bottom) in zip(features, boxes.tolist(), strict=True):
        x, y = (left + right) / 2 * sample.size[0], (top + bottom) / 2 * sample.size[1]
        if x0 <= x <= x1 and y0 <= y <= y1:
            chosen.append(row)
    assert 0 < len(chosen) < len(features)
    assert_close(feature_of(store, ("fine",), 0, box), torch.stack(chosen).mean(dim=0))
    nowhere = (0.0, 0.0, 0.01, 0.01)
    assert_close(feature_of(store, ("fine",), 0, nowhere), features.mean(dim=0))


@pytest.mark.parametrize("experts", [("fine",), ("fine", "coarse")])
def test_the_probe_is_a_ridge_regression_on_all_named_things_and_names_what_it_is_asked_for(store, experts):
    probe = fit_probe(store, experts)
    things = [(i, region) for i, sample in enumerate(store.samples) if sample.name.startswith("scenes") for region in sample.regions]
    assert probe.experts == experts and set(probe.names) == {region.phrase for _, region in things}
    x = torch.stack([feature_of(store, experts, i, region.box) for i, region in things]).double()
    y = torch.tensor([[float(region.phrase == name) for name in probe.names] for _, region in things]).double()
    ones, penalty = torch.ones(len(x), 1).double(), PROBE_PENALTY * len(experts) * torch.eye(x.shape[1]).double()
    stacked = torch.cat([torch.cat([x, ones], dim=1), torch.cat([penalty.sqrt(), torch.zeros(len(penalty), 1).double()], dim=1)])
    solution = torch.linalg.lstsq(stacked, torch.cat([y, torch.zeros(len(penalty), y.shape[1]).double()])).solution
    assert_close(probe.weight.double(), solution[:-1].T, atol=1e-4, rtol=1e-3)
    scores = x @ solution[:-1] + solution[-1]
    right = [probe.names[int(row.argmax())] == region.phrase for row, (_, region) in zip(scores, things, strict=True)]
    asked = [(i, Question("What is it?", f"a {region.phrase}", "what", "objects")) for i, region in things]
    assert probed(probe, store, asked) == right and any(right)
