"""Writing without half-written files, and where the user's cache is."""

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from leo_core.errors import LeoError


@contextlib.contextmanager
def _spoken(path: Path) -> Iterator[None]:
    """Errors of the file system as one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LeoError(f"There is no space left to write '{path.name}'; free some, or choose another folder with LEO_CACHE.") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise LeoError(f"'{path}' may not be written to; choose another folder, for the cache with LEO_CACHE.") from None
        raise


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary sibling that replaces `path` when the block ends well, and vanishes when it does not."""
    path = Path(path)
    with _spoken(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A temporary sibling folder that takes the place of `path` when the block ends well.

    Where another process finished first, its folder stays and ours vanishes.
    """
    path = Path(path)
    with _spoken(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o755)
            _replace_folder(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    if not path.exists():
        os.replace(new, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    os.replace(path, old / "was")
    os.replace(new, path)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def workspace_in(folder: str | Path) -> Iterator[Path]:
    """A folder of this process alone below `folder`, gone afterwards."""
    folder = Path(folder)
    with _spoken(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".work.", dir=folder) as name:
            yield Path(name)


def cache_folder(override: str | Path | None = None) -> Path:
    """Where parts and converted weights are kept: the override, else LEO_CACHE, else the platform's cache folder."""
    chosen = override or os.environ.get("LEO_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "leo-studio"
