"""Token text as a reader must see it: exact to the byte, with what is invisible made visible, and harmless in Plotly's labels.

A label can be turned back into its bytes: the marks themselves (␣ ⏎ ⇥ ⟨ ⟩ ‿ ...) appear as code points where a text holds them.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}
TIE = "‿"
"""Stands where a character goes on in the neighbouring token."""
_BASE = "◌"
_OWN = frozenset([*_MARKS.values(), TIE, _BASE, "⟨", "⟩"])
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u180b\u180c\u180d\u180f")
"""Letters and marks without ink, which Unicode's categories do not tell apart."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%": "&#37;"}
"""Plotly reads some HTML in every label, %{...} as a placeholder and, where MathJax is loaded, $...$."""
_RIGHT_TO_LEFT = ("R", "AL")


@dataclass(frozen=True)
class Label:
    """How one token of a text is called. text: readable, unescaped, with TIE towards neighbours that hold the rest of a character.

    whole: the characters that it shares with neighbours ("" for none); tokens: (first, last) token that hold them, 0-based.
    """

    text: str
    whole: str = ""
    tokens: tuple[int, int] | None = None


def visible(token: bytes) -> str:
    """A token's text for a Plotly label: `readable`, escaped."""
    return escaped(readable(token))


def readable(token: bytes) -> str:
    """A token's text: ␣ ⏎ ⇥ for white space, ⟨E4⟩ for a byte of an incomplete character, ⟨U+200B⟩ for one without ink."""
    if not token:
        return "⟨empty⟩"
    text = token.decode("utf-8", "surrogateescape")
    shown = "".join(map(_shown, text))
    return _BASE + shown if _hangs(text[0]) else shown


def labels(tokens: Sequence[bytes]) -> list[Label]:
    """Labels of the tokens of one text in order; bytes of one character in several tokens are tied: ⟨F0⟩⟨9F⟩‿ ‿⟨98⟩⟨80⟩."""
    owner = [index for index, token in enumerate(tokens) for _ in token]
    shared: dict[int, list[tuple[int, int, str]]] = {}
    for start, end, character in _characters(b"".join(tokens)):
        first, last = owner[start], owner[end - 1]
        for index in range(first, last + 1) if first != last else ():
            shared.setdefault(index, []).append((first, last, character))
    result = []
    for index, token in enumerate(tokens):
        parts = shared.get(index, []) if token else []
        before, after = any(first < index for first, _, _ in parts), any(last > index for _, last, _ in parts)
        text = TIE * before + readable(token) + TIE * after
        span = (min(first for first, _, _ in parts), max(last for _, last, _ in parts)) if parts else None
        result.append(Label(text, "".join(character for _, _, character in parts), span))
    return result


def joined(tokens: Sequence[bytes]) -> str:
    """The text of tokens together; bytes that belong to no character become U+FFFD, as a decoder would write them."""
    return b"".join(tokens).decode("utf-8", "replace")


def runs_right_to_left(text: str) -> bool:
    """Whether a text's first letter with a direction is Hebrew, Arabic or the like: such a text is laid out from the right."""
    for character in text:
        direction = unicodedata.bidirectional(character)
        if direction in _RIGHT_TO_LEFT or direction == "L":
            return direction != "L"
    return False


def _characters(data: bytes):
    """(start, end, character) of every complete character of several bytes; stray bytes are passed over."""
    place = 0
    while place < len(data):
        length = 4 if data[place] >= 0xF0 else 3 if data[place] >= 0xE0 else 2 if data[place] >= 0xC0 else 1
        if length > 1:
            try:
                yield place, place + length, data[place : place + length].decode("utf-8")
            except UnicodeDecodeError:
                length = 1
        place += length


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape could not decode
        return f"⟨{code - 0xDC00:02X}⟩"
    if character in _MARKS:
        return _MARKS[character]
    return f"⟨U+{code:04X}⟩" if _inkless(character) or character in _OWN else character


def _inkless(character: str) -> bool:
    code = ord(character)
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    return selector or character in _INVISIBLE or unicodedata.category(character) in _HIDDEN


def _hangs(character: str) -> bool:
    """Whether a character needs one before it to sit on (accents, vowel signs)."""
    return unicodedata.category(character) in ("Mn", "Me", "Mc") and not _inkless(character)


def escaped(text: str) -> str:
    """Text that Plotly shows as it is. Controls, also those that turn the direction of writing around, become code points."""
    return "".join(_ENTITIES.get(character) or _harmless(character) for character in text)


def _harmless(character: str) -> str:
    turns = unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return f"⟨U+{ord(character):04X}⟩" if turns or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character


def clipped(text: str, most: int = 16) -> str:
    """At most `most` characters for an axis label; hover shows the whole. Clip before escaping."""
    return text if len(text) <= most else text[: most - 1] + "…"
