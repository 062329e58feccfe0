"""A trace as a few lines for a terminal. All text in it comes from the file, so all of it is escaped."""

import numpy as np

from leo_core.roles import ROLES
from leo_core.tracing.terminal_text import terminal_text
from leo_core.tracing.trace import ExpertTrace, RoutingTrace, Trace

MOST_LINES = 40
"""Answer tokens and vision experts listed; the rest is counted."""


def show_trace(trace: Trace) -> str:
    """Question, answer, pictures, what each vision expert's heaviest token holds, routing, and the answer token by token."""
    lines = [
        f"question   {terminal_text(trace.question, 500)}",
        f"answer     {terminal_text(trace.answer, 500)}  ({_answer(trace)})",
        f"model      {terminal_text(str(trace.provenance.get('model', 'not stated')), 120)}, trace schema {terminal_text(trace.unknown.schema)}",
        *(f"picture {index}  {_picture(one)}" for index, one in enumerate(trace.pictures)),
        f"positions  {len(trace.roles)}: {_counts(trace.roles)}; {int(trace.read.sum())} read",
        f"routing    {_routing(trace.routing)}",
    ]
    if trace.experts:
        lines += ["", f"{'vision expert':<18}{'in':>6}{'out':>6}  heaviest source token"]
        lines += _shortened([_expert(one) for one in trace.experts])
    if len(trace.probability):
        lines += ["", f"{'answer token':<18}{'p':>8}  candidates"]
        lines += _shortened([_token(trace, index) for index in range(min(len(trace.probability), MOST_LINES + 1))], len(trace.probability))
    if trace.analyses:
        lines += ["", f"analyses   {', '.join(terminal_text(name, 80) for name in trace.analyses)}"]
    return "\n".join(lines)


def _answer(trace: Trace) -> str:
    whole = float(np.prod(trace.probability, dtype=np.float64))
    return f"{len(trace.probability)} tokens, probability {whole:.1%}, {'finished' if trace.finished else 'cut off'}"


def _picture(picture) -> str:
    copy = "no copy" if picture.content is None else f"copy of {len(picture.content):,} bytes ({picture.media_type})"
    return f"{picture.width} x {picture.height} pixels, {copy}"


def _counts(roles: np.ndarray) -> str:
    counts = np.bincount(roles, minlength=len(ROLES))
    return ", ".join(f"{count} {name}" for name, count in zip(ROLES, counts, strict=True) if count)


def _routing(routing: RoutingTrace) -> str:
    layers, _, experts = routing.coefficient.shape
    text = f"{layers} layers, {experts} routed experts{' and a general one' if routing.general else ''}, top {routing.top_k}"
    if not routing.evaluated or not routing.coefficient.size:
        return f"{text}; not evaluated"
    used = (routing.coefficient != 0).mean(axis=(0, 1))
    return f"{text}; used at {', '.join(f'{share:.0%}' for share in used[:16])}{' …' if experts > 16 else ''} of all places"


def _expert(one: ExpertTrace) -> str:
    v, n = one.weights.shape
    place = "nothing: the expert was absent or gave no token"
    if v and n and np.isfinite(one.weights).all() and one.weights.any():
        share = one.weights.mean(axis=0)
        heaviest = int(share.argmax())
        corners = one.geometry.polygons[heaviest]
        box = ", ".join(f"{value:.0f}" for value in (*corners.min(axis=0), *corners.max(axis=0)))
        where = f"at ({box})" if one.geometry.placed[heaviest] else "(off the picture)"
        place = f"{heaviest} {where} holds {share[heaviest]:.1%}"
    return f"{terminal_text(one.name, 16):<18}{n:>6}{v:>6}  {place}"


def _token(trace: Trace, index: int) -> str:
    token = terminal_text(trace.token_bytes[trace.prompt_length + index], 16)
    pairs = zip(trace.top_bytes[index][:4], trace.top_probability[index][:4], strict=True)
    candidates = "  ".join(f"'{terminal_text(name, 16)}' {probability:.1%}" for name, probability in pairs)
    return f"{token:<18}{trace.probability[index]:>8.1%}  {candidates}"


def _shortened(lines: list[str], count: int | None = None) -> list[str]:
    count = len(lines) if count is None else count
    return lines if count <= MOST_LINES else [*lines[:MOST_LINES], f"and {count - MOST_LINES} more"]
