"""What each vision expert costs for one picture: operations and seconds, alone, and what leaving it out would save."""

import copy
import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from leo_core.analysis.graph_flops import graph_flops
from leo_core.experts.expert import VisionExpert, VisionExperts
from leo_core.experts.onnx_graph import OnnxGraph

_GRAPHS = ("graph", "detector", "recogniser")
"""Names under which the kinds of experts hold their graphs."""
_CPU_ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}
"""torch's counter knows the kernels of graphics cards only."""


@dataclass(frozen=True)
class ExpertCost:
    """Of one expert and one picture. flops: alone, convolutions and matrix products only. saved: what leaving it out saves while the
    others stay: a graph that another expert asks about the same pixels runs anyway. seconds: preparing and encoding, alone, median."""

    name: str
    flops: float
    saved: float
    seconds: float


def expert_costs(experts: VisionExperts, picture: Image.Image, repeats: int = 3) -> tuple[ExpertCost, ...]:
    """Cost of every expert. Seconds depend on the machine and on what else it does; operations do not."""
    works = {name: _Work() for name in experts}
    seconds = {}
    for name, expert in experts.items():
        plain = _twin(expert, lambda graph: _Alone(graph))
        seconds[name] = float(np.median([_timed(plain, picture) for _ in range(repeats)]))
        _run(_twin(expert, lambda graph, work=works[name]: _Counting(graph, work)), picture, works[name])
    costs = []
    for name, work in works.items():
        others = {key for other, one in works.items() if other != name for key in one.graphs}
        saved = work.torch + sum(flops for key, flops in work.graphs.items() if key not in others)
        costs.append(ExpertCost(name, work.torch + sum(work.graphs.values()), saved, seconds[name]))
    return tuple(costs)


@dataclass
class _Work:
    """Operations in torch, and of each call of a graph by (file, pixels)."""

    torch: float = 0.0
    graphs: dict[tuple[str, bytes], float] = field(default_factory=dict)


class _Alone:
    """A graph that remembers nothing, so that every expert pays for itself."""

    def __init__(self, graph: OnnxGraph):
        self.graph, self.metadata = graph, graph.metadata

    def __call__(self, pixels: np.ndarray) -> list[np.ndarray]:
        return OnnxGraph.__call__(self.graph, pixels)


class _Counting(_Alone):
    """The same, and every call is written down."""

    def __init__(self, graph: OnnxGraph, work: _Work):
        super().__init__(graph)
        self.work = work

    def __call__(self, pixels: np.ndarray) -> list[np.ndarray]:
        key = (self.graph.sha256, hashlib.sha256(pixels).digest())
        self.work.graphs[key] = max(self.work.graphs.get(key, 0.0), graph_flops(self.graph, pixels))
        return super().__call__(pixels)


def _twin(expert: VisionExpert, wrap) -> VisionExpert:
    """The same expert with other graphs; the one in the model is left alone."""
    twin = copy.copy(expert)
    for name in _GRAPHS:
        if isinstance(getattr(expert, name, None), OnnxGraph):
            twin.__dict__[name] = wrap(getattr(expert, name))
    return twin


def _run(expert: VisionExpert, picture: Image.Image, work: _Work) -> None:
    with FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION) as counter:
        expert([expert.prepare(picture)])
    work.torch = float(counter.get_total_flops())


def _timed(expert: VisionExpert, picture: Image.Image) -> float:
    started = time.perf_counter()
    expert([expert.prepare(picture)])
    return time.perf_counter() - started
