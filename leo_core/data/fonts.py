"""Fonts for rendered text: the DejaVu family that travels inside matplotlib's package."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import ImageFont

from leo_core.errors import PartError

FACES = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique", "DejaVuSerif", "DejaVuSerif-Bold",
    "DejaVuSerif-Italic", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique",
)  # fmt: skip
UPRIGHT = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Bold")


@lru_cache(maxsize=None)
def _folder() -> Path:
    try:
        import matplotlib
    except ImportError as error:
        raise PartError("Drawing text for training pictures needs matplotlib's fonts: install matplotlib.") from error
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


@lru_cache(maxsize=512)
def font(face: str, size: int) -> ImageFont.FreeTypeFont:
    """A face of FACES at `size` pixels (capitals are 0.73 of it high). Raises PartError when the file is missing."""
    path = _folder() / f"{face}.ttf"
    try:
        return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise PartError(f"The font {path.name} is missing from matplotlib: install matplotlib again.") from error


def any_face(rng: np.random.Generator, faces: tuple[str, ...] = FACES) -> str:
    return faces[rng.integers(len(faces))]
