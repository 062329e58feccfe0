"""The exact bytes of each token, for tokenizers that work on bytes (GPT-2 style byte-level BPE) and others."""

from collections.abc import Iterable
from functools import cache

from transformers import PreTrainedTokenizerBase


@cache
def _bytes_of_characters() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE uses for bytes (Radford et al. 2019), inverted."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


def token_bytes(tokenizer: PreTrainedTokenizerBase, ids: Iterable[int]) -> list[bytes]:
    """Bytes of each token: joined, they are exactly the text. Added tokens (chat marks) are their own text."""
    table, added = _bytes_of_characters(), tokenizer.added_tokens_decoder
    result = []
    for token_id in (int(i) for i in ids):
        token = tokenizer.convert_ids_to_tokens(token_id)
        if token_id in added:
            result.append(str(added[token_id]).encode())
        elif token.startswith("<0x") and token.endswith(">") and len(token) == 6:
            result.append(bytes([int(token[3:5], 16)]))  # byte fallback of SentencePiece
        elif all(character in table for character in token):
            result.append(bytes(table[character] for character in token))
        else:
            result.append(token.replace("▁", " ").encode())
    return result
