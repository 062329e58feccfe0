"""Own pictures with questions: what is read, how rows of one picture meet, and one sentence for each bad row."""

import json
import re

import numpy as np
import pytest
from PIL import ExifTags, Image

from leo_core.data import llava_format
from leo_core.data.llava_format import MOST_TEXT, read_rows, read_samples
from leo_core.data.samples import Question
from leo_core.errors import InputError
from leo_core.processor import MAX_QUESTION

COLOURS = {"red.png": (255, 0, 0), "sub/blue.png": (0, 0, 255), "green.png": (0, 128, 0)}


@pytest.fixture
def folder(tmp_path):
    """Pictures of one colour each, below a folder beside which lies a file that nobody may open."""
    for name, colour in COLOURS.items():
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 12), colour).save(path)
    Image.new("RGB", (20, 12), "white").save(tmp_path / "secret.png")
    return tmp_path / "own"


def row(image="red.png", *turns, **more):
    turns = turns or ("<image>\nWhat colour is it?", "red")
    spoken = [{"from": ("human", "gpt")[i % 2], "value": value} for i, value in enumerate(turns)]
    return {"id": "1", "image": image, "conversations": spoken, **more}


def write(folder, rows, style="lines"):
    """The rows in one of three ways; returns the path."""
    name = "rows.jsonl" if style == "lines" else "rows.json"
    text = {"lines": lambda: "\n".join(map(json.dumps, rows)), "list": lambda: json.dumps(rows), "indented": lambda: json.dumps(rows, indent=2)}[style]()
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def refusal(folder, rows=None, **options):
    """The sentence of the refusal, which is checked to be one."""
    with pytest.raises(InputError) as error:
        list(read_samples(folder, rows, **options))
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text and ". " not in text.replace("...", ""), text
    return text


def shown(samples):
    return [(sample.name, sample.picture.getpixel((5, 5)), [(q.text, q.answer) for q in sample.questions]) for sample in samples]


@pytest.mark.parametrize("style", ["lines", "list", "indented"])
def test_every_way_of_writing_the_rows_gives_the_same_samples(folder, style):
    rows = [row(), row("sub/blue.png", "Is it blue? <image>", " yes ", "And\n<image> no?", "no"), row("green.png", "Which?", "green")]
    rows[1]["conversations"][2]["value"] = "And\nred?"
    write(folder, rows, style)
    assert shown(read_samples(folder)) == [
        ("own-red.png", (255, 0, 0), [("What colour is it?", "red")]),
        ("own-sub/blue.png", (0, 0, 255), [("Is it blue?", "yes"), ("And\nred?", "no")]),
        ("own-green.png", (0, 128, 0), [("Which?", "green")]),
    ]


def test_a_byte_order_mark_windows_lines_empty_lines_and_no_last_newline_are_read(folder):
    text = "\ufeff" + json.dumps(row()) + "\r\n\r\n  \r\n" + json.dumps(row("green.png", "Größe?", "klein \u2028 x"), ensure_ascii=False)
    (folder / "rows.jsonl").write_bytes(text.encode())
    first, second = read_rows(folder)
    assert (first.lines, second.lines) == ((1,), (4,)) and second.questions[0].answer == "klein \u2028 x"


def test_rows_of_one_picture_anywhere_in_the_file_make_one_sample(folder):
    (folder / "alias.png").symlink_to(folder / "red.png")
    write(folder, [row(), row("green.png"), row("./sub/../red.png", "How large?", "small"), row("alias.png", "Who?", "nobody"), row()])
    red, green = read_rows(folder)
    assert (red.image, red.lines, green.image, green.lines) == ("red.png", (1, 3, 4, 5), "green.png", (2,))
    assert [q.text for q in red.questions] == ["What colour is it?", "How large?", "Who?"]  # row 5 says nothing new


def test_domain_and_kind_are_own_unless_given(folder):
    write(folder, [row(), row("green.png", domain="plants", kind="colour")])
    assert [sample.questions for sample in read_samples(folder)] == [
        (Question("What colour is it?", "red", "own", "own"),),
        (Question("What colour is it?", "red", "colour", "plants"),),
    ]


def test_pictures_are_opened_one_at_a_time_turned_upright_and_not_before(folder, monkeypatch):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    Image.new("RGB", (30, 10), "red").save(folder / "turned.jpg", exif=exif)
    write(folder, [row("turned.jpg"), row("green.png")])
    opened, real = [], llava_format.load_picture
    monkeypatch.setattr(llava_format, "load_picture", lambda path: opened.append(path.name) or real(path))
    samples = read_samples(folder)
    assert opened == []
    assert next(samples).picture.size == (10, 30) and opened == ["turned.jpg"]
    next(samples)
    assert opened == ["turned.jpg", "green.png"]


