"""Any picture a person may have, as an upright RGB picture; or one sentence why not."""

import io
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from leo_core.errors import PictureError

MOST_PIXELS = 40_000_000
"""Pixels once decoded: 40 megapixels are 120 MB as RGB. What phones save unless told otherwise (12 to 24) stays below."""
LEAST_SIDE = 8
"""Pixels. Below this no expert's grid has a cell with a pixel of its own."""
MOST_ASPECT = 50
"""Long side over short side. A longer strip leaves less than a cell across once it is fitted into an expert's square."""
EMBEDDED_SIDE = 768
"""Pixels, longer side of a picture inside a trace: enough to look at, and at most half a megabyte."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Read formats. Pillow knows more, but some start other programs (EPS) and few people have the rest."""

Source = str | Path | bytes | BinaryIO | Image.Image | np.ndarray

_CHOOSE = "choose a PNG, JPEG, WebP, AVIF, GIF, BMP or TIFF file"
# what Pillow's readers let through when the bytes are not what the format promises
_DAMAGED = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, AttributeError, RuntimeError, struct.error, zlib.error)
_SMALL_PNG = 32_768  # bytes up to which a picture is kept without loss
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # EXIF orientation -> what sets it right; ImageOps.exif_transpose also rewrites the tags and fails on odd ones


