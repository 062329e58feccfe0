"""easy-VQA: a hand-made package of a few pictures stands for the real one, which is looked at where the cache has it."""

import hashlib
import io
import json
import zipfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from leo_core.data import easy_vqa
from leo_core.data.easy_vqa import KINDS, PART, SIDE, fetch, samples
from leo_core.data.samples import Question, Region
from leo_core.errors import InputError, PartError
from leo_core.files import cache_folder

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "teal": (0, 128, 128)}
SHAPES = ("circle", "rectangle", "triangle")
THING = (22, 26, 46, 40)
"""Where it lies on each picture of 64 x 64 pixels."""
PICTURES = {"train": 40, "test": 12}


def things(split, number):
    """The colour and shape of a picture, odd enough that splits differ."""
    return list(COLOURS)[(number + (split == "test")) % 3], SHAPES[number * 7 // 3 % 3]


def triples(split, number):
    colour, shape = things(split, number)
    asked = [["what color is the shape?", colour], [f"what is the {colour} shape?", shape], ["what shape is present?", shape]]
    for other in COLOURS:
        is_it = ["no", "yes"][other == colour]
        asked += [[f"is there a {other} shape?", is_it], [f"is no {other} shape present?", {"yes": "no", "no": "yes"}[is_it]]]
    for other in SHAPES:
        is_it = ["no", "yes"][other == shape]
        asked += [[f"does the image contain a {other}?", is_it], [f"is there not a {other}?", {"yes": "no", "no": "yes"}[is_it]]]
    return [[text, answer, number] for text, answer in asked]


def package():
    """The bytes of a wheel laid out like the real one; importing it would end the test run."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("easy_vqa/__init__.py", "raise SystemExit('the package was imported')")
        for split, count in PICTURES.items():
            archive.writestr(f"easy_vqa/data/{split}/questions.json", json.dumps([t for i in range(count) for t in triples(split, i)]))
            for number in range(count):
                picture = Image.new("RGB", (64, 64), (240, 240, 240))
                picture.paste(COLOURS[things(split, number)[0]], THING)
                png = io.BytesIO()
                picture.save(png, "PNG")
                archive.writestr(f"easy_vqa/data/{split}/images/{number}.png", png.getvalue())
    return stream.getvalue()


class Index:
    """Stands for pip; counts the downloads."""

    def __init__(self, content):
        self.content, self.calls = content, 0

    def __call__(self, part, folder):
        self.calls += 1
        (folder / "any-name.whl").write_bytes(self.content)
        return folder / "any-name.whl"


@pytest.fixture
def index(monkeypatch):
    monkeypatch.delenv(PART.variable, raising=False)
    content = package()
    monkeypatch.setattr(easy_vqa, "PART", replace(PART, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
    return Index(content)


@pytest.fixture
def folder(index, tmp_path):
    return fetch(tmp_path / "easy-vqa", index)


def questions(drawn):
    return [question for sample in drawn for question in sample.questions]


def test_fetch_brings_the_pinned_file_once_and_leaves_nothing_else(index, tmp_path):
    folder = tmp_path / "new" / "easy-vqa"
    assert fetch(folder, index) == fetch(folder, index) == folder
    assert index.calls == 1 and [path.name for path in folder.iterdir()] == [PART.member]
    (folder / PART.member).write_bytes(index.content[:-1] + b"x")
    with pytest.raises(PartError, match="damaged"):
        samples(folder, "train")
    fetch(folder, index)
    assert index.calls == 2 and (folder / PART.member).read_bytes() == index.content


def test_another_file_than_the_pinned_one_is_not_kept(index, tmp_path):
    index.content += b"x"
    with pytest.raises(PartError, match="not the pinned file") as error:
        fetch(tmp_path / "easy-vqa", index)
    assert PART.variable in str(error.value) and list((tmp_path / "easy-vqa").iterdir()) == []


def test_an_own_copy_is_read_instead_of_fetching(index, tmp_path, monkeypatch):
    own = tmp_path / "mine.whl"
    monkeypatch.setenv(PART.variable, str(own))
    with pytest.raises(PartError, match=PART.variable):
        samples(tmp_path / "absent", "test")
    own.write_bytes(index.content + b"trailing")  # not the pinned bytes, which is the user's to answer for
    assert len(list(samples(fetch(tmp_path / "absent", index), "test"))) == PICTURES["test"] and index.calls == 0


@pytest.mark.parametrize("split", PICTURES)
def test_every_picture_comes_once_with_its_own_questions(folder, split):
    drawn = list(samples(folder, split, seed=5))
    numbers = [int(sample.name.rsplit("-", 1)[1]) for sample in drawn]
    assert sorted(numbers) == list(range(PICTURES[split])) != numbers
    for sample, number in zip(drawn, numbers, strict=True):
        colour, shape = things(split, number)
        assert sample.name == f"easy_vqa-{split}-{number:04d}" and [region.phrase for region in sample.regions] == [colour, shape]
        for region in sample.regions:
            assert np.abs(np.array(region.box) - SIDE / 64 * np.array(THING)).max() <= 4  # enlarged edges are soft
        assert sample.picture.mode == "RGB" and sample.picture.size == (SIDE, SIDE) and sample.picture.getpixel((128, 128)) == COLOURS[colour]
        assert [[q.text, q.answer, number] for q in sample.questions] == triples(split, number)
        assert {q.domain for q in sample.questions} == {"easy_vqa"}


def test_kinds_say_what_is_asked(folder):
    kinds = {(q.text, q.answer): q.kind for q in questions(samples(folder, "train"))}
    assert set(kinds.values()) == set(KINDS)
    for (text, answer), kind in kinds.items():
        if kind == "shape":
            assert answer in SHAPES
        elif kind == "colour":
            assert answer in COLOURS and "color" in text
        else:
            assert answer in ("yes", "no") and (kind == "yesno_not") == text.startswith(("is no ", "is there not "))


def test_the_seed_decides_the_order_and_a_smaller_number_begins_alike(folder):
    def names(**options):
        return [sample.name for sample in samples(folder, "train", **options)]

    def texts(**options):
        return [q.text for q in questions(samples(folder, "train", per_picture=3, **options))]

    assert names(seed=1) == names(seed=1) != names(seed=2) and names(seed=1)[:9] == names(seed=1, most=9)
    assert texts(seed=1) == texts(seed=1) and texts(seed=1)[:27] == texts(seed=1, most=9)


def test_few_questions_a_picture_are_even_over_kinds_and_over_yes_and_no(folder):
    drawn = list(samples(folder, "train", per_picture=4))
    assert all(len({q.text for q in sample.questions}) == 4 for sample in drawn)
    asked = questions(drawn)
    all_of_them = {q for sample in samples(folder, "train") for q in sample.questions}
    kinds, answers = Counter(q.kind for q in asked), Counter((q.kind, q.answer) for q in asked)
    assert set(asked) <= all_of_them and set(kinds.values()) == {PICTURES["train"]}
    for kind in ("yesno", "yesno_not"):  # in the package two of three say the same
        assert abs(answers[kind, "yes"] - answers[kind, "no"]) <= 2
    assert len(questions(samples(folder, "train", per_picture=99))) == len(questions(samples(folder, "train")))


def test_wrong_options_are_told_in_a_sentence(folder):
    for options, words in (({"split": "val"}, "train or test"), ({"most": 0}, "'most'"), ({"per_picture": -1}, "'per_picture'")):
        with pytest.raises(InputError, match=words):
            samples(folder, **{"split": "train", **options})


def broken(member, content):
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package())) as whole, zipfile.ZipFile(stream, "w") as archive:
        for name in whole.namelist():
            data = content if name == member else whole.read(name)
            if data is not None:
                archive.writestr(name, data)
    return stream.getvalue()


QUESTIONS, PICTURE = "easy_vqa/data/test/questions.json", "easy_vqa/data/test/images/3.png"


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip", *(broken(QUESTIONS, data) for data in (None, b"{", b"7", b'[["a", "b"]]')), *(broken(PICTURE, data) for data in (None, b"", b"x"))],
    ids=["empty", "no zip", "no questions", "broken json", "a number", "pairs", "no picture", "empty picture", "damaged picture"],
)
def test_a_damaged_own_copy_is_told_in_a_sentence(tmp_path, monkeypatch, content):
    own = tmp_path / "mine.whl"
    own.write_bytes(content)
    monkeypatch.setenv(PART.variable, str(own))
    with pytest.raises(PartError, match="damaged"):
        list(samples(tmp_path, "test"))


REAL = cache_folder() / "easy-vqa"


@pytest.mark.skipif(not (REAL / PART.member).is_file(), reason="easy-VQA is not in the cache, and tests do not fetch")
def test_the_real_package_has_its_pictures_and_questions_and_chosen_ones_leave_little_to_guess(monkeypatch):
    monkeypatch.delenv(PART.variable, raising=False)
    for split, pictures, number in (("train", 4000, 38575), ("test", 1000, 9673)):
        asked = {sample.name: len(sample.questions) for sample in samples(REAL, split)}  # no picture is kept: together they take a gigabyte
        assert (len(asked), sum(asked.values())) == (pictures, number)
    asked = Counter((q.kind, q.answer) for q in questions(samples(REAL, "test", per_picture=3)))
    for kind in ("yesno", "yesno_not"):
        assert 0.45 < asked[kind, "yes"] / (asked[kind, "yes"] + asked[kind, "no"]) < 0.55
    shade = {"blue": (0, 0, 255), "red": (255, 0, 0), "black": (0, 0, 0), "yellow": (255, 255, 0)}
    for sample in samples(REAL, "test", most=40):
        colour = next((q.answer for q in sample.questions if q.text == "what color is the shape?"), None)
        if colour in shade:
            assert (np.asarray(sample.picture) == shade[colour]).all(axis=2).mean() > 0.01


def test_what_no_question_tells_is_not_named_and_an_empty_picture_names_nothing():
    shape = [Question("what shape is present?", "circle", "shape", "easy_vqa")]
    picture = Image.new("RGB", (SIDE, SIDE), "white")
    assert easy_vqa._regions(picture, shape) == ()
    picture.paste((0, 0, 0), (10, 20, 60, 50))
    assert easy_vqa._regions(picture, shape) == (Region((10.0, 20.0, 60.0, 50.0), "circle"),)
