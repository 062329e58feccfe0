"""From a text detector's probability map to oriented boxes (the post-processing of DBNet, Liao et al. 2020)."""

import numpy as np
from jaxtyping import Float
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

THRESHOLD = 0.3
"""A pixel above this probability belongs to a text kernel."""
BOX_SCORE = 0.5
"""A box must have at least this mean probability."""
UNCLIP = 1.6
"""Kernels are shrunken text: a box grows by area * UNCLIP / perimeter on each side."""
SMALLEST = 3
"""Boxes with a side below this many map pixels are dust."""


def smallest_rectangle(points: Float[np.ndarray, "points 2"]) -> Float[np.ndarray, "4 2"] | None:
    """The rectangle of least area around the points: one side lies on an edge of the hull. None if they are collinear."""
    try:
        hull = points[ConvexHull(points).vertices]
    except QhullError:
        return None
    edges = np.roll(hull, -1, axis=0) - hull
    best = None
    for angle in np.unique(np.arctan2(edges[:, 1], edges[:, 0]) % (np.pi / 2)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        turned = hull @ turn.T
        low, high = turned.min(axis=0), turned.max(axis=0)
        area = np.prod(high - low)
        if best is None or area < best[0]:
            corners = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
            best = (area, corners @ turn)
    return best[1]


def reading_order(corners: Float[np.ndarray, "4 2"]) -> Float[np.ndarray, "4 2"]:
    """Corners from the upper left one, clockwise, such that the first edge runs along the text (left to right)."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1])]
    top_right, bottom_right = right[np.argsort(right[:, 1])]
    box = np.array([top_left, top_right, bottom_right, bottom_left])
    across, down = np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])
    return np.roll(box, 1, axis=0) if down > 1.5 * across else box  # a tall box is read from bottom to top


def grow(corners: Float[np.ndarray, "4 2"]) -> Float[np.ndarray, "4 2"]:
    """Undo the shrinking of the kernel: move every side outwards by the same distance."""
    along, across = corners[1] - corners[0], corners[3] - corners[0]
    length, height = np.linalg.norm(along), np.linalg.norm(across)
    distance = length * height * UNCLIP / (2 * (length + height))
    u, v = along / length * distance, across / height * distance
    return corners + np.array([-u - v, u - v, u + v, -u + v])


def text_boxes(probability: Float[np.ndarray, "rows columns"], most: int) -> Float[np.ndarray, "boxes 4 2"]:
    """At most `most` boxes (those with the tallest letters), in map pixels, ordered from top to bottom and left to right."""
    labels, count = ndimage.label(probability > THRESHOLD)
    found = []
    for index, window in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[window] == index
        if inside.sum() < SMALLEST**2 or probability[window][inside].mean() < BOX_SCORE:
            continue
        rows, columns = np.nonzero(inside)
        pixels = np.stack([columns + window[1].start, rows + window[0].start], axis=1).astype(np.float64)
        pixels = np.concatenate([pixels, pixels + [1, 0], pixels + [0, 1], pixels + [1, 1]])  # corners, not centres
        box = smallest_rectangle(pixels)
        if box is None or min(np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])) < SMALLEST:
            continue
        placed = grow(reading_order(box))
        found.append((np.linalg.norm(placed[3] - placed[0]), placed))
    largest = [box for _, box in sorted(found, key=lambda item: -item[0])[:most]]
    if not largest:
        return np.zeros((0, 4, 2))
    line = np.median([np.linalg.norm(box[3] - box[0]) for box in largest])
    return np.stack(sorted(largest, key=lambda box: (round(box[:, 1].mean() / max(line, 1)), box[:, 0].mean())))
