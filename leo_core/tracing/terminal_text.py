"""Text from strangers for a terminal: nothing in it can move the cursor, change colours or turn the line around."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def terminal_text(text: str | bytes, most: int | None = None) -> str:
    """One line without control, format or unassigned characters; they appear as escapes, bytes that are no UTF-8 as \\xNN.

    most: characters after which the rest is cut, with an ellipsis.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="surrogateescape")
    shown = "".join(_shown(character) for character in (text if most is None else text[:most]))
    return shown + ("…" if most is not None and len(text) > most else "")


def _shown(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
