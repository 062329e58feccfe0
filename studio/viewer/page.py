"""One self-contained page from one or two traces: template, style, script and data joined; nothing is ever fetched."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from leo_core.errors import InputError
from leo_core.files import atomic_path
from leo_core.tracing.trace import Trace
from studio.viewer.payload import palette, payload, script_json

HERE = Path(__file__).parent
SCRIPTS = (
    "arrays", "colours", "dom", "text", "maps", "routes", "state", "paint", "picture", "tokens", "words", "ribbon", "ribbon_paint", "details",
    "numbers", "controls", "keys", "main",
)  # fmt: skip
"""The parts of the page's one script, in the order in which they are joined."""
MOST_TRACES = 2
FRAME_HEIGHT = 900


def page(traces: Sequence[Trace], names: Sequence[str] | None = None, selection: Mapping[str, object] | None = None) -> str:
    """The whole page as HTML, one side per trace. names: what to call them (default: the model of each).

    selection: what it opens on, by the names of `CHOICES` in state.js, for example {"expert": "reading", "token": 2,
    "position": "answer:0", "layer": 5, "theme": "dark"} (all numbers from 0); what does not exist is left at its default.
    Raises InputError for no trace, more than two, or another number of names.
    """
    traces = list(traces)
    if not 1 <= len(traces) <= MOST_TRACES:
        raise InputError(f"The viewer shows one trace, or two side by side; got {len(traces)}: give one or two.")
    names = [str(one.provenance.get("model", "run")) for one in traces] if names is None else list(names)
    if len(names) != len(traces):
        raise InputError(f"The viewer needs one name per trace; got {len(names)} for {len(traces)}: give as many, or none.")
    style, script = (HERE / "viewer.css").read_text("utf-8"), _script()
    sides = [payload(one, name) for one, name in zip(traces, names, strict=True)]
    data = script_json({"palette": palette(), "selection": dict(selection or {}), "traces": sides})
    pieces = {"POLICY": _policy(style, script), "STYLE": style, "DATA": data, "SCRIPT": script}
    template = (HERE / "template.html").read_text("utf-8")
    return re.sub("%([A-Z]+)%", lambda mark: pieces[mark.group(1)], template)  # in one pass: a mark inside the data stays text


def write_page(
    traces: Sequence[Trace], path: str | Path, names: Sequence[str] | None = None, selection: Mapping[str, object] | None = None
) -> Path:
    """Write the page, atomically. Raises InputError as `page` does, LeoError where the place cannot be written."""
    text = page(traces, names, selection)
    with atomic_path(path) as temporary:
        temporary.write_text(text, "utf-8")
    return Path(path)


def frame(
    trace: Trace | Sequence[Trace], height: int = FRAME_HEIGHT, names: Sequence[str] | None = None, selection: Mapping[str, object] | None = None
) -> str:
    """The page inside an <iframe>, for places that take a piece of HTML (the app, notebooks). height: pixels.

    The frame may run its own script and nothing else: it sees neither the page around it nor any cookie.
    """
    traces = [trace] if isinstance(trace, Trace) else trace
    inside = escape(page(traces, names, selection), quote=True)
    return (
        f'<iframe class="leo-viewer" title="LEO viewer" sandbox="allow-scripts" width="100%" height="{int(height)}" '
        f'style="border:0;width:100%;height:{int(height)}px" srcdoc="{inside}"></iframe>'
    )


class Viewer:
    """One run or two as the last value of a notebook cell; JupyterLab and nbconvert's HTML show the linked page."""

    def __init__(
        self, *traces: Trace, height: int = FRAME_HEIGHT, names: Sequence[str] | None = None, selection: Mapping[str, object] | None = None
    ):
        self._html = frame(traces, height, names, selection)

    def _repr_html_(self) -> str:
        return self._html


def _script() -> str:
    """All parts in one function of their own, so that the page has no global name but `leo`."""
    parts = "\n".join((HERE / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _policy(style: str, script: str) -> str:
    """No connection to anywhere, and no style or script but our own two (by their hash), whatever a trace may hold."""
    own = lambda text: "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"  # noqa: E731
    return (
        f"default-src 'none'; script-src {own(script)}; style-src {own(style)}; img-src data:; connect-src 'none'; "
        "font-src 'none'; base-uri 'none'; form-action 'none'"
    )
