"""Strips of text: a box on the picture turned upright at the recogniser's line height, and parts of it as polygons."""

import numpy as np
from jaxtyping import Float
from PIL import Image

HEIGHT = 48
"""Pixels: the recogniser's line height."""
COLUMN = 8
"""Input pixels per output column of the recogniser."""
MOST_STRIPS, MOST_COLUMNS = 12, 80
"""12 strips of 80 columns stay below the 1,024 tokens an expert may deliver."""


def strip_columns(box: Float[np.ndarray, "4 2"]) -> int:
    """Columns that keep the box's aspect ratio at the recogniser's line height, at least 2."""
    across, down = np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])
    return int(np.clip(round(across / max(down, 1e-6) * HEIGHT / COLUMN), 2, MOST_COLUMNS))


def cut_strip(picture: Image.Image, box: Float[np.ndarray, "4 2"], columns: int) -> Image.Image:
    """The box turned upright and resized to (columns * 8) x 48 pixels."""
    top_left, top_right, bottom_right, bottom_left = box
    corners = np.concatenate([top_left, bottom_left, bottom_right, top_right])
    return picture.transform((columns * COLUMN, HEIGHT), Image.Transform.QUAD, tuple(corners), Image.Resampling.BICUBIC)


def part_of_strip(box: Float[np.ndarray, "4 2"], start: float, end: float) -> Float[np.ndarray, "4 2"]:
    """The part of the box between two shares (0..1) of its length along the text."""
    along = lambda share: (box[0] + share * (box[1] - box[0]), box[3] + share * (box[2] - box[3]))  # noqa: E731
    (top_left, bottom_left), (top_right, bottom_right) = along(start), along(end)
    return np.stack([top_left, top_right, bottom_right, bottom_left])
