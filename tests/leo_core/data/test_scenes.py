"""Answers about scenes, worked out a second time from the boxes."""

import re
from collections import Counter

import pytest

from leo_core.data import Icons, Sample, generate
from leo_core.data.english import NUMBERS, plural, with_article
from leo_core.data.kin import akin

NAMES = ("dog", "cat", "lion", "horse", "banana", "carrot", "pizza", "lemon", "bus", "bicycle", "umbrella", "owl")


@pytest.fixture(scope="module")
def scenes(icons: Icons) -> list[Sample]:
    return list(generate(icons, 300, seed=11, domains={"scenes": 1}))


def asked(scenes: list[Sample], kind: str):
    return [(sample, question) for sample in scenes for question in sample.questions if question.kind == kind]


def named(sample: Sample, text: str) -> list[str]:
    """Names on the picture that a text mentions, in the order of the text."""
    names = {region.phrase for region in sample.regions}
    found = [(match.start(), name) for name in names for match in re.finditer(rf"\b{name}\b", text)]
    return [name for _, name in sorted(found)]


def centre(sample: Sample, name: str) -> tuple[float, float]:
    """Centre of the only thing of that name, in shares of the picture."""
    (box,) = (region.box for region in sample.regions if region.phrase == name)
    return (box[0] + box[2]) / 2 / sample.picture.width, (box[1] + box[3]) / 2 / sample.picture.height


def test_counts_equal_the_regions(scenes):
    found = Counter()
    for sample, question in asked(scenes, "count"):
        by_name = Counter(region.phrase for region in sample.regions)
        names = [name for name in by_name if plural(name) in question.text]
        assert question.answer == NUMBERS[by_name[names[0]] if names else len(sample.regions)]
        found[question.answer] += bool(names)
    assert all(found[number] > 0 for number in NUMBERS[1:6])


def test_places_are_clearly_where_the_answer_says(scenes):
    for sample, question in asked(scenes, "where"):
        x, y = centre(sample, named(sample, question.text)[0])
        for word in question.answer.split():
            clear = {"left": 0.5 - x, "right": x - 0.5, "top": 0.5 - y, "bottom": y - 0.5}[word]
            assert clear > 0.09, question


def test_corners_hold_what_the_answer_says(scenes):
    for sample, question in asked(scenes, "corner"):
        x, y = centre(sample, named(sample, question.answer)[0])
        assert f"{'top' if y < 0.5 else 'bottom'} {'left' if x < 0.5 else 'right'}" in question.text


def test_relations_hold(scenes):
    for sample, question in asked(scenes, "relation"):
        what = question.answer not in ("yes", "no")
        first, second = named(sample, question.answer)[:1] + named(sample, question.text) if what else named(sample, question.text)
        (x0, y0), (x1, y1) = centre(sample, first), centre(sample, second)
        word = re.search(r"left|right|above|over|below|under", question.text).group()
        gap = {"left": x1 - x0, "right": x0 - x1, "above": y1 - y0, "over": y1 - y0, "below": y0 - y1, "under": y0 - y1}[word]
        assert (gap > 0.18) if question.answer != "no" else (gap < -0.18)


def test_presence_is_told_by_the_regions(scenes):
    for sample, question in asked(scenes, "yesno"):
        assert bool(named(sample, question.text)) == (question.answer == "yes")


def test_what_names_everything(scenes):
    for sample, question in asked(scenes, "what"):
        number = Counter(region.phrase for region in sample.regions)
        assert set(named(sample, question.answer)) == set(number) or plural(sample.regions[0].phrase) in question.answer
        if len(sample.regions) == 1:
            assert question.answer == with_article(sample.regions[0].phrase)


def test_icons_do_not_overlap(scenes):
    for sample in scenes:
        boxes = [region.box for region in sample.regions]
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert min(a[2], b[2]) - max(a[0], b[0]) <= 1 or min(a[3], b[3]) - max(a[1], b[1]) <= 1


def test_things_that_could_be_taken_for_each_other_do_not_meet(scenes):
    for sample, question in asked(scenes, "yesno"):
        names = {region.phrase for region in sample.regions}
        asked_for = next(name for name in NAMES if re.search(rf"\b{name}\b", question.text))
        assert not any(akin(asked_for, name) for name in names)
        assert not any(akin(one, other) for one in names for other in names)
