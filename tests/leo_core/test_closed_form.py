"""The projector's closed-form start: units that read words and know things, and a linear part for what they leave."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from leo_core.data.samples import Region
from leo_core.position import grid_boxes, position_code
from leo_core.projector import ResidualProjector
from leo_core.training.closed_form import (
    CODE_SHARE, DIRECTION_SHARE, LATER_SHARE, PLACE_SHARE, RIDGE_PENALTY, THING_SHARE, WORD_SHARE, name_embedding, names_in, ridge_start, thing_units,
)  # fmt: skip
from leo_core.training.features import StoredSample
from leo_core.training.ridge import named_cells, ridge, scores_of_names
from leo_core.training.spelled_units import LEAST_SCORE, SHARPNESS, word_units

SEEN, LETTERS, SLOTS, TEXT, HIDDEN, GRID = 24, 26, 5, 32, 32, (2, 3)
DRAWN, WRITTEN = ["lion", "dog", "cat", "bell", "tent"], ["lion", "hat", "bat"]
PLACES = ["top", "bottom", "left", "right", "middle"]
WORDS = [*DRAWN, "hat", "bat", *PLACES]


class Eyes:
    width = SEEN

    def written(self, text):
        return None


class Reader:
    width = SLOTS * LETTERS

    def written(self, text):
        slots = torch.zeros(SLOTS, LETTERS)
        for slot, letter in zip(slots, text, strict=False):
            slot[ord(letter) - ord("a")] = 1
        return slots.flatten()


class Experts(dict):
    @property
    def widths(self):
        return tuple(expert.width for expert in self.values())


EXPERTS = Experts(eyes=Eyes(), reader=Reader())


class Cells(nn.Module):
    """A reducer whose tokens are what the store delivers."""

    grid = GRID

    def forward(self, features, *_):
        return (features,)


class Store(list):
    """Pictures whose first cell shows a drawing, which look alike and are noisy, or, every fifth, a written word."""

    def __init__(self, count: int = 400):
        super().__init__(range(count))
        rng = torch.Generator().manual_seed(0)
        shapes = torch.randn(len(DRAWN), SEEN, generator=rng) + 2 * torch.randn(SEEN, generator=rng)
        self.tokens, self.samples = torch.zeros(count, 6, SEEN + Reader.width), []
        for i in range(count):
            written = i % 5 == 4
            name = WRITTEN[i // 5 % len(WRITTEN)] if written else DRAWN[i // 5 % len(DRAWN)]
            self.samples.append(StoredSample(f"scenes-{i}", (30, 20), (), (Region((0.0, 0.0, 10.0, 10.0), name.capitalize() if written else name),)))
            self.tokens[i, :, :SEEN] = 0.7 * torch.randn(6, SEEN, generator=rng) + (0 if written else shapes[DRAWN.index(name)])
            if written:
                self.tokens[i, :, SEEN:] = Reader().written(name)

    def features(self, index):
        return self.tokens[index]


@pytest.fixture
def parts():
    torch.manual_seed(0)
    ids = {f" {word}": i for i, word in enumerate(WORDS)}
    embedding = nn.Embedding(len(ids), TEXT)
    plain_ids = lambda text: [ids[f" {word}"] for word in text.split()]  # noqa: E731
    projector = ResidualProjector(SEEN + Reader.width, TEXT, HIDDEN, 6)
    model = SimpleNamespace(projector=projector, reducer=Cells(), vision_experts=EXPERTS, get_input_embeddings=lambda: embedding)
    return model, SimpleNamespace(plain_ids=plain_ids), Store(), embedding


def embedded(embedding: nn.Embedding, name: str) -> torch.Tensor:
    return embedding.weight.detach()[WORDS.index(name.lower())]


def written(name: str) -> torch.Tensor:
    return torch.cat([torch.zeros(SEEN), Reader().written(name)])


def test_scores_are_a_ridge_regression_onto_the_most_frequent_names():
    inputs, names = torch.randn(34, 4, generator=torch.Generator().manual_seed(1)), ["a"] * 14 + ["b"] * 10 + ["c"] * 6 + [None] * 4
    known, weight, bias = scores_of_names(inputs, names, 2, 3.0)
    shown = torch.tensor([[float(name == one) for one in "ab"] for name in names])
    assert known == ["a", "b"]
    for found, expected in zip((weight, bias), ridge(inputs, shown, 3.0), strict=True):
        assert_close(found, expected)
    assert scores_of_names(inputs, [None] * 34, 2, 3.0)[0] == []


def test_units_say_their_names_as_loudly_as_fits_best_and_the_linear_part_what_is_left(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    inputs, names = named_cells(store, model.reducer)
    targets = torch.stack([embedded(embedding, name) for name in names])
    named = names_in(model, processor)
    words = word_units(EXPERTS, names, int(WORD_SHARE * HIDDEN), named)
    drawn = [name if name.islower() else None for name in names]
    things = thing_units(inputs, drawn, int(THING_SHARE * HIDDEN), named)
    assert set(things.names) == set(DRAWN) and set(words.names) == {*DRAWN, *WRITTEN}
    score, bias = scores_of_names(inputs, drawn, 9, RIDGE_PENALTY)[1:]
    assert_close(things(inputs), F.gelu(SHARPNESS * (inputs @ score.T + bias - LEAST_SCORE)))
    mlp, spoken = model.projector.mlp(inputs).detach(), []
    for units in (words, things):
        said = torch.stack([embedded(embedding, name) for name in units.names])
        assert_close(units.said, said)
        spoken.append((units(inputs) @ (said - said.mean(dim=0))).flatten())
    fitted = torch.linalg.lstsq(torch.stack(spoken, dim=1), (targets - targets.mean(dim=0)).flatten()[:, None]).solution
    assert_close(mlp.flatten(), (torch.stack(spoken, dim=1) @ fitted)[:, 0], atol=1e-3, rtol=1e-3)
    assert not model.projector.mlp[2].weight[:, len(words.names) + len(things.names) :].any()  # the free units stay silent
    left = ridge(inputs, targets - mlp, RIDGE_PENALTY)
    assert_close(model.projector.linear.weight.detach(), left[0], atol=1e-4, rtol=1e-4)
    assert_close(model.projector.linear.bias.detach(), left[1], atol=1e-4, rtol=1e-4)


def test_names_come_out_clearer_than_from_a_linear_map_and_words_that_no_picture_shows_too(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    inputs, names = named_cells(store, model.reducer)
    targets = torch.stack([embedded(embedding, name) for name in names])
    weight, bias = ridge(inputs, targets, RIDGE_PENALTY)
    mean = targets.mean(dim=0)
    likeness = lambda out, wanted: F.cosine_similarity(out - mean, wanted - mean).mean()  # noqa: E731
    start = lambda x: (model.projector.linear(x) + model.projector.mlp(x)).detach()  # noqa: E731
    assert likeness(start(inputs), targets) > likeness(inputs @ weight.T + bias, targets) + 0.02
    never = torch.stack([written(name) for name in ("tent", "bell", "cat")])  # drawn, never written
    wanted = torch.stack([embedded(embedding, name) for name in ("tent", "bell", "cat")])
    assert likeness(start(never), wanted) > likeness(never @ weight.T + bias, wanted) + 0.2


def test_one_name_alone_leaves_nothing_to_tell_apart_and_no_number_breaks(parts):
    model, processor, store, _ = parts
    store.samples = [StoredSample(one.name, one.size, (), (Region((0.0, 0.0, 10.0, 10.0), "lion"),)) for one in store.samples]
    ridge_start(model, processor, store)
    assert all(value.isfinite().all() for value in model.projector.state_dict().values())
    assert not model.projector.mlp[2].weight.any()


def test_a_name_of_several_pieces_tells_their_order():
    pieces = torch.randn(3, TEXT, generator=torch.Generator().manual_seed(2))
    weights = [1.0, LATER_SHARE, LATER_SHARE**2]
    by_hand = sum(weight * piece for weight, piece in zip(weights, pieces, strict=True)) / sum(weights)
    assert_close(name_embedding(pieces), by_hand)
    assert_close(name_embedding(pieces[:1]), pieces[0])
    assert (name_embedding(pieces) - name_embedding(pieces.flip(0))).norm() > 0.1


def test_a_number_is_the_sum_of_its_characters_each_at_its_place_with_the_weights_of_a_name_of_two(parts):
    model, processor, _, embedding = parts
    processor.plain_ids = lambda text: ["0123456789$.".index(letter) for letter in text]
    named, digit = names_in(model, processor), embedding.weight.detach()
    assert_close(named("37"), name_embedding(digit[[3, 7]]))
    assert_close(named("$4.5"), sum(LATER_SHARE**i * digit[piece] for i, piece in enumerate((10, 4, 11, 5))) / (1 + LATER_SHARE))
    assert (named("37") - named("73")).norm() > 0.1 and (named("7") - named("77")).norm() > 0.1


def test_positions_say_their_place_how_far_from_the_middle_it_is_and_which_row_and_column(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    code = position_code(grid_boxes(*GRID), TEXT)
    code = (code - code.mean(dim=0)) / (code - code.mean(dim=0)).norm(dim=1).mean() * embedding.weight.detach().norm(dim=1).mean()
    word = lambda name: embedded(embedding, name)  # noqa: E731
    rows, expected = [["top left", "top", "top right"], ["bottom left", "bottom", "bottom right"]], []
    for y, row in zip((-0.25, 0.25), rows, strict=True):
        for x, name in zip((-1 / 3, 0.0, 1 / 3), row, strict=True):
            place = name_embedding(torch.stack([word(piece) for piece in name.split()]))
            expected.append(PLACE_SHARE * place + DIRECTION_SHARE * (x * (word("right") - word("left")) + y * (word("bottom") - word("top"))))
    expected = torch.stack(expected) + CODE_SHARE * code
    assert_close(model.projector.positions.detach(), expected - expected.mean(dim=0), atol=1e-4, rtol=1e-4)
