"""One run as one value: what the reducer weighed, where every token was routed, and what came out. No torch needed.

Axis letters as in leo_core: s decoder positions, l layers, e routed experts, g = general + e, v reduced tokens, n source
tokens, a answer tokens, k candidates. n generated tokens need prompt + n - 1 positions: the last one is never read.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from leo_core.geometry import Geometry
from leo_core.roles import ROLES as ROLES  # names of the codes in `Trace.roles`, for readers of traces

SCHEMA = "1.0"
"""Version of the meaning of the fields; the first number changes when old readers would misread a file."""


@dataclass(frozen=True)
class ExpertTrace:
    """What CoTR did with one vision expert on one picture. Absent experts have weights of zero.

    query differs between output tokens; self_, cross and text are one row. Terms are None for reducers without scores.
    """

    name: str
    domain: str
    picture: int
    geometry: Geometry
    weights: Float[np.ndarray, "v n"]
    query: Float[np.ndarray, "v n"] | None = None
    self_: Float[np.ndarray, "n"] | None = None
    cross: Float[np.ndarray, "n"] | None = None
    text: Float[np.ndarray, "n"] | None = None


@dataclass(frozen=True)
class RoutingTrace:
    """Routing of every layer and position that was computed. evaluated: False where there was no picture to route by.

    probability: the router's softmax. coefficient: what really multiplied each routed expert's output. norm: |c B A x| /
    |f_ORI(x)| for the general expert (first, where there is one) and each routed expert.
    """

    layers: tuple[str, ...]
    probability: Float[np.ndarray, "l s e"]
    coefficient: Float[np.ndarray, "l s e"]
    norm: Float[np.ndarray, "l s g"]
    general: bool
    evaluated: bool
    top_k: int


@dataclass(frozen=True)
class PictureTrace:
    """A picture's original size and a bounded copy of it (None when it was left out)."""

    width: int
    height: int
    content: bytes | None = field(default=None, repr=False)
    media_type: str = "image/jpeg"


@dataclass(frozen=True)
class Unknown:
    """What a file of a newer minor version held beyond the fields below: not understood, and written back as it was.

    schema: the file's version. words: place in the JSON, such as ("experts", 0, "colour"), and the value there. arrays: by name.
    metadata: further entries of the file's metadata.
    """

    schema: str = SCHEMA
    words: dict[tuple, object] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """One question, its run and its answer.

    token_ids, roles, picture_index: every position of prompt and answer (s + 1 when an answer's last token was not read).
    token_bytes: the exact bytes of each token. probability: of each answer token when it was chosen; top_ids and
    top_probability: the k likeliest candidates there. analyses: results of causal tests, by name. settings, provenance,
    timings (seconds): plain values. unknown: fields of a newer minor version, kept for saving.
    """

    question: str
    answer: str
    pictures: tuple[PictureTrace, ...]
    experts: tuple[ExpertTrace, ...]
    routing: RoutingTrace
    token_ids: Int[np.ndarray, "s"]
    token_bytes: tuple[bytes, ...]
    roles: Int[np.ndarray, "s"]
    picture_index: Int[np.ndarray, "s"]
    probability: Float[np.ndarray, "a"]
    top_ids: Int[np.ndarray, "a k"]
    top_bytes: tuple[tuple[bytes, ...], ...]
    top_probability: Float[np.ndarray, "a k"]
    finished: bool
    settings: dict = field(default_factory=dict)
    provenance: dict = field(default_factory=dict)
    timings: dict = field(default_factory=dict)
    analyses: dict = field(default_factory=dict)
    unknown: Unknown = field(default_factory=Unknown, repr=False)

    @property
    def prompt_length(self) -> int:
        """Positions before the answer's first token."""
        return int(len(self.roles) - len(self.probability))

    @property
    def read(self) -> Bool[np.ndarray, "s"]:
        """Which positions the decoder read, and so has routes for: all but the last generated token."""
        return np.arange(len(self.roles)) < self.routing.probability.shape[1]

    def predicting(self, answer_token: int) -> int:
        """The position that predicted an answer token (0-based): the one before it. Its route is the token's route."""
        return self.prompt_length + answer_token - 1

    def of_expert(self, name: str, picture: int = 0) -> ExpertTrace:
        """One expert's part of one picture. Raises KeyError when there is none."""
        for one in self.experts:
            if one.name == name and one.picture == picture:
                return one
        raise KeyError(f"The trace holds no vision expert '{name}' for picture {picture}.")

    @property
    def expert_names(self) -> tuple[str, ...]:
        """Vision experts in order."""
        return tuple(dict.fromkeys(one.name for one in self.experts))
