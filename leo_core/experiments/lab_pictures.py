"""The lab's pictures with more questions each: a decoder that starts from nothing needs many, and pictures are what costs time.

A picture is decided by (seed, its number), so the same scene or chart can be drawn again and asked other questions.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from leo_core.data.build import DEFAULT_MIX
from leo_core.data.chart_facts import invent
from leo_core.data.chart_questions import ask_chart
from leo_core.data.icons import Icons
from leo_core.data.samples import Question, Sample
from leo_core.data.scene_questions import ask_scene
from leo_core.data.scenes import IconSource, draw_scene
from leo_core.data.sets import PictureSet, pictures
from leo_core.errors import InputError

ROUNDS = 4
"""Times that a picture is asked again; each round brings three to five questions, many of them known already."""


def lab_samples(chosen: PictureSet, icons: Icons, count: int, first: int = 0) -> Iterator[Sample]:
    """`count` samples of a lab set from number `first` on, with all different questions of every round."""
    for index, sample in enumerate(pictures(chosen, icons, count, first), start=first):
        yield replace(sample, questions=_distinct([*sample.questions, *_asked_again(chosen, icons, index, sample)]))


def _asked_again(chosen: PictureSet, icons: Icons, index: int, sample: Sample) -> list[Question]:
    """Further questions about the same picture; none for texts, which are asked all there is the first time."""
    rng = np.random.default_rng([chosen.seed, index])
    shares = np.array(list((chosen.domains or DEFAULT_MIX).values()), dtype=float)
    rng.choice(len(shares), p=shares / shares.sum())  # the generator's own first draw: the kind of picture
    kind, found = sample.name.split("-")[0], []
    rounds = [np.random.default_rng([chosen.seed, index, number]) for number in range(1, ROUNDS)]
    if kind == "scenes":
        source = IconSource(icons, tuple(sorted(chosen.names)), tuple(chosen.styles))
        scene = draw_scene(rng, source)
        if scene.regions != sample.regions:
            raise InputError(f"Picture {sample.name} did not come out the same twice: its questions cannot be asked again.")
        found = [question for other in rounds for question in ask_scene(other, scene, source)]
    elif kind == "charts":
        chart = invent(rng)
        found = [question for other in rounds for question in ask_chart(other, chart)]
    return found


def _distinct(questions: list[Question]) -> tuple[Question, ...]:
    """The first of each wording."""
    return tuple({question.text: question for question in reversed(questions)}.values())[::-1]
