"""A trace on disk: one safetensors file, arrays in fp16 or fp32, the rest JSON in its metadata. Opens without a model.

Every field, rule and limit is in TRACE_FORMAT.md beside this file, written for other people's writers. In short: the metadata
key `leo_trace` holds the JSON; arrays are named `experts.I.FIELD` (I counts the entries of `experts` in the JSON),
`routing.FIELD`, `token_ids`, `roles`, `picture_index`, `probability`, `top_ids`, `top_probability`, and `pictures.I` with the
bytes of a picture's copy.
"""

import base64
import json
import os
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from leo_core.errors import LeoError
from leo_core.files import atomic_path
from leo_core.geometry import Geometry
from leo_core.tracing.checks import Broken
from leo_core.tracing.tensor_file import Damage, parse_json, read_header, read_tensors
from leo_core.tracing.terminal_text import terminal_text
from leo_core.tracing.trace import SCHEMA, ExpertTrace, PictureTrace, RoutingTrace, Trace
from leo_core.tracing.trace_structure import FREE, PLACES, POSITIONS, ROUTING, TERMS, structure
from leo_core.tracing.trace_unknown import put_back, unknown_of
from leo_core.tracing.trace_values import values

METADATA_KEY = "leo_trace"


def save_trace(trace: Trace, path: str | Path, pictures: bool = True) -> None:
    """Write one run, atomically. pictures=False leaves the pictures' copies out (their sizes stay)."""
    arrays = dict(trace.unknown.arrays)
    for index, expert in enumerate(trace.experts):
        for name in TERMS:
            value = getattr(expert, name)
            if value is not None:
                arrays[f"experts.{index}.{name}"] = _half(value)
        arrays[f"experts.{index}.polygons"] = expert.geometry.polygons.astype(np.float32)
        arrays[f"experts.{index}.placed"] = expert.geometry.placed.astype(np.uint8)
        arrays[f"experts.{index}.seen"] = expert.geometry.seen.astype(np.float32)
    for name in ROUTING:
        arrays[f"routing.{name}"] = _half(getattr(trace.routing, name))
    for name in POSITIONS:
        value = np.asarray(getattr(trace, name))
        arrays[name] = value.astype(np.float32) if value.dtype.kind == "f" else value.astype(np.int32)
    for index, picture in enumerate(trace.pictures):
        if pictures and picture.content is not None:
            arrays[f"pictures.{index}"] = np.frombuffer(picture.content, dtype=np.uint8)
    text = json.dumps(put_back(_words(trace), trace.unknown.words), ensure_ascii=False, allow_nan=False)
    metadata = {**trace.unknown.metadata, METADATA_KEY: text}
    with atomic_path(path) as temporary:
        save_file({name: np.ascontiguousarray(value).reshape(value.shape) for name, value in arrays.items()}, temporary, metadata=metadata)
        os.chmod(temporary, 0o644)


