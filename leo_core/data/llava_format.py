"""Own pictures with questions: a folder of pictures and one file of rows in the LLaVA conversation format.

    {"id": "7", "image": "cats/7.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is it?"},
                                                         {"from": "gpt", "value": "a cat"}]}

One row an object, all in one JSON list or one on each line (JSONL). `image` is relative to the folder. Conversations are
unrolled: each human turn with the answer after it is one question, asked without the turns before it, so it has to make
sense alone. `<image>` marks are taken out. `domain` and `kind` may be given for the tables of the evaluation; `id` and
other keys are not used. Rows of one picture, wherever they stand in the file, make one sample.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leo_core.data.english import listed
from leo_core.data.samples import Question, Sample
from leo_core.errors import InputError, PictureError
from leo_core.picture import load_picture

OnBad = Literal["refuse", "skip"]
Report = Callable[[str], object]
Gathered = dict[str, tuple[list[int], dict[str, Question]]]  # picture -> lines of its rows, questions by their text

MOST_BYTES = 100_000_000
"""Of the file of rows, whose text is held in memory: about 60,000 rows as long as LLaVA's own."""
MOST_TEXT, MOST_LABEL = 2000, 40
"""Characters of a question or an answer (what the processor takes at most), and of `domain` and `kind`, which head tables."""
_MARK = "<image>"
_OPEN, _AFTER = re.compile(r"\s*\[\s*(\])?\s*"), re.compile(r"\s*([,\]])\s*")  # the begin of a list, and what follows a row
_BROKEN_JSON = (ValueError, RecursionError)  # also bytes that are no UTF-8, and numbers of thousands of digits


class BadRow(Exception):
    """What is wrong with one row, without its place."""


@dataclass(frozen=True)
class AskedPicture:
    """One picture of the folder with all that its rows ask, not opened yet. image: POSIX path below `folder`, links followed;
    lines: where its rows begin in the file `rows`, from 1; questions: their texts differ."""

    folder: Path
    rows: Path
    image: str
    lines: tuple[int, ...]
    questions: tuple[Question, ...]

    def sample(self) -> Sample:
        """Open the picture, as large as it is. Raises InputError, with file and lines, where it cannot be used."""
        try:
            picture = load_picture(_picture_below(self.folder, self.image))  # again: a link may have changed since
        except (BadRow, PictureError) as error:
            raise InputError(f"{_place(self.rows, self.lines)}, picture {_short(self.image)}: {error}") from None
        return Sample(f"own-{self.image}", picture, self.questions, ())


def read_samples(folder: Path, rows: Path | None = None, on_bad: OnBad = "refuse", report: Report | None = None) -> Iterator[Sample]:
    """The samples of a folder, in the order in which its pictures are first named, each picture opened when its turn comes.

    Options and errors as for `read_rows`, which runs at once; a picture that cannot be used is met on the way, and
    refused or reported and skipped like a bad row. Raises InputError at the end when no picture could be used.
    """
    return (sample for _, sample in _opened(read_rows(folder, rows, on_bad, report), on_bad, report or warnings.warn))


def read_rows(folder: Path, rows: Path | None = None, on_bad: OnBad = "refuse", report: Report | None = None) -> tuple[AskedPicture, ...]:
    """All rows, checked and grouped by picture without opening any: memory grows with the text only (see MOST_BYTES).

    rows: the file (default: the only .json or .jsonl file in `folder`). on_bad: raise InputError for the first bad row, or
    leave bad rows out and tell `report` one sentence each (default: as warnings). A list with broken JSON is always refused:
    where its next row begins cannot be known. Raises InputError for a missing folder or file and when no row is good.
    """
    if on_bad not in ("refuse", "skip"):
        raise InputError(f"Bad rows can be met with 'refuse' or 'skip', not {_short(on_bad)}: choose one.")
    folder, report = Path(folder), report or warnings.warn
    if not folder.is_dir():
        raise InputError(f"There is no folder '{folder}': name the folder that holds the pictures.")
    rows, folder = _only_rows(folder) if rows is None else Path(rows), folder.resolve()
    pictures: Gathered = {}
    for line, row in _numbered(rows):
        try:
            _gather(pictures, folder, line, row)
        except BadRow as error:
            sentence = f"{_place(rows, (line,))}: {error}"
            if on_bad == "refuse":
                raise InputError(sentence) from None
            report(sentence)
    if not pictures:
        raise InputError(f"'{rows.name}' holds no row that can be used: give at least one picture with a question and its answer.")
    return tuple(AskedPicture(folder, rows, image, tuple(lines), tuple(asked.values())) for image, (lines, asked) in pictures.items())


