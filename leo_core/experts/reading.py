"""The reading expert: a text recogniser on the boxes a text detector finds; each column of a strip is one token."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from leo_core.experts.expert import Prepared, VisionExpert
from leo_core.experts.onnx_graph import OnnxGraph
from leo_core.experts.pixels import PixelSettings, normalise, to_pixels
from leo_core.experts.strips import MOST_STRIPS, column_polygons, cut_strip, strip_columns
from leo_core.experts.text_boxes import text_boxes
from leo_core.geometry import polygon_geometry, rectangles

FIXED_STRIPS, FIXED_COLUMNS = 4, 20
"""Where the detector finds no text, the picture is read in four equal strips."""


class ReadingExpert(VisionExpert):
    """Features of a CTC recogniser before its classifier.

    detector: graph whose last tensor is the probability map at input resolution. recogniser: graph of one tensor
    (1, columns, width) on strips 48 pixels high. Strips follow the text's direction, so polygons may be rotated.
    """

    def __init__(
        self, name: str, domain: str, width: int,
        detector: OnnxGraph, detector_pixels: PixelSettings, recogniser: OnnxGraph, strip_pixels: PixelSettings,
    ):  # fmt: skip
        super().__init__(name, domain, width)
        self.detector, self.detector_pixels = detector, detector_pixels
        self.recogniser, self.strip_pixels = recogniser, strip_pixels

    def boxes(self, picture: Image.Image) -> Float[np.ndarray, "boxes 4 2"]:
        """Text boxes in pixels of the picture; first edge along the text."""
        array, _ = to_pixels(picture, self.detector_pixels)
        probability = self.detector(array[None])[-1][0, 0]
        rows, columns = probability.shape
        return text_boxes(probability, MOST_STRIPS) * np.array([picture.width / columns, picture.height / rows])

    def prepare(self, picture: Image.Image) -> Prepared:
        boxes = self.boxes(picture)
        fixed = len(boxes) == 0
        if fixed:
            edges = picture.height * np.arange(FIXED_STRIPS + 1) / FIXED_STRIPS
            boxes = rectangles(np.array([[0, top, picture.width, bottom] for top, bottom in zip(edges[:-1], edges[1:], strict=True)]))
        strips, polygons = [], []
        for box in boxes:
            columns = FIXED_COLUMNS if fixed else strip_columns(box)
            strips.append(torch.from_numpy(normalise(cut_strip(picture, box, columns), self.strip_pixels)))
            polygons.append(column_polygons(box, columns))
        return Prepared(tuple(strips), polygon_geometry(picture.size, np.concatenate(polygons), boxes))

    def raw_features(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        return [
            torch.cat([torch.from_numpy(self.recogniser(strip.cpu().numpy()[None])[0][0]) for strip in one.pixels]) for one in prepared
        ]
