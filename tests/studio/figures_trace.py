"""Made-up traces for the tests of figures: a non-square picture, a grid expert, a text-reading expert, odd tokens."""

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from leo_core.geometry import grid_geometry, polygon_geometry
from leo_core.tracing.trace import ROLES, ExpertTrace, PictureTrace, RoutingTrace, Trace

WIDTH, HEIGHT, V, E, L = 300, 170, 6, 3, 4
ANSWER = (b" red", "😀".encode()[:2], "😀".encode()[2:], b"<|end|>")
QUESTION = (b"What", b" <script>alert(1)</script>", b"\n", b"?")
PROMPT = ((b"<|user|>", "special"), *((b"", "picture"),) * V, *((token, "question") for token in QUESTION), (b"<|bot|>", "special"))


def picture(width: int = WIDTH, height: int = HEIGHT) -> PictureTrace:
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    out = io.BytesIO()
    Image.fromarray(np.stack([x, y, 255 - x], axis=-1).astype(np.uint8)).save(out, "PNG")
    return PictureTrace(width, height, out.getvalue(), "image/png")


def rows(rng: np.random.Generator, v: int, n: int, sharpness: float = 3.0) -> np.ndarray:
    raw = np.exp(sharpness * rng.normal(size=(v, n)))
    return (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def expert(rng, name: str, domain: str, geometry, v: int = V) -> ExpertTrace:
    n = len(geometry)
    row = lambda size: rng.normal(size=n, scale=size).astype(np.float32)  # noqa: E731
    query = rng.normal(size=(v, n)).astype(np.float32)
    return ExpertTrace(name, domain, 0, geometry, rows(rng, v, n), query, row(0.2) + 1, row(0.4), row(0.8))


def reading_geometry(width: int = WIDTH, height: int = HEIGHT):
    """Two rotated strips, seven columns each."""
    turn = lambda a: np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])  # noqa: E731
    strip = lambda x, y, a, s: (s * np.array([[0, 0], [140, 0], [140, 24], [0, 24]])) @ turn(a) + [x, y]  # noqa: E731
    scale = width / 300
    boxes = np.stack([strip(30 * scale, 40 * scale, 0.25, scale), strip(120 * scale, 120 * scale, -0.3, scale)])
    columns = [
        np.stack([b[0] + (b[1] - b[0]) * f for f in (i / 7, (i + 1) / 7)] + [b[3] + (b[2] - b[3]) * f for f in ((i + 1) / 7, i / 7)])
        for b in boxes
        for i in range(7)
    ]
    return polygon_geometry((width, height), np.stack(columns), boxes)


def make_trace(seed: int = 0) -> Trace:
    rng = np.random.default_rng(seed)
    experts = (
        expert(rng, "scene", "objects <b>", grid_geometry((WIDTH, HEIGHT), (3, 5))),
        expert(rng, "cropped", "faces", grid_geometry((WIDTH, HEIGHT), (4, 4), window=(65.0, 0.0, 235.0, 170.0), leading=1)),
        expert(rng, "reader", "text", reading_geometry()),
    )
    tokens = [token for token, _ in PROMPT] + list(ANSWER)
    roles = np.array([ROLES.index(role) for _, role in PROMPT] + [ROLES.index("answer")] * len(ANSWER))
    read = len(tokens) - 1
    logits = rng.normal(size=(L, read, E), scale=1.5)
    probability = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    coefficient = (probability == probability.max(axis=-1, keepdims=True)).astype(np.float32)
    norm = np.concatenate([rng.uniform(0.05, 0.1, size=(L, read, 1)), coefficient * rng.uniform(0.02, 0.2, size=(L, read, E))], axis=-1)
    layers = tuple(f"model.layers.{i}.mlp.down_proj" for i in range(L))
    top = np.sort(rng.dirichlet(np.ones(8), size=len(ANSWER)), axis=1)[:, ::-1][:, :5]
    return Trace(
        question="What <script>alert(1)</script>\n?", answer="red 😀", pictures=(picture(),), experts=experts,
        routing=RoutingTrace(layers, probability.astype(np.float32), coefficient, norm.astype(np.float32), True, True, 1),
        token_ids=np.arange(len(tokens)), token_bytes=tuple(tokens), roles=roles,
        picture_index=np.where(roles == ROLES.index("picture"), 0, -1), probability=top[:, 0].astype(np.float32),
        top_ids=np.zeros((len(ANSWER), 5), int), top_bytes=tuple((token, b"<i>x</i>", b"\t", b"$a$", b"\xe4") for token in ANSWER),
        top_probability=top.astype(np.float32), finished=True,
    )  # fmt: skip


def with_weights(trace: Trace, name: str, weights: np.ndarray, **changes) -> Trace:
    """The same run with other weights of one expert."""
    change = lambda one: replace(one, weights=weights, **changes) if one.name == name else one  # noqa: E731
    return replace(trace, experts=tuple(map(change, trace.experts)))


def without_routed_experts(trace: Trace) -> Trace:
    routing = trace.routing
    empty = routing.probability[..., :0]
    return replace(trace, routing=replace(routing, probability=empty, coefficient=empty, norm=routing.norm[..., :1]))