def usable(pictures: tuple[AskedPicture, ...], report: Report) -> tuple[AskedPicture, ...]:
    """Those whose picture opens; `report` is told a sentence about each other one. Raises InputError where none is left."""
    return tuple(picture for picture, _ in _opened(pictures, "skip", report))


def _opened(pictures: tuple[AskedPicture, ...], on_bad: OnBad, report: Report) -> Iterator[tuple[AskedPicture, Sample]]:
    found = False
    for picture in pictures:
        try:
            sample = picture.sample()
        except InputError as error:
            if on_bad == "refuse":
                raise
            report(str(error))
        else:
            found = True
            yield picture, sample
    if not found:
        raise InputError(f"None of the pictures that '{pictures[0].rows.name}' names can be used: correct or replace them.")


def _only_rows(folder: Path) -> Path:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".json", ".jsonl") and path.is_file())
    if len(found) == 1:
        return found[0]
    names = listed([path.name for path in found[:4]]) if found else "none"
    raise InputError(f"'{folder}' must hold one .json or .jsonl file with the questions, and holds {names}: name the file to be read.")


def _numbered(rows: Path) -> Iterator[tuple[int, object]]:
    """(line on which a row begins, the row as JSON, or a BadRow for a line that is none). Raises InputError."""
    try:
        if not rows.is_file():
            raise InputError(f"There is no file '{rows}': name the .json or .jsonl file with the questions.")
        with rows.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"'{rows}' cannot be read ({error.strerror}): check its permissions.") from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"'{rows.name}' has more than the {MOST_BYTES / 1e6:,.0f} MB allowed: split it into several files.")
    raw = raw.removeprefix(b"\xef\xbb\xbf")  # the mark that some editors put before UTF-8
    return _of_list(rows, raw) if raw.lstrip().startswith(b"[") else _of_lines(raw)


def _of_lines(raw: bytes) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                row = json.loads(line.decode())
            except _BROKEN_JSON:
                row = BadRow("the line is not one JSON object in UTF-8; correct it, or write all rows as one list [...].")
            yield number, row


def _of_list(rows: Path, raw: bytes) -> Iterator[tuple[int, object]]:
    """One row after another, so that each has its line."""
    line, counted, decode = 1, 0, json.JSONDecoder().raw_decode
    try:
        text = raw.decode()
        after = _OPEN.match(text)
        while after[1] != "]":
            start = after.end()
            line, counted = line + text.count("\n", counted, start), start
            row, end = decode(text, start)
            yield line, row
            after = _AFTER.match(text, end)
            if not after or after[1] == "]" and after.end() < len(text):
                raise json.JSONDecodeError("Expecting ',' or the end of the list", text, end)
    except _BROKEN_JSON as error:
        if isinstance(error, UnicodeDecodeError):
            line = 1 + raw.count(b"\n", 0, error.start)
        where = f", found at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{_place(rows, (line,))}: the row is not JSON in UTF-8{where}, and what follows cannot be read: correct it.") from None


