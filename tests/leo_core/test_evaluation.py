"""Grading goes on where it stopped, wherever that was, with the same controls; wrong shares of a build are refused."""

import sys
from pathlib import Path

import pytest

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.errors import InputError
from leo_core.experts.expert import VisionExperts
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.evaluate import drawn_questions, grade, graded_into, read_graded
from leo_core.training.features import FeatureStore, write_shard

sys.path.append(str(Path(__file__).parent))
from lab_recipe import Cells, samples  # noqa: E402

QUESTIONS, BATCH = 10, 4


@pytest.fixture(scope="module")
def graded(make_leo, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graded")
    experts = VisionExperts([Cells("fine", 6, 8), Cells("coarse", 2, 3)])
    write_shard(folder / "shard-0000.safetensors", samples(7), experts)
    store = FeatureStore([folder / "shard-0000.safetensors"], list(experts)).standardise_as(experts)
    place = tokenizer.convert_tokens_to_ids("<file_sep>")
    model = make_leo(reducer=ReducerConfig(tokens=3, projection=8), mmoe=MMoEConfig(rank=2, alpha=4.0, router_width=4), vision_experts=experts,
                     image_token_id=place)  # fmt: skip
    model.decoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    processor = LeoProcessor(LeoImageProcessor([]), tokenizer, visual_tokens=3)
    pairs = drawn_questions(store, QUESTIONS, seed=0)
    whole = [one for results in grade(model, processor, store, pairs, BATCH) for one in results]
    return model, processor, store, pairs, whole


@pytest.mark.parametrize("lines", [0, 3, 4, 9, 10])
def test_grading_that_was_cut_off_ends_with_the_same_lines(graded, lines, tmp_path):
    model, processor, store, pairs, whole = graded
    path = tmp_path / "graded.jsonl"
    list(graded_into(path, model, processor, store, pairs, BATCH))
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join(kept[:lines]) + "".join(kept[lines : lines + 1])[:20])  # the last line is torn
    again = [one for results in graded_into(path, model, processor, store, pairs, BATCH) for one in results]
    assert len(again) == QUESTIONS and read_graded(path) == again
    for one, other in zip(again, whole, strict=True):
        assert (one.picture, one.question, one.answers) == (other.picture, other.question, other.answers)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)  # a batch that is padded otherwise rounds otherwise


def test_a_greedy_answer_is_one_to_a_prompt_without_the_answer_and_log_p_is_that_of_the_right_one(graded):
    import torch

    from leo_core.training.batches import model_inputs, question_batch

    model, processor, store, pairs, whole = graded
    for pair, one in zip(pairs, whole, strict=True):
        inputs = model_inputs(question_batch(store, processor, [pair], answered=False))
        assert "labels" not in inputs
        end = processor.tokenizer.eos_token_id
        ids = model.generate(**inputs, max_new_tokens=16, do_sample=False, eos_token_id=end, pad_token_id=end)
        said = processor.tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
        assert one.answers["picture"] == said != ""
        inputs = model_inputs(question_batch(store, processor, [pair], answered=True))
        labels = inputs.pop("labels")
        with torch.no_grad():
            logits = model(**inputs).logits
        wrong = torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], reduction="sum")  # without the balance loss
        assert one.log_probability["picture"] == pytest.approx(-wrong.item(), abs=1e-3)


def test_a_finished_file_is_read_and_left_alone(graded, tmp_path):
    model, processor, store, pairs, _ = graded
    path = tmp_path / "graded.jsonl"
    list(graded_into(path, model, processor, store, pairs, BATCH))
    before = path.read_bytes()
    results = list(graded_into(path, None, None, store, pairs, BATCH))  # nothing to compute: no model is touched
    assert [len(one) for one in results] == [QUESTIONS] and path.read_bytes() == before


def test_answers_to_other_questions_are_not_mixed_in(graded, tmp_path):
    model, processor, store, pairs, _ = graded
    path = tmp_path / "graded.jsonl"
    list(graded_into(path, model, processor, store, pairs[:4], BATCH))
    with pytest.raises(InputError, match="other questions"):
        list(graded_into(path, model, processor, store, pairs[::-1], BATCH))


def test_what_an_expert_earns_is_the_answer_of_a_model_that_is_told_it_is_absent(graded):
    import torch

    from leo_core.training.batches import model_inputs, question_batch
    from leo_core.training.evaluate import normalised
    from leo_core.training.variants import answers_without, variant

    model, processor, store, pairs, whole = graded
    right = [one for some in answers_without(model, processor, store, whole, "fine", BATCH) for one in some]
    for (picture, question), one in zip(pairs, right, strict=True):
        inputs = model_inputs(question_batch(store, processor, [(picture, question)], answered=False))
        inputs["expert_mask"] = torch.tensor([[False, True]])
        end = processor.tokenizer.eos_token_id
        ids = model.generate(**inputs, max_new_tokens=16, do_sample=False, eos_token_id=end, pad_token_id=end)
        said = processor.tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
        assert one == (normalised(said) == normalised(question.answer))
    domains = {question.domain for _, question in pairs}
    rows = variant("fine", whole, right)
    assert [one.domain for one in rows] == ["all", *sorted(domains)] and rows[0].n == QUESTIONS == sum(one.n for one in rows[1:])


