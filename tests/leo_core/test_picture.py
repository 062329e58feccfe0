"""Pictures as people have them: every mode, every orientation, and one sentence for each that cannot be read."""

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from leo_core.errors import PictureError
from leo_core.picture import EMBEDDED_SIDE, MOST_PIXELS, encode_picture, load_picture, media_type, thumbnail

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def marker():
    """60 x 40 with a colour in each corner: red, green / blue, white."""
    picture = Image.new("RGB", (60, 40), (128, 128, 128))
    for colour, box in ((RED, (0, 0)), (GREEN, (40, 0)), (BLUE, (0, 24)), (WHITE, (40, 24))):
        picture.paste(colour, (*box, box[0] + 20, box[1] + 16))
    return picture


def corners(picture):
    right, bottom = picture.width - 4, picture.height - 4
    return [picture.getpixel(at) for at in ((3, 3), (right, 3), (3, bottom), (right, bottom))]


def near(seen, expected, tolerance=12):
    return np.abs(np.asarray(seen, int) - np.asarray(expected, int)).max() <= tolerance


def encoded(picture, format="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, format, **options)
    return stream.getvalue()


def noise(width=200, height=120, mode="RGB"):
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def refused(source):
    with pytest.raises(PictureError) as error:
        load_picture(source)
    text = str(error.value)
    assert text.endswith(".") and text[0].isupper() | (text[0] == "'") and "\n" not in text
    assert not any(word in text for word in ("Traceback", "File \"", "line ", "<_io", "0x"))
    return text


@pytest.mark.parametrize("source", ["path", "str", "bytes", "stream", "pipe", "picture", "array"])
def test_every_kind_of_source_gives_the_same_picture(tmp_path, source):
    data, path = encoded(marker()), tmp_path / "marker.png"
    path.write_bytes(data)

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    sources = {"path": path, "str": str(path), "bytes": data, "stream": io.BytesIO(data), "pipe": Pipe(data), "picture": marker()}
    loaded = load_picture(sources.get(source, np.asarray(marker())))
    assert loaded.mode == "RGB" and np.array_equal(np.asarray(loaded), np.asarray(marker()))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF"])
def test_every_format(format):
    loaded = load_picture(encoded(marker(), format))
    assert loaded.mode == "RGB" and near(corners(loaded), [RED, GREEN, BLUE, WHITE], 40)


STORED = {  # EXIF orientation -> how a camera stores an upright picture under it, by numpy on (rows, columns)
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", STORED)
def test_exif_orientation_is_applied(orientation, format):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](np.asarray(marker()))))
    loaded = load_picture(encoded(stored, format, exif=exif))
    assert loaded.size == (60, 40)
    assert near(corners(loaded), [RED, GREEN, BLUE, WHITE], 40)


