"""Reading a safetensors file that a stranger made: everything is checked against the file's size before memory is taken.

The layout (https://github.com/huggingface/safetensors): 8 bytes, the header's length as a little-endian unsigned number;
the header, a JSON object from tensor names to dtype, shape and data_offsets, with `__metadata__` a map of strings; the data.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leo_core.errors import LeoError

MOST_BYTES = 512 * 1024**2
"""Largest file."""
MOST_HEADER = 32 * 1024**2
"""Largest header: names, shapes and all text of a run."""
MOST_VALUES = 64 * 1024**2
"""Most values in all tensors together."""
MOST_TENSORS = 4096
MOST_AXES = 8
DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
"""Number types of a trace file, as numpy writes them."""


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: first and last byte (exclusive) count from the start of the file."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """What a file declares, checked: metadata (strings) and entries in the order of their data."""

    metadata: dict[str, str]
    entries: tuple[Entry, ...]


class Damage(LeoError):
    """What is wrong with a file and where, without its name: a part of a sentence."""


def read_tensors(path: str | Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(metadata, arrays by name). Raises Damage for anything but a whole safetensors file within the limits; OSError."""
    with open(path, "rb") as file:
        header = _header(file)
        arrays = {}
        for entry in header.entries:
            file.seek(entry.start)
            data = bytearray(entry.stop - entry.start)  # not bytes: arrays made of those could not be written to
            if (there := file.readinto(data)) != len(data):
                raise Damage(f"tensor {entry.name[:80]!r} ends at byte {entry.start + there} instead of {entry.stop}")
            arrays[entry.name] = np.frombuffer(data, dtype=entry.dtype).reshape(entry.shape)
    return header.metadata, arrays


def read_header(path: str | Path) -> Header:
    """What the file declares, without its data. Raises Damage and OSError."""
    with open(path, "rb") as file:
        return _header(file)


def _header(file) -> Header:
    size = file.seek(0, 2)
    file.seek(0)
    if size > MOST_BYTES:
        raise Damage(f"it has {size:,} bytes, and at most {MOST_BYTES:,} are allowed")
    if size < 8:
        raise Damage(f"it ends at byte {size}, within the 8 bytes that state the header's length")
    length = int.from_bytes(file.read(8), "little")
    if length > min(MOST_HEADER, size - 8):
        raise Damage(f"bytes 0 to 8 announce a header of {length:,} bytes, and {min(MOST_HEADER, size - 8):,} are there or allowed")
    words = parse_json(file.read(length), "the header", 8)
    if not isinstance(words, dict):
        raise Damage("the header (byte 8) is no JSON object")
    metadata = words.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Damage("'__metadata__' in the header is no map of strings")
    if len(words) > MOST_TENSORS:
        raise Damage(f"it declares {len(words):,} tensors, and at most {MOST_TENSORS:,} are allowed")
    entries = sorted((_entry(name, one, 8 + length, size) for name, one in words.items()), key=lambda entry: (entry.start, entry.stop))
    _check_layout(entries, 8 + length, size)
    return Header(metadata, tuple(entries))


def parse_json(data: bytes | str, what: str, start: int = 0):
    """JSON without what RFC 8259 leaves open: no NaN, no key twice, no half surrogates. Raises Damage with the byte or character."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        parsed = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
        if "\\u" in text:  # only escapes can smuggle in half a surrogate pair
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
        return parsed
    except UnicodeDecodeError as error:
        raise Damage(f"{what} is no UTF-8 at byte {start + error.start}") from None
    except UnicodeEncodeError:
        raise Damage(f"{what} holds half a surrogate pair, which is no text") from None
    except json.JSONDecodeError as error:
        raise Damage(f"{what} is no JSON at {'byte' if isinstance(data, bytes) else 'character'} {start + error.pos} ({error.msg})") from None
    except RecursionError:
        raise Damage(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise Damage(f"{what} is no plain JSON ({str(error)[:80]})") from None


def _once(pairs: list[tuple]) -> dict:
    if len(result := dict(pairs)) != len(pairs):
        raise ValueError("one name is there twice")
    return result


def _no_constant(name: str):
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("a number is too large")
    return value


def _entry(name: str, one, first: int, size: int) -> Entry:
    label = f"tensor {name[:80]!r}"
    if not isinstance(one, dict) or not {"dtype", "shape", "data_offsets"} <= set(one):
        raise Damage(f"{label} lacks dtype, shape or data_offsets")
    dtype, shape, offsets = one["dtype"], one["shape"], one["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Damage(f"{label} has the type {str(dtype)[:20]!r}; allowed are {', '.join(DTYPES)}")
    if not _counts(shape) or len(shape) > MOST_AXES or math.prod(size or 1 for size in shape) > MOST_VALUES:
        raise Damage(f"{label} has no shape of at most {MOST_AXES} whole numbers and {MOST_VALUES:,} values")
    if not _counts(offsets) or len(offsets) != 2:
        raise Damage(f"{label} has no pair of data_offsets")
    kind = np.dtype(DTYPES[dtype])
    start, stop = first + offsets[0], first + offsets[1]
    if not start <= stop <= size:
        raise Damage(f"{label} lies at bytes {start} to {stop}, and the file has {size}")
    if (needed := math.prod(shape) * kind.itemsize) != stop - start:
        raise Damage(f"{label} of shape {shape} and type {dtype} needs {needed} bytes, and bytes {start} to {stop} are its own")
    return Entry(name, kind, tuple(shape), start, stop)


def _counts(values) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**48 for value in values)


def _check_layout(entries: list[Entry], first: int, size: int) -> None:
    values = sum(math.prod(entry.shape) for entry in entries)
    if values > MOST_VALUES:
        raise Damage(f"its tensors hold {values:,} values, and at most {MOST_VALUES:,} are allowed")
    reached = first
    for entry in entries:
        if entry.start != reached:
            raise Damage(f"tensor {entry.name[:80]!r} starts at byte {entry.start} instead of {reached}: tensors follow each other without gaps")
        reached = entry.stop
    if reached != size:
        raise Damage(f"{size - reached} bytes from byte {reached} on belong to no tensor")