HUMAN, GPT = {"from": "human", "value": "What?"}, {"from": "gpt", "value": "red"}
BAD = {
    "list instead of object": ([1, 2], "not an object"),
    "no image": ({"conversations": [HUMAN, GPT]}, '"image"'),
    "two images": (row(["red.png", "green.png"]), "one picture"),
    "two marks": (row("red.png", "<image> and <image>: which?", "red"), "more than one <image>"),
    "a mark in each question": (row("red.png", "<image> A?", "a", "<image> B?", "b"), "more than one <image>"),
    "no such picture": (row("blue.png"), "no picture 'blue.png'"),
    "a folder": (row("sub"), "no picture 'sub'"),
    "outside": (row("../secret.png"), "leads out"),
    "outside, nothing there": (row("../nothing.png"), "leads out"),
    "zero in the name": (row("red\0.png"), "cannot be a picture's path"),
    "a very long name": (row("x" * 5000), "cannot be a picture's path|no picture"),
    "no conversation": ({"image": "red.png"}, '"conversations"'),
    "empty conversation": ({"image": "red.png", "conversations": []}, '"conversations"'),
    "no answer": ({"image": "red.png", "conversations": [HUMAN]}, "in pairs"),
    "wrong order": ({"image": "red.png", "conversations": [GPT, HUMAN]}, 'turn 1 must be from "human"'),
    "human twice": ({"image": "red.png", "conversations": [HUMAN, HUMAN]}, 'turn 2 must be from "gpt"'),
    "other speaker": ({"image": "red.png", "conversations": [{"from": "user", "value": "a"}, GPT]}, 'turn 1 must be from "human"'),
    "a turn of text": ({"image": "red.png", "conversations": ["What?", "red"]}, "turn 1"),
    "empty question": (row("red.png", " <image>\n ", "red"), "text of turn 1 is empty"),
    "empty answer": (row("red.png", "What?", "  "), "text of turn 2 is empty"),
    "number as answer": (row("red.png", "How many?", 3), "turn 2 has no text"),
    "endless": (row("red.png", "x" * (MOST_TEXT + 1), "red"), f"{MOST_TEXT + 1} characters"),
    "half a character": (row("red.png", "What?", "\ud800"), "half of a character"),
    "two answers": (row("red.png", "What?", "red", "What?", "blue"), "answered 'red'"),
    "answer of another row": (row("green.png", "Which?", "blue"), "answered 'green'"),
    "strange domain": (row(domain="a\nb"), '"domain"'),
    "strange kind": (row(kind=3), '"kind"'),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("style", ["lines", "list", "indented"])
def test_a_bad_row_is_named_by_file_and_line_and_refused_or_skipped(folder, name, style):
    bad, words = BAD[name]
    good = [row("green.png", "Which?", "green"), row("sub/blue.png", "Which?", "blue")]
    path = write(folder, [good[0], bad, good[1]], style)
    line = {"lines": 2, "list": 1, "indented": 2 + len(json.dumps(good[0], indent=2).splitlines())}[style]
    text = refusal(folder)
    assert text.startswith(f"{path.name}, line {line}: ") and re.search(words, text), text
    told = []
    assert [sample.name for sample in read_samples(folder, on_bad="skip", report=told.append)] == ["own-green.png", "own-sub/blue.png"]
    assert told == [text]


def test_a_broken_line_is_a_bad_row_too(folder):
    lines = [json.dumps(row()), '{"image": "red.png", ', "[1]" + "]" * 3, "[" * 100_000, json.dumps(row("green.png"))]
    (folder / "rows.jsonl").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    assert refusal(folder).startswith("rows.jsonl, line 2: ")
    told = []
    assert len(list(read_samples(folder, on_bad="skip", report=told.append))) == 2
    assert [text.split(":")[0] for text in told] == [f"rows.jsonl, line {line}" for line in (2, 3, 4, 6)]


@pytest.mark.parametrize(
    "text, line, found",
    [
        ('[\n%s,\n{"image": "red.png"\n"a": 1}\n]', 3, "found at line 4"),
        ("[\n%s\n\n%s]", 2, "found at line 2"),
        ("[%s,\n\n]", 3, "found at line 3"),
        ("[%s", 1, "found at line 1"),
        ("[\n%s] more", 2, "found at line 2"),
        ("[\n%s,\n\n%s]".replace("%s]", "[" * 100_000), 4, "not JSON"),
    ],
)
def test_a_list_broken_by_its_json_is_refused_even_when_bad_rows_are_skipped(folder, text, line, found):
    (folder / "rows.json").write_text(text.replace("%s", json.dumps(row())))
    for on_bad in ("refuse", "skip"):
        told = refusal(folder, on_bad=on_bad, report=[].append)
        assert told.startswith(f"rows.json, line {line}: ") and found in told


def test_a_list_that_is_not_utf8_names_the_line(folder):
    text = json.dumps([row(), row("green.png", "Größe?", "klein")], indent=1, ensure_ascii=False)
    (folder / "rows.json").write_bytes(text.encode("latin-1"))
    line = 1 + text[: text.index("ö")].count("\n")
    assert refusal(folder).startswith(f"rows.json, line {line}: ")


def test_no_picture_outside_the_folder_is_opened_through_links(folder, monkeypatch):
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "up").symlink_to(folder.parent)
    (folder / "circle.png").symlink_to(folder / "circle.png")
    secret = str(folder.parent / "secret.png")
    write(folder, [row("link.png"), row("up/secret.png"), row(secret), row("circle.png"), row("up/own/red.png")])
    opened, real = [], llava_format.load_picture
    monkeypatch.setattr(llava_format, "load_picture", lambda path: opened.append(path) or real(path))
    told = []
    assert [sample.name for sample in read_samples(folder, on_bad="skip", report=told.append)] == ["own-red.png"]
    assert ["leads out" in text for text in told] == [True, True, True, False] and opened == [folder.resolve() / "red.png"]


