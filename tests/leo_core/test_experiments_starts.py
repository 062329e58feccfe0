"""The closed-form starts measured: cells by a search of their own, questions one by one, and a run that goes on."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from leo_core.config import LeoConfig, ProjectorConfig, ReducerConfig
from leo_core.data.samples import Region
from leo_core.embedded import IMAGE_TOKEN, KEEP_ALL, PLAIN_DECODER
from leo_core.experiments import starts_run
from leo_core.experiments.starts import ReducerStart, cells_right, kind_of, questions_right, started
from leo_core.experts.expert import VisionExperts
from leo_core.model import LeoMini
from leo_core.position import centred_in, grid_boxes
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.closed_form import name_embedding, ridge_start
from leo_core.training.features import FeatureStore, StoredSample, write_shard
from leo_core.training.recipe import fit_scaling, replace_reducer

sys.path.append(str(Path(__file__).parent))
from lab_recipe import Cells, decoder, samples, tokenizer  # noqa: E402

COTR = ReducerConfig(tokens=4, projection=8, similarity="cosine", query_init="grid", position="similarity")


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> SimpleNamespace:
    """A model of all tokens whose projector has its closed-form start, on 24 pictures with one named thing each."""
    experts, words = VisionExperts([Cells("fine", 6, 8), Cells("coarse", 2, 3)]), tokenizer()
    shard = tmp_path_factory.mktemp("starts") / "shard-0000.safetensors"
    write_shard(shard, samples(24), experts)
    store = FeatureStore([shard], list(experts))
    fit_scaling(experts, store)
    language = decoder(len(words))
    config = LeoConfig(
        text_config=language.config, reducer=COTR, projector=ProjectorConfig(kind="residual"), decoder_source={"part": "lab"},
        image_token_id=words.convert_tokens_to_ids(IMAGE_TOKEN), expert_widths=[6, 6],
    )  # fmt: skip
    processor = LeoProcessor(LeoImageProcessor([]), words, visual_tokens=KEEP_ALL.tokens)
    model = LeoMini(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), language, experts).eval()
    ridge_start(model, processor, store)
    return SimpleNamespace(model=model, processor=processor, store=store, experts=experts, config=config)


@pytest.mark.parametrize(
    ("domain", "phrase", "kind"),
    [("scenes", "lion", "drawings"), ("reading", "lion", "words"), ("charts", "Red", "colours"), ("charts", "37", "numbers"), ("documents", "$3.50", "numbers")],
)
def test_what_kind_of_name_a_region_has(domain, phrase, kind):
    assert kind_of(StoredSample("x", (4, 4), (SimpleNamespace(domain=domain),), (Region((0, 0, 1, 1), phrase),)), phrase) == kind


@torch.no_grad()
def test_cells_are_right_where_no_other_name_is_nearer(lab):
    embedding, nothing = lab.model.get_input_embeddings().weight, torch.zeros(1, 0, 1)
    named = {name: name_embedding(embedding[lab.processor.plain_ids(f" {name}")]) for name in ("lion", "dog", "red", "bell")}
    mean, right = torch.stack(list(named.values())).mean(dim=0), {"drawings": [], "colours": []}
    for i, sample in enumerate(lab.store.samples):
        tokens = lab.model.project(lab.model.reducer(lab.store.features(torch.tensor([i])), nothing, nothing[..., 0].bool()))[0]
        (region,) = sample.regions
        inside = centred_in(grid_boxes(8, 8), torch.tensor([region.box]) / torch.tensor([*sample.size, *sample.size]))
        for cell in inside.nonzero()[:, 0].tolist():
            shown = tokens[cell] - lab.model.projector.positions[cell] - mean
            nearest = max(named, key=lambda name: cosine_similarity(shown, named[name] - mean, dim=0).item())
            right["colours" if region.phrase == "red" else "drawings"].append(nearest == region.phrase)
    found = cells_right(lab.model, lab.processor, lab.store)
    assert {kind: (one.value, one.n) for kind, one in found.items()} == {kind: (pytest.approx(np.mean(one)), len(one)) for kind, one in right.items()}
    assert found["drawings"].value > 1 / 4 and found["drawings"].low < found["drawings"].high


def test_a_projector_without_units_is_its_linear_part(lab):
    torch.manual_seed(0)
    model = LeoMini(lab.model.config, lab.model.decoder, lab.experts).eval()
    ridge_start(model, lab.processor, lab.store, 0.0, 0.0)
    assert not model.projector.mlp[2].weight.any() and model.projector.linear.weight.any()


@pytest.mark.parametrize("reducer", [COTR, ReducerConfig(kind="average", tokens=4), KEEP_ALL])
def test_questions_together_are_questions_one_by_one(reducer, lab):
    model = started(ReducerStart("x", reducer), lab.model)
    assert model.reducer.tokens == reducer.tokens
    pairs = [(i, question) for i, sample in enumerate(lab.store.samples) for question in sample.questions][:35]
    log_probability, right = questions_right(model, lab.processor, lab.store, pairs)
    single = [questions_right(model, lab.processor, lab.store, [pair]) for pair in pairs]
    assert log_probability.value == pytest.approx(np.mean([one.value for one, _ in single]), abs=1e-4)
    assert (right.value, right.n) == (pytest.approx(np.mean([one.value for _, one in single])), 35)


def test_keeping_all_tokens_starts_as_the_stage_2_model_itself(lab):
    pairs = [(i, sample.questions[0]) for i, sample in enumerate(lab.store.samples)]
    again = questions_right(started(ReducerStart("x", KEEP_ALL), lab.model), lab.processor, lab.store, pairs)
    assert again == questions_right(lab.model, lab.processor, lab.store, pairs)


class Folder:
    """A run's folder whose parts are the lab's."""

    def __init__(self, lab):
        self.lab, self.loaded = lab, 0

    def raw(self, *sets):
        return SimpleNamespace(config=self.lab.config, decoder=self.lab.model.decoder, experts=self.lab.experts, processor=self.lab.processor, store=self.lab.store)

    def standardised(self, experts, *sets):
        return self.lab.store

    def after_stage_2(self):
        self.loaded += 1
        return self.lab.model

    def config(self, text_config):
        return self.lab.config, self.lab.processor


@pytest.fixture
def folder(lab, monkeypatch) -> Folder:
    found = Folder(lab)
    monkeypatch.setattr(starts_run, "RunFolder", lambda run, parts: found)
    monkeypatch.setattr(starts_run, "has_stage_2", lambda run: None)
    monkeypatch.setattr(starts_run, "data_hash", lambda run: str(run))
    monkeypatch.setattr(starts_run, "REDUCER_STARTS", (ReducerStart("all", KEEP_ALL), ReducerStart("without", COTR), ReducerStart("with", COTR, 20.0)))
    return found


def test_a_measurement_that_was_stopped_goes_on_and_another_run_begins_anew(folder, tmp_path):
    first = starts_run.run_starts("a", tmp_path, 20)
    assert [next(first) for _ in range(5)] == [*starts_run.UNITS, starts_run.TRAINED, "all"]
    first.close()
    assert list(starts_run.run_starts("a", tmp_path, 20)) == ["without", "with"]
    loaded = folder.loaded
    assert list(starts_run.run_starts("a", tmp_path, 20)) == [] and folder.loaded == loaded
    found = json.loads((tmp_path / "starts.json").read_text())
    assert found["questions_right"]["with"] != found["questions_right"]["without"]
    text = (tmp_path / "starts.md").read_text()
    assert all(f"| {name} |" in text for name in (*starts_run.UNITS, starts_run.TRAINED, "all", "without", "with"))
    assert len(list(starts_run.run_starts("b", tmp_path, 20))) == 7