def load_picture(source: Source) -> Image.Image:
    """An RGB picture, turned as its EXIF orientation says, transparency on white, first frame of an animation.

    source: path, bytes, open binary file, PIL picture, or array (rows, columns[, 1, 3 or 4]) of uint8, uint16, bool or
    floats 0..1. The result carries no metadata (no place, no device). Size is checked before anything is decoded.
    Raises PictureError with cause, limit and remedy. Truncated files are refused, never half shown.
    """
    if isinstance(source, Image.Image):
        return _decoded(source)
    if isinstance(source, np.ndarray):
        return _decoded(_from_array(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read(io.BytesIO(source), "The file")
    if isinstance(source, (str, Path)) and str(source):
        return _from_path(Path(source))
    if hasattr(source, "read"):
        return _read(source, "The file")
    raise PictureError(f"There is no picture: {_CHOOSE}.")


def thumbnail(picture: Image.Image, side: int) -> Image.Image:
    """A copy whose longer side is at most `side` pixels; smaller pictures keep their size."""
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return small


def encode_picture(picture: Image.Image, side: int | None = None) -> bytes:
    """An RGB picture for embedding in a trace or page, longer side at most `side` pixels (default EMBEDDED_SIDE).

    PNG when that is small (32 KB) or smaller than JPEG, as for drawings and text; else JPEG of quality 90. No metadata.
    """
    small, jpeg, png = thumbnail(picture, side or EMBEDDED_SIDE), io.BytesIO(), io.BytesIO()
    small.info = {}
    small.save(png, "PNG")
    small.save(jpeg, "JPEG", quality=90)
    return png.getvalue() if png.tell() <= max(_SMALL_PNG, jpeg.tell()) else jpeg.getvalue()


def media_type(encoded: bytes) -> str:
    """'image/png' or 'image/jpeg', for what `encode_picture` returned."""
    return "image/png" if encoded.startswith(b"\x89PNG") else "image/jpeg"


def _from_path(path: Path) -> Image.Image:
    name = f"'{path.name if len(path.name) <= 80 else path.name[:77] + '...'}'"
    try:
        if path.is_dir():
            raise PictureError(f"{name} is a folder: name one picture file in it.")
        if path.exists() and not path.is_file():
            raise PictureError(f"{name} is a device or pipe, not a file: {_CHOOSE}.")
        with path.open("rb") as file:
            return _read(file, name)
    except FileNotFoundError:
        raise PictureError(f"{name} does not exist: check the path.") from None
    except PermissionError:
        raise PictureError(f"{name} may not be read: check its permissions, or choose another file.") from None
    except (OSError, ValueError, RuntimeError) as error:  # a name the system does not take, a failing disk
        raise PictureError(f"{name} cannot be opened ({type(error).__name__}): check the path.") from None


def _read(stream: BinaryIO, name: str) -> Image.Image:
    try:
        if not stream.seekable():
            stream = io.BytesIO(stream.read())
        if stream.seek(0, io.SEEK_END) == 0:
            raise PictureError(f"{name} is empty (0 bytes): {_CHOOSE}.")
        picture = Image.open(stream, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureError(f"{name} has far too many pixels, more than the {MOST_PIXELS // 10**6} megapixels allowed: make it smaller first.") from None
    except UnidentifiedImageError:
        raise PictureError(f"{name} is not a picture, or damaged from its start: {_CHOOSE}.") from None
    except _DAMAGED as error:
        raise PictureError(f"{name} cannot be read as a picture ({type(error).__name__}): {_CHOOSE}.") from None
    return _decoded(picture)


def _decoded(picture: Image.Image) -> Image.Image:
    _check_size(*picture.size)
    try:
        picture.load()
        result = _rgb(picture)
    except MemoryError:
        raise PictureError(f"There is not enough memory for {picture.width} x {picture.height} pixels: make the picture smaller first.") from None
    except (*_DAMAGED, Image.DecompressionBombError) as error:
        raise PictureError(f"The picture is damaged or cut off ({type(error).__name__}): save it again or choose another file.") from None
    turn = _TURNS.get(_orientation(picture))
    if turn is not None:
        result = result.transpose(turn)
    result.info = {}
    return result


def _orientation(picture: Image.Image) -> int:
    try:
        return picture.getexif().get(ExifTags.Base.Orientation, 1)
    except _DAMAGED:
        return 1  # unreadable tags say nothing about the pixels: show them as they are stored, as viewers do


def _check_size(width: int, height: int) -> None:
    size = f"{width:,} x {height:,} pixels"
    if width * height > MOST_PIXELS:
        raise PictureError(f"The picture has {size}; at most {MOST_PIXELS // 10**6} megapixels are allowed: make it smaller first.")
    if min(width, height) < LEAST_SIDE:
        raise PictureError(f"The picture has {size}; each side needs at least {LEAST_SIDE}: choose a larger one.")
    if max(width, height) > MOST_ASPECT * min(width, height):
        raise PictureError(f"The picture has {size}; its long side may be at most {MOST_ASPECT} times the short one: cut a part out of it.")


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise PictureError(f"An array of shape {array.shape} is no picture: it must be (rows, columns) or (rows, columns, 1, 3 or 4).")
    _check_size(array.shape[1], array.shape[0])
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise PictureError("A picture of floats must hold values from 0 to 1 only: divide it by its largest possible value.")
        array = _eight_bit(array, 1)
    elif array.dtype == np.uint16:
        array = _eight_bit(array, 65535)
    elif array.dtype == bool:
        array = _eight_bit(array, 1)
    elif array.dtype != np.uint8:
        raise PictureError(f"An array of {array.dtype} is no picture: use uint8, uint16, bool or floats from 0 to 1.")
    return Image.fromarray(np.ascontiguousarray(array))


def _rgb(picture: Image.Image) -> Image.Image:
    """RGB of any mode. Grey deeper than 8 bits is scaled by its range, where Pillow's own conversion clips at 255."""
    if picture.mode.startswith("I;16"):
        return Image.fromarray(_eight_bit(np.asarray(picture), 65535)).convert("RGB")
    if picture.mode in ("I", "F"):
        values = np.nan_to_num(np.asarray(picture, dtype=np.float64), posinf=0, neginf=0)
        tops = (1, 255, 65535) if picture.mode == "F" else (255, 65535)
        return Image.fromarray(_eight_bit(values, next((top for top in tops if values.max() <= top), values.max()))).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        coloured = picture.convert({"La": "LA", "RGBa": "RGBA"}.get(picture.mode, picture.mode)).convert("RGBA")
        white = Image.new("RGBA", coloured.size, "white")
        return Image.alpha_composite(white, coloured).convert("RGB")
    if picture.mode == "LAB":
        raise PictureError("The picture's colours are stored as L*a*b*, which is not read: save it as RGB.")
    return picture.convert("RGB")


def _eight_bit(values: np.ndarray, top: float) -> np.ndarray:
    return np.round(np.clip(values, 0, top) * (255 / top)).astype(np.uint8)