def test_a_picture_that_becomes_a_link_to_the_outside_is_not_opened(folder):
    write(folder, [row()])
    samples = read_samples(folder)
    (folder / "red.png").unlink()
    (folder / "red.png").symlink_to(folder.parent / "secret.png")
    with pytest.raises(InputError, match="leads out"):
        next(samples)


def test_a_picture_that_cannot_be_read_is_named_with_all_its_lines(folder):
    (folder / "torn.png").write_bytes((folder / "red.png").read_bytes()[:45])
    Image.new("RGB", (4, 400)).save(folder / "thin.png")
    torn = [row("torn.png", f"What is {i}?", "red") for i in range(7)]
    write(folder, [row("green.png"), *torn, row("thin.png")])
    assert refusal(folder).startswith("rows.jsonl, lines 2, 3, 4, 5, 6 and 2 more, picture 'torn.png': ")
    told = []
    assert [sample.name for sample in read_samples(folder, on_bad="skip", report=told.append)] == ["own-green.png"]
    assert len(told) == 2 and told[1].startswith("rows.jsonl, line 9, picture 'thin.png': The picture has 4 x 400 pixels")


def test_bad_rows_become_warnings_when_nobody_listens(folder):
    write(folder, [row(), row("nothing.png")])
    with pytest.warns(UserWarning, match="line 2: there is no picture 'nothing.png'"):
        assert len(list(read_samples(folder, on_bad="skip"))) == 1


def test_no_good_row_and_no_good_picture_are_refused(folder):
    (folder / "torn.png").write_bytes(b"no picture")
    for rows in ([], [row("nothing.png")], [row("torn.png")]):
        path = write(folder, rows, "list")
        assert f"'{path.name}'" in refusal(folder, path, on_bad="skip", report=[].append)


def test_the_file_of_rows_is_found_or_asked_for(folder, tmp_path):
    assert "holds none" in refusal(folder)
    elsewhere = write(tmp_path, [row()])
    assert len(read_rows(folder, elsewhere)) == 1
    write(folder, [row()])
    assert len(read_rows(folder)) == 1
    write(folder, [row()], "list")
    assert "rows.json and rows.jsonl" in refusal(folder)
    for wrong in (folder / "absent.json", folder):
        assert "There is no file" in refusal(folder, wrong)
    assert "There is no folder" in refusal(folder / "absent")
    assert "'refuse' or 'skip'" in refusal(folder, on_bad="ignore")


def test_a_file_beyond_the_limit_is_refused(folder, monkeypatch):
    size = write(folder, [row()]).stat().st_size
    monkeypatch.setattr(llava_format, "MOST_BYTES", size)
    assert len(read_rows(folder)) == 1
    monkeypatch.setattr(llava_format, "MOST_BYTES", size - 1)
    assert "split it" in refusal(folder)


def test_texts_are_as_long_as_the_processor_allows():
    assert MOST_TEXT == MAX_QUESTION


def test_a_large_picture_keeps_its_size(folder):
    noise = np.random.default_rng(0).integers(0, 256, (700, 900, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "large.png")
    write(folder, [row("large.png")])
    assert np.array_equal(np.asarray(next(read_samples(folder)).picture), noise)