def test_unreadable_exif_does_not_cost_the_picture():
    data = encoded(marker(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\xff" * 40)
    assert near(corners(load_picture(data)), [RED, GREEN, BLUE, WHITE], 40)


def test_metadata_does_not_survive():
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "SecretCamera"
    data = encoded(noise(), "JPEG", exif=exif, comment=b"SecretComment")
    loaded = load_picture(data)
    assert loaded.info == {} and not loaded.getexif()
    assert b"Secret" in data and b"Secret" not in encode_picture(loaded) and b"Secret" not in encode_picture(Image.open(io.BytesIO(data)))


def clear(mode):
    """Left half opaque red (dark in grey), right half fully transparent black."""
    picture = Image.new(mode, (20, 10), (0, 0) if mode == "LA" else (0, 0, 0, 0))
    picture.paste((90, 255) if mode == "LA" else (255, 0, 0, 255), (0, 0, 10, 10))
    return picture


@pytest.mark.parametrize("mode, left", [("RGBA", RED), ("LA", (90, 90, 90))])
def test_transparency_is_white(mode, left):
    for source in (clear(mode), encoded(clear(mode))):
        loaded = load_picture(source)
        assert loaded.getpixel((2, 5)) == left and loaded.getpixel((17, 5)) == WHITE


def test_half_transparency_is_mixed_with_white():
    assert near(load_picture(Image.new("RGBA", (10, 10), (0, 0, 0, 128))).getpixel((5, 5)), (127, 127, 127), 1)


def test_palette_with_and_without_transparency():
    picture = Image.new("P", (20, 10), 0)
    picture.putpalette([0, 0, 255, 255, 0, 0])
    picture.paste(1, (0, 0, 10, 10))
    assert corners(load_picture(encoded(picture))) == [RED, BLUE, RED, BLUE]
    for transparency in (0, b"\x00\xff"):
        loaded = load_picture(encoded(picture, transparency=transparency))
        assert loaded.getpixel((2, 5)) == RED and loaded.getpixel((17, 5)) == WHITE


@pytest.mark.parametrize("mode, transparency", [("L", 0), ("RGB", (0, 0, 0))])
def test_a_colour_declared_transparent_is_white(mode, transparency):
    assert load_picture(encoded(Image.new(mode, (10, 10)), transparency=transparency)).getpixel((5, 5)) == WHITE


def test_one_bit():
    picture = Image.new("1", (20, 10), 0)
    picture.paste(1, (10, 0, 20, 10))
    assert corners(load_picture(encoded(picture))) == [BLACK, WHITE, BLACK, WHITE]


def test_cmyk():
    assert near(corners(load_picture(encoded(marker().convert("CMYK"), "JPEG", quality=95))), [RED, GREEN, BLUE, WHITE], 40)
    assert corners(load_picture(encoded(marker().convert("CMYK"), "TIFF"))) == [RED, GREEN, BLUE, WHITE]


RAMP = np.linspace(0, 65535, 256).round().astype(np.uint16)[None].repeat(10, 0)


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bit_grey_keeps_its_range(format):
    loaded = np.asarray(load_picture(encoded(Image.fromarray(RAMP), format)))
    assert np.array_equal(loaded[0, :, 0], np.arange(256))


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B"])
def test_sixteen_bit_grey_of_either_byte_order(mode):
    picture = Image.frombytes(mode, (256, 10), RAMP.astype(">u2" if mode == "I;16B" else "<u2").tobytes())
    assert np.array_equal(np.asarray(load_picture(picture))[0, :, 0], np.arange(256))


@pytest.mark.parametrize("mode", ["I", "F"])
@pytest.mark.parametrize("top", [255, 65535, 10**6])
def test_deep_grey_is_scaled_by_its_range(mode, top):
    values = np.linspace(0, top, 256)[None].repeat(10, 0)
    picture = Image.fromarray(values.astype(np.int32 if mode == "I" else np.float32))
    assert picture.mode == mode
    assert near(np.asarray(load_picture(picture))[0, :, 0], np.arange(256), 1)


def test_float_grey_from_zero_to_one_and_with_holes():
    values = np.linspace(0, 1, 256, dtype=np.float32)[None].repeat(10, 0)
    values[0, 0], values[1, 0] = np.nan, np.inf
    loaded = np.asarray(load_picture(encoded(Image.fromarray(values), "TIFF")))
    assert near(loaded[2, :, 0], np.arange(256), 1) and loaded[0, 0, 0] == loaded[1, 0, 0] == 0


@pytest.mark.parametrize("mode", ["L", "HSV", "YCbCr", "RGBX", "RGBa", "La", "PA"])
def test_less_common_modes(mode):
    picture = clear("LA").convert("La") if mode == "La" else marker().convert("RGBA").convert("RGBa") if mode == "RGBa" else marker().convert(mode)
    assert load_picture(picture).mode == "RGB"


def test_lab_is_refused_in_words():
    assert "save it as RGB" in refused(Image.new("LAB", (10, 10)))


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation(format):
    frames = [Image.new("RGB", (20, 10), colour) for colour in (RED, GREEN, BLUE)]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], duration=100, **({"lossless": True} if format == "WEBP" else {}))
    assert Image.open(io.BytesIO(data)).n_frames == 3
    assert load_picture(data).getpixel((5, 5)) == RED


@pytest.mark.parametrize("shape", [(10, 20), (10, 20, 1), (10, 20, 3), (10, 20, 4)])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, bool, np.float16, np.float32, np.float64])
def test_arrays(shape, kind):
    top = {np.uint8: 255, np.uint16: 65535}.get(kind, 1)
    array = np.zeros(shape, kind)
    array[:, 10:] = top
    if shape[-1] == 4:
        array[..., 3] = top
    assert corners(load_picture(array)) == [BLACK, WHITE, BLACK, WHITE]
    assert corners(load_picture(array[:, ::-1])) == [WHITE, BLACK, WHITE, BLACK]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 20, 30), np.uint8), np.zeros((10,), np.uint8), np.zeros((0, 20), np.uint8), np.zeros((10, 20, 2), np.uint8),
        np.zeros((10, 20), np.int64), np.full((10, 20), 200.0), np.full((10, 20), np.nan), np.full((10, 20), -0.1), np.zeros((10, 20), complex),
    ],
)  # fmt: skip
def test_arrays_that_are_no_pictures(array):
    refused(array)


