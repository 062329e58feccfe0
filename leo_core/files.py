"""Writing without half-written files, and where the user's cache is."""

import contextlib
import errno
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from leo_core.errors import LeoError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
_RACES = 200  # times that another process may get in between while a folder is replaced


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary sibling file (same suffix) that replaces `path` when the block ends well, and vanishes when it does not.

    Parent folders are made. Raises LeoError where the disk is full or the place may not be written to.
    """
    path = Path(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _sibling(path)
        temporary.touch(exist_ok=False)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A temporary sibling folder that takes the place of `path` when the block ends well, and vanishes when it does not.

    A folder already at `path` is removed only once the new one is complete; of two processes the last to finish wins.
    Raises LeoError where the disk is full, the place may not be written to, or `path` is a file.
    """
    path = Path(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            raise FileExistsError(errno.EEXIST, "a file", str(path))
        temporary = _sibling(path)
        temporary.mkdir()
        try:
            yield temporary
            _replace_folder(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def workspace_in(folder: str | Path) -> Iterator[Path]:
    """A folder of this process alone below `folder`, gone afterwards. Raises LeoError as `atomic_path` does."""
    folder = Path(folder)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".work.", dir=folder, ignore_cleanup_errors=True) as name:
            yield Path(name)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the file system about `path` or its siblings as one sentence (LeoError); others pass as they are."""
    full = f"There is no space left to write '{path}': free some, or choose another folder (LEO_CACHE for the cache)."
    try:
        yield
    except SafetensorError as error:
        if "No space left" in str(error):  # safetensors speaks of the system's error in words only
            raise LeoError(full) from None
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise LeoError(full) from None
        if error.filename is not None and path.parent not in Path(error.filename).parents and Path(error.filename) not in path.parents:
            raise  # about some other file that the block uses
        if error.errno in _REFUSED:
            raise LeoError(f"'{path}' may not be written to: allow it, or choose another folder (LEO_CACHE for the cache).") from None
        if error.errno in _NO_PLACE:
            raise LeoError(f"'{path}' cannot be written ({error.strerror}): remove what is in its place, or choose another name.") from None
        raise


def cache_folder(override: str | Path | None = None) -> Path:
    """Where parts and converted weights are kept: the override, else LEO_CACHE, else "leo-studio" in the platform's cache folder.

    It need not exist yet. Raises LeoError where the user has no home folder.
    """
    chosen = override or os.environ.get("LEO_CACHE")
    try:
        return Path(chosen).expanduser() if chosen else _platform_cache() / "leo-studio"
    except RuntimeError:
        raise LeoError("This user has no home folder for the cache: set LEO_CACHE to a folder that may be written to.") from None


def _platform_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _replace_folder(new: Path, path: Path) -> None:
    """Put `new` at `path`. A folder cannot be renamed over a full one, so what is there is moved aside first."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.old.", dir=path.parent, ignore_cleanup_errors=True) as aside:
        for attempt in range(_RACES):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, Path(aside) / str(attempt))
            try:
                return os.replace(new, path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # no race: give back what was there
                    with contextlib.suppress(OSError):
                        os.replace(Path(aside) / str(attempt), path)
                    raise
    raise FileExistsError(errno.EEXIST, "other processes keep writing it", str(path))


def _sibling(path: Path) -> Path:
    """An unused name beside `path`; made by the caller with the user's usual permissions, unlike tempfile's 0600."""
    return path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}{path.suffix}")
