"""Short pieces of HTML for the page; every text that comes from a user or a model is escaped here."""

from collections.abc import Sequence
from html import escape

from leo_core.tracing.trace import Trace
from studio.figures.token_text import labels


def note(text: str, alert: bool = False) -> str:
    """A status line; an alert is announced by screen readers at once."""
    role, kind = ("alert", "leo-alert") if alert else ("status", "leo-note")
    return f'<div role="{role}" class="{kind}">{escape(text)}</div>'


def streamed_answer(text: str, probability: Sequence[float]) -> str:
    """The answer while it is being written, with the probability of its newest token."""
    newest = f"newest token {probability[-1]:.0%}" if probability else ""
    return f'<div class="leo-answer" aria-live="polite"><p dir="auto">{escape(text)}</p><small>{newest}</small></div>'


def finished_answer(trace: Trace) -> str:
    """The answer, each token underlined by how sure the model was of it, and the answer without the picture."""
    tokens = zip(labels(trace.token_bytes[trace.prompt_length :]), trace.probability, strict=True)
    spans = " ".join(
        f'<span class="leo-token" style="--sure:{float(p):.3f}">{escape(token.text)}<small>{float(p):.0%}</small></span>' for token, p in tokens
    )
    parts = [f'<p dir="auto" class="leo-said">{escape(trace.answer) or "(empty answer)"}</p>', f'<div class="leo-tokens" dir="auto">{spans}</div>']
    if not trace.finished:
        parts.append("<p>The answer was ended before the model's own end mark.</p>")
    blind = trace.analyses.get("without_picture")
    if blind:
        parts.append(f'<p>Without the picture the model answers: <q dir="auto">{escape(blind["answer"])}</q></p>')
    return f'<div class="leo-answer"><small>{escape(trace.question)}</small>{"".join(parts)}</div>'


def caption(fig) -> str:
    """What a figure shows, as the line below it."""
    return f'<p class="leo-caption">{escape(fig.layout.meta["caption"])}</p>'


def table(head: Sequence[str], rows: Sequence[Sequence], label: str) -> str:
    """A small table; the first cell of each row is its header."""
    top = "".join(f'<th scope="col">{escape(str(cell))}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row[0]))}</th>{"".join(f"<td>{escape(str(cell))}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return f'<table class="leo-table"><caption>{escape(label)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