def as_saved(trace: Trace) -> Trace:
    """The trace as its file will give it back: rounded once, so that a figure drawn now and one drawn later are the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        save_trace(trace, path)
        return load_trace(path)


def _half(value: np.ndarray) -> np.ndarray:
    """fp16 where it holds the value: weights and probabilities do; scores beyond its range stay fp32."""
    value = np.asarray(value, dtype=np.float32)
    return value.astype(np.float16) if np.all(np.abs(value[np.isfinite(value)]) < 60000) else value


def _words(trace: Trace) -> dict:
    routing = trace.routing
    return {
        "schema": max(SCHEMA, trace.unknown.schema, key=_version),  # fields of a newer minor version are written back with its number
        "question": trace.question,
        "answer": trace.answer,
        "finished": trace.finished,
        "pictures": [{"width": p.width, "height": p.height, "media_type": p.media_type} for p in trace.pictures],
        "experts": [
            {"name": e.name, "domain": e.domain, "picture": e.picture, "grid": list(e.geometry.grid) if e.geometry.grid else None}
            for e in trace.experts
        ],
        "routing": {"layers": list(routing.layers), "general": routing.general, "evaluated": routing.evaluated, "top_k": routing.top_k},
        "token_bytes": [_text(token) for token in trace.token_bytes],
        "top_bytes": [[_text(token) for token in row] for row in trace.top_bytes],
        **{name: getattr(trace, name) for name in FREE},
    }


def _text(token: bytes) -> str:
    return base64.b64encode(token).decode("ascii")


def _version(schema: str) -> tuple[int, ...]:
    """(major, minor); (-1,) for what is no version."""
    numbers = schema.split(".")
    return tuple(map(int, numbers)) if len(numbers) == 2 and all(part.isascii() and part.isdigit() and len(part) < 6 for part in numbers) else (-1,)


def load_trace(path: str | Path) -> Trace:
    """Read one run. Raises LeoError with a sentence for a file that is missing, damaged, too large or of a newer schema."""
    trace, broken = _opened(path)
    if trace is None:
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise LeoError(f"Trace '{_name(path)}' breaks a rule of the format: {broken[0]}{more}; record it again, or see 'trace validate'.")
    return trace


def validate_trace(path: str | Path) -> list[Broken]:
    """Every broken rule of a file: those of structure, or when they hold those of values. Raises LeoError where nothing can be read."""
    trace, broken = _opened(path)
    return broken if trace is None else values(trace)


def read_words(path: str | Path) -> dict:
    """The JSON of a trace alone, unchecked beyond its schema and that it is an object. Raises LeoError as `load_trace` does."""
    return _read(path, lambda file: (read_header(file).metadata, {}))[0]


def _opened(path: str | Path) -> tuple[Trace | None, list[Broken]]:
    words, arrays, metadata = _read(path, read_tensors)
    broken = structure(words, arrays)
    return (None, broken) if broken else (_assemble(words, arrays, metadata), [])


def _read(path: str | Path, read) -> tuple[dict, dict[str, np.ndarray], dict[str, str]]:
    """(JSON, arrays, metadata) of a file whose major version is known."""
    name = _name(path)
    try:
        metadata, arrays = read(path)
        if METADATA_KEY not in metadata:
            raise Damage(f"its metadata has no '{METADATA_KEY}'")
        words = parse_json(metadata[METADATA_KEY], f"its '{METADATA_KEY}'")
        if not isinstance(words, dict) or not isinstance(words.get("schema"), str):
            raise Damage(f"its '{METADATA_KEY}' states no schema")
    except FileNotFoundError:
        raise LeoError(f"Trace '{name}' does not exist: check the path.") from None
    except Damage as damage:
        raise LeoError(f"'{name}' is no trace or is damaged: {damage}; record it or copy it again.") from None
    except OSError as error:
        raise LeoError(f"Trace '{name}' cannot be read ({error.strerror}): check the path and its permissions.") from None
    if _version(words["schema"])[0] != _version(SCHEMA)[0]:
        schema = terminal_text(words["schema"], 20)
        raise LeoError(f"'{name}' follows trace schema {schema}; this version reads {_version(SCHEMA)[0]}.x: update the studio.")
    return words, arrays, metadata


def _name(path: str | Path) -> str:
    return terminal_text(Path(path).name, 120)


def _assemble(words: dict, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> Trace:
    """The trace of a file that passed the rules of structure."""
    copies = [arrays[f"pictures.{i}"].tobytes() if f"pictures.{i}" in arrays else None for i in range(len(words["pictures"]))]
    pictures = tuple(
        PictureTrace(p["width"], p["height"], copy, p.get("media_type", "image/jpeg")) for p, copy in zip(words["pictures"], copies, strict=True)
    )
    r = words["routing"]
    decode = base64.b64decode
    return Trace(
        question=words["question"], answer=words["answer"], finished=words["finished"], pictures=pictures,
        experts=tuple(_expert(index, one, pictures, arrays) for index, one in enumerate(words["experts"])),
        routing=RoutingTrace(tuple(r["layers"]), *(_single(arrays[f"routing.{name}"]) for name in ROUTING), r["general"], r["evaluated"], r["top_k"]),
        token_bytes=tuple(map(decode, words["token_bytes"])), top_bytes=tuple(tuple(map(decode, row)) for row in words["top_bytes"]),
        **{name: _single(arrays[name]) if arrays[name].dtype.kind == "f" else arrays[name].astype(np.int32) for name in POSITIONS},
        **{name: words.get(name, {}) for name in FREE}, unknown=unknown_of(words, arrays, {k: v for k, v in metadata.items() if k != METADATA_KEY}),
    )  # fmt: skip


def _expert(index: int, one: dict, pictures: tuple[PictureTrace, ...], arrays: dict[str, np.ndarray]) -> ExpertTrace:
    picture = pictures[one["picture"]]
    polygons, placed, seen = (arrays[f"experts.{index}.{name}"] for name in PLACES)
    grid = tuple(one["grid"]) if one.get("grid") else None
    geometry = Geometry(picture.width, picture.height, polygons.astype(np.float64), placed.astype(bool), seen.astype(np.float64), grid)
    terms = {name: _single(arrays[f"experts.{index}.{name}"]) for name in TERMS if f"experts.{index}.{name}" in arrays}
    return ExpertTrace(one["name"], one["domain"], one["picture"], geometry, **terms)


def _single(value: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # doubles beyond single precision become infinite, which validation reports
        return value.astype(np.float32)
