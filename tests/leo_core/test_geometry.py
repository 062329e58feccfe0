"""Geometry: from tokens to the original picture and back."""

import numpy as np
import pytest

from leo_core.errors import InputError
from leo_core.geometry import Geometry, grid_geometry, polygon_areas, polygon_geometry, rectangles


@pytest.mark.parametrize("size", [(90, 50), (50, 120), (97, 61), (8, 8)])
@pytest.mark.parametrize("grid", [(3, 5), (7, 7), (1, 4)])
def test_a_grid_tiles_the_picture_exactly(size, grid):
    geometry = grid_geometry(size, grid)
    assert geometry.placed.all() and geometry.grid == grid and len(geometry) == grid[0] * grid[1]
    assert geometry.areas.sum() == pytest.approx(size[0] * size[1])
    assert geometry.polygons.min() == 0 and tuple(geometry.polygons.max(axis=(0, 1))) == size  # the last edge is the picture's
    assert geometry.unseen_share() == 0
    for token, (x0, y0, x1, y1) in enumerate(geometry.boxes * np.array([*size, *size])):
        assert geometry.token_at((x0 + x1) / 2, (y0 + y1) / 2) == token
        column, row = token % grid[1], token // grid[1]
        assert x0 == pytest.approx(size[0] * column / grid[1]) and y1 == pytest.approx(size[1] * (row + 1) / grid[0])


def test_every_pixel_centre_has_the_token_of_its_cell():
    width, height, rows, columns = 23, 17, 3, 5
    geometry = grid_geometry((width, height), (rows, columns))
    for y in range(height):
        for x in range(width):
            assert geometry.token_at(x + 0.5, y + 0.5) == int((y + 0.5) * rows / height) * columns + int((x + 0.5) * columns / width)
    assert geometry.token_at(width, height) == rows * columns - 1
    for outside in ((-0.1, 3), (3, -0.1), (width + 0.1, 3), (3, height + 0.1)):
        assert geometry.token_at(*outside) is None


def test_a_crop_leaves_the_rest_unseen_and_padding_leaves_tokens_without_a_place():
    crop = grid_geometry((90, 50), (4, 4), window=(20, 0, 70, 50))
    assert crop.unseen_share(samples=90) == pytest.approx(40 / 90)
    assert crop.token_at(10, 25) is None and crop.token_at(21, 1) == 0 and crop.placed.all()
    padded = grid_geometry((90, 50), (3, 3), window=(0, 0, 90, 90))
    assert padded.placed.tolist() == [True] * 6 + [False] * 3
    assert padded.boxes[6:].max() == 0 and padded.areas[6:].max() == 0 and padded.unseen_share() == 0
    assert padded.areas.sum() == pytest.approx(90 * 50)
    assert padded.token_at(45, 49) == 4 and tuple(padded.polygons[4][2]) == (60, 50)


def test_leading_and_trailing_tokens_have_no_place():
    geometry = grid_geometry((90, 50), (2, 3), leading=2, trailing=1)
    assert len(geometry) == 9 and geometry.grid is None
    assert geometry.placed.tolist() == [False] * 2 + [True] * 6 + [False]
    assert geometry.token_at(0, 0) == 2 and geometry.token_at(1, 1) == 2 and geometry.token_at(89, 49) == 7


def test_rotated_polygons_hold_their_points_and_no_others():
    angle, centre = np.deg2rad(30), np.array([60, 40])
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    flat = np.array([[-20, -5], [20, -5], [20, 5], [-20, 5]])
    other = rectangles([[0, 0, 10, 10]])[0]
    geometry = polygon_geometry((120, 80), np.stack([flat @ turn + centre, other]), (flat @ turn + centre)[None])
    assert geometry.areas == pytest.approx([400, 100]) and geometry.grid is None
    for local, inside in (((0, 0), True), ((19, 4), True), ((-19, -4), True), ((19, -6), False), ((0, 6), False), ((21, 0), False)):
        x, y = np.array(local) @ turn + centre
        assert (geometry.token_at(x, y) == 0) == inside
    assert geometry.token_at(5, 5) == 1
    assert geometry.unseen_share(samples=400) == pytest.approx(1 - 400 / (120 * 80), abs=2e-3)
    box = geometry.boxes[0] * np.array([120, 80, 120, 80])
    corners = flat @ turn + centre
    assert box == pytest.approx([*corners.min(axis=0), *corners.max(axis=0)])


@pytest.mark.parametrize("centre", [(10, 10), (30, 4), (2, 40)])
def test_a_rotated_polygon_that_reaches_beyond_the_picture_keeps_its_place(centre):
    angle = np.deg2rad(35)
    u, v = np.array([np.cos(angle), np.sin(angle)]) * 40, np.array([-np.sin(angle), np.cos(angle)]) * 8
    geometry = polygon_geometry((100, 80), np.array([[-u - v, u - v, u + v, -u + v]]) + centre, rectangles([[0, 0, 100, 80]]))
    for x, y in np.stack(np.meshgrid(np.arange(100) + 0.5, np.arange(80) + 0.5), -1).reshape(-1, 2):
        along, across = np.array([x - centre[0], y - centre[1]]) @ np.stack([u / (u @ u), v / (v @ v)]).T
        if min(abs(abs(along) - 1), abs(abs(across) - 1)) > 1e-6:
            assert (geometry.token_at(x, y) == 0) == (abs(along) < 1 and abs(across) < 1)


def test_overlapping_tokens_give_the_first_and_degenerate_ones_have_no_place():
    geometry = polygon_geometry((50, 50), rectangles([[10, 10, 30, 30], [20, 20, 40, 40], [60, 60, 70, 70]]), rectangles([[0, 0, 50, 50]]))
    assert geometry.token_at(25, 25) == 0 and geometry.token_at(35, 35) == 1
    assert geometry.placed.tolist() == [True, True, False] and geometry.token_at(50, 50) is None


def test_areas_do_not_depend_on_the_direction():
    square = rectangles([[1, 2, 4, 6]])
    assert polygon_areas(square) == polygon_areas(square[:, ::-1]) == 12


def test_what_does_not_fit_is_refused():
    polygons = rectangles([[0, 0, 1, 1]] * 4)
    with pytest.raises(InputError):
        Geometry(5, 5, polygons, np.ones(3, bool), polygons)
    with pytest.raises(InputError):
        Geometry(5, 5, polygons, np.ones(4, bool), polygons, (3, 2))
