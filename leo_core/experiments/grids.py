"""The six grids as data, and a seventh about the lab itself. A configuration that several grids name is one run; every grid contains its controls."""

from dataclasses import dataclass, replace

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.embedded import PLAIN_DECODER
from leo_core.errors import InputError
from leo_core.experiments.configuration import COTR, MMOE, TERMS, Configuration
from leo_core.experiments.lab_sizes import DECODER_LAYER


@dataclass(frozen=True)
class Grid:
    """members: the question's own configurations, reference first; controls: random choice, average pooling, no picture
    (the fourth, another question's picture, is measured in every run)."""

    name: str
    title: str
    members: tuple[Configuration, ...]
    controls: tuple[Configuration, ...]

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """All, the controls last, each once."""
        return tuple(dict.fromkeys((*self.members, *self.controls)))

    @property
    def reference(self) -> Configuration:
        return self.members[0]


def _reducer(kind: str, tokens: int) -> ReducerConfig:
    return ReducerConfig(kind=kind, tokens=tokens, projection=COTR.projection)


def single_lora(rank: int) -> MMoEConfig:
    """One LoRA expert that is always on, without a router."""
    return MMoEConfig(num_experts=0, general=True, rank=rank, alpha=float(rank), balance="none")


def total_rank(mmoe: MMoEConfig = MMOE) -> int:
    """Rank of the single LoRA with as many parameters as this MMoE has, routers included."""
    text_width, width = DECODER_LAYER
    experts = (mmoe.num_experts + int(mmoe.general)) * mmoe.rank * (text_width + width)
    inputs = {"visual": text_width, "text": text_width, "hidden": width}
    router = mmoe.router_width * (sum(inputs[name] for name in mmoe.router_inputs) + 1) + (mmoe.router_width + 1) * mmoe.num_experts
    return round((experts + router) / (text_width + width))


REFERENCE = Configuration("CoTR, 16 tokens", looks=("terms", "experts"))
AVERAGE = Configuration("average pooling, 16", _reducer("average", 16))
RANDOM = Configuration("random choice, 16", _reducer("random", 16))
BLIND = Configuration("no picture", COTR, blind=True)
CONTROLS = (AVERAGE, RANDOM, BLIND)
ALL_TOKENS = Configuration("all 64 tokens", _reducer("keep_all", 64))
RESAMPLER = Configuration("resampler, 16", _reducer("resampler", 16))

LONGER = 4
"""Times that stage 3 is longer in the grid of lengths."""
_DOT = replace(COTR, similarity="dot", query_init="random")
_WITHOUT = tuple(Configuration(f"without {term.upper()}", without=(term,)) for term in TERMS)


def _cotr(name: str, **changes) -> Configuration:
    return Configuration(name, replace(COTR, **changes))


def _dot(name: str, **changes) -> Configuration:
    return Configuration(name, replace(_DOT, **changes))


DOT = _dot("dot, mean, sqrt_d")
DOT_SUM = _dot("dot, sum, sqrt_d", pool="sum")


def _mmoe(name: str, **changes) -> Configuration:
    return Configuration(name, mmoe=replace(MMOE, **changes))


NO_MMOE = Configuration("no MMoE", mmoe=PLAIN_DECODER)
LORA_ACTIVE = Configuration("one LoRA, equal active rank", mmoe=single_lora(2 * MMOE.rank))
LORA_TOTAL = Configuration("one LoRA, equal parameters", mmoe=single_lora(total_rank()))

GRIDS = (
    Grid("reducers", "Reducers at the same budget and the same training", (REFERENCE, ALL_TOKENS, RESAMPLER), CONTROLS),
    Grid(
        "budget", "Budget N^V",
        (REFERENCE, _cotr("CoTR, 1 token", tokens=1), _cotr("CoTR, 4 tokens", tokens=4), _cotr("CoTR, 64 tokens", tokens=64), ALL_TOKENS,
         Configuration("average pooling, 1", _reducer("average", 1)), Configuration("average pooling, 4", _reducer("average", 4))),
        CONTROLS,
    ),
    Grid(
        "mmoe", "MMoE",
        (REFERENCE, NO_MMOE, LORA_ACTIVE, LORA_TOTAL,
         _mmoe("router: hidden", router_inputs=("hidden",)), _mmoe("router: hidden, visual", router_inputs=("visual", "hidden")),
         _mmoe("router: hidden, text", router_inputs=("text", "hidden")), _mmoe("E = 1", num_experts=1), _mmoe("E = 6", num_experts=6),
         _mmoe("without general expert", general=False), _mmoe("no balance loss", balance="none"), _mmoe("squared balance", balance="squared"),
         _mmoe("gate by probability", gate="probability")),
        CONTROLS,
    ),
    Grid(
        "terms", "CoTR's terms and options",
        (REFERENCE, *_WITHOUT, DOT, DOT_SUM, _dot("dot, mean, sqrt_proj", scale="sqrt_proj"), _dot("dot, mean, d_shared", scale="d_shared"),
         _dot("dot, sum, d_shared", scale="d_shared", pool="sum"), _cotr("cosine, sum", pool="sum"),
         Configuration("dot, mean, sqrt_d, queries of std 0.02", _DOT, query_std=0.02), _dot("dot, mean, sqrt_d, grid queries", query_init="grid"),
         _cotr("cosine, random queries", query_init="random"), _cotr("position: none", position="none"), _cotr("position: token", position="token"),
         Configuration("TEXT started by regression", text_start=True, looks=("terms",)),
         *(_cotr(f"position amplitude {amplitude}", position_amplitude=amplitude) for amplitude in (1.2, 2.4, 6.0)),
         Configuration("position amplitude 2.4, TEXT started by regression", replace(COTR, position_amplitude=2.4), text_start=True, looks=("terms",))),
        CONTROLS,
    ),
    Grid("experts", "Vision experts, left out or alone at inference", (REFERENCE,), CONTROLS),
    Grid(
        "stages", "Stages",
        (REFERENCE, Configuration("projector frozen", train_projector=False), Configuration("without stage 1", start="stage2_without_stage1"),
         Configuration("without stage 1, projector frozen", start="stage2_without_stage1", train_projector=False)),
        CONTROLS,
    ),
    Grid(
        "length", "Does the order of reducers depend on how long stage 3 trains?",
        (REFERENCE, RESAMPLER, *(replace(one, name=f"{one.name}, {LONGER} times as long", times=LONGER, looks=()) for one in (REFERENCE, AVERAGE, RESAMPLER))),
        CONTROLS,
    ),
)  # fmt: skip
"""In the order in which they run."""


def grid_named(name: str) -> Grid:
    """Raises InputError for an unknown name."""
    for grid in GRIDS:
        if grid.name == name:
            return grid
    raise InputError(f"There is no grid '{name}': choose one of {', '.join(grid.name for grid in GRIDS)}, or 'all'.")


def distinct(grids: tuple[Grid, ...] = GRIDS) -> tuple[Configuration, ...]:
    """Every configuration once, in the order of the grids."""
    return tuple(dict.fromkeys(one for grid in grids for one in grid.configurations))