def _gather(pictures: Gathered, folder: Path, line: int, row: object) -> None:
    """Add a row to its picture, whole or not at all. Raises BadRow."""
    if isinstance(row, BadRow):
        raise row
    if not isinstance(row, dict):
        raise BadRow('the row is not an object; write {"image": ..., "conversations": [...]}.')
    image = _picture_below(folder, row.get("image")).relative_to(folder).as_posix()
    (lines, known), fresh = pictures.get(image, ([], {})), {}
    for question in _questions(row):
        before = fresh.get(question.text) or known.get(question.text)
        if before and before.answer != question.answer:
            raise BadRow(f"{_short(question.text)} was answered {_short(before.answer)} for this picture before: keep one of the two answers.")
        if not before:  # the same question with the same answer once more says nothing new
            fresh[question.text] = question
    lines.append(line)
    known.update(fresh)
    pictures[image] = lines, known


def _picture_below(folder: Path, image: object) -> Path:
    """The file that `image` names, links followed, which is below `folder` (resolved). Raises BadRow."""
    if not isinstance(image, str) or not image.strip():
        raise BadRow('"image" must be the path of one picture: give one, and split a row about several.')
    try:
        path = (folder / image).resolve()
        inside = path.is_relative_to(folder)
        there = inside and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name the system does not take, a circle of links
        raise BadRow(f"{_short(image)} cannot be a picture's path: correct it.") from None
    if not inside:
        raise BadRow(f"the picture's path {_short(image)} leads out of the folder of pictures: put the picture into it, and write a relative path.")
    if not there:
        raise BadRow(f"there is no picture {_short(image)} in the folder: correct the path, or add the picture.")
    return path


def _questions(row: dict) -> Iterator[Question]:
    """Every turn of a row. Raises BadRow."""
    turns, domain, kind = row.get("conversations"), _label(row, "domain"), _label(row, "kind")
    if not isinstance(turns, list) or not turns or len(turns) % 2:
        raise BadRow('"conversations" must be a list of turns in pairs, a question from "human" and its answer from "gpt": correct it.')
    for number, turn in enumerate(turns, 1):
        speaker = ("gpt", "human")[number % 2]
        if not isinstance(turn, dict) or turn.get("from") != speaker:
            raise BadRow(f'turn {number} must be from "{speaker}": "human" and "gpt" take turns, and the human begins.')
    texts = [_text(turn.get("value"), number) for number, turn in enumerate(turns, 1)]
    if sum(turn["value"].count(_MARK) for turn in turns) > 1:
        raise BadRow(f"the conversation has more than one {_MARK} mark; each row asks about one picture: split it.")
    for question, answer in zip(texts[0::2], texts[1::2], strict=True):
        yield Question(question, answer, kind, domain)


def _text(value: object, number: int) -> str:
    """The text of turn `number`, without marks and space around it. Raises BadRow."""
    if not isinstance(value, str):
        raise BadRow(f'turn {number} has no text as its "value": write one.')
    text = re.sub(rf"\s*{_MARK}\s*", " ", value).strip()
    if not text:
        raise BadRow(f"the text of turn {number} is empty: write one, or remove the turn with its partner.")
    if len(text) > MOST_TEXT:
        raise BadRow(f"the text of turn {number} has {len(text)} characters; at most {MOST_TEXT} are allowed: shorten it.")
    if re.search("[\ud800-\udfff]", text):
        raise BadRow(f"the text of turn {number} holds half of a character (a lone surrogate): write it again.")
    return text


def _label(row: dict, key: str) -> str:
    label = row.get(key, "own")
    if not isinstance(label, str) or not label.strip() or len(label) > MOST_LABEL or not label.isprintable():
        raise BadRow(f'"{key}" must be one line of 1 to {MOST_LABEL} characters: correct it, or leave it out.')
    return label.strip()


def _place(rows: Path, lines: tuple[int, ...]) -> str:
    shown = [str(line) for line in lines[:5]] + ([f"{len(lines) - 5} more"] if len(lines) > 5 else [])
    return f"{rows.name}, line{'s' if len(lines) > 1 else ''} {listed(shown)}"


def _short(text: object) -> str:
    shown = repr(str(text))  # on one line
    return shown if len(shown) <= 80 else f"{shown[:76]}...{shown[0]}"
