"""The reading expert: a detector finds lines of text, a recogniser reads them, and each word is one token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from leo_core.experts.expert import MAX_TOKENS, Prepared, VisionExpert
from leo_core.experts.onnx_graph import OnnxGraph
from leo_core.experts.pixels import PixelSettings, normalise, to_pixels
from leo_core.experts.spelling import WIDTH, Spelling, Word, nothing_vector, spelled_as, word_vector
from leo_core.experts.strips import MOST_STRIPS, cut_strip, part_of_strip, strip_columns
from leo_core.experts.text_boxes import text_boxes
from leo_core.geometry import polygon_geometry, rectangles


@dataclass(frozen=True)
class ReadWord:
    """A word on the picture: its text as the recogniser decodes it, its polygon in pixels, and the strip it stands in."""

    text: str
    polygon: Float[np.ndarray, "4 2"]
    strip: int


class WordExpert(VisionExpert):
    """Spelled words of a CTC recogniser (see `spelling`); one token for the whole picture where nothing is read.

    detector: graph whose last tensor is the probability map at input resolution. recogniser: graph whose last tensor is
    the softmax (1, columns, classes) on strips 48 pixels high, with the characters in its metadata. Strips follow the
    text's direction, so polygons may be rotated. Which tokens there are is known only after reading, so the recogniser
    runs while preparing; `raw_features` hands out what it found.
    """

    def __init__(self, name: str, domain: str, detector: OnnxGraph, detector_pixels: PixelSettings, recogniser: OnnxGraph, strip_pixels: PixelSettings):
        super().__init__(name, domain, WIDTH)
        self.detector, self.detector_pixels = detector, detector_pixels
        self.recogniser, self.strip_pixels = recogniser, strip_pixels
        self.spelling = Spelling(recogniser.metadata["character"].splitlines())

    def boxes(self, picture: Image.Image) -> Float[np.ndarray, "boxes 4 2"]:
        """Text boxes in pixels of the picture; first edge along the text."""
        array, _ = to_pixels(picture, self.detector_pixels)
        probability = self.detector(array[None])[-1][0, 0]
        rows, columns = probability.shape
        return text_boxes(probability, MOST_STRIPS) * np.array([picture.width / columns, picture.height / rows])

    def read(self, picture: Image.Image) -> list[tuple[ReadWord, Float[np.ndarray, "width"]]]:
        """Every word with its vector, strip by strip from top to bottom, left to right; at most MAX_TOKENS."""
        boxes, found = self.boxes(picture), []
        for strip, box in enumerate(boxes):
            columns = strip_columns(box)
            pixels = normalise(cut_strip(picture, box, columns), self.strip_pixels)
            posterior = self.recogniser(pixels[None])[-1][0]
            height = float(np.linalg.norm(box[3] - box[0])) / picture.height
            for word in self.spelling.words(posterior):
                found.append(self._place(word, box, len(posterior), height, strip, len(boxes)))
        return found[:MAX_TOKENS]

    def _place(self, word: Word, box: np.ndarray, columns: int, height: float, strip: int, strips: int):
        share = max(0.0, (word.start - 0.5) / columns), min(1.0, (word.end + 0.5) / columns)
        vector = word_vector(word, height, strip, strips, sum(share) / 2)
        return ReadWord(word.text, part_of_strip(box, *share), strip), vector

    def prepare(self, picture: Image.Image) -> Prepared:
        found = self.read(picture)
        if found:
            words, vectors = zip(*found, strict=True)
            polygons, rows = np.stack([word.polygon for word in words]), np.stack(vectors)
        else:
            polygons, rows = rectangles(np.array([[0, 0, picture.width, picture.height]], dtype=float)), nothing_vector()[None]
        return Prepared((torch.from_numpy(rows),), polygon_geometry(picture.size, polygons, polygons))

    def raw_features(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        return [one.pixels[0].cpu() for one in prepared]

    def written(self, text: str) -> Float[Tensor, "d"]:
        feature = (torch.from_numpy(spelled_as(text)).to(self.mean) - self.mean) / self.std
        return torch.where(feature.isnan(), torch.zeros_like(feature), feature)
