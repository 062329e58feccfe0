"""A trace as what the page needs: plain values and typed arrays in base64, safe to stand inside a script element."""

import base64
import json
import math
import re

import numpy as np

from leo_core.geometry import Geometry
from leo_core.tracing.trace import ROLES, ExpertTrace, PictureTrace, Trace
from studio.figures.numbers import likeness
from studio.figures.picture_ground import has_content
from studio.figures.positions import layer_labels, trouble
from studio.figures.routing_map import FAINT
from studio.figures.style import DIVERGING, OKABE_ITO, SEQUENTIAL
from studio.figures.token_text import readable

TERMS = ("weights", "query", "self_", "cross", "text")
KINDS = {"float16": "f2", "float32": "f4", "uint8": "u1", "int32": "i4"}
_ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def palette() -> dict:
    """Colours of the figures, so that page and figures cannot differ."""
    return {"categories": OKABE_ITO, "sequential": SEQUENTIAL, "diverging": DIVERGING, "faint": FAINT}


def payload(trace: Trace, name: str) -> dict:
    """One run. name: what to call it in the page (a file's name, for example)."""
    routing = trace.routing
    start = int(routing.general)
    return {
        "name": name, "question": trace.question, "answer": trace.answer, "finished": trace.finished, "roleNames": ROLES,
        "pictures": [_picture(one) for one in trace.pictures], "experts": [_expert(one) for one in trace.experts],
        "layers": layer_labels(trace), "layerNames": routing.layers, "general": routing.general, "evaluated": routing.evaluated,
        "topK": routing.top_k, "routeTrouble": trouble(trace, len(trace.roles)), "probability": _half(routing.probability),
        "coefficient": _half(routing.coefficient), "norm": _half(routing.norm[..., start:]),
        "generalNorm": _half(routing.norm[..., 0]) if routing.general and routing.norm.shape[-1] else None,
        "bytes": [base64.b64encode(token).decode("ascii") for token in trace.token_bytes], "labels": [readable(token) for token in trace.token_bytes],
        "ids": _array(np.asarray(trace.token_ids, dtype=np.int32)), "roles": _array(np.asarray(trace.roles, dtype=np.uint8)),
        "pictureOf": _array(np.asarray(trace.picture_index, dtype=np.int32)), "promptLength": trace.prompt_length,
        "chosen": _array(np.asarray(trace.probability, dtype=np.float32)), "topLabels": [[readable(t) for t in row] for row in trace.top_bytes],
        "topIds": np.asarray(trace.top_ids).tolist(), "top": _array(np.asarray(trace.top_probability, dtype=np.float32)),
        "settings": trace.settings, "provenance": trace.provenance, "timings": trace.timings, "analyses": trace.analyses,
    }  # fmt: skip


def script_json(value: object) -> str:
    """JSON that no text inside can end or extend: ASCII only, with < > & as escapes. Not-a-number becomes null."""
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _ESCAPES[found.group()], text)


def _picture(picture: PictureTrace) -> dict:
    source = f"data:{picture.media_type};base64,{base64.b64encode(picture.content).decode('ascii')}" if has_content(picture) else None
    return {"width": picture.width, "height": picture.height, "source": source}


def _expert(one: ExpertTrace) -> dict:
    arrays = {name.strip("_"): None if getattr(one, name) is None else _half(getattr(one, name)) for name in TERMS}
    return {"name": one.name, "domain": one.domain, "picture": one.picture, **_geometry(one.geometry), "likeness": likeness(one.weights), **arrays}


def _geometry(geometry: Geometry) -> dict:
    """Corners in pixels of the original picture, as fp32 like in a trace file; areas and the unseen share are Geometry's own."""
    return {
        "polygons": _array(geometry.polygons.astype(np.float32)), "placed": _array(geometry.placed.astype(np.uint8)),
        "seen": _array(geometry.seen.astype(np.float32)), "unseen": geometry.unseen_share(), "grid": geometry.grid,
        "areas": _array(geometry.areas.astype(np.float32)),
    }  # fmt: skip


def _half(values: np.ndarray) -> dict:
    """fp16 where its range holds the values, by the rule of the trace file: the page shows what the file holds."""
    values = np.asarray(values, dtype=np.float32)
    return _array(values.astype(np.float16) if np.all(np.abs(values[np.isfinite(values)]) < 60000) else values)


def _array(values: np.ndarray) -> dict:
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    return {"kind": KINDS[values.dtype.name], "shape": values.shape, "data": base64.b64encode(little.tobytes()).decode("ascii")}


def _finite(value: object) -> object:
    """The same value in JSON's own types; anything else as its text."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    if isinstance(value, np.generic):
        return _finite(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
