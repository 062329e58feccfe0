"""Icon packs, the vocabulary and the English around its names."""

import json
import subprocess

import numpy as np
import pytest

from leo_core.data import Icons, fetch_packs, packs
from leo_core.data.english import counted, listed, mentions, plural, with_article
from leo_core.data.icons import OBJECTS, read_objects
from leo_core.data.kin import akin
from leo_core.errors import InputError, PartError

KIN = OBJECTS.with_name("kin.txt")


def test_names_are_those_that_every_style_can_draw(pack_folder, tmp_path, icons):
    for style in icons.styles:
        pack = json.loads((pack_folder / style / "icons.json").read_text())
        if style == "noto":
            del pack["icons"]["dog"]
        (tmp_path / style).mkdir()
        (tmp_path / style / "icons.json").write_text(json.dumps(pack))
    assert set(icons.names) - set(Icons(tmp_path).names) == {"dog"}


@pytest.mark.parametrize("size", [28, 60, 128, 200, 300])
def test_icons_are_rendered_tight_with_their_alpha(icons, size):
    sprite = icons.render("dog", "noto", size)
    alpha = np.asarray(sprite)[..., 3]
    assert sprite.mode == "RGBA" and max(sprite.size) == size
    assert alpha.min() < 128 and alpha.max() == 255 and alpha.any(axis=0).all() and alpha.any(axis=1).all()


def test_unknown_names_styles_and_missing_packs_are_refused(icons, tmp_path):
    with pytest.raises(InputError, match="ghost"):
        icons.category("ghost")
    with pytest.raises(InputError, match="oil"):
        icons.render("dog", "oil", 64)
    with pytest.raises(PartError, match="fetch"):
        Icons(tmp_path)


def test_the_vocabulary_has_over_300_short_names():
    objects = read_objects()
    assert len(objects) >= 330
    assert all(1 <= len(name.split()) <= 2 and name == name.lower() for name in objects)


def test_articles_and_plurals():
    assert [with_article(name) for name in ("apple", "dog", "unicorn", "hourglass")] == ["an apple", "a dog", "a unicorn", "an hourglass"]
    singular = ("dog", "fox", "cherry", "monkey", "mouse", "maple leaf", "tooth", "wine glass", "computer mouse")
    assert [plural(name) for name in singular] == [
        "dogs", "foxes", "cherries", "monkeys", "mice", "maple leaves", "teeth", "wine glasses", "computer mice",
    ]  # fmt: skip
    assert (counted(1, "owl"), counted(3, "wolf")) == ("an owl", "three wolves")
    assert listed(["a dog"]) == "a dog" and listed(["a dog", "a cat", "a car"]) == "a dog, a cat and a car"


def test_packs_that_are_there_are_not_fetched_again(pack_folder, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert fetch_packs(pack_folder) == pack_folder


def test_missing_npm_and_a_wrong_file_are_told_in_a_sentence(tmp_path, monkeypatch):
    def no_npm(*args, **kwargs):
        raise FileNotFoundError("npm")

    monkeypatch.setattr(subprocess, "run", no_npm)
    with pytest.raises(PartError, match="needs npm"):
        fetch_packs(tmp_path)
    (tmp_path / packs.PACKS[0].file_name).write_bytes(b"something else")
    with pytest.raises(PartError, match="sha256"):
        fetch_packs(tmp_path)


def test_kin_are_symmetric_known_and_found_by_name():
    names = set(read_objects())
    listed_names = {name for line in KIN.read_text().splitlines()[1:] for name in line.replace(": ", ", ").split(", ")}
    assert listed_names <= names
    assert akin("duck", "bird") and akin("bird", "duck") and akin("polar bear", "bear") and akin("bear", "polar bear")
    assert not akin("duck", "owl") and not akin("butterfly", "fly")


@pytest.mark.parametrize(
    ("text", "name", "named"),
    [
        ("How many maple leaves are there?", "maple leaf", True), ("Is the Apple red?", "apple", True), ("Is a pineapple there?", "apple", False),
        ("What is the value of A?", "A", True), ("Is there a cat?", "A", False), ("How much is 12?", "1", False), ("Is it $3.49?", "$3.49", True),
        ("Is it catlike?", "cat", False), ("Which y is it?", "x y", False),
    ],
)  # fmt: skip
def test_a_text_mentions_a_name_as_words_of_its_own_alone_or_in_the_plural(text, name, named):
    assert mentions(text, name) == named
