"""Answers about text, charts and pages, worked out a second time from the regions."""

import re

import numpy as np
import pytest

from leo_core.data import Icons, Sample, generate
from leo_core.data.backgrounds import COLOURS
from leo_core.data.chart_facts import invent
from leo_core.data.text import words, write


def drawn(icons: Icons, domain: str, number: int = 150) -> list[Sample]:
    return list(generate(icons, number, seed=5, domains={domain: 1}))


def test_text_answers_are_the_written_words(icons):
    for sample in drawn(icons, "reading"):
        phrases = [region.phrase for region in sample.regions]
        written = [region for region in sample.regions if region.phrase not in icons.names]
        lines = sorted((region.box[1], region.phrase) for region in written)
        whole = " ".join(region.phrase for region in written)  # a region for each word, from left to right
        for question in sample.questions:
            if question.kind in ("word", "number", "price"):
                assert question.answer == whole.lower()
            elif question.kind == "line":
                assert question.answer == lines["second" in question.text][1].lower()
            elif question.kind == "is_word":
                asked = re.search('"(.*)"', question.text).group(1)
                assert (asked == whole or asked in phrases) == (question.answer == "yes")
            elif question.kind == "letter":
                assert any(phrase.lower().startswith(question.answer) for phrase in phrases)


def test_text_is_large_enough_to_read(icons):
    for sample in drawn(icons, "reading"):
        for region in sample.regions:
            if re.search(r"[A-Zbdfhkl0-9$]", region.phrase) and region.phrase not in icons.names:
                assert region.box[3] - region.box[1] >= 26


def test_the_decoy_is_never_what_is_written():
    for seed in range(300):
        writing = write(np.random.default_rng(seed))
        assert writing.decoy not in writing.lines and len(set(writing.lines)) == len(writing.lines)


def test_words_are_many_sorted_and_different():
    assert len(words()) >= 600 and list(words()) == sorted(set(words()))


def test_chart_values_differ_visibly():
    for seed in range(300):
        chart = invent(np.random.default_rng(seed))
        values = np.sort(chart.values)
        assert 3 <= len(values) <= 5 and values[0] > 0
        assert np.diff(values).min() >= 0.06 * values[-1]
        assert len(set(chart.labels)) == len(chart.labels)


def parts_of(sample: Sample) -> dict[str, tuple[int, str | None]]:
    """label -> (value, colour of the area or None), read from the regions: a label, its value and its colour one after another."""
    parts, phrases = {}, [region.phrase for region in sample.regions]
    step = 3 if len(phrases) > 2 and phrases[2] in COLOURS else 2
    for i in range(0, len(phrases), step):
        parts[phrases[i].lower()] = int(phrases[i + 1]), phrases[i + 2] if step == 3 else None
    return parts


def test_chart_answers_follow_from_the_named_parts(icons):
    seen = set()
    for sample in drawn(icons, "charts"):
        parts = parts_of(sample)
        value = {label: number for label, (number, _) in parts.items()}
        for question in sample.questions:
            asked = sorted((label for label in parts if re.search(rf"\b{label}\b", question.text.lower().replace("what is a", ""))), key=value.get)
            expected = {
                "largest": lambda: max(value, key=value.get), "smallest": lambda: min(value, key=value.get),
                "value": lambda: str(value[asked[0]]), "difference": lambda: str(value[asked[-1]] - value[asked[0]]),
                "bars": lambda: ("three", "four", "five")[len(parts) - 3], "bar_colour": lambda: parts[asked[0]][1],
            }.get(question.kind)  # fmt: skip
            named = {"value": 1, "bar_colour": 1, "difference": 2}.get(question.kind, len(asked))  # a label like "A" is hard to find in a text
            if expected and len(asked) == named:
                assert question.answer == expected(), (sample.name, question)
                seen.add(question.kind)
    assert seen == {"largest", "smallest", "value", "difference", "bars", "bar_colour"}


def test_areas_of_charts_have_the_colour_that_is_told(icons):
    for sample in drawn(icons, "charts", 60):
        for region in sample.regions:
            if region.phrase in COLOURS:
                inside = sample.picture.crop(tuple(round(v) for v in region.box)).getcolors(1 << 20)
                most = np.array(max(inside)[1])
                assert min(COLOURS, key=lambda name: np.abs(most - COLOURS[name]).sum()) == region.phrase, sample.name


def test_pages_show_what_the_answers_say(icons):
    for sample in drawn(icons, "documents", 80):
        boxes = {region.phrase.lower(): region.box for region in reversed(sample.regions)}  # a word may stand twice: the title comes first
        for question in sample.questions:
            if question.kind == "title":
                assert set(question.answer.split()) <= set(boxes)
                assert all(boxes[word][1] < 60 for word in question.answer.split()), "at the top"
            elif question.kind == "section":
                assert question.answer in boxes
            elif question.kind == "cell":
                assert question.answer in boxes and any(word in question.text.lower() for word in boxes)
            elif question.kind in ("has_table", "has_figure"):
                assert (question.kind.removeprefix("has_") in boxes) == (question.answer == "yes")
            elif question.kind == "place":
                _, y0, _, y1 = boxes["table" if "table" in question.text else "figure"]
                middle = (y0 + y1) / 2 / sample.picture.height
                assert middle < 0.47 if question.answer == "top" else middle > 0.53


@pytest.mark.parametrize("domain", ["reading", "charts", "documents"])
def test_regions_are_drawn(icons, domain):
    """Inside each region there is ink: more than one colour."""
    for sample in drawn(icons, domain, 20):
        for region in sample.regions:
            if region.phrase in COLOURS and domain == "charts":
                continue  # areas: looked at above
            assert len(sample.picture.crop(tuple(int(v) for v in region.box)).getcolors(1 << 20) or [0, 0]) > 1
