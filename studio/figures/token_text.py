"""Token text as a reader must see it: exact, with what is invisible made visible, and harmless in Plotly's labels."""

import unicodedata

_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}
"""Plotly reads some HTML and, where MathJax is loaded, $...$ in every label."""


def visible(token: bytes) -> str:
    """A token's text for a Plotly label: `readable`, escaped."""
    return escaped(readable(token))


def readable(token: bytes) -> str:
    """A token's text: ␣ ⏎ ⇥ for white space, ⟨E4⟩ for a byte of an incomplete character, ⟨U+200B⟩ for one without a glyph."""
    if not token:
        return "⟨empty⟩"
    text = "".join(map(_shown, token.decode("utf-8", "surrogateescape")))
    return "◌" + text if unicodedata.combining(text[0]) else text


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape could not decode
        return f"⟨{code - 0xDC00:02X}⟩"
    if character in _MARKS:
        return _MARKS[character]
    return f"⟨U+{code:04X}⟩" if unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs") else character


def escaped(text: str) -> str:
    """Text that Plotly shows as it is."""
    return "".join(_ENTITIES.get(character, character) for character in text)


def clipped(text: str, most: int = 16) -> str:
    """At most `most` characters for an axis label; hover shows the whole. Clip before escaping."""
    return text if len(text) <= most else text[: most - 1] + "…"
