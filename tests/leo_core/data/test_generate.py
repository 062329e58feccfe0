"""The generator as a whole: determinism, balance, boxes, options."""

from collections import Counter

import numpy as np
import pytest

from leo_core.data import DEFAULT_MIX, Icons, generate, split_names
from leo_core.errors import InputError

PAIRED = {"yesno", "is_word", "compare", "is_title"}


@pytest.fixture(scope="module")
def samples(icons: Icons):
    return list(generate(icons, 400, seed=3))


def test_a_seed_gives_the_same_samples_and_a_longer_run_begins_alike(icons, samples):
    for first, again in zip(samples, generate(icons, 40, seed=3), strict=False):
        assert (first.name, first.questions, first.regions) == (again.name, again.questions, again.regions)
        assert np.array_equal(np.asarray(first.picture), np.asarray(again.picture))


def test_another_seed_gives_other_samples(icons, samples):
    other = list(generate(icons, 20, seed=4))
    assert all(one.questions != two.questions for one, two in zip(samples, other, strict=False))


def test_paired_questions_are_answered_yes_and_no_equally_often(samples):
    answers = Counter((q.kind, q.answer) for sample in samples for q in sample.questions if q.answer in ("yes", "no"))
    for kind in PAIRED | {"relation"}:
        assert answers[kind, "yes"] == answers[kind, "no"] > 3
    for kind in ("has_table", "has_figure"):
        share = answers[kind, "yes"] / (answers[kind, "yes"] + answers[kind, "no"])
        assert 0.3 < share < 0.7


def test_questions_of_a_picture_differ_and_are_three_to_five(samples):
    for sample in samples:
        assert 3 <= len(sample.questions) <= 5
        assert len({question.text for question in sample.questions}) == len(sample.questions)
        assert all(question.answer and "{" not in question.text for question in sample.questions)


def test_pictures_have_an_allowed_size_and_boxes_lie_inside(samples):
    for sample in samples:
        width, height = sample.picture.size
        assert sample.picture.mode == "RGB"
        assert 224 <= max(width, height) <= 448 and 2 * min(width, height) + 1 >= max(width, height)
        for region in sample.regions:
            x0, y0, x1, y1 = region.box
            assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height and region.phrase


def test_the_default_mix_is_kept(samples):
    shares = Counter(sample.name.split("-")[0] for sample in samples)
    assert all(abs(shares[domain] / len(samples) - share) < 0.08 for domain, share in DEFAULT_MIX.items())


def test_names_and_domains_restrict_what_appears(icons):
    allowed = icons.names[:9]
    for sample in generate(icons, 40, seed=0, names=allowed, styles=["noto"], domains={"scenes": 1}):
        assert sample.name.startswith("scenes")
        assert {region.phrase for region in sample.regions} <= set(allowed)
        forbidden = set(icons.names) - set(allowed)
        assert not any(f" {name} " in f"{question.text[:-1]} " for question in sample.questions for name in forbidden)


@pytest.mark.parametrize(
    "options", [{"names": ["dog", "ghost"]}, {"names": ["dog", "cat"]}, {"styles": ["oil"]}, {"domains": {"maps": 1}}, {"domains": {}}]
)
def test_impossible_options_are_refused_at_once(icons, options):
    with pytest.raises(InputError):
        generate(icons, 1, seed=0, **options)


def test_split_names_is_a_partition_and_repeats():
    names = [f"name {i}" for i in range(50)]
    train, held_out = split_names(names, held_out=0.2, seed=1)
    assert len(held_out) == 10 and sorted(train + held_out) == sorted(names)
    assert split_names(names[::-1], held_out=0.2, seed=1) == (train, held_out)
    assert split_names(names, held_out=0.2, seed=2) != (train, held_out)
