"""Token text: every byte is shown, every label can be turned back, and words of all scripts join to what the decoder says."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import figures_trace as made  # noqa: E402
from leo_core.tracing.token_bytes import token_bytes  # noqa: E402
from studio import figures  # noqa: E402
from studio.figures.table import plain, table  # noqa: E402
from studio.figures.token_text import escaped, joined, labels, readable, runs_right_to_left  # noqa: E402

TEXTS = {
    "emoji family": "👨‍👩‍👧‍👦 and ❤️🏽",
    "composed Vietnamese": "Tiếng Việt ở đâu",
    "decomposed Vietnamese": "Tie\u0302\u0301ng Vie\u0323\u0302t",
    "Chinese": "红色的狮子。",
    "Tamil": "சிங்கம் எங்கே",
    "Arabic": "أسد أحمر\u200f، كلب",
    "white space": "a  b\t\tc\n\r\n\u00a0\u3000d",
    "marks of our own": "␣⏎⟨E4⟩‿◌ ⟨U+0041⟩ &lt; <b> $x$ %{y}",
    "controls": "a\x00\x1b[31m\u202eb\u2066c\u200bd\ufe0f",
}
SPECIAL = re.compile(r"⟨(U\+)?([0-9A-F]+)⟩")


def unread(label: str) -> bytes:
    """A label back to the bytes: the inverse of `readable` and of the ties, written for this test."""
    label = label.strip("‿").removeprefix("◌").replace("⟨empty⟩", "")
    for mark, character in (("␣", " "), ("⏎", "\n"), ("⇥", "\t"), ("␍", "\r")):
        label = label.replace(mark, character)
    out, place = b"", 0
    for found in SPECIAL.finditer(label):
        out += label[place : found.start()].encode()
        out += chr(int(found[2], 16)).encode() if found[1] else bytes([int(found[2], 16)])
        place = found.end()
    return out + label[place:].encode()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_real_tokens_join_to_the_decoded_text_and_labels_hold_every_byte(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    tokens = token_bytes(tokenizer, ids)
    assert joined(tokens) == text == tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert b"".join(unread(label.text) for label in labels(tokens)) == text.encode()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("seed", range(3))
def test_any_cut_into_tokens_keeps_every_byte_and_ties_exactly_the_split_characters(text, seed):
    data = text.encode()
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(data)), size=len(data) // 2, replace=False)).tolist()
    tokens = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    made_labels = labels(tokens)
    assert b"".join(unread(label.text) for label in made_labels) == data
    inside = {cut for cut in cuts if data[cut] & 0xC0 == 0x80}  # a cut before a continuation byte splits a character
    for index, cut in enumerate(cuts):
        assert made_labels[index].text.endswith("‿") == made_labels[index + 1].text.startswith("‿") == (cut in inside)
    for index, label in enumerate(made_labels):
        if label.tokens:
            first, last = label.tokens
            assert first <= index <= last and label.whole and set(label.whole) <= set(joined(tokens[first : last + 1]))


def test_stray_bytes_are_hex_and_tied_to_nobody():
    assert [label.text for label in labels([b"\xe4", b"x\x80", b"\xf0\x9f", b"y", b""])] == ["⟨E4⟩", "x⟨80⟩", "⟨F0⟩⟨9F⟩", "y", "⟨empty⟩"]
    whole = labels(["😀".encode()[:1], "😀".encode()[1:3], "😀".encode()[3:] + b"!"])
    assert [one.text for one in whole] == ["⟨F0⟩‿", "‿⟨9F⟩⟨98⟩‿", "‿⟨80⟩!"]
    assert {(one.whole, one.tokens) for one in whole} == {("😀", (0, 2))}


def test_accents_and_vowel_signs_get_something_to_sit_on():
    assert readable("\u0301".encode()) == "◌\u0301" and readable("\u0bbf".encode()) == "◌\u0bbf" and readable("e\u0301".encode()) == "e\u0301"


def test_direction_follows_the_first_letter_that_has_one():
    assert runs_right_to_left("123 أسد red") and runs_right_to_left("שלום") and not runs_right_to_left("red أسد") and not runs_right_to_left("12 …")


def test_nothing_in_a_label_is_read_by_plotly_or_turns_the_text_around():
    assert escaped("<b>%{meta.caption}$a$&amp;\u202ex\n") == "&lt;b&gt;&#37;{meta.caption}&#36;a&#36;&amp;amp;⟨U+202E⟩x⟨U+000A⟩"
    for text in TEXTS.values():
        assert plain(escaped(readable(text.encode()))) == readable(text.encode())


def test_repeated_words_stay_apart_in_every_figure():
    words = (b" the",) * 4
    trace = replace(made.make_trace(), token_bytes=(*made.make_trace().token_bytes[:-4], *words))
    answers, routes = figures.answer_tokens(trace), figures.routing_map(trace, roles=["answer"])
    assert list(answers.data[0].x) == [0, 1, 2, 3] and answers.layout.xaxis.ticktext == ("␣the",) * 4
    assert routes.layout.xaxis.ticktext == ("␣the",) * 4 and next(one for one in routes.data if one.type == "heatmap").z.shape[1] == 4
    assert table(figures.answer_table(trace)).column("token") == ["␣the"] * 4
    shares = figures.expert_shares(["same", "same"], [0.1, 0.2], [0.1, 0.2], None, (0.0, -0.3), 0.0)
    assert list(shares.data[0].x) == [0, 1] and table(shares).column("vision expert")[:2] == ["same", "same"]


def test_an_answer_from_right_to_left_says_how_its_tokens_stand():
    right = replace(made.make_trace(), answer="أسد أحمر")
    assert "from right to left" in figures.answer_tokens(right).layout.meta["caption"]
    assert "from right to left" not in figures.answer_tokens(made.make_trace()).layout.meta["caption"]
