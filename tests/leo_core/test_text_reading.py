"""Reading: oriented boxes from a probability map, strips cut along them, and one token for each word."""

import numpy as np
import pytest
import torch
from PIL import Image

from leo_core.experts.expert import MAX_TOKENS, VisionExperts
from leo_core.experts.pixels import PixelSettings
from leo_core.experts.spelling import WIDTH, spelled
from leo_core.experts.strips import MOST_COLUMNS, MOST_STRIPS, cut_strip, part_of_strip, strip_columns
from leo_core.experts.text_boxes import UNCLIP, text_boxes
from leo_core.experts.words import WordExpert
from leo_core.geometry import polygon_areas


def corners(centre, length, height, degrees) -> np.ndarray:
    """A rectangle with its first edge along the text; positive degrees turn it clockwise on the picture."""
    angle = np.deg2rad(degrees)
    u, v = np.array([np.cos(angle), np.sin(angle)]) * length / 2, np.array([-np.sin(angle), np.cos(angle)]) * height / 2
    return np.array([-u - v, u - v, u + v, -u + v]) + centre


def paint(shape, rectangle, value=0.9) -> np.ndarray:
    """A map that is `value` at the pixels whose centre lies in the rectangle."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    inside = np.ones(shape, bool)
    for start, end in zip(rectangle, np.roll(rectangle, -1, axis=0), strict=True):
        inside &= (end[0] - start[0]) * (y - start[1]) - (end[1] - start[1]) * (x - start[0]) >= 0
    return inside * value


def columns_of(box, count) -> np.ndarray:
    return np.stack([part_of_strip(box, index / count, (index + 1) / count) for index in range(count)])


def grown(centre, length, height, degrees) -> np.ndarray:
    distance = length * height * UNCLIP / (2 * (length + height))
    return corners(centre, length + 2 * distance, height + 2 * distance, degrees)


@pytest.mark.parametrize("degrees", [0, 10, 30, -20, -40, 44])
@pytest.mark.parametrize(("length", "height"), [(60, 12), (90, 9), (40, 30)])
def test_a_rotated_rectangle_is_found_and_grown(degrees, length, height):
    probability = paint((120, 140), corners((70, 60), length, height, degrees))
    (box,) = text_boxes(probability, 5)
    tilt = np.deg2rad(abs(degrees))
    out = (np.cos(tilt) + np.sin(tilt)) / 2  # a pixel whose centre is inside reaches this far beyond a side; growth adds 80 % of both
    limit = max(2, out * 2.6 * (np.cos(tilt) + np.sin(tilt)))
    assert np.abs(box - grown((70, 60), length, height, degrees)).max() < limit < 2.7


def test_an_upright_rectangle_is_found_exactly():
    for length, height in ((60, 12), (90, 10)):
        (box,) = text_boxes(paint((120, 140), corners((70, 60), length, height, 0)), 5)
        assert box == pytest.approx(grown((70, 60), length, height, 0))


@pytest.mark.parametrize("degrees", [90, 80, -80])
def test_a_tall_box_is_read_along_its_long_side(degrees):
    (box,) = text_boxes(paint((140, 120), corners((60, 70), 80, 12, degrees)), 5)
    along, across = box[1] - box[0], box[3] - box[0]
    assert np.linalg.norm(along) > 3 * np.linalg.norm(across)
    assert degrees == 80 or along[1] < 0, "from bottom to top, unless it clearly leans the other way"
    assert along[0] * across[1] - along[1] * across[0] > 0, "clockwise"
    expected = grown((60, 70), 80, 12, degrees)
    assert max(np.linalg.norm(expected - corner, axis=1).min() for corner in box) < 2.7


def test_dust_and_faint_boxes_are_left_out_and_lines_come_in_order():
    probability = np.zeros((100, 200))
    boxes = {"right": (150, 20, 60, 10), "left": (50, 22, 60, 10), "below": (100, 70, 150, 12)}
    for x, y, length, height in boxes.values():
        probability = np.maximum(probability, paint((100, 200), corners((x, y), length, height, 0)))
    probability[40:42, 3:5] = 0.9  # dust
    probability = np.maximum(probability, paint((100, 200), corners((100, 45), 40, 8, 0), value=0.4))  # below the box score
    found = text_boxes(probability, 9)
    assert [round(box[:, 0].mean() / 50) for box in found] == [1, 3, 2]
    assert [box[:, 0].mean() > 90 for box in text_boxes(probability, 1)] == [True], "the largest is kept"
    assert text_boxes(np.zeros((10, 10)), 3).shape == (0, 4, 2)


@pytest.mark.parametrize("degrees", [0, 25, -60])
@pytest.mark.parametrize("columns", [2, 7])
def test_column_polygons_tile_their_box(degrees, columns):
    box = corners((50, 40), 60, 15, degrees)
    polygons = columns_of(box, columns)
    assert polygon_areas(polygons) == pytest.approx([60 * 15 / columns] * columns)
    assert polygons[0][[0, 3]] == pytest.approx(box[[0, 3]]) and polygons[-1][[1, 2]] == pytest.approx(box[[1, 2]])
    assert polygons[1:, [0, 3]] == pytest.approx(polygons[:-1, [1, 2]])


def test_columns_follow_the_aspect_ratio_within_limits():
    assert strip_columns(corners((50, 40), 96, 48, 30)) == 12
    assert strip_columns(corners((50, 40), 5, 50, 0)) == 2 and strip_columns(corners((50, 40), 5000, 5, 0)) == MOST_COLUMNS
    assert MOST_STRIPS * MOST_COLUMNS <= MAX_TOKENS


@pytest.mark.parametrize("degrees", [0, 20, -90])
def test_a_strip_shows_the_box_turned_upright(degrees):
    """Left half red, right half blue, a green last column: drawn along the text, found along the strip."""
    box = corners((100, 100), 96, 48, degrees)
    array = np.zeros((200, 200, 3), np.uint8)
    for index, colour in ((slice(0, 6), (255, 0, 0)), (slice(6, 11), (0, 0, 255)), (slice(11, 12), (0, 255, 0))):
        for polygon in columns_of(box, 12)[index]:
            array[paint((200, 200), polygon, 1) > 0] = colour
    strip = np.asarray(cut_strip(Image.fromarray(array), box, 12)).astype(int)
    assert strip.shape == (48, 96, 3)
    assert strip[24, 4].argmax() == 0 and strip[24, 44].argmax() == 0 and strip[24, 52].argmax() == 2 and strip[24, 92].argmax() == 1


class Recogniser:
    """Stands for a graph: red, green and blue columns are the letters r, g and B; dark ones blank, white ones spaces."""

    metadata = {"character": "r\ng\nB"}

    def __call__(self, pixels):
        assert pixels.shape[2] == 48
        colour = pixels.reshape(1, 3, 48, -1, 8).mean(axis=(2, 4))[0].T
        bright = colour.max(axis=1) > 0.4
        grey = np.ptp(colour, axis=1) < 0.3
        classes = np.where(~bright, 0, np.where(grey, 4, 1 + colour.argmax(axis=1)))
        return [0.9 * np.eye(5, dtype=np.float32)[classes][None] + 0.02]


class Detector:
    """Stands for a graph whose map is half as wide and a third as high as the picture."""

    def __init__(self, *boxes):
        self.map = np.zeros((100, 150), np.float32)
        for box in boxes:
            self.map = np.maximum(self.map, paint(self.map.shape, box))

    def __call__(self, pixels):
        return [np.zeros((1, 5, 2, 2)), self.map[None, None]]


def expert(*boxes) -> WordExpert:
    plain = PixelSettings((96, 160), mean=(0, 0, 0), std=(1, 1, 1))
    return WordExpert("reading", "reading", Detector(*boxes), plain, Recogniser(), plain)


def striped(*bars) -> Image.Image:
    """A black picture of 300 x 300 with bars (x0, x1, y0, y1, colour)."""
    array = np.zeros((300, 300, 3), np.uint8)
    for x0, x1, y0, y1, colour in bars:
        array[y0:y1, x0:x1] = colour
    return Image.fromarray(array)


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
LINE = corners((75, 30), 120, 6, 0)
SECOND = corners((75, 70), 120, 6, 0)


def test_words_are_read_where_they_stand():
    picture = striped((40, 60, 60, 120, RED), (75, 95, 60, 120, GREEN), (115, 135, 60, 120, WHITE), (150, 170, 60, 120, BLUE), (60, 90, 180, 240, BLUE))
    reader = expert(LINE, SECOND)
    words = [word for word, _ in reader.read(picture)]
    assert [(word.text, word.strip) for word in words] == [("rg", 0), ("B", 0), ("B", 1)]
    prepared = reader.prepare(picture)
    assert len(prepared.geometry) == 3 and prepared.geometry.grid is None
    assert [prepared.geometry.token_at(*at) for at in ((50, 90), (85, 90), (160, 90), (75, 210))] == [0, 0, 1, 2]
    assert prepared.geometry.token_at(250, 90) is None and prepared.geometry.unseen_share() > 0.5
    features = reader.raw_features([prepared])[0]
    assert features.shape == (3, WIDTH)
    assert [(one.text, one.strip) for one in map(spelled, features.numpy())] == [("rg", 0), ("b", 0), ("b", 1)]
    for word, polygon in zip(words, prepared.geometry.polygons, strict=True):
        assert polygon == pytest.approx(word.polygon)


def test_where_nothing_is_read_one_token_covers_the_picture():
    for picture, reader in ((striped(), expert()), (striped(), expert(LINE))):
        prepared = reader.prepare(picture)
        assert len(prepared.geometry) == 1 and prepared.geometry.unseen_share() == 0
        assert spelled(reader.raw_features([prepared])[0][0].numpy()).text == ""


def test_pictures_with_unequal_text_are_padded_behind_and_masked():
    reader, other = expert(LINE), expert()
    prepared = [reader.prepare(striped((40, 60, 60, 120, RED), (110, 130, 60, 120, WHITE), (170, 190, 60, 120, RED))), other.prepare(striped())]
    features = VisionExperts([reader])({"reading": prepared})
    assert features.masks[0].sum(1).tolist() == [2, 1]
    for row, one in enumerate(prepared):
        alone = reader.raw_features([one])[0]
        torch.testing.assert_close(features.features[0][row, : len(alone)], alone)
        torch.testing.assert_close(features.boxes[0][row, : len(alone)], torch.from_numpy(one.geometry.boxes).float())


@pytest.mark.parametrize("degrees", [0, 12, -33])
def test_parts_of_a_strip_tile_it(degrees):
    box = corners((50, 60), 40, 9, degrees)
    cuts = [0, 0.13, 0.5, 0.77, 1]
    parts = [part_of_strip(box, *pair) for pair in zip(cuts[:-1], cuts[1:], strict=True)]
    assert sum(polygon_areas(np.stack(parts))) == pytest.approx(polygon_areas(box[None])[0])
    assert parts[0][[0, 3]] == pytest.approx(box[[0, 3]]) and parts[-1][[1, 2]] == pytest.approx(box[[1, 2]])
    for left, right in zip(parts[:-1], parts[1:], strict=True):
        assert left[[1, 2]] == pytest.approx(right[[0, 3]])


def test_what_is_written_is_standardised_as_what_is_read_and_only_as_far_as_the_text_decides():
    from leo_core.experts.spelling import spelled_as
    from leo_core.experts.expert import VisionExpert

    reader, rng = expert(), torch.Generator().manual_seed(0)
    reader.mean.copy_(torch.rand(reader.width, generator=rng))
    reader.std.copy_(0.5 + torch.rand(reader.width, generator=rng))
    raw = torch.from_numpy(spelled_as("cab"))
    known, found = ~raw.isnan(), reader.written("cab")
    assert torch.allclose(found[known], ((raw - reader.mean) / reader.std)[known]) and not found[~known].any()
    assert VisionExpert("eyes", "drawings", 4).written("cab") is None
