"""From a picture to an encoder's input, with the window of the original picture that the input covers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from PIL import Image

from leo_core.errors import InputError

Window = tuple[float, float, float, float]


@dataclass(frozen=True)
class PixelSettings:
    """How one encoder wants its pixels; every expert has its own and never another's.

    size: (height, width) of the input; for fit = "within" the longer side must not exceed max(size).
    fit: stretch (each axis alone, the encoder sees everything), within (nearly keeps the aspect ratio: both sides are
        rounded to `multiple`), pad (keeps it, padded right and below), crop (keeps it, centre crop: the rest is unseen).
    mean, std: in units of pixel * scale, per channel in the given order.
    """

    size: tuple[int, int]
    fit: Literal["stretch", "within", "pad", "crop"] = "stretch"
    multiple: int = 32
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    scale: float = 1 / 255
    order: Literal["rgb", "bgr"] = "rgb"

    def __post_init__(self):
        if self.fit not in ("stretch", "within", "pad", "crop"):
            raise InputError(f"fit must be stretch, within, pad or crop, not {self.fit!r}.")


def normalise(picture: Image.Image, settings: PixelSettings) -> Float[np.ndarray, "3 height width"]:
    """Pixels 0..255 of an RGB picture as the encoder's numbers, channels first."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float32) * np.float32(settings.scale)
    if settings.order == "bgr":
        pixels = pixels[..., ::-1]
    pixels = (pixels - np.float32(settings.mean)) / np.float32(settings.std)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _within(width: int, height: int, settings: PixelSettings) -> tuple[int, int]:
    longest = max(settings.size)
    scale = longest / max(width, height)
    rounded = lambda side: int(min(longest, max(settings.multiple, round(side * scale / settings.multiple) * settings.multiple)))  # noqa: E731
    return rounded(width), rounded(height)


def to_pixels(picture: Image.Image, settings: PixelSettings) -> tuple[Float[np.ndarray, "3 height width"], Window]:
    """Resized, cropped or padded and normalised pixels, and the window (x0, y0, x1, y1) they cover, in original pixels."""
    width, height = picture.size
    rows, columns = settings.size
    whole = (0.0, 0.0, float(width), float(height))
    if settings.fit == "stretch":
        return normalise(picture.resize((columns, rows), Image.Resampling.BICUBIC), settings), whole
    if settings.fit == "within":
        return normalise(picture.resize(_within(width, height, settings), Image.Resampling.BICUBIC), settings), whole
    if settings.fit == "pad":
        scale = min(columns / width, rows / height)
        inner = (max(1, round(width * scale)), max(1, round(height * scale)))
        padded = Image.new("RGB", (columns, rows))
        padded.paste(picture.resize(inner, Image.Resampling.BICUBIC))
        return normalise(padded, settings), (0.0, 0.0, columns * width / inner[0], rows * height / inner[1])
    return _cropped(picture, settings)


def _cropped(picture: Image.Image, settings: PixelSettings) -> tuple[Float[np.ndarray, "3 height width"], Window]:
    width, height = picture.size
    rows, columns = settings.size
    scale = max(columns / width, rows / height)
    across, down = columns / scale, rows / scale
    window = ((width - across) / 2, (height - down) / 2, (width + across) / 2, (height + down) / 2)
    crop = picture.resize((columns, rows), Image.Resampling.BICUBIC, box=tuple(np.clip(window, 0, [width, height] * 2)))
    return normalise(crop, settings), window
