"""The lab's names and sizes, known without its files."""

HIDDEN, INNER, LAYERS, HEADS = 128, 256, 3, 4
"""Of the decoder."""
DECODER_LAYER = (HIDDEN, INNER)
"""Widths behind and before a down projection."""
EXPERTS = ("objects", "regions", "reading")
"""Of the embedded model's vision experts: unequal numbers of tokens, different domains."""
EXPERT_VIEWS = tuple(f"without {name}" for name in EXPERTS) + tuple(f"{name} alone" for name in EXPERTS)
"""Conditions under which some vision experts are absent."""
