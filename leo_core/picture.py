"""Any picture a person may have, as an upright RGB picture; or one sentence why not."""

import io
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from leo_core.errors import PictureError

MOST_PIXELS = 40_000_000
"""Decoded size limit: 40 megapixels are 120 MB as RGB; phones stay below."""
LEAST_SIDE = 8
"""Pixels. Below this no encoder's grid has a cell of its own."""
MOST_ASPECT = 50
"""Longer strips leave less than one cell across."""

Source = str | Path | bytes | BinaryIO | Image.Image | np.ndarray


def load_picture(source: Source) -> Image.Image:
    """An RGB picture, turned as its EXIF orientation says, transparency on white, first frame of an animation.

    source: path, bytes, open file, PIL picture or array (rows, columns[, 1, 3 or 4]) of uint8, uint16 or floats 0..1.
    Raises PictureError with cause, limit and remedy. Truncated files are refused, never half shown.
    """
    if source is None:
        raise PictureError("There is no picture: choose a PNG, JPEG, WebP, GIF, BMP or TIFF file.")
    picture = _opened(source)
    _check_size(*picture.size)
    try:
        picture.load()
        upright = ImageOps.exif_transpose(picture)
        return _rgb(upright)
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError, IndexError) as error:
        raise PictureError(f"The picture is damaged or cut off ({type(error).__name__}): save it again or choose another file.") from None


def _opened(source: Source) -> Image.Image:
    if isinstance(source, Image.Image):
        return source
    if isinstance(source, np.ndarray):
        return _from_array(source)
    name = f"'{Path(source).name}'" if isinstance(source, (str, Path)) else "The file"
    try:
        stream = io.BytesIO(source) if isinstance(source, bytes) else source
        if isinstance(source, (str, Path)):
            stream = io.BytesIO(Path(source).read_bytes())  # read at once: no handle stays open
        return Image.open(stream)
    except FileNotFoundError:
        raise PictureError(f"{name} does not exist: check the path.") from None
    except IsADirectoryError:
        raise PictureError(f"{name} is a folder: name one picture file in it.") from None
    except PermissionError:
        raise PictureError(f"{name} may not be read: check its permissions.") from None
    except Image.DecompressionBombError:
        raise PictureError(f"{name} has too many pixels; at most {MOST_PIXELS // 10**6} megapixels are allowed: make it smaller.") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        raise PictureError(f"{name} is no picture that can be read: choose a PNG, JPEG, WebP, GIF, BMP or TIFF file.") from None


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise PictureError(f"An array of shape {array.shape} is no picture: it must be (rows, columns) or (rows, columns, 1, 3 or 4).")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise PictureError("A picture of floats must hold values from 0 to 1 only: divide it by its largest possible value.")
        array = np.round(array * 255).astype(np.uint8)
    elif array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    elif array.dtype == bool:
        array = array.astype(np.uint8) * 255
    elif array.dtype != np.uint8:
        raise PictureError(f"An array of {array.dtype} is no picture: use uint8, uint16 or floats from 0 to 1.")
    return Image.fromarray(array)


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise PictureError(
            f"The picture has {width} x {height} pixels; at most {MOST_PIXELS // 10**6} megapixels are allowed: make it smaller first."
        )
    if min(width, height) < LEAST_SIDE:
        raise PictureError(f"The picture has {width} x {height} pixels; each side needs at least {LEAST_SIDE}: choose a larger one.")
    if max(width, height) > MOST_ASPECT * min(width, height):
        raise PictureError(
            f"The picture is {width} x {height} pixels; its long side may be at most {MOST_ASPECT} times the short one: cut a part out of it."
        )


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I"):
        values = np.clip(np.asarray(picture, dtype=np.int64), 0, 65535)  # 16-bit grey; Pillow's own conversion clips at 255
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        values = np.asarray(picture)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = np.nan_to_num((values - low) / (high - low if high > low else 1.0))
        return Image.fromarray(np.round(scaled * 255).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        coloured = picture.convert("RGBA")
        white = Image.new("RGBA", coloured.size, "white")
        return Image.alpha_composite(white, coloured).convert("RGB")
    return picture.convert("RGB")


def encode_picture(picture: Image.Image, side: int = 768) -> tuple[bytes, str]:
    """(bytes, media type) at a bounded size, for embedding in a trace or page: the longer side at most `side` pixels.

    JPEG for photographs, PNG where it is the smaller of the two (drawings, text).
    """
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    jpeg, png = io.BytesIO(), io.BytesIO()
    small.save(jpeg, "JPEG", quality=88)
    small.save(png, "PNG", optimize=True)
    return min((jpeg.getvalue(), "image/jpeg"), (png.getvalue(), "image/png"), key=lambda pair: len(pair[0]))
