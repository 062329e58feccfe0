"""Configuration of LEO-Mini: every reading of the papers is a field here, our default first."""

from dataclasses import asdict, dataclass, field
from math import isqrt
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from leo_core.errors import InputError


def _one_of(owner: str, name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed:
        raise InputError(f"{owner}.{name} is {value!r}; allowed are {', '.join(map(repr, allowed))}.")


def squarest(count: int) -> tuple[int, int]:
    """(rows, columns) with rows * columns = count and rows as near to columns as can be, rows <= columns."""
    rows = next(rows for rows in range(isqrt(count), 0, -1) if count % rows == 0)
    return rows, count // rows


@dataclass(frozen=True)
class ReducerConfig:
    """The token reducer. Readings A to C of the paper's CoTR are combinations of `pool`, `scale` and `similarity`.

    kind: cotr, keep_all, average, random or resampler. tokens: N^V (keep_all: rows * columns of the common grid).
    projection: shared width of Qh, Ih and Th. pool: mean or sum over tokens in SELF, CROSS and TEXT.
    scale: sqrt_d (1/sqrt(d_i) on all), sqrt_proj (1/sqrt(projection) on all), d_shared (1/d_i on the shared terms only).
    similarity: dot (the paper's), or cosine with one learned temperature per term, started at `temperatures` (query,
        self, cross, text); scale has no effect then. query_init: random (scaled QUERY term of std 1) or grid (queries
        start as the position codes of a regular grid, their projection as that of the tokens). position: none,
        similarity, or token (in the similarity and carried into the output). grid: the common grid of the reducers that
        need one. heads: of the resampler.
    """

    kind: str = "cotr"
    tokens: int = 16
    projection: int = 128
    pool: str = "mean"
    scale: str = "sqrt_d"
    similarity: str = "dot"
    temperatures: tuple[float, float, float, float] = (20.0, 2.0, 2.0, 2.0)
    query_init: str = "random"
    position: str = "none"
    position_amplitude: float = 0.6
    grid: tuple[int, int] = (8, 8)
    heads: int = 4

    def __post_init__(self):
        _one_of("reducer", "kind", self.kind, ("cotr", "keep_all", "average", "random", "resampler"))
        _one_of("reducer", "pool", self.pool, ("mean", "sum"))
        _one_of("reducer", "scale", self.scale, ("sqrt_d", "sqrt_proj", "d_shared"))
        _one_of("reducer", "similarity", self.similarity, ("dot", "cosine"))
        _one_of("reducer", "query_init", self.query_init, ("random", "grid"))
        _one_of("reducer", "position", self.position, ("none", "similarity", "token"))
        object.__setattr__(self, "temperatures", tuple(self.temperatures))
        object.__setattr__(self, "grid", tuple(self.grid))
        if self.tokens < 1:
            raise InputError(f"reducer.tokens is {self.tokens}; a reducer must deliver at least 1 token.")
        if self.kind == "keep_all" and self.tokens != self.grid[0] * self.grid[1]:
            raise InputError(f"keep_all delivers {self.grid[0]} x {self.grid[1]} tokens, but reducer.tokens is {self.tokens}.")
        if self.kind == "random" and self.tokens > self.grid[0] * self.grid[1]:
            raise InputError(f"random choice cannot take {self.tokens} tokens from a grid of {self.grid[0]} x {self.grid[1]}.")


@dataclass(frozen=True)
class MMoEConfig:
    """Routed LoRA experts in every mlp.down_proj (Eq. 8); num_experts = 0 and general = False is the plain decoder.

    gate: straight_through (the coefficient is 1/k, its gradient that of the probability) or probability (p/k).
    router_inputs: any subset of visual, text, hidden. balance: switch, squared or none; balance_weight is lambda.
    """

    num_experts: int = 3
    top_k: int = 1
    rank: int = 16
    alpha: float = 16.0
    general: bool = True
    gate: str = "straight_through"
    router_inputs: tuple[str, ...] = ("visual", "text", "hidden")
    router_width: int = 64
    balance: str = "switch"
    balance_weight: float = 0.01

    def __post_init__(self):
        object.__setattr__(self, "router_inputs", tuple(self.router_inputs))
        _one_of("mmoe", "gate", self.gate, ("straight_through", "probability"))
        _one_of("mmoe", "balance", self.balance, ("switch", "squared", "none"))
        for name in self.router_inputs:
            _one_of("mmoe", "router_inputs", name, ("visual", "text", "hidden"))
        if self.num_experts and not 1 <= self.top_k <= self.num_experts:
            raise InputError(f"mmoe.top_k is {self.top_k}; with {self.num_experts} experts it must be 1 to {self.num_experts}.")
        if self.num_experts and not self.router_inputs:
            raise InputError("mmoe.router_inputs is empty; a router needs at least one of visual, text, hidden.")

    @property
    def installed(self) -> bool:
        return self.num_experts > 0 or self.general


@dataclass(frozen=True)
class ProjectorConfig:
    """The projector: mlp (two linear layers with GELU, as in Eagle) or residual (linear + MLP that is silent at first, with
    one learned position vector per visual token: it can be started in closed form). hidden: of the MLP; default: the decoder's width."""

    kind: str = "mlp"
    hidden: int | None = None

    def __post_init__(self):
        _one_of("projector", "kind", self.kind, ("mlp", "residual"))


@dataclass(frozen=True)
class ExpertSource:
    """One vision expert as data. settings depend on kind: see leo_core.experts.build.

    trained: whether the checkpoint itself holds the encoder's weights (False: they come from a named part or file).
    """

    name: str
    kind: str
    domain: str
    settings: dict = field(default_factory=dict)


class LeoConfig(PreTrainedConfig):
    """Composite configuration: the decoder's own config (`text_config`), the experts, reducer, MMoE and projector.

    decoder_source: None when the checkpoint holds the decoder; {"part": name} or {"path": folder} when it is frozen and
        comes from elsewhere, with an optional "adapter": a peft LoRA folder inside the checkpoint merged into it.
    image_token_id: the reserved token that holds a visual token's place.
    """

    model_type = "leo_mini"
    sub_configs = {"text_config": AutoConfig}
    has_no_defaults_at_init = True

    def __init__(
        self, text_config=None, experts=(), reducer=None, mmoe=None, projector=None,
        image_token_id=None, decoder_source=None, expert_widths=(), expert_dropout=0.0, **kwargs,
    ):  # fmt: skip
        if isinstance(text_config, dict):
            text_config = AutoConfig.for_model(**text_config)
        self.text_config = text_config
        self.experts = [dict(expert) if isinstance(expert, dict) else asdict(expert) for expert in experts]
        self.reducer = _plain(reducer or ReducerConfig())
        self.mmoe = _plain(mmoe or MMoEConfig())
        self.projector = _plain(projector or ProjectorConfig())
        self.image_token_id = image_token_id
        self.decoder_source = decoder_source
        self.expert_widths = list(expert_widths)
        self.expert_dropout = expert_dropout
        attention = getattr(text_config, "_attn_implementation", None)
        super().__init__(**kwargs)
        if attention is not None:  # the base class resets it, and a decoder that shares this config would lose its causal mask
            text_config._attn_implementation = attention

    @property
    def reducer_config(self) -> ReducerConfig:
        return _typed(ReducerConfig, self.reducer)

    @property
    def mmoe_config(self) -> MMoEConfig:
        return _typed(MMoEConfig, self.mmoe)

    @property
    def projector_config(self) -> ProjectorConfig:
        return _typed(ProjectorConfig, self.projector)

    @property
    def expert_sources(self) -> tuple[ExpertSource, ...]:
        return tuple(_typed(ExpertSource, expert) for expert in self.experts)


def _plain(config) -> dict:
    values = dict(config) if isinstance(config, dict) else asdict(config)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _typed(kind, values: dict):
    known = kind.__dataclass_fields__
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InputError(f"{kind.__name__} has no field '{unknown[0]}'; its fields are {', '.join(known)}.")
    return kind(**values)
