"""What a decoder position is for. Derived from the inputs of a run, never from offsets."""

ROLES = ("special", "system", "picture", "question", "answer", "pad")
"""Names of the role codes 0..5."""

SPECIAL, SYSTEM, PICTURE, QUESTION, ANSWER, PAD = range(len(ROLES))
