"""Hidden units that read: words and numbers from their spelling alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from leo_core.training.spelled_units import (
    LEAST_DIGIT, LEAST_READ, SHARPNESS, WORD_PENALTY, is_number, number_units, shows_writing, word_units, written,
)  # fmt: skip

SEEN, SLOTS, TEXT = 24, 8, 48
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789$."


class Eyes:
    width = SEEN

    def written(self, text):
        return None


class Reader:
    width = SLOTS * len(ALPHABET)

    def written(self, text):
        slots = torch.zeros(SLOTS, len(ALPHABET))
        for slot, letter in zip(slots, text.lower(), strict=False):
            slot[ALPHABET.index(letter)] = 1
        return slots.flatten()


class Experts(dict):
    @property
    def widths(self):
        return tuple(expert.width for expert in self.values())


EXPERTS, BLIND = Experts(eyes=Eyes(), reader=Reader()), Experts(eyes=Eyes())
EMBEDDING = torch.randn(SLOTS, len(ALPHABET), TEXT, generator=torch.Generator().manual_seed(3))


def named(word: str) -> torch.Tensor:
    return torch.randn(TEXT, generator=torch.Generator().manual_seed(sum(map(ord, word))))


def said(letter: str, place: int) -> torch.Tensor:
    return EMBEDDING[place, ALPHABET.index(letter)]


@pytest.mark.parametrize(
    ("name", "number"), [("7", True), ("3520", True), ("$4.50", True), ("hat", False), ("A4", False), ("$", False), ("3 20", False), ("", False)]
)
def test_what_a_number_is(name, number):
    assert is_number(name) is number


def test_what_is_written_is_what_each_reading_expert_says_and_zero_for_the_others():
    rows = written(EXPERTS, ["hat", "$3"])
    assert rows.shape == (2, SEEN + Reader.width) and not rows[:, :SEEN].any()
    assert_close(rows[1, SEEN:], Reader().written("$3"))
    assert written(EXPERTS, []).shape == (0, SEEN + Reader.width)


def test_word_units_come_from_spelling_alone_and_score_one_on_their_word():
    told = ["Hat", "hat", "HAT", "bat", "bat", "toothbrush", "12", "red hat", "$3"]
    units = word_units(EXPERTS, told, 3, named)
    assert units.names == ["hat", "bat", "toothbrush"] and word_units(EXPERTS, told, 2, named).names == ["hat", "bat"]
    assert_close(units.said, torch.stack([named(name) for name in units.names]))
    spelled = written(EXPERTS, units.names)
    dual = torch.linalg.solve(spelled @ spelled.T + WORD_PENALTY * torch.eye(3), spelled)  # the same ridge, solved in the other space
    dual /= (dual * spelled).sum(dim=1, keepdim=True)
    assert_close(units.weight, SHARPNESS * dual, atol=1e-4, rtol=1e-4)
    own = (spelled @ units.weight.T + units.bias).diagonal()
    assert_close(own, torch.full((3,), SHARPNESS * (1 - LEAST_READ)))


def test_number_units_read_each_character_at_its_place_of_numbers_that_were_never_told():
    rng = np.random.default_rng(4)
    told = [str(number) for number in rng.integers(1, 10_000, 300)] + ["$4.50", "$12.95", "$9.25", "hat", "toothbrush", "cat"]
    units = number_units(EXPERTS, told, said, 999)
    new = [text for text in ("8", "37", "73", "505", "3502", "3520", "$2.95") if text not in told]
    scores = (written(EXPERTS, new) @ units.weight.T + units.bias) / SHARPNESS + LEAST_DIGIT
    for text, row in zip(new, scores, strict=True):
        for name, score in zip(units.names, row.tolist(), strict=True):
            letter, place = name.split(" at ")
            stands_there = text[int(place) : int(place) + 1] == letter
            assert score == pytest.approx(1, abs=0.15) if stands_there else score < 0.2, (text, name)
    spoken = units(written(EXPERTS, new)) @ units.said / F.gelu(torch.tensor(SHARPNESS * (1 - LEAST_DIGIT)))
    wanted = torch.stack([sum(said(letter, place) for place, letter in enumerate(text)) for text in new])
    assert F.cosine_similarity(spoken, wanted).min() > 0.95
    silent = units(written(EXPERTS, ["hat", "cat", "toothbrush"]))
    assert silent.max() < 0.3 * F.gelu(torch.tensor(SHARPNESS * (1 - LEAST_DIGIT)))


def test_units_of_numbers_are_as_many_as_allowed():
    assert len(number_units(EXPERTS, ["12", "34"], said, 3).names) == 3
    assert number_units(EXPERTS, ["12", "34"], said, 9).names == ["1 at 0", "3 at 0", "2 at 1", "4 at 1"]


def test_where_no_expert_reads_or_nothing_is_written_there_are_no_units():
    assert word_units(BLIND, ["hat"], 3, named) is None and number_units(BLIND, ["12"], said, 9) is None
    assert word_units(EXPERTS, ["12", "red hat"], 3, named) is None and number_units(EXPERTS, ["hat", "red hat"], said, 9) is None
    assert number_units(EXPERTS, ["12"], said, 0) is None
    assert not shows_writing(None, torch.zeros(2, SEEN), ["hat", "12"]).any()


def test_a_name_may_be_drawn_or_written_and_a_number_is_always_written():
    units = word_units(EXPERTS, ["lion", "hat", "bat"], 20, named)
    rows = torch.cat([written(EXPERTS, ["lion"]), torch.randn(1, SEEN + Reader.width, generator=torch.Generator().manual_seed(1)) * 0.1, written(EXPERTS, ["hat", "hat", "7"])])
    assert shows_writing(units, rows, ["Lion", "lion", "hat", "a hat", "7"]).tolist() == [True, False, True, False, True]
