"""CoTR's fitted TEXT term: what it is fitted to, and that a question then moves the mass onto what it names, on unseen pictures."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from leo_core.config import ReducerConfig
from leo_core.data.samples import Question, Region, Sample
from leo_core.experts.expert import VisionExperts
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.features import FeatureStore, StoredSample, write_shard
from leo_core.training.question_mass import question_mass
from leo_core.training.text_start import TEMPERATURE, named_boxes, start_text

sys.path.append(str(Path(__file__).parent))
from lab_recipe import Cells  # noqa: E402

PAINTS = {"lion": (250, 180, 20), "dog": (90, 50, 30), "red": (240, 10, 20)}


def drawn(count: int, seed: int) -> list[Sample]:
    """Two painted things on gray noise, each asked for by name."""
    rng, made = np.random.default_rng(seed), []
    for number in range(count):
        pixels = rng.integers(100, 156, (60, 80, 3), dtype=np.uint8)
        names, corners = rng.permutation(list(PAINTS))[:2], rng.permutation(4)[:2]
        regions = []
        for name, corner in zip(names, corners, strict=True):
            x, y = 40 * (corner % 2) + 10, 30 * (corner // 2) + 5
            pixels[y : y + 20, x : x + 20] = PAINTS[name]
            regions.append(Region((float(x), float(y), float(x + 20), float(y + 20)), str(name)))
        asked = tuple(Question(f"Where is the {name}?", "left", "where", "scenes") for name in names)
        made.append(Sample(f"scenes-{number}", Image.fromarray(pixels), asked, tuple(regions)))
    return made


@pytest.fixture
def trained(make_leo, tokenizer, tmp_path):
    experts = VisionExperts([Cells("fine", 6, 8), Cells("coarse", 3, 5)])
    for name, count in (("seen", 60), ("unseen", 30)):
        write_shard(tmp_path / f"{name}.safetensors", drawn(count, seed=len(name)), experts)
    seen, unseen = (FeatureStore([tmp_path / f"{name}.safetensors"], list(experts)) for name in ("seen", "unseen"))
    for name, expert in experts.items():
        mean, std = seen.scaling(name)
        expert.mean.copy_(mean), expert.std.copy_(std)
    place = tokenizer.convert_tokens_to_ids("<file_sep>")

    def make(**reducer):
        model = make_leo(reducer=ReducerConfig(tokens=4, projection=12, **reducer), vision_experts=experts, image_token_id=place, decoder=None)
        model.decoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        processor = LeoProcessor(LeoImageProcessor([]), tokenizer, visual_tokens=4)
        return model, processor, seen.standardise_as(experts), unseen.standardise_as(experts)

    return make


COSINE = {"similarity": "cosine", "query_init": "grid", "position": "similarity"}


def test_a_question_moves_the_mass_onto_what_it_names_on_unseen_pictures(trained):
    model, processor, seen, unseen = trained(**COSINE)
    before = question_mass(model, processor, unseen, "fine")
    assert start_text(model, processor, seen) == 120
    after = question_mass(model, processor, unseen, "fine")
    assert after.low > 0 and after.difference > 3 * abs(before.difference)
    assert_close(float(model.reducer.temperature[3]), TEMPERATURE)


def test_the_fit_is_the_least_squares_solution(trained):
    """The normal equations of ridge regression: the residual's product with the questions is the penalty times the weights."""
    from leo_core.training import text_start
    from leo_core.training.batches import question_batch

    model, processor, seen, _ = trained(**COSINE)
    start_text(model, processor, seen, most=7)
    rows, targets = [], []
    for index, sample in enumerate(seen.samples[:7]):
        for question in sample.questions:
            batch = question_batch(seen, processor, [(index, question)], answered=False)
            rows.append(model.get_input_embeddings()(batch["input_ids"])[batch["question_mask"]].mean(dim=0).double())
            box = torch.tensor(named_boxes(sample, question)) / torch.tensor([80.0, 60.0, 80.0, 60.0])
            targets.append(text_start._named_against_all(model.reducer, seen, index, box).double())
    x, y, weight = torch.stack(rows).detach(), torch.stack(targets).detach(), model.reducer.text_proj.weight.detach().double()
    assert_close((y - x @ weight.T).T @ x, text_start.PENALTY * (x.T @ x).diagonal().mean() * weight, atol=1e-5, rtol=1e-4)


def test_other_reducers_and_questions_without_names_are_left_as_they_are(trained):
    model, processor, seen, _ = trained(similarity="dot")
    weight = model.reducer.text_proj.weight.clone()
    assert start_text(model, processor, seen) == 0 and torch.equal(model.reducer.text_proj.weight, weight)
    model, processor, seen, _ = trained(**COSINE)
    seen.samples = [StoredSample(one.name, one.size, (Question("What is this?", "a dog", "what", "scenes"),), one.regions) for one in seen.samples]
    weight = model.reducer.text_proj.weight.clone()
    assert start_text(model, processor, seen) == 0 and torch.equal(model.reducer.text_proj.weight, weight)


def test_a_corner_is_a_named_box_where_no_thing_is_named():
    lion = Region((1.0, 2.0, 3.0, 4.0), "lion")
    sample = StoredSample("scenes-1", (200, 100), (), (lion,))
    assert named_boxes(sample, Question("Where is the lion?", "top left", "where", "scenes")) == [lion.box]
    assert named_boxes(sample, Question("What is in the top right corner?", "a dog", "corner", "scenes")) == [(100, 0, 200, 50)]
    assert named_boxes(sample, Question("How many things?", "one", "count", "scenes")) == []
