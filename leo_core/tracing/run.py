"""Ask one question about one picture (or several) and keep everything that can be looked at: picture in, Trace out."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version

import numpy as np
import torch
from jaxtyping import Int
from PIL import Image
from torch import Tensor

from leo_core.experts.expert import PictureFeatures
from leo_core.generation import Answer, OnToken, generate_answer
from leo_core.model import LeoMini
from leo_core.picture import encode_picture, load_picture, media_type
from leo_core.processor import LeoProcessor
from leo_core.reducer import Reduction
from leo_core.roles import ANSWER
from leo_core.tracing.intervene import Interventions, intervene
from leo_core.tracing.record import Recording, record
from leo_core.tracing.token_bytes import token_bytes
from leo_core.tracing.trace import ExpertTrace, PictureTrace, RoutingTrace, Trace


@dataclass(frozen=True)
class Asked:
    """A question with its pictures, encoded once and asked as often as wanted.

    inputs: input_ids, attention_mask, question_mask (1, s) and picture_owner for LeoMini. features: of the pictures; None
    for a question without a picture. roles, picture_index: of each prompt position.
    """

    question: str
    images: tuple[Image.Image, ...]
    inputs: dict[str, Tensor]
    roles: Int[Tensor, "s"]
    picture_index: Int[Tensor, "s"]
    features: PictureFeatures | None
    timings: dict[str, float] = field(default_factory=dict)


def encode(model: LeoMini, pictures: Sequence) -> tuple[tuple[Image.Image, ...], PictureFeatures]:
    """Load pictures and run all vision experts on them."""
    images = tuple(load_picture(picture) for picture in pictures)
    return images, model.vision_experts(model.vision_experts.prepare(images)).to(model.device)


def ask(model: LeoMini, processor: LeoProcessor, pictures: Sequence, question: str, encoded=None, system: str | None = None) -> Asked:
    """Prepare one question. pictures: anything `load_picture` takes. encoded: what `encode` gave for the same pictures."""
    started = time.perf_counter()
    batch = processor([[object()] * len(pictures)], [question], system=system, prepare=False)  # refuse a bad question first
    images, features = encoded or (encode(model, pictures) if len(pictures) else ((), None))
    names = [name for name in ("input_ids", "attention_mask", "question_mask", "picture_owner") if name in batch]
    inputs = {name: batch[name].to(model.device) for name in names}
    timings = {"experts": time.perf_counter() - started}
    return Asked(question, images, inputs, batch["roles"][0], batch["picture_index"][0], features, timings)


def trace_run(
    model: LeoMini,
    processor: LeoProcessor,
    asked: Asked,
    interventions: Interventions | None = None,
    max_new_tokens: int = 48,
    stop: threading.Event | None = None,
    on_token: OnToken | None = None,
) -> Trace:
    """Answer and record. The answer equals the untraced one; interventions are part of the trace's settings."""
    interventions = interventions or Interventions()
    inputs = dict(asked.inputs)
    if asked.features is not None:
        inputs |= interventions.model_inputs(model, asked.features)
        inputs = {name: value.to(model.device) for name, value in inputs.items()}
    started = time.perf_counter()
    with intervene(model, interventions, processor), record(model) as recording:
        answer = generate_answer(model, processor.tokenizer, inputs, max_new_tokens, stop, on_token)
    timings = {**asked.timings, "answer": time.perf_counter() - started}
    settings = {"max_new_tokens": max_new_tokens, "decoding": "greedy", "interventions": _plain(interventions)}
    return build_trace(model, processor, asked, answer, recording, settings, timings)


def build_trace(model, processor, asked: Asked, answer: Answer, recording: Recording, settings: dict, timings: dict) -> Trace:
    """Arrays of one run from what was recorded."""
    tokenizer, length = processor.tokenizer, len(answer.token_ids)
    ids = torch.cat([asked.inputs["input_ids"][0].cpu(), answer.token_ids]).numpy()
    fill = lambda values, value: np.concatenate([values.numpy(), np.full(length, value)])  # noqa: E731
    copies = [encode_picture(image) for image in asked.images]
    pictures = tuple(PictureTrace(*image.size, copy, media_type(copy)) for image, copy in zip(asked.images, copies, strict=True))
    experts = _experts(model, asked, recording.reductions[0]) if recording.reductions else ()
    return Trace(
        question=asked.question, answer=answer.text, pictures=pictures, experts=experts, routing=_routing(model, asked, recording),
        token_ids=ids, token_bytes=tuple(token_bytes(tokenizer, ids)), roles=fill(asked.roles, ANSWER),
        picture_index=fill(asked.picture_index, -1), probability=answer.log_probability.exp().numpy(), top_ids=answer.top_ids.numpy(),
        top_bytes=tuple(tuple(token_bytes(tokenizer, row)) for row in answer.top_ids.numpy()),
        top_probability=answer.top_probability.numpy(), finished=answer.finished, settings=settings,
        provenance=provenance(model), timings=timings,
    )  # fmt: skip


def _experts(model: LeoMini, asked: Asked, reduction: Reduction) -> tuple[ExpertTrace, ...]:
    traces = []
    for picture in range(asked.features.pictures):
        for index, (name, expert) in enumerate(model.vision_experts.items()):
            geometry = asked.features.geometries[index][picture]
            count = len(geometry)
            terms = {}
            if reduction.scores:
                scores = reduction.scores[index]
                terms["query"] = scores.query[picture, :, :count].numpy()
                for term in ("self_", "cross", "text"):
                    terms[term] = getattr(scores, term)[picture, 0, :count].numpy()
            weights = reduction.weights[index][picture, :, :count].numpy()
            traces.append(ExpertTrace(name, expert.domain, picture, geometry, weights, **terms))
    return tuple(traces)


def _routing(model: LeoMini, asked: Asked, recording: Recording) -> RoutingTrace:
    mmoe = model.config.mmoe_config
    layers = tuple(recording.norm)
    positions = sum(one.shape[1] for one in next(iter(recording.norm.values()), []))
    stack = lambda kind, width: (  # noqa: E731
        recording.stacked(kind)[0].numpy() if any(getattr(recording, kind).values()) else np.zeros((len(layers), positions, width), np.float32)
    )
    experts = mmoe.num_experts
    return RoutingTrace(
        layers, stack("probability", experts), stack("coefficient", experts), stack("norm", experts + int(mmoe.general)),
        mmoe.general, asked.features is not None and experts > 0, mmoe.top_k,
    )  # fmt: skip


def provenance(model: LeoMini) -> dict:
    """Where a run's numbers come from: model, its configuration, and the versions of what computed them."""
    packages = ("leo-studio", "torch", "transformers", "onnxruntime", "numpy")
    config = model.config
    return {
        **model.origin,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "reducer": config.reducer,
        "mmoe": config.mmoe,
        "experts": {one["name"]: one["kind"] for one in config.experts},
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in packages},
    }


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except ImportError:  # importlib's PackageNotFoundError: running from a source tree that was not installed
        return "source tree"


def _plain(interventions: Interventions) -> dict:
    """Only what was changed, as JSON values."""
    defaults = vars(Interventions())
    changed = {name: value for name, value in vars(interventions).items() if value != defaults[name]}
    return {name: {str(k): v for k, v in value.items()} if isinstance(value, dict) else value for name, value in changed.items()}


def with_analysis(trace: Trace, name: str, result: dict) -> Trace:
    """The trace with the result of one more analysis."""
    return replace(trace, analyses={**trace.analyses, name: result})
