"""The projector's closed-form start: names through their own hidden units, the rest through the linear part."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from leo_core.data.samples import Region
from leo_core.projector import ResidualProjector
from leo_core.training.features import StoredSample
from leo_core.training.first_stage import DIRECTION_SHARE, LATER_SHARE, LEAST_SCORE, PLACE_SHARE, RIDGE_PENALTY, SHARPNESS, name_embedding, ridge_start
from leo_core.training.ridge import named_cells, ridge, scores_of_names

WIDTH, TEXT, GRID = 24, 16, (2, 3)
NAMES = ["lion", "dog", "cat", "bell", "tent"]
PLACES = ["top", "bottom", "left", "right", "middle"]


class Cells(nn.Module):
    """A reducer whose tokens are what the store delivers."""

    grid = GRID

    def forward(self, features, *_):
        return (features,)


class Store(list):
    """Pictures whose first cell shows a name: names look alike, and each cell is noisy."""

    def __init__(self, count: int = 300):
        super().__init__(range(count))
        rng = torch.Generator().manual_seed(0)
        shapes = torch.randn(len(NAMES), WIDTH, generator=rng) + 2 * torch.randn(WIDTH, generator=rng)
        region = lambda i: Region((0.0, 0.0, 10.0, 10.0), NAMES[i % len(NAMES)])  # noqa: E731
        self.samples = [StoredSample(f"scenes-{i}", (30, 20), (), (region(i),)) for i in range(count)]
        self.tokens = shapes[torch.arange(count) % len(NAMES)][:, None] + 0.7 * torch.randn(count, 6, WIDTH, generator=rng)

    def features(self, index):
        return self.tokens[index]


@pytest.fixture
def parts():
    torch.manual_seed(0)
    words = {f" {word}": i for i, word in enumerate(NAMES + PLACES)}
    embedding = nn.Embedding(len(words), TEXT)
    plain_ids = lambda text: [words[f" {word}"] for word in text.split()]  # noqa: E731
    model = SimpleNamespace(projector=ResidualProjector(WIDTH, TEXT, 12, 6), reducer=Cells(), get_input_embeddings=lambda: embedding)
    return model, SimpleNamespace(plain_ids=plain_ids), Store(), embedding


def test_scores_are_a_ridge_regression_onto_the_most_frequent_names():
    inputs, names = torch.randn(30, 4, generator=torch.Generator().manual_seed(1)), ["a"] * 14 + ["b"] * 10 + ["c"] * 6
    known, weight, bias = scores_of_names(inputs, names, 2, 3.0)
    shown = torch.tensor([[float(name == one) for one in "ab"] for name in names])
    assert known == ["a", "b"]
    for found, expected in zip((weight, bias), ridge(inputs, shown, 3.0), strict=True):
        assert_close(found, expected)


def test_hidden_units_say_the_names_they_score_and_the_linear_part_what_is_left(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    inputs, names = named_cells(store, model.reducer)
    targets = torch.stack([embedding.weight.detach()[NAMES.index(name)] for name in names])
    known, weight, bias = scores_of_names(inputs, names, 6, RIDGE_PENALTY)
    said = torch.stack([embedding.weight.detach()[NAMES.index(name)] for name in known])
    units = F.gelu(SHARPNESS * (inputs @ weight.T + bias - LEAST_SCORE)) @ (said - said.mean(dim=0))
    mlp = model.projector.mlp(inputs).detach()
    length = (units * (targets - targets.mean(dim=0))).sum() / units.square().sum()
    assert_close(mlp, length * units, atol=1e-4, rtol=1e-4)
    assert not model.projector.mlp[2].weight[:, len(known) :].any()  # the free units stay silent
    left = ridge(inputs, targets - mlp, RIDGE_PENALTY)
    assert_close(model.projector.linear.weight.detach(), left[0], atol=1e-4, rtol=1e-4)
    assert_close(model.projector.linear.bias.detach(), left[1], atol=1e-4, rtol=1e-4)


def test_names_that_look_alike_come_out_clearer_than_from_a_linear_map(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    inputs, names = named_cells(store, model.reducer)
    targets = torch.stack([embedding.weight.detach()[NAMES.index(name)] for name in names])
    weight, bias = ridge(inputs, targets, RIDGE_PENALTY)
    likeness = lambda out: F.cosine_similarity(out - targets.mean(dim=0), targets - targets.mean(dim=0)).mean()  # noqa: E731
    with torch.no_grad():
        assert likeness(model.projector.linear(inputs) + model.projector.mlp(inputs)) > likeness(inputs @ weight.T + bias) + 0.02


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


def test_positions_say_their_place_and_how_far_from_the_middle_it_is(parts):
    model, processor, store, embedding = parts
    ridge_start(model, processor, store)
    word = lambda name: embedding.weight.detach()[(NAMES + PLACES).index(name)]  # noqa: E731
    rows = [["top left", "top", "top right"], ["bottom left", "bottom", "bottom right"]]
    expected = []
    for y, row in zip((-0.25, 0.25), rows, strict=True):
        for x, name in zip((-1 / 3, 0.0, 1 / 3), row, strict=True):
            place = name_embedding(torch.stack([word(piece) for piece in name.split()]))
            expected.append(PLACE_SHARE * place + DIRECTION_SHARE * (x * (word("right") - word("left")) + y * (word("bottom") - word("top"))))
    expected = torch.stack(expected)
    assert_close(model.projector.positions.detach(), expected - expected.mean(dim=0), atol=1e-5, rtol=1e-5)
