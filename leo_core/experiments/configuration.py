"""One experiment as data: what is built, where it starts, what learns. Two with the same content are the same run."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.errors import InputError

COTR = ReducerConfig(tokens=16, projection=64, similarity="cosine", query_init="grid", position="similarity")
"""The lab's reference reducer: the options of the embedded model."""
MMOE = MMoEConfig(rank=8, alpha=8.0, router_width=16)
"""The lab's reference MMoE: E = 3, k = 1, general expert, router on visual, text and hidden state, switch balance."""
TERMS = ("query", "self", "cross", "text")
"""CoTR's terms in the order of its temperatures."""
LOOKS = ("terms", "experts")
"""What may be looked at besides: terms switched off at inference; every subset of vision experts with Shapley values."""

LATER = {"text_start": False}
"""Fields that came after the first results, with the value that those had."""


@dataclass(frozen=True)
class Training:
    """Of stage 3, the same for all runs of a grid. batch: questions a step; dropout: of vision experts."""

    steps: int = 200
    batch: int = 64
    reducer_rate: float = 5e-3
    projector_rate: float = 2e-3
    mmoe_rate: float = 4e-3
    warmup: int = 10
    dropout: float = 0.1


@dataclass(frozen=True)
class Configuration:
    """name: readable, not part of the identity. start: a key of leo_core.experiments.lab.STARTS.

    without: CoTR's terms that are absent in training and after (cosine similarity only). query_std: of randomly started
    queries, None = scaled so that the QUERY term has the standard deviation 1. blind: no vision expert ever delivers
    anything but its mean. times: stage 3 is so many times longer. text_start: the TEXT term
    starts from a regression of questions onto what they name (leo_core.training.text_start). looks: see LOOKS.
    """

    name: str = field(compare=False)
    reducer: ReducerConfig = COTR
    mmoe: MMoEConfig = MMOE
    start: str = "stage2"
    train_projector: bool = True
    without: tuple[str, ...] = ()
    query_std: float | None = None
    blind: bool = False
    times: int = 1
    text_start: bool = False
    looks: tuple[str, ...] = ()

    def __post_init__(self):
        for one in self.without:
            if one not in TERMS:
                raise InputError(f"CoTR has no term '{one}'; its terms are {', '.join(TERMS)}.")
        if self.without and (self.reducer.kind, self.reducer.similarity) != ("cotr", "cosine"):
            raise InputError("A term can be absent in CoTR with cosine similarity only: its temperature is then zero.")

    def content(self) -> dict:
        """Everything but the name, as plain values. Fields of LATER at their default are left out: older results stay valid."""
        return {key: value for key, value in asdict(self).items() if key != "name" and (key not in LATER or value != LATER[key])}

    def identity(self, training: Training) -> str:
        """12 hexadecimal digits of what decides the result, apart from the seed and the data."""
        return identity_of({**self.content(), "training": asdict(training)})


def identity_of(content: dict | Sequence) -> str:
    """The first 12 digits of the sha256 of a canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