def test_the_gain_of_an_expert_is_counted_by_hand():
    from leo_core.data.samples import Question
    from leo_core.training.evaluate import CONDITIONS, Graded
    from leo_core.training.variants import variant

    graded = [Graded(i, Question("?", "yes", "k", domain), dict.fromkeys(CONDITIONS, said), {}) for i, (domain, said) in
              enumerate([("a", "yes"), ("a", "yes"), ("a", "no"), ("b", "yes")])]  # fmt: skip
    rows = {one.domain: one for one in variant("x", graded, [True, False, True, False])}
    assert (rows["a"].model, rows["a"].variant, rows["a"].difference) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 0)
    assert (rows["b"].difference, rows["all"].difference, rows["all"].n) == (1.0, 0.25, 4)
    assert rows["a"].low < 0 < rows["a"].high


def test_another_checkpoints_answers_are_compared_only_where_the_questions_are_the_same(graded, tmp_path):
    from leo_core.commands.evaluate import _beside

    model, processor, store, pairs, whole = graded
    path = tmp_path / "evaluation_all" / "new_scenes.jsonl"
    path.parent.mkdir()
    list(graded_into(path, model, processor, store, pairs, BATCH))
    rows = _beside(path, whole)
    assert {one["name"] for one in rows} == {"evaluation_all"} and all(one["difference"] == 0 for one in rows)
    with pytest.raises(InputError, match="same 9 questions"):
        _beside(path, whole[:9])
    with pytest.raises(InputError, match="does not hold"):
        _beside(tmp_path / "missing" / "new_scenes.jsonl", whole)


def test_the_card_tells_what_the_reduction_costs_and_what_an_expert_earns():
    from leo_core.training.card_tables import earned, reduction

    row = {"name": "objects", "domain": "all", "n": 8, "model": 0.6, "variant": 0.8, "difference": -0.2, "low": -0.3, "high": -0.1}
    assert "| new_scenes | all | 8 | 80% | 60% | 75% | -20 [-30, -10] |" in reduction({"new_scenes": [row]})
    assert "| objects | -20 [-30, -10] |" in earned([row]) and "Questions: all 8." in earned([row])
    assert "--beside" in reduction({}) and "Not measured" in earned([])


def test_the_card_says_which_targets_are_missed():
    from leo_core.training.targets import TARGETS, table

    def rows(**shares):
        return {"rows": [{"domain": domain, "kind": "all", "picture": share} for domain, share in shares.items()]}

    report = {
        "tests": {"new_scenes": rows(all=0.86, charts=0.4, scenes=0.9), "new_names": rows(all=0.8)},
        "ceilings": {"new_scenes": {"reading": {"share": 0.79}}},
        "beside": {"new_scenes": [{"domain": "all", "model": 0.86, "variant": 0.87}]},
        "experts": [{"name": "reading", "domain": "scenes", "difference": 0.0}, {"name": "reading", "domain": "reading", "difference": 0.3}],
    }
    verdicts = {target.what: line.split(" | ")[2:] for target, line in zip(TARGETS, table(report).splitlines()[2:], strict=True)}
    assert [told[0] for told in verdicts.values()] == ["86%", "40%", "not measured", "80%", "79%", "not measured", "99%", "30%"]
    assert [told[1].strip(" |") for told in verdicts.values()] == [
        "reached", "**missed**", "-", "reached", "**missed**", "-", "reached", "reached",
    ]  # fmt: skip


def test_what_an_expert_earns_is_computed_once_and_read_afterwards(graded, tmp_path):
    from leo_core.commands.evaluate import _experts

    model, processor, store, _, whole = graded
    rows = _experts(model, processor, store, whole, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["without_coarse.json", "without_fine.json"]
    assert {row["name"] for row in rows} == {"fine", "coarse"} and rows[0]["n"] == QUESTIONS
    names = type("Named", (), {"vision_experts": ["fine", "coarse"]})
    assert _experts(names, None, None, whole, tmp_path) == rows  # nothing to compute: no model is touched
    shorter = _experts(model, processor, store, whole[:6], tmp_path)  # other questions: done again
    assert shorter[0]["n"] == 6
    others = [*whole[:5], whole[9]]  # as many, but not the same
    assert _experts(model, processor, store, others, tmp_path)[0]["n"] == 6
    with pytest.raises(TypeError):  # the six before were others: a processor would be needed
        _experts(names, None, None, whole[:6], tmp_path)


def test_the_other_picture_is_another_one_and_one_picture_alone_cannot_be_graded(graded):
    from leo_core.training.evaluate import _another

    model, processor, store, pairs, _ = graded
    uneven = [(0, pairs[0][1])] * 7 + [(3, pairs[1][1])]
    assert [_another(uneven, at) for at in range(8)] == [3] * 7 + [0]
    assert [_another(pairs, at) for at in range(len(pairs))] == [
        next(p for p, _ in [*pairs, *pairs][at + 5 :] if p != pairs[at][0]) for at in range(len(pairs))
    ]
    with pytest.raises(InputError, match="one picture"):
        next(grade(model, processor, store, [(0, pairs[0][1])] * 3))


@pytest.mark.parametrize(
    ("answer", "other", "same"),
    [("A cat.", "cat", True), ("a", "A", True), ("a", "", False), ("a", "the", False), ("a cat and a dog", "cat and dog", True), ("The  end", "end", True)],
)
def test_articles_do_not_count_before_something_else(answer, other, same):
    from leo_core.training.evaluate import normalised

    assert (normalised(answer) == normalised(other)) is same

