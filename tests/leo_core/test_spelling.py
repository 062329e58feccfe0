"""Words from a recogniser's posteriors, and back from their vectors."""

import numpy as np
import pytest

from leo_core.experts.spelling import ALPHABET, CODE, SLOTS, WIDTH, Spelling, nothing_vector, spelled, spelled_as, word_vector

CHARACTERS = ["a", "b", "C", "7", "$", ".", "é"]
BLANK, SPACE = 0, len(CHARACTERS) + 1


def columns(*classes: int, sure: float = 0.9) -> np.ndarray:
    """One column for each class; the rest of the probability is spread evenly."""
    rest = (1 - sure) / (SPACE)
    return np.where(np.eye(SPACE + 1)[list(classes)] > 0, sure, rest).astype(np.float32)


def test_repeats_are_one_letter_and_a_blank_between_makes_two():
    (word,) = Spelling(CHARACTERS).words(columns(0, 1, 1, 0, 1, 2, 2, 0))
    assert (word.text, word.start, word.end) == ("aab", 1, 7)


def test_spaces_and_wide_gaps_part_words():
    spelling = Spelling(CHARACTERS)
    assert [word.text for word in spelling.words(columns(1, 0, 2, SPACE, 3, 0, 4))] == ["ab", "C7"]
    assert [word.text for word in spelling.words(columns(1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 4))] == ["aba", "C7"]
    assert spelling.words(columns(0, 0, 0)) == [] and spelling.words(columns(0, SPACE, 0)) == []


def test_codes_are_the_posterior_over_the_alphabet():
    posterior = columns(3, 3, 7, sure=0.7)
    (word,) = Spelling(CHARACTERS).words(posterior)
    rest = 0.3 / SPACE
    first, other = word.codes
    assert first[ALPHABET.index("c")] == pytest.approx(0.7) and first[-1] == pytest.approx(0.7), "a capital C"
    assert first[ALPHABET.index("a")] == pytest.approx(rest) and first[len(ALPHABET)] == pytest.approx(rest)
    assert other[len(ALPHABET)] == pytest.approx(0.7), "not in the alphabet"
    assert first[:-1].sum() == pytest.approx(1 - 2 * rest), "all but the blank and the space"


@pytest.mark.parametrize("text", ["a", "ab7", "$7.77", "abababababab", "abababababab77777"])
def test_a_vector_spells_its_word(text):
    classes = [part for letter in text for part in (CHARACTERS.index(letter) + 1, 0)]
    (word,) = Spelling(CHARACTERS).words(columns(*classes))
    vector = word_vector(word, height=0.25, strip=3, strips=7, place=0.5)
    back = spelled(vector)
    assert vector.shape == (WIDTH,) == (SLOTS * CODE + 6,)
    assert (back.text, back.strip, back.height) == (text[:SLOTS], 3, pytest.approx(0.25))
    assert vector[-6] == pytest.approx(len(text) / SLOTS), "a longer word still says how long it is"


def test_nothing_reads_as_nothing():
    assert spelled(nothing_vector()).text == "" and nothing_vector()[-1] == 1


@pytest.mark.parametrize("text", ["a", "cab", "b7$.a", "é", "abcabcabcabcabc"])
def test_a_spelled_text_is_what_a_sure_recogniser_delivers(text):
    spelling = Spelling(CHARACTERS)
    classes = [index for character in text for index in (0, 1 + [one.lower() for one in CHARACTERS].index(character))]
    (word,) = spelling.words(columns(*classes, sure=1.0))
    read, told = word_vector(word, 0.2, 1, 3, 0.5), spelled_as(text.upper())
    known = ~np.isnan(told)
    assert np.allclose(told[known], read[known])
    assert known.sum() == SLOTS * (CODE - 1) + 2, "all but capitals, height and place"
    assert spelled(np.nan_to_num(told)).text == text.replace("é", "?")[:SLOTS]
