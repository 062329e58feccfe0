"""Sprites: RGBA cut-outs (an icon, a line of text) that are turned a little and pasted onto a picture."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from leo_core.data.samples import Box

VISIBLE = 24
"""Alpha from which a pixel counts as part of the sprite."""


def trimmed(sprite: Image.Image) -> Image.Image:
    """Without its invisible margins; an invisible sprite is returned as it is."""
    box = sprite.getchannel("A").point(lambda alpha: 255 if alpha >= VISIBLE else 0).getbbox()
    return sprite.crop(box) if box else sprite


def turned(sprite: Image.Image, degrees: float) -> Image.Image:
    """Rotated counter-clockwise, trimmed."""
    return trimmed(sprite.rotate(degrees, Image.Resampling.BICUBIC, expand=True))


def mirrored(sprite: Image.Image) -> Image.Image:
    return ImageOps.mirror(sprite)


def text_sprite(text: str, font: ImageFont.FreeTypeFont, colour: tuple[int, int, int]) -> Image.Image:
    """One line of text, trimmed to its ink."""
    left, top, right, bottom = font.getbbox(text)
    sprite = Image.new("RGBA", (int(right - left) + 4, int(bottom - top) + 4), (*colour, 0))
    ImageDraw.Draw(sprite).text((2 - left, 2 - top), text, font=font, fill=(*colour, 255))
    return trimmed(sprite)


def paste(picture: Image.Image, sprite: Image.Image, centre: tuple[float, float]) -> Box:
    """Put the sprite's middle at `centre` (x, y pixels), pushed inside the picture; returns the box it fills."""
    x = int(np.clip(round(centre[0] - sprite.width / 2), 0, max(0, picture.width - sprite.width)))
    y = int(np.clip(round(centre[1] - sprite.height / 2), 0, max(0, picture.height - sprite.height)))
    picture.paste(sprite, (x, y), sprite)
    return float(x), float(y), float(min(x + sprite.width, picture.width)), float(min(y + sprite.height, picture.height))
