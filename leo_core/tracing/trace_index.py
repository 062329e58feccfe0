"""A folder of traces with an index: index.json names each file with its question, answer, model and time."""

import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from leo_core.errors import InputError, LeoError
from leo_core.files import atomic_path
from leo_core.tracing.tensor_file import Damage, parse_json
from leo_core.tracing.terminal_text import terminal_text
from leo_core.tracing.trace import Trace
from leo_core.tracing.trace_file import load_trace

INDEX = "index.json"
INDEX_SCHEMA = "1.0"
MOST_FILES = 10_000
MOST_INDEX_BYTES = 32 * 1024**2


@dataclass(frozen=True)
class IndexEntry:
    """One trace of a folder. file: its name in the folder. created: ISO 8601 in UTC. model: "" where the trace states none."""

    file: str
    question: str
    answer: str
    model: str
    created: str


def write_index(folder: str | Path) -> tuple[list[IndexEntry], list[str]]:
    """Index all .safetensors files of a folder: (entries by file name, one sentence for each file that is no trace).

    Raises LeoError for a folder that is missing, holds too many files, or may not be written to.
    """
    folder, entries, refused = Path(folder), [], []
    name = terminal_text(folder.name)
    if not folder.is_dir():
        raise InputError(f"'{name}' is no folder: give the folder that holds the traces.")
    paths = sorted(path for path in folder.glob("*.safetensors") if path.is_file() and not path.name.startswith("."))
    if len(paths) > MOST_FILES:
        raise InputError(f"'{name}' holds {len(paths):,} traces; at most {MOST_FILES:,} fit into one index: spread them over folders.")
    for path in paths:
        try:
            trace = load_trace(path)
        except LeoError as error:
            refused.append(str(error))
            continue
        changed = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).isoformat(timespec="seconds")
        model, created = (_stated(trace, name, otherwise) for name, otherwise in (("model", ""), ("created", changed)))
        entries.append(IndexEntry(path.name, trace.question, trace.answer, model, created))
    words = {"schema": INDEX_SCHEMA, "traces": [asdict(entry) for entry in entries]}
    with atomic_path(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(words, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.chmod(temporary, 0o644)
    return entries, refused


def _stated(trace: Trace, name: str, otherwise: str) -> str:
    value = trace.provenance.get(name)
    return value if isinstance(value, str) else otherwise


def read_index(folder: str | Path) -> list[IndexEntry]:
    """The entries of a folder's index. Raises LeoError for one that is missing, damaged, newer, or names files elsewhere."""
    path = Path(folder) / INDEX
    again = "write it again with 'python -m leo_core trace index'"
    try:
        if path.stat().st_size > MOST_INDEX_BYTES:
            raise Damage(f"it is larger than {MOST_INDEX_BYTES:,} bytes")
        words = parse_json(path.read_bytes(), "the file")
        if not isinstance(words, dict) or not isinstance(words.get("traces"), list) or len(words["traces"]) > MOST_FILES:
            raise Damage(f"it holds no list of at most {MOST_FILES:,} traces")
        if str(words.get("schema")).split(".")[0] != INDEX_SCHEMA.split(".")[0]:
            raise Damage(f"its schema is {terminal_text(str(words.get('schema')), 20)}, and {INDEX_SCHEMA.split('.')[0]}.x can be read")
        return [_entry(index, one) for index, one in enumerate(words["traces"])]
    except FileNotFoundError:
        raise LeoError(f"The folder has no {INDEX}: {again}.") from None
    except Damage as damage:
        raise LeoError(f"The folder's {INDEX} cannot be used: {damage}; {again}.") from None
    except OSError as error:
        raise LeoError(f"The folder's {INDEX} cannot be read ({error.strerror}): check the path and its permissions.") from None


def _entry(index: int, one) -> IndexEntry:
    names = IndexEntry.__dataclass_fields__
    if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in names):
        raise Damage(f"entry {index} lacks one of {', '.join(names)}")
    if not one["file"] or one["file"] != Path(one["file"]).name or "\\" in one["file"]:
        raise Damage(f"entry {index} names a file outside the folder")
    return IndexEntry(**{name: one[name] for name in names})
