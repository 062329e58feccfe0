"""The little English the questions need: articles, plurals, small numbers in words, "a dog and a cat"."""

import re
from collections.abc import Sequence

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")
IRREGULAR = {
    "mouse": "mice", "goose": "geese", "sheep": "sheep", "fish": "fish", "deer": "deer", "moose": "moose",
    "bison": "bison", "squid": "squid", "shrimp": "shrimp", "jellyfish": "jellyfish", "knife": "knives",
    "leaf": "leaves", "wolf": "wolves", "scarf": "scarves", "tooth": "teeth", "snowman": "snowmen", "tomato": "tomatoes",
    "potato": "potatoes", "mango": "mangoes", "volcano": "volcanoes", "mosquito": "mosquitoes", "tornado": "tornadoes",
}  # fmt: skip
SOUND_LIKE_YOU = ("uni", "uk", "use", "eu")
SILENT_H = ("hour", "heir", "honest")


def with_article(name: str) -> str:
    """`a dog`, `an apple`, `a unicorn`, `an hourglass`."""
    vowel = (name[0].lower() in "aeiou" and not name.lower().startswith(SOUND_LIKE_YOU)) or name.startswith(SILENT_H)
    return f"{'an' if vowel else 'a'} {name}"


def plural(name: str) -> str:
    """The plural of a name of one or more words: only its last word changes (`hot dogs`, `maple leaves`)."""
    *before, last = name.split(" ")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        last += "es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return " ".join([*before, last])


def counted(number: int, name: str) -> str:
    """`a dog`, `two dogs`."""
    return with_article(name) if number == 1 else f"{NUMBERS[number]} {plural(name)}"


def listed(phrases: Sequence[str]) -> str:
    """`a dog`, `a dog and a cat`, `a dog, a cat and a car`."""
    *before, last = phrases
    return f"{', '.join(before)} and {last}" if before else last


def mentions(text: str, name: str) -> bool:
    """Does the text name it, alone or in the plural, as words of its own? One letter counts only as it is written: "A" is not "a"."""
    folded, name = (text, name) if len(name) == 1 else (text.lower(), name.lower())
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", folded) for form in (name, plural(name)))
