"""The lab's tokenizer: one token for each word that questions and answers are made of, one for each character of what is read."""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from leo_core.data import chart_questions, scene_questions, text
from leo_core.data.backgrounds import COLOURS
from leo_core.data.chart_facts import LABELS
from leo_core.data.english import NUMBERS, plural
from leo_core.data.sets import LAB_NAMES

IMAGE, ASK, END, PAD, UNKNOWN = "<picture>", "<answer>", "<end>", "<pad>", "<unknown>"
SPECIAL = (PAD, END, IMAGE, ASK, UNKNOWN)
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789$.,:?!'\"-"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}" + ASK + "{% endif %}"
"""The picture's places, the question, the mark of the answer: no roles, since there is nothing but one question."""


def spoken_words() -> tuple[str, ...]:
    """Words of two letters and more that templates, names, colours, numbers and labels are made of, sorted."""
    phrases = [*LAB_NAMES, *map(plural, LAB_NAMES), *COLOURS, *NUMBERS, "a", "an", "and", "yes", "no", *chart_questions.CHART_NAMES.values()]
    phrases += [label for group in LABELS for label in group] + [part + "s" for part in chart_questions.PARTS.values()]
    phrases += ["top", "bottom", "left", "right", "first", "second", "number", "price", "word", *chart_questions.PARTS.values()]
    for module in (scene_questions, chart_questions, text):
        phrases += _templates(vars(module))
    words = {word for phrase in phrases for word in re.findall(r"[a-z]+(?:-[a-z]+)?", re.sub(r"\{\w+\}", " ", phrase.lower()))}
    return tuple(sorted(word for word in words if len(word) > 1))


def _templates(names: dict) -> Iterable[str]:
    """Every string inside the upper-case tuples and dictionaries of a module of questions."""
    for name, value in names.items():
        if name.isupper():
            for group in value.values() if isinstance(value, dict) else [value]:
                yield from (one for one in group if isinstance(one, str)) if isinstance(group, tuple) else ()


def new_tokenizer() -> PreTrainedTokenizerFast:
    """A few hundred pieces. Spaces are not kept: what is decoded has a space between all pieces."""
    words = spoken_words()
    pieces = [*SPECIAL, *words, *CHARACTERS]
    backend = Tokenizer(models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Lowercase()
    whole = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(rf"\b(?:{whole})\b"), "isolated"),
            pre_tokenizers.Split(Regex(rf"\A(?:{whole})\Z|."), "isolated"),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=PAD, unk_token=UNKNOWN,
        additional_special_tokens=[IMAGE, ASK], chat_template=TEMPLATE,
    )  # fmt: skip
