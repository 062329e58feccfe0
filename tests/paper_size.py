"""A made-up run of the size in the papers: 4 experts x 576 source tokens, N^V = 64, 3 routed LoRA experts. No model, no torch."""

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from leo_core.geometry import Geometry, grid_geometry
from leo_core.roles import ANSWER, PICTURE, QUESTION, SPECIAL, SYSTEM
from leo_core.tracing.trace import ExpertTrace, PictureTrace, RoutingTrace, Trace

WIDTH, HEIGHT, V, E, TOP = 640, 427, 64, 3, 8  # a picture in landscape format: square grids have non-square cells on it
BEFORE, AFTER = (b"<|im_start|>", b"user", b"\n"), (b"<|im_end|>", b"\n", b"<|im_start|>", b"assistant", b"\n")
SYSTEM_WORDS = (b"You", b" are", b" helpful", b".")
WORDS = (b" a", b" red", b" lion", b" sits", b" on", b" the", b" table", b",", b" behind", b" it", b" a", b" small", b" dog", b" sleeps", b".", b"\n")
SPLIT = ("🦁".encode()[:2], "🦁".encode()[2:], "ế".encode()[:1], "ế".encode()[1:])  # bytes of one character in several tokens


def paper_size_trace(seed: int = 0, positions: int = 150, layers: int = 32) -> Trace:
    """One run: `positions` prompt and answer tokens together (at least 102; the last one is not read), a quarter of them the answer."""
    rng = np.random.default_rng(seed)
    answer = max(4, positions // 4)
    question = positions - answer - len(BEFORE) - len(SYSTEM_WORDS) - V - len(AFTER)
    assert question >= 1, f"{positions} positions leave no room for a question"
    parts = (
        (BEFORE, SPECIAL), (SYSTEM_WORDS, SYSTEM), ((b"",) * V, PICTURE), (_words(rng, question), QUESTION),
        (AFTER, SPECIAL), ((*SPLIT[:2], *_words(rng, answer - 3), b"<|im_end|>"), ANSWER),
    )  # fmt: skip
    tokens = tuple(token for words, _ in parts for token in words)
    roles = np.array([role for words, role in parts for _ in words])
    top = np.sort(rng.dirichlet(np.full(TOP + 2, 0.3), size=answer), axis=1)[:, ::-1][:, :TOP]
    ids = rng.integers(5, 49_000, size=len(tokens))
    top_ids = np.concatenate([ids[-answer:, None], rng.integers(5, 49_000, size=(answer, TOP - 1))], axis=1)
    candidates = tuple((tokens[-answer + i], *(WORDS[j % len(WORDS)] for j in top_ids[i, 1:])) for i in range(answer))
    return Trace(
        question=b"".join(parts[3][0]).decode().strip(), answer=b"".join(parts[5][0][:-1]).decode(),
        pictures=(_picture(),), experts=tuple(_expert(rng, *one) for one in _geometries().items()), routing=_routing(rng, layers, roles),
        token_ids=ids, token_bytes=tokens, roles=roles, picture_index=np.where(roles == PICTURE, 0, -1), probability=top[:, 0].astype(np.float32),
        top_ids=top_ids, top_bytes=candidates, top_probability=top.astype(np.float32), finished=True,
        settings={"max_new_tokens": answer, "decoding": "greedy", "interventions": {}},
        provenance={"model": "made-up paper size", "weights_sha256": "0" * 64, "seed": seed, "reducer": {"kind": "cotr", "tokens": V}},
        timings={"experts": 1.5, "answer": 12.25},
    )  # fmt: skip


def other_question(trace: Trace, seed: int = 1) -> Trace:
    """Same picture and geometries, another question, weights and routes: the second half of a side-by-side view."""
    other = paper_size_trace(seed, len(trace.roles), len(trace.routing.layers))
    return replace(other, pictures=trace.pictures)


def _geometries() -> dict[str, Geometry]:
    """576 tokens each: stretched, centre-cropped, padded to a square (some cells lie off the picture), and 18 x 32 cells."""
    size, margin = (WIDTH, HEIGHT), (WIDTH - HEIGHT) / 2
    return {
        "clip": grid_geometry(size, (24, 24)),
        "convnext": grid_geometry(size, (24, 24), window=(margin, 0.0, WIDTH - margin, float(HEIGHT))),
        "pix2struct": grid_geometry(size, (24, 24), window=(0.0, -margin, float(WIDTH), HEIGHT + margin)),
        "eva": grid_geometry(size, (18, 32)),
    }


def _expert(rng: np.random.Generator, name: str, geometry: Geometry) -> ExpertTrace:
    """Terms as CoTR's and the softmax of their sum: each output token looks mostly near one place, with noise."""
    n = len(geometry)
    centre = geometry.polygons.mean(axis=1) / (WIDTH, HEIGHT)
    places = np.stack(np.meshgrid((np.arange(8) + 0.5) / 8, (np.arange(8) + 0.5) / 8), axis=-1).reshape(V, 1, 2)
    distance = ((places + rng.normal(scale=0.05, size=(V, 1, 2)) - centre) ** 2).sum(axis=-1)
    query = 6 - 40 * distance + rng.normal(scale=0.6, size=(V, n))
    own, cross, text = (rng.normal(scale=scale, size=n) for scale in (0.3, 0.3, 0.9))
    score = query + own + cross + text
    raw = np.exp(score - score.max(axis=1, keepdims=True))
    weights = raw / raw.sum(axis=1, keepdims=True)
    return ExpertTrace(name, f"domain of {name}", 0, geometry, *(value.astype(np.float32) for value in (weights, query, own, cross, text)))


def _routing(rng: np.random.Generator, layers: int, roles: np.ndarray) -> RoutingTrace:
    read = len(roles) - 1
    taste = rng.normal(size=(layers, 1, E)) + rng.normal(size=(1, len(set(roles.tolist())), E))[:, np.unique(roles, return_inverse=True)[1][:read]]
    logits = taste + rng.normal(scale=0.7, size=(layers, read, E))
    probability = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    coefficient = (probability == probability.max(axis=-1, keepdims=True)).astype(np.float32)
    norm = np.concatenate([rng.uniform(0.05, 0.1, size=(layers, read, 1)), coefficient * rng.uniform(0.02, 0.2, size=(layers, read, E))], axis=-1)
    names = tuple(f"model.layers.{layer}.mlp.down_proj" for layer in range(layers))
    return RoutingTrace(names, probability.astype(np.float32), coefficient, norm.astype(np.float32), True, True, 1)


def _words(rng: np.random.Generator, count: int) -> tuple[bytes, ...]:
    """Words with repeats; every twentieth pair is one character split over two tokens."""
    words = [WORDS[i] for i in rng.integers(len(WORDS), size=count)]
    for start in range(5, count - 1, 20):
        words[start : start + 2] = SPLIT[2:]
    return tuple(words)


def _picture() -> PictureTrace:
    x, y = np.meshgrid(np.linspace(0, 255, WIDTH), np.linspace(0, 255, HEIGHT))
    checks = 40 * ((x // 16 + y // 16) % 2)
    out = io.BytesIO()
    Image.fromarray(np.stack([x, y, 215 - 0.8 * x + checks], axis=-1).clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=85)
    return PictureTrace(WIDTH, HEIGHT, out.getvalue())
