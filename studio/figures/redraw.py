"""Every figure remembers the call that drew it: the lines that draw it again from the saved trace."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from leo_core.errors import InputError

_WIDE = 100


def redrawable(draw: Callable[..., go.Figure]) -> Callable[..., go.Figure]:
    """A figure function that notes its call in layout.meta["call"]: its name, whether it takes a trace, and the other arguments.

    Arguments equal to their defaults are left out. Of figure functions that call each other the outermost is noted.
    """
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def drawn(*args, **keywords) -> go.Figure:
        given = signature.bind(*args, **keywords).arguments
        values = {name: _plain(value) for name, value in given.items() if name != "trace"}
        values = {name: value for name, value in values.items() if not _is_default(value, signature.parameters[name].default)}
        figure = draw(*args, **keywords)
        call = {"function": draw.__name__, "trace": "trace" in given, "arguments": values}
        return figure.update_layout(meta={**(figure.layout.meta or {}), "call": call})

    drawn.redrawable = True
    return drawn


def code(figure: go.Figure, path: str = "run.safetensors") -> str:
    """Lines of Python that draw exactly this figure from the trace at `path`; they leave it in the name `figure`.

    Raises InputError for a figure that was not drawn by a function of studio.figures.
    """
    return _program({"figure": figure}, path)


def code_of_all(figures: dict[str, go.Figure], path: str = "run.safetensors") -> str:
    """Lines of Python that draw several figures from one trace; they leave them in the dictionary `figures`. Raises as `code`."""
    return _program({f"figures[{_quoted(name)}]": figure for name, figure in figures.items()}, path, "figures = {}")


def _program(targets: dict[str, go.Figure], path: str, start: str = "") -> str:
    calls = {target: _call(figure) for target, figure in targets.items()}
    names = sorted({call["function"] for call in calls.values()})
    lines = [_wrapped("from studio.figures import ", names, "(", ")"), ""]
    if any(call["trace"] for call in calls.values()):
        lines = ["from leo_core.tracing.trace_file import load_trace", *lines, f"trace = load_trace({_quoted(path)})"]
    lines += [start] if start else []
    for target, call in calls.items():
        words = (["trace"] if call["trace"] else []) + [f"{name}={_literal(value)}" for name, value in call["arguments"].items()]
        lines.append(_wrapped(f"{target} = {call['function']}", words, "(", ")", always=True))
    return "\n".join([*lines, ""])


def _call(figure: go.Figure) -> dict:
    call = (figure.layout.meta or {}).get("call")
    if call is None:
        raise InputError("This figure does not know its call: draw it with a function of studio.figures.")
    return call


def _wrapped(start: str, words: list[str], left: str, right: str, always: bool = False) -> str:
    """Words on one line, or one a line where they do not fit; brackets only where needed unless always."""
    line = ", ".join(words)
    if len(start + line) < _WIDE:
        return f"{start}{left}{line}{right}" if always else start + line
    return "\n".join([start + left, *(f"    {word}," for word in words), right])


def _plain(value: Any) -> Any:
    """Numbers, words and lists of them, as literals can express."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    raise TypeError(f"A figure's arguments are numbers, words or lists of them beside its trace; got {type(value).__name__}.")


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A literal in double quotes where that needs no thought."""
    written = repr(text)
    return f'"{written[1:-1]}"' if "'" not in text and '"' not in text else written
