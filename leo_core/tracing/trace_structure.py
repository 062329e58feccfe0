"""What a trace file must hold to be opened: the rules of structure in TRACE_FORMAT.md. Only what they pass is made a Trace."""

import base64
import binascii

import numpy as np

from leo_core.roles import ROLES
from leo_core.tracing.checks import BYTES, FLAG, FLOAT, INT, Broken, Checks

MOST_PIXELS = 1_000_000
"""Largest width and height of a picture."""
MOST_COORDINATE = 100 * MOST_PIXELS
MOST_DEPTH = 32
"""Deepest nesting of objects and lists in the JSON."""
MEDIA_TYPES = ("image/jpeg", "image/png", "image/webp")
MOST_ID = 2**31 - 1

TERMS = {"weights": 2, "query": 2, "self_": 1, "cross": 1, "text": 1}
PLACES = ("polygons", "placed", "seen")
POSITIONS = ("token_ids", "roles", "picture_index", "probability", "top_ids", "top_probability")
ROUTING = ("probability", "coefficient", "norm")
FREE = ("settings", "provenance", "timings", "analyses")

FIELDS = {
    "": {
        "schema": str, "question": str, "answer": str, "finished": bool, "pictures": list, "experts": list, "routing": dict,
        "token_bytes": list, "top_bytes": list, **dict.fromkeys(FREE, dict),
    },
    "pictures": {"width": int, "height": int, "media_type": str},
    "experts": {"name": str, "domain": str, "picture": int, "grid": object},
    "routing": {"layers": list, "general": bool, "evaluated": bool, "top_k": int},
}  # fmt: skip
"""Known fields of the JSON by place; those in OPTIONAL may be missing."""
OPTIONAL = {*FREE, "media_type", "grid"}


def structure(words, arrays: dict[str, np.ndarray]) -> list[Broken]:
    """Every broken rule, in the order of the fields; empty for a file that can be opened. words: the parsed JSON."""
    checks = Checks(arrays)
    if deep(words):
        checks.say("nesting", "leo_trace", f"objects and lists lie in each other more than {MOST_DEPTH} times")
    elif checks.fields(words, FIELDS[""], OPTIONAL, ""):
        for index, one in enumerate(words["pictures"]):
            _picture(checks, one, index)
        seen: set = set()
        for index, one in enumerate(words["experts"]):
            _expert(checks, one, f"experts.{index}", len(words["pictures"]), seen)
        _positions(checks, words)
        _routing(checks, words["routing"])
        if not checks.broken:
            _answer(checks)
    return checks.broken


def deep(value, most: int = MOST_DEPTH) -> bool:
    """Whether objects and lists lie in each other more than `most` times."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most < 0 or any(deep(one, most - 1) for one in inner)


def _picture(checks: Checks, one, index: int) -> None:
    place = f"pictures.{index}"
    checks.tensor(place, BYTES, f"bytes of {place}", optional=True)
    if not checks.fields(one, FIELDS["pictures"], OPTIONAL, f"{place}."):
        return
    if not all(1 <= one[side] <= MOST_PIXELS for side in ("width", "height")):
        checks.say("range", place, f"width and height must be from 1 to {MOST_PIXELS:,} pixels")
    if one.get("media_type", MEDIA_TYPES[0]) not in MEDIA_TYPES:
        checks.say("media-type", f"{place}.media_type", f"it must be one of {', '.join(MEDIA_TYPES)}")


def _expert(checks: Checks, one, place: str, pictures: int, seen: set) -> None:
    if not checks.fields(one, FIELDS["experts"], OPTIONAL, f"{place}."):
        return
    if not 0 <= one["picture"] < pictures:
        checks.say("range", f"{place}.picture", f"pictures are numbered from 0, and there are {pictures}")
        return
    if (key := (one["name"], one["picture"])) in seen:
        checks.say("expert-twice", place, "this vision expert is there twice for one picture")
    seen.add(key)
    # v is one number for a picture: output token j is the same token for all its experts
    axes = (f"v of picture {one['picture']}", f"n of {place}")
    for term, count in TERMS.items():
        checks.tensor(f"{place}.{term}", FLOAT, *axes[-count:], optional=term != "weights")
    for name, axis in (("polygons", axes[1]), ("seen", f"regions of {place}")):
        value = checks.tensor(f"{place}.{name}", FLOAT, axis, 4, 2)
        checks.within(f"{place}.{name}", value, -MOST_COORDINATE, MOST_COORDINATE)
    checks.tensor(f"{place}.placed", FLAG, axes[1])
    grid, tokens = one.get("grid"), checks.sizes.get(axes[1], (None, ""))[0]
    if grid is None:
        return
    if not (isinstance(grid, list) and len(grid) == 2 and all(type(side) is int and side > 0 for side in grid)):
        checks.say("grid", f"{place}.grid", "it is neither null nor two whole numbers [rows, columns]")
    elif tokens is not None and grid[0] * grid[1] != tokens:
        checks.say("grid", f"{place}.grid", f"its cells do not number {tokens}, the expert's tokens")


def _positions(checks: Checks, words: dict) -> None:
    tensor = checks.tensor
    checks.within("token_ids", tensor("token_ids", INT, "s"), 0, MOST_ID)
    checks.within("roles", tensor("roles", INT, "s"), 0, len(ROLES) - 1)
    checks.within("picture_index", tensor("picture_index", INT, "s"), -1, len(words["pictures"]) - 1)
    tensor("probability", FLOAT, "a")
    checks.within("top_ids", tensor("top_ids", INT, "a", "k"), 0, MOST_ID)
    tensor("top_probability", FLOAT, "a", "k")
    checks.size("s", len(words["token_bytes"]), "token_bytes")
    _base64(checks, words["token_bytes"], "token_bytes")
    checks.size("a", len(words["top_bytes"]), "top_bytes")
    for index, row in enumerate(words["top_bytes"]):
        if not isinstance(row, list):
            checks.say("field", f"top_bytes.{index}", "it is not a list")
        elif checks.size("k", len(row), f"top_bytes.{index}"):
            _base64(checks, row, f"top_bytes.{index}")


def _base64(checks: Checks, texts: list, place: str) -> None:
    for index, text in enumerate(texts):
        try:
            base64.b64decode(text, validate=True)
        except (TypeError, ValueError, binascii.Error):
            checks.say("base64", f"{place}.{index}", "it is no base64 text")


def _routing(checks: Checks, routing) -> None:
    if not checks.fields(routing, FIELDS["routing"], OPTIONAL, "routing."):
        return
    if not all(isinstance(name, str) for name in routing["layers"]):
        checks.say("field", "routing.layers", "it is not a list of text")
    checks.size("l", len(routing["layers"]), "routing.layers")
    for name in ROUTING[:2]:
        checks.tensor(f"routing.{name}", FLOAT, "l", "read", "e")
    if "e" in checks.sizes:
        checks.tensor("routing.norm", FLOAT, "l", "read", checks.sizes["e"][0] + int(routing["general"]))
    if not 0 <= routing["top_k"] <= MOST_ID:
        checks.say("range", "routing.top_k", "it must be at least 0")


def _answer(checks: Checks) -> None:
    """Every answer token has a position that predicted it, and that was read."""
    positions, read, answer = (checks.sizes[axis][0] for axis in ("s", "read", "a"))
    if not answer <= positions:
        checks.say("positions", "probability", f"{answer} answer tokens are more than all {positions} positions")
    if not positions - 1 <= read <= positions:
        checks.say("positions", "routing.probability", f"{read} positions were read; of {positions} it must be all, or all but the last")
