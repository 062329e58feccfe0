"""Figures as files: true pixels, literal names, the right size, and words where there is no browser."""

import asyncio
import io
import json
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.errors import InputError  # noqa: E402
from leo_core.geometry import grid_geometry  # noqa: E402
from leo_core.tracing.trace_file import load_trace, save_trace  # noqa: E402
from studio.export import command  # noqa: E402
from studio.export.chromium import NoChromium, find_chromium, pictures  # noqa: E402
from studio.export.folder import captions, write_page  # noqa: E402
from studio.export.run_set import figures_of, file_stem  # noqa: E402
from studio.figures import answer_tokens, csv_text, kept_map  # noqa: E402

HOSTILE = '<script>alert(1)</script><!--"onerror=x\'%{meta.caption}$a$'
RARE = "\U0010fffd"  # a private place that no font fills
YELLOW, NAVY = (0xFE, 0xE8, 0x38), (0x00, 0x22, 0x4E)


def hostile_trace():
    trace = made.make_trace()
    first = replace(trace.experts[0], name=HOSTILE, domain=f"ä{RARE}")
    return replace(trace, experts=(first, *trace.experts[1:]), token_bytes=(*trace.token_bytes[:-1], HOSTILE.encode()))


def marked_trace():
    """All weight on source token 7 of a 3 x 5 grid: row 1, column 2."""
    trace = made.make_trace()
    weights = np.zeros((made.V, 15), np.float32)
    weights[:, 7] = 1
    return replace(made.with_weights(trace, "scene", weights), pictures=(replace(trace.pictures[0], content=None),))


@pytest.fixture(scope="module")
def drawn():
    """Bytes by (name, format), all made by one browser."""
    trace = hostile_trace()
    figures = {
        "marked": kept_map(marked_trace(), "scene", opacity=1.0), "hostile": kept_map(trace, HOSTILE), "tokens": answer_tokens(trace),
    }  # fmt: skip

    async def collect():
        return [one async for one in pictures(figures, ("svg", "png"), 192, find_chromium(), whole=400, each=200)]

    made_pictures = asyncio.run(collect())
    assert [one.trouble for one in made_pictures] == [""] * 6
    return {(one.name, one.format): one.content for one in made_pictures}


def test_png_has_the_chosen_size_and_says_its_density(drawn):
    picture = Image.open(io.BytesIO(drawn["marked", "png"]))
    picture.load()  # a wrong checksum would raise here
    assert picture.width == 2 * 900 and picture.height == 2 * kept_map(marked_trace(), "scene").layout.height
    assert picture.info["dpi"] == pytest.approx((192, 192), abs=0.1)


def test_the_painted_cell_is_the_geometry_s_cell(drawn):
    pixels = np.asarray(Image.open(io.BytesIO(drawn["marked", "png"])).convert("RGB")).astype(int)
    is_of = lambda colour: (np.abs(pixels - colour).max(axis=-1) <= 2)  # noqa: E731
    cells = is_of(YELLOW) | is_of(NAVY)
    cells &= (cells.sum(axis=1) > 200)[:, None]  # the colour bar is a gradient: few pixels of its ends
    box = lambda mask: np.array([*np.argwhere(mask).min(axis=0), *np.argwhere(mask).max(axis=0) + 1])  # noqa: E731
    top, left, bottom, right = box(cells)
    cell = (box(cells & is_of(YELLOW)) - [top, left, top, left]) / np.tile([bottom - top, right - left], 2)
    corners = marked_trace().of_expert("scene").geometry.polygons[7] / [made.WIDTH, made.HEIGHT]
    assert np.allclose(cell, [corners[0, 1], corners[0, 0], corners[2, 1], corners[2, 0]], atol=0.006)
    assert (right - left) / (bottom - top) == pytest.approx(made.WIDTH / made.HEIGHT, abs=0.02)


def test_hostile_names_are_text_in_svg(drawn):
    for name in ("hostile", "tokens"):
        root = ET.fromstring(drawn[name, "svg"])
        for element in root.iter():
            assert element.tag.rsplit("}")[-1] not in ("script", "foreignObject", "a", "iframe")
            assert not any(attribute.lower().startswith("on") for attribute in element.attrib)
    text = "".join(ET.fromstring(drawn["hostile", "svg"]).itertext())
    assert HOSTILE in text


def test_characters_without_a_glyph_are_code_points(drawn):
    text = "".join(ET.fromstring(drawn["hostile", "svg"]).itertext())
    assert "⟨U+10FFFD⟩" in text and RARE not in text and "ä" in text


def test_what_takes_too_long_is_a_sentence():
    async def collect():
        return [one async for one in pictures({"a": kept_map(made.make_trace(), "scene")}, ("svg",), 96, find_chromium(), whole=400, each=0.0)]

    (one,) = asyncio.run(collect())
    assert one.content is None and one.trouble.endswith(".") and "--seconds" in one.trouble


# --- the folder ---


def test_without_chromium_words_numbers_and_a_page_remain(tmp_path, monkeypatch, capsys):
    path, folder = tmp_path / "run.safetensors", tmp_path / "out"
    save_trace(hostile_trace(), path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LEO_CHROMIUM", raising=False)
    assert command.main([str(path), "-o", str(folder)]) == 1
    said = capsys.readouterr().err.strip()
    assert "No Chromium was found" in said and "\n" not in said
    figures = figures_of(load_trace(path))
    assert {one.name for one in folder.iterdir()} == {"captions.md", "code.py", "figures.html", *(f"{name}.csv" for name in figures)}
    space = {}
    exec((folder / "code.py").read_text(), space)
    for name, figure in figures.items():
        assert json.loads(space["figures"][name].to_json()) == json.loads(figure.to_json())
        assert (folder / f"{name}.csv").read_bytes().decode() == csv_text(figure)


def test_a_chosen_chromium_that_is_none_is_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match="--chromium"):
        find_chromium(str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoChromium):
        find_chromium()
    path = tmp_path / "run.safetensors"
    save_trace(made.make_trace(), path)
    for options, words in ((["--formats", "gif"], "--formats"), (["--dpi", "7"], "--dpi"), (["--chromium", "nothing"], "no program")):
        assert command.main([str(path), "-o", str(tmp_path / "out"), *options]) == 2
        assert words in capsys.readouterr().err
    assert command.main([str(tmp_path / "gone.safetensors"), "-o", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_hostile_names_stay_text_in_page_and_captions_and_name_no_file(tmp_path):
    figures = figures_of(hostile_trace())
    page = write_page(tmp_path, figures).read_text()
    own = page.split("</script>", 1)[1]  # after Plotly's own program
    assert "alert(1)" in own and "<script>alert" not in own and "<!--" not in own and "</script><!" not in own
    text = captions(figures, "svg")
    assert "<script" not in text and "<!--" not in text and "&lt;script&gt;alert(1)" in text
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in figures)
    assert file_stem("../../etc/passwd") == "etc-passwd" and file_stem("…") == "figure"


def test_a_set_without_a_picture_or_contributions_is_still_a_set():
    trace = replace(made.make_trace(), pictures=(), experts=())
    assert [name[3:] for name in figures_of(trace)] == ["routing-map", "load", "entropy", "norms", "answer-tokens", "answer-table"]
    two = made.make_trace()
    second = replace(two.experts[0], picture=1, geometry=grid_geometry((50, 20), (3, 5)))
    two = replace(two, pictures=(*two.pictures, made.picture(50, 20)), experts=(*two.experts, second))
    assert {"01-kept-map-scene-1", "10-kept-map-scene-2"} <= set(figures_of(two))
