"""Transcripts: reading order, places, and their weight in the loss of packed questions."""

from itertools import permutations

import pytest
import torch

from leo_core.data.samples import Region
from leo_core.training.features import StoredSample
from leo_core.training.transcripts import MOST, place, reading_order, transcript


def sample(name: str, *regions: tuple[tuple, str], size=(200, 100)) -> StoredSample:
    return StoredSample(name, size, (), tuple(Region(tuple(map(float, box)), phrase) for box, phrase in regions))


LION, DOG, OTHER = ((10, 5, 50, 30), "lion"), ((150, 60, 190, 95), "dog"), ((80, 2, 120, 33), "lion")


def test_a_scene_is_told_with_numbers_and_places_in_reading_order_however_its_regions_are_stored():
    told = {transcript(sample("scenes-1-000001", *order)).answer for order in permutations((LION, DOG, OTHER))}
    assert told == {"two lions and a dog: lion top left, lion top, dog bottom right"}


def test_words_are_told_in_lower_case_row_by_row():
    words = sample("documents-1-000001", ((100, 10, 150, 20), "Match"), ((10, 12, 60, 22), "Hungry"), ((10, 60, 60, 70), "512"))
    assert transcript(words).answer == "hungry match 512"


def test_a_chart_is_told_part_by_part_as_the_generator_orders_it():
    parts = [((10, 90, 30, 99), "Jan"), ((10, 5, 30, 15), "37"), ((10, 20, 30, 88), "red"), ((60, 90, 80, 99), "Feb"), ((60, 50, 80, 60), "8")]
    assert transcript(sample("charts-1-000003", *parts)).answer == "jan 37 red feb 8"


def test_a_picture_without_regions_has_no_transcript_and_a_long_page_a_bounded_one():
    assert transcript(sample("easy_vqa-train-0001")) is None
    page = sample("documents-1-000002", *[((10, 10 * i, 60, 10 * i + 5), f"w{i}") for i in range(40)], size=(200, 400))
    assert transcript(page).answer.split() == [f"w{i}" for i in range(MOST)]


@pytest.mark.parametrize(
    ("centre", "name"), [((30, 10), "top left"), ((100, 10), "top"), ((30, 50), "left"), ((100, 50), "middle"), ((170, 90), "bottom right"), ((199, 50), "right")]
)
def test_places_are_thirds_of_the_picture(centre, name):
    x, y = centre
    assert place((x - 1, y - 1, x + 1, y + 1), (200, 100)) == name


def test_reading_order_is_rows_first_whatever_the_order_given():
    boxes = torch.tensor([[x, y + jitter, x + 8, y + 8 + jitter] for y, jitters in ((0, (0, 2, 1)), (30, (1, 0, 2))) for x, jitter in zip((0, 20, 40), jitters)])
    shuffle = [4, 0, 5, 2, 1, 3]
    assert [shuffle[i] for i in reading_order([tuple(map(float, boxes[i])) for i in shuffle], 100)] == list(range(6))