@pytest.mark.parametrize("size", [(50, 1000), (1000, 50), (8, 8), (8, 400), (333, 77)])
def test_unusual_sizes_that_work(size):
    loaded = load_picture(encoded(Image.new("RGB", size, "white")))
    assert loaded.size == size and loaded.getextrema() == ((255, 255),) * 3


@pytest.mark.parametrize("size, words", [((1, 1), "1 x 1"), ((7, 100), "at least 8"), ((8, 401), "50 times"), ((3000, 10), "50 times")])
def test_sizes_that_do_not(size, words):
    for source in (encoded(Image.new("RGB", size)), Image.new("RGB", size), np.zeros((size[1], size[0]), np.uint8)):
        assert words in refused(source)


def header_only_png(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [6400, 10_000, 20_000, 60_000])
def test_too_many_pixels_are_refused_from_the_header(side):
    """The file holds no pixels at all: had anything been decoded, the sentence would be about damage."""
    before = Image.MAX_IMAGE_PIXELS
    assert f"{MOST_PIXELS // 10**6} megapixels" in refused(header_only_png(side, side))
    assert Image.MAX_IMAGE_PIXELS == before


@pytest.mark.filterwarnings("error")
def test_too_many_pixels_where_warnings_are_errors():
    assert "megapixels" in refused(header_only_png(10_000, 10_000))


def test_a_large_array_is_refused_without_a_copy():
    assert "megapixels" in refused(np.broadcast_to(np.float64(0.5), (20_000, 20_000)))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused(format, share):
    data = encoded(noise(), format)
    refused(data[: int(len(data) * share)])


def test_a_progressive_jpeg_cut_off_is_refused():
    data = encoded(noise(), "JPEG", progressive=True)
    refused(data[: len(data) // 2])


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF"])
def test_flipped_bytes_never_raise_anything_but_a_sentence(format):
    data, random = encoded(noise(40, 30), format), np.random.default_rng(1)
    for _ in range(60):
        broken = bytearray(data)
        for at in random.integers(0, min(len(data), 300), 4):
            broken[at] = random.integers(0, 256)
        try:
            assert load_picture(bytes(broken)).mode == "RGB"
        except PictureError as error:
            assert str(error).endswith(".")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("empty.png", b"", "0 bytes"),
        ("letter.jpg", b"Dear reader, this is no picture at all.\n" * 20, "is not a picture"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a picture"),
        ("page.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\n", "is not a picture"),
    ],
)
def test_files_that_are_no_pictures(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    text = refused(tmp_path / name)
    assert words in text and name in text and str(tmp_path) not in text and "choose a PNG" in text
    assert words in refused(content)


def test_paths_that_cannot_be_read(tmp_path):
    assert "does not exist" in refused(tmp_path / "none.png")
    assert "does not exist" in refused("none.png")
    assert "is a folder" in refused(tmp_path)
    assert "check the path" in refused("with\0zero.png")
    assert len(refused("x" * 5000)) < 300
    assert "is a folder" in refused(Path("."))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "locked.png").write_bytes(encoded(marker()))

    def locked(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", locked)  # a real chmod does not stop root
    assert "may not be read" in refused(tmp_path / "locked.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refused(tmp_path / "pipe")


@pytest.mark.parametrize("source", [None, "", 3, [], {}, io.StringIO("text")])
def test_what_is_no_source_at_all(source):
    assert "choose" in refused(source)


def test_the_source_picture_is_left_alone():
    picture = marker()
    picture.info["note"] = "mine"
    load_picture(picture).paste(BLACK, (0, 0, 60, 40))
    assert picture.info == {"note": "mine"} and corners(picture)[0] == RED


def test_thumbnail():
    assert thumbnail(marker(), 30).size == (30, 20)
    assert thumbnail(marker(), 500).size == (60, 40)
    assert thumbnail(Image.new("RGB", (8, 400)), 20).size == (1, 20)


def test_encoded_pictures_are_bounded_and_flat_ones_exact():
    flat = encode_picture(marker())
    assert media_type(flat) == "image/png" and np.array_equal(np.asarray(load_picture(flat)), np.asarray(marker()))
    busy = encode_picture(noise(1600, 1200))
    assert media_type(busy) == "image/jpeg" and len(busy) < 600_000
    assert load_picture(busy).size == (EMBEDDED_SIDE, EMBEDDED_SIDE * 3 // 4)
    assert load_picture(encode_picture(noise(), side=50)).size == (50, 30)
