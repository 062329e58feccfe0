"""Fields of newer minor versions: found when a file is read, put back in their places when it is written."""

import numpy as np

from leo_core.tracing.trace import Unknown
from leo_core.tracing.trace_structure import FIELDS, PLACES, POSITIONS, ROUTING, TERMS


def unknown_of(words: dict, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> Unknown:
    """What of a file this version does not know. words: JSON that passed the rules of structure."""
    known = {*POSITIONS, *(f"routing.{name}" for name in ROUTING)}
    known |= {f"experts.{index}.{name}" for index in range(len(words["experts"])) for name in (*TERMS, *PLACES)}
    known |= {f"pictures.{index}" for index in range(len(words["pictures"]))}
    further = {(*place, name): value for place, found, kind in _objects(words) for name, value in found.items() if name not in FIELDS[kind]}
    return Unknown(words["schema"], further, {name: value for name, value in arrays.items() if name not in known}, metadata)


def put_back(words: dict, further: dict[tuple, object]) -> dict:
    """`words`, changed in place, with unknown fields where they were; those of an entry that is gone are gone too."""
    found = {place: one for place, one, _ in _objects(words)}
    for (*place, name), value in further.items():
        if tuple(place) in found:
            found[tuple(place)][name] = value
    return words


def _objects(words: dict) -> list[tuple[tuple, dict, str]]:
    """(place, object, kind in FIELDS) of every object that may hold unknown fields."""
    listed = [((kind, index), one, kind) for kind in ("pictures", "experts") for index, one in enumerate(words[kind])]
    return [((), words, ""), (("routing",), words["routing"], "routing"), *listed]
