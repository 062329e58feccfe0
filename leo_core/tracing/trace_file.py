"""A trace on disk: one safetensors file, arrays in fp16 or fp32, the rest JSON in its metadata. Opens without a model.

Layout (schema 1): metadata key `leo_trace` holds the JSON; arrays are named `experts.I.FIELD` (I counts the entries of
`experts` in the JSON), `routing.FIELD`, `token_ids`, `roles`, `picture_index`, `probability`, `top_ids`,
`top_probability`, and `pictures.I` with the bytes of a picture's copy (uint8).
"""

import base64
import json
import os
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from leo_core.errors import LeoError
from leo_core.files import atomic_path
from leo_core.geometry import Geometry
from leo_core.tracing.trace import SCHEMA, ExpertTrace, PictureTrace, RoutingTrace, Trace

MOST_BYTES = 512 * 1024**2
"""Larger files are refused before anything is read."""

_TERMS = ("weights", "query", "self_", "cross", "text")
_ROUTING = ("probability", "coefficient", "norm")
_POSITIONS = ("token_ids", "roles", "picture_index", "probability", "top_ids", "top_probability")


def save_trace(trace: Trace, path: str | Path, pictures: bool = True) -> None:
    """Write one run, atomically. pictures=False leaves the pictures' copies out (their sizes stay)."""
    arrays: dict[str, np.ndarray] = {}
    for index, expert in enumerate(trace.experts):
        for name in _TERMS:
            value = getattr(expert, name)
            if value is not None:
                arrays[f"experts.{index}.{name}"] = _half(value)
        arrays[f"experts.{index}.polygons"] = expert.geometry.polygons.astype(np.float32)
        arrays[f"experts.{index}.placed"] = expert.geometry.placed.astype(np.uint8)
        arrays[f"experts.{index}.seen"] = expert.geometry.seen.astype(np.float32)
    for name in _ROUTING:
        arrays[f"routing.{name}"] = _half(getattr(trace.routing, name))
    for name in _POSITIONS:
        value = np.asarray(getattr(trace, name))
        arrays[name] = value.astype(np.float32) if value.dtype.kind == "f" else value.astype(np.int32)
    for index, picture in enumerate(trace.pictures):
        if pictures and picture.content is not None:
            arrays[f"pictures.{index}"] = np.frombuffer(picture.content, dtype=np.uint8)
    text = json.dumps(_words(trace), ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as temporary:
        save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, temporary, metadata={"leo_trace": text})
        os.chmod(temporary, 0o644)


def _half(value: np.ndarray) -> np.ndarray:
    """fp16 where it holds the value: weights and probabilities do; scores beyond its range stay fp32."""
    value = np.asarray(value, dtype=np.float32)
    return value.astype(np.float16) if np.all(np.abs(value[np.isfinite(value)]) < 60000) else value


def _words(trace: Trace) -> dict:
    grid = lambda geometry: list(geometry.grid) if geometry.grid else None  # noqa: E731
    return {
        "schema": SCHEMA,
        "question": trace.question,
        "answer": trace.answer,
        "finished": trace.finished,
        "pictures": [{"width": p.width, "height": p.height, "media_type": p.media_type} for p in trace.pictures],
        "experts": [{"name": e.name, "domain": e.domain, "picture": e.picture, "grid": grid(e.geometry)} for e in trace.experts],
        "routing": {
            "layers": list(trace.routing.layers), "general": trace.routing.general,
            "evaluated": trace.routing.evaluated, "top_k": trace.routing.top_k,
        },
        "token_bytes": [_text(token) for token in trace.token_bytes],
        "top_bytes": [[_text(token) for token in row] for row in trace.top_bytes],
        "settings": trace.settings, "provenance": trace.provenance, "timings": trace.timings, "analyses": trace.analyses,
    }  # fmt: skip


def _text(token: bytes) -> str:
    return base64.b64encode(token).decode("ascii")


def load_trace(path: str | Path) -> Trace:
    """Read one run. Raises LeoError with a sentence for a file that is missing, damaged, too large or of a newer schema."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LeoError(f"'{path.name}' is larger than {MOST_BYTES // 1024**2} MB: it is no trace of one run.")
        with safe_open(path, "np") as file:
            words = json.loads((file.metadata() or {})["leo_trace"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise LeoError(f"Trace '{path.name}' does not exist: check the path.") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise LeoError(f"'{path.name}' is no trace or is damaged ({type(error).__name__}): record it again.") from None
    if str(words.get("schema", "")).split(".")[0] != SCHEMA.split(".")[0]:
        raise LeoError(f"'{path.name}' follows trace schema {words.get('schema')}; this version reads {SCHEMA.split('.')[0]}.x: update the studio.")
    try:
        return _assemble(words, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise LeoError(f"Trace '{path.name}' lacks or misshapes a field ({error}): record it again.") from None


def _assemble(words: dict, arrays: dict[str, np.ndarray]) -> Trace:
    pictures = tuple(
        PictureTrace(p["width"], p["height"], arrays[f"pictures.{i}"].tobytes() if f"pictures.{i}" in arrays else None, p["media_type"])
        for i, p in enumerate(words["pictures"])
    )
    experts = tuple(_expert(index, one, pictures, arrays) for index, one in enumerate(words["experts"]))
    r = words["routing"]
    routing = RoutingTrace(
        tuple(r["layers"]), *(arrays[f"routing.{name}"].astype(np.float32) for name in _ROUTING), r["general"], r["evaluated"], r["top_k"]
    )
    decode = base64.b64decode
    return Trace(
        question=words["question"], answer=words["answer"], finished=words["finished"], pictures=pictures, experts=experts, routing=routing,
        token_bytes=tuple(map(decode, words["token_bytes"])), top_bytes=tuple(tuple(map(decode, row)) for row in words["top_bytes"]),
        **{name: arrays[name] for name in _POSITIONS},
        **{name: words[name] for name in ("settings", "provenance", "timings", "analyses")},
    )  # fmt: skip


def _expert(index: int, one: dict, pictures: tuple[PictureTrace, ...], arrays: dict[str, np.ndarray]) -> ExpertTrace:
    picture = pictures[one["picture"]]
    own = {name: arrays[f"experts.{index}.{name}"] for name in (*_TERMS, "polygons", "placed", "seen") if f"experts.{index}.{name}" in arrays}
    geometry = Geometry(
        picture.width, picture.height, own.pop("polygons").astype(np.float64), own.pop("placed").astype(bool),
        own.pop("seen").astype(np.float64), tuple(one["grid"]) if one["grid"] else None,
    )  # fmt: skip
    return ExpertTrace(one["name"], one["domain"], one["picture"], geometry, **{name: value.astype(np.float32) for name, value in own.items()})
