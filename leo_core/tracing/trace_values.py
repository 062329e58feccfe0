"""Whether the numbers of a trace can be what their names say: the rules of values in TRACE_FORMAT.md.

A trace that breaks one can still be opened and drawn; `python -m leo_core trace validate` says what is wrong with it.
"""

import numpy as np

from leo_core.roles import ANSWER, PICTURE
from leo_core.tracing.checks import Checks
from leo_core.tracing.trace import ExpertTrace, RoutingTrace, Trace

ROUNDING = 5e-3
"""Sums of half-precision numbers may be off by this."""
_MAGIC = {"image/jpeg": (b"\xff\xd8\xff",), "image/png": (b"\x89PNG\r\n\x1a\n",), "image/webp": (b"RIFF",)}


def values(trace: Trace) -> list:
    """Every broken rule of values, as `Broken`; empty for a sound trace."""
    checks = Checks({})
    for index, expert in enumerate(trace.experts):
        _expert(checks, expert, f"experts.{index}")
    _routing(checks, trace.routing)
    _positions(checks, trace)
    for index, picture in enumerate(trace.pictures):
        if picture.content is not None and not picture.content.startswith(_MAGIC[picture.media_type]):
            checks.say("picture-bytes", f"pictures.{index}", f"its bytes are no {picture.media_type}")
    return checks.broken


def _expert(checks: Checks, expert: ExpertTrace, place: str) -> None:
    for term in ("query", "self_", "cross", "text"):
        value = getattr(expert, term)
        if value is not None and not np.isfinite(value).all():
            checks.say("range", f"{place}.{term}", f"{int((~np.isfinite(value)).sum())} of its values are no finite numbers")
    if checks.within(f"{place}.weights", expert.weights, 0, 1 + ROUNDING) and len(expert.weights):
        row = int(expert.weights.sum(axis=1, dtype=np.float64).argmax())
        total = float(expert.weights[row].sum(dtype=np.float64))
        if total > 1 + ROUNDING:
            checks.say("weights-sum", f"{place}.weights", f"the shares of output token {row} add up to {total:.4f}, more than 1")


def _routing(checks: Checks, routing: RoutingTrace) -> None:
    probability, coefficient, norm = routing.probability, routing.coefficient, routing.norm
    if checks.within("routing.probability", probability, 0, 1 + ROUNDING) and routing.evaluated and probability.size:
        error = np.abs(probability.sum(axis=-1, dtype=np.float64) - 1)
        if error.max() > ROUNDING:
            layer, position = np.unravel_index(error.argmax(), error.shape)
            checks.say("probability-sum", "routing.probability", f"layer {layer}, position {position} is {error.max():.4f} off a sum of 1")
    if not np.isfinite(coefficient).all():
        checks.say("range", "routing.coefficient", "its values must be finite numbers")
    elif not routing.evaluated and coefficient.any():
        checks.say("not-evaluated", "routing.coefficient", "it must be 0 throughout where routing was not evaluated")
    elif (most := int((coefficient != 0).sum(axis=-1).max(initial=0))) > routing.top_k:
        checks.say("top-k", "routing.coefficient", f"{most} experts are used at one position, more than top_k = {routing.top_k}")
    if not np.isfinite(norm).all() or norm.min(initial=0) < 0:
        checks.say("range", "routing.norm", "its values must be finite numbers of at least 0")


def _positions(checks: Checks, trace: Trace) -> None:
    expected = np.arange(len(trace.roles)) >= trace.prompt_length
    if not np.array_equal(trace.roles == ANSWER, expected):
        checks.say("answer-last", "roles", f"the role answer must be that of the last {int(expected.sum())} positions, one for each answer token")
    in_picture = trace.roles == PICTURE
    if not np.array_equal(trace.picture_index >= 0, in_picture):
        checks.say("picture-role", "picture_index", "it must be at least 0 where the role is picture, and -1 elsewhere")
    for picture in range(len(trace.pictures)):
        wanted = {len(one.weights) for one in trace.experts if one.picture == picture}
        found = int((in_picture & (trace.picture_index == picture)).sum())
        if wanted and wanted != {found}:
            checks.say("picture-places", "picture_index", f"picture {picture} has {found} positions for {wanted.pop()} output tokens")
    within = checks.within("probability", trace.probability, 0, 1 + ROUNDING)
    if checks.within("top_probability", trace.top_probability, 0, 1 + ROUNDING) and trace.top_probability.size:
        if (np.diff(trace.top_probability, axis=1) > 1e-6).any():
            checks.say("top-order", "top_probability", "candidates must be ordered from the likeliest down")
        if (total := float(trace.top_probability.sum(axis=1).max())) > 1 + ROUNDING:
            checks.say("top-sum", "top_probability", f"the candidates of one answer token add up to {total:.4f}, more than 1")
        if within and (trace.probability > trace.top_probability[:, 0] + ROUNDING).any():
            checks.say("top-order", "probability", "an answer token is likelier than the likeliest candidate")
    written, joined = "".join(trace.answer.split()), b"".join(trace.token_bytes[trace.prompt_length :]).decode("utf-8", errors="replace")
    if written not in "".join(joined.split()):  # spaces aside: answers are stripped
        checks.say("answer-bytes", "token_bytes", "the bytes of the answer's tokens do not join to the answer")
