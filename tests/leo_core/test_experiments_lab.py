"""How the lab is made: its pictures, questions, reduced features and tokenizer."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from leo_core.data.icons import STYLES, UNSEEN_STYLE, Icons, read_objects
from leo_core.data.samples import Question, Region
from leo_core.data.sets import LAB_NAMES, LAB_SETS, SETS, pictures, set_named
from leo_core.experiments.lab import EXPERTS, FOLDER, Lab
from leo_core.experiments.lab_pictures import lab_samples
from leo_core.experiments.lab_reduce import CHANNELS, MOST, STEP, answerable, chosen_questions, coarser, fit, reduced_shard
from leo_core.experiments.lab_words import new_tokenizer
from leo_core.position import grid_boxes
from leo_core.training.features import FeatureStore, StoredSample


@pytest.fixture(scope="module")
def icons(tmp_path_factory) -> Icons:
    folder = tmp_path_factory.mktemp("icons")
    body = {"body": '<rect x="8" y="8" width="48" height="40" fill="#a52"/>'}
    for style in (*STYLES, UNSEEN_STYLE):
        (folder / style).mkdir()
        drawn = {icon: body for _, shown in read_objects().values() for icon in shown}
        (folder / style / "icons.json").write_text(json.dumps({"prefix": style, "icons": drawn, "width": 64, "height": 64}))
    return Icons(folder, (*STYLES, UNSEEN_STYLE))


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


def test_lab_sets_draw_their_names_only_and_are_not_built_by_default(icons):
    assert not {one.name for one in LAB_SETS} & {one.name for one in SETS}
    for chosen in LAB_SETS:
        shown = {region.phrase for sample in pictures(chosen, icons, 60) if sample.name.startswith("scenes") for region in sample.regions}
        assert shown <= set(LAB_NAMES) and len(shown) > 12
        assert set_named(chosen.name) is chosen


def test_pictures_are_asked_again_about_what_is_on_them(icons):
    chosen = LAB_SETS[0]
    for plain, more in zip(pictures(chosen, icons, 30), lab_samples(chosen, icons, 30), strict=True):
        assert more.regions == plain.regions and set(plain.questions) <= set(more.questions)
        assert len({question.text for question in more.questions}) == len(more.questions)
        if plain.name.startswith("scenes"):
            here = {region.phrase for region in plain.regions}
            for question in more.questions:
                if question.kind == "corner":
                    assert question.answer.split(" ", 1)[1] in here
    assert next(iter(lab_samples(chosen, icons, 3, 5))).questions == list(lab_samples(chosen, icons, 6))[5].questions


def stored(kind: str = "scenes", questions: tuple[Question, ...] = ()) -> StoredSample:
    return StoredSample(f"{kind}-0", (64, 48), questions, (Region((1.0, 1.0, 20.0, 20.0), "apple"),))


def test_questions_are_few_of_each_kind_and_a_first_letter_is_asked():
    many = tuple(Question(f"How many {i}?", "two", "count", "scenes") for i in range(9))
    assert len(chosen_questions(stored(questions=many), *MOST["lab_train"], seed=[0])) == MOST["lab_train"][1]
    word = Question("What does it say?", "garden", "word", "reading")
    (letter,) = chosen_questions(stored("reading", (word,)), 8, 2, seed=[0])
    assert (letter.kind, letter.answer) == ("letter", "g") and not answerable(word)
    assert not answerable(Question("Is the dog left of the cat?", "yes", "relation", "scenes"))


def test_reduced_features_read_back_through_the_store(tmp_path):
    torch.manual_seed(0)
    raw = {"objects": (torch.randn(6 * 16, 50) @ torch.randn(50, 50), grid_boxes(4, 4)), "regions": (torch.randn(6 * 24, 20), grid_boxes(6, 4))}
    tensors = {}
    for name, (rows, boxes) in raw.items():
        tensors |= {f"{name}.rows": rows.half(), f"{name}.boxes": boxes.repeat(6, 1), f"{name}.counts": torch.full((6,), len(boxes))}
    sample = {"name": "scenes-0", "size": (64, 48), "questions": [], "regions": []}
    save_file(tensors, tmp_path / "raw.safetensors", metadata={"samples": json.dumps([sample] * 6)})
    store = FeatureStore([tmp_path / "raw.safetensors"], ["objects", "regions"])
    fitted = {name: fit(store, name) for name in raw}
    rows = store._parts["objects.rows"].float()
    reduced = (rows - fitted["objects"]["mean"]) @ fitted["objects"]["components"].T
    assert reduced.shape[1] == min(50, CHANNELS["objects"])
    covariance = reduced.T @ reduced / len(reduced)
    assert torch.allclose(covariance, torch.eye(len(covariance)), atol=1e-2)  # uncorrelated, variance 1
    reduced_shard(tmp_path / "small.safetensors", store, fitted, [()] * 6)
    back = FeatureStore([tmp_path / "small.safetensors"], ["objects", "regions"])
    kept, _ = back.tokens("objects", 2, standardised=False)
    inside = reduced[32:48].abs() < 4.2
    assert torch.allclose(kept * STEP, reduced[32:48], atol=STEP / 2 + 1e-4) or torch.allclose(
        (kept * STEP)[inside], reduced[32:48][inside], atol=STEP / 2 + 1e-4
    )
    assert back.tokens("regions", 0)[0].shape[0] == 6  # 6 x 4 cells, two by two


def test_coarser_tokens_are_means_of_blocks():
    rows = torch.arange(24.0)[:, None]
    means, boxes = coarser(rows, grid_boxes(6, 4), 2)
    blocks = rows.view(3, 2, 2, 2).mean(dim=(1, 3)).reshape(-1, 1)
    assert torch.allclose(means, blocks) and torch.allclose(boxes, grid_boxes(3, 2))
    assert len(coarser(rows[:15], grid_boxes(5, 3), 2)[0]) == 6  # odd sides are rounded up


def test_the_tokenizer_knows_words_whole_and_reads_the_rest_by_character():
    tokenizer = new_tokenizer()
    pieces = lambda text: tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])  # noqa: E731
    assert pieces("What is at the top left?") == ["what", "is", "at", "the", "top", "left", "?"]
    assert pieces("start 35 $2.50") == [*"start", "3", "5", "$", "2", ".", "5", "0"]
    assert tokenizer("<picture>", add_special_tokens=False, split_special_tokens=True)["input_ids"] != [tokenizer.convert_tokens_to_ids("<picture>")]


def test_nothing_in_the_lab_is_unknown_to_its_tokenizer_and_the_shipped_one_is_today_s(lab):
    for one in (*lab.train.questions, *lab.test.questions):
        assert lab.tokenizer.unk_token_id not in one.tokens + one.answer
    assert lab.tokenizer.get_vocab() == new_tokenizer().get_vocab()


def test_rows_are_what_the_processor_makes(lab):
    from leo_core.training.batches import question_batch

    asked = lab.test.questions[:5]
    expected = question_batch(lab.test.store, lab.processor, [(one.picture, one.question) for one in asked])
    rows = lab.rows(asked, lab.processor.visual_tokens)
    for name in ("input_ids", "attention_mask", "labels"):
        assert torch.equal(rows[name], expected[name]), name
    assert torch.equal(rows["question_mask"], expected["question_mask"].bool())
    for mine, theirs in zip(
        lab.test.features.pick(torch.tensor([one.picture for one in asked])).features, expected["pictures"].features, strict=True
    ):
        assert torch.allclose(mine[:, : theirs.shape[1]], theirs)


def test_the_shipped_lab_is_small_and_its_experts_are_unequal(lab):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 20e6
    lengths = [features.shape[1] for features in lab.test.features.features]
    assert len(set(lengths)) == len(EXPERTS) == 3
    assert np.unique([mask.sum(dim=1).max() for mask in lab.test.features.masks]).size == 3
    assert load_file(FOLDER / "test.safetensors")["objects.rows"].dtype == torch.int8
