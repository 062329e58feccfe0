"""Where a token sits: the only way from a token of a vision expert to the original picture and back.

All coordinates are pixels of the *original* picture (after its EXIF orientation was applied), x to the right,
y down, (0, 0) the upper left corner of the upper left pixel. Cell edges are exact ratios: the last edge of a
grid that covers the picture is the picture's edge.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from leo_core.errors import InputError


@dataclass(frozen=True)
class Geometry:
    """Places of the n tokens of one vision expert on one picture.

    width, height: size of the original picture in pixels.
    polygons: corners of each token, clockwise from its upper left corner. A cell marks where
        a token sits, not all that it saw: receptive fields are larger.
    placed: False for a token without a place on the picture (class and register tokens, padding).
    seen: polygons whose union is what the expert looked at; the rest of the picture it never saw.
    grid: (rows, columns) when the tokens form a full grid in raster order, else None.
    """

    width: int
    height: int
    polygons: Float[np.ndarray, "n 4 2"]
    placed: Bool[np.ndarray, "n"]
    seen: Float[np.ndarray, "regions 4 2"]
    grid: tuple[int, int] | None = None

    def __post_init__(self):
        if self.polygons.shape[1:] != (4, 2) or self.placed.shape != self.polygons.shape[:1]:
            raise InputError(
                f"Geometry needs polygons of shape (n, 4, 2) and n places; got {self.polygons.shape} and {self.placed.shape}."
            )
        if self.grid is not None and self.grid[0] * self.grid[1] != len(self.polygons):
            raise InputError(f"A grid of {self.grid[0]} x {self.grid[1]} cells cannot hold {len(self.polygons)} tokens.")

    def __len__(self) -> int:
        return len(self.polygons)

    @property
    def boxes(self) -> Float[np.ndarray, "n 4"]:
        """Bounding boxes (x0, y0, x1, y1) in picture coordinates, 0..1; all zeros for a token without a place."""
        corners = self.polygons / np.array([self.width, self.height], dtype=np.float64)
        boxes = np.clip(np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1), 0.0, 1.0)
        return np.where(self.placed[:, None], boxes, 0.0)

    @property
    def areas(self) -> Float[np.ndarray, "n"]:
        """Area of each token's polygon in square pixels of the original; 0 for a token without a place."""
        return np.where(self.placed, polygon_areas(self.polygons), 0.0)

    def token_at(self, x: float, y: float) -> int | None:
        """The token whose polygon holds pixel coordinate (x, y); the first one where several overlap; None where none is."""
        start = self.polygons
        edge = np.roll(start, -1, axis=1) - start
        to_point = np.array([x, y]) - start
        cross = edge[..., 0] * to_point[..., 1] - edge[..., 1] * to_point[..., 0]
        holds = np.flatnonzero((cross >= 0).all(axis=1) & self.placed)
        return int(holds[0]) if len(holds) else None

    def unseen_share(self, samples: int = 128) -> float:
        """Share of the picture, 0..1, that no `seen` polygon covers, on a grid of samples x samples points."""
        x = (np.arange(samples) + 0.5) * self.width / samples
        y = (np.arange(samples) + 0.5) * self.height / samples
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 1, 2)
        covered = np.zeros(len(points), dtype=bool)
        for region in self.seen:
            edge = np.roll(region, -1, axis=0) - region
            to_point = points - region
            covered |= (edge[:, 0] * to_point[..., 1] - edge[:, 1] * to_point[..., 0] >= 0).all(axis=1)
        return float(1 - covered.mean())


def polygon_areas(polygons: Float[np.ndarray, "n 4 2"]) -> Float[np.ndarray, "n"]:
    """Areas by the shoelace formula, in the square of the coordinates' unit."""
    following = np.roll(polygons, -1, axis=1)
    return np.abs((polygons[..., 0] * following[..., 1] - following[..., 0] * polygons[..., 1]).sum(axis=1)) / 2


def rectangles(boxes: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 4 2"]:
    """Boxes (x0, y0, x1, y1) as polygons, clockwise from the upper left corner."""
    x0, y0, x1, y1 = np.moveaxis(np.asarray(boxes, dtype=np.float64), -1, 0)
    return np.stack([np.stack(p, axis=-1) for p in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=-2)


def grid_geometry(
    size: tuple[int, int],
    grid: tuple[int, int],
    window: tuple[float, float, float, float] | None = None,
    leading: int = 0,
    trailing: int = 0,
) -> Geometry:
    """Geometry of a grid of equal cells laid over a window of the picture.

    size: (width, height) of the original. grid: (rows, columns).
    window: the rectangle (x0, y0, x1, y1), in original pixels, that the expert's input covers. It lies inside the
        picture for a crop and reaches beyond it for padding; the whole picture when None (plain resize).
    leading, trailing: tokens without a place before and after the grid (class, registers, padded tail).
    """
    width, height = size
    rows, columns = grid
    x0, y0, x1, y1 = window or (0.0, 0.0, float(width), float(height))
    x = x0 + (x1 - x0) * np.arange(columns + 1) / columns
    y = y0 + (y1 - y0) * np.arange(rows + 1) / rows
    left, top = np.meshgrid(x[:-1], y[:-1])
    right, bottom = np.meshgrid(x[1:], y[1:])
    cells = np.stack([left, top, right, bottom], axis=-1).reshape(-1, 4)
    limits = np.array([width, height, width, height], dtype=np.float64)
    cells = np.clip(cells, 0, limits)
    on_picture = (cells[:, 2] > cells[:, 0]) & (cells[:, 3] > cells[:, 1])
    nowhere = lambda count: np.zeros((count, 4))  # noqa: E731 - one word for two uses
    boxes = np.concatenate([nowhere(leading), cells, nowhere(trailing)])
    placed = np.concatenate([np.zeros(leading, bool), on_picture, np.zeros(trailing, bool)])
    seen = np.clip(np.array([[x0, y0, x1, y1]]), 0, limits)
    whole = leading == trailing == 0
    return Geometry(width, height, rectangles(boxes), placed, rectangles(seen), (rows, columns) if whole else None)


def polygon_geometry(size: tuple[int, int], polygons: np.ndarray, seen: np.ndarray) -> Geometry:
    """Geometry of tokens with polygons of their own (text columns).

    A rotated polygon that reaches beyond the picture stays whole: moving its corners to the edge would bend it.
    """
    polygons = np.asarray(polygons, dtype=np.float64).reshape(-1, 4, 2)
    inside = np.clip(polygons, 0, np.array(size, dtype=np.float64))
    placed = (inside.max(axis=1) > inside.min(axis=1)).all(axis=1) & (polygon_areas(polygons) > 0)
    return Geometry(*size, polygons, placed, np.asarray(seen, dtype=np.float64).reshape(-1, 4, 2))
