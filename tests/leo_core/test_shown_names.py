"""Names shown in place of visual tokens: which cells they take, how they fade, and that the loss sees them."""

import torch
from torch.testing import assert_close

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.data.samples import Region
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.features import StoredSample
from leo_core.training.shown_names import name_embedding, named_tokens, shown_names

LION = Region((0.0, 0.0, 100.0, 100.0), "Lion")
DOG = Region((250.0, 60.0, 300.0, 90.0), "dog")
SPECK = Region((1.0, 1.0, 3.0, 3.0), "speck")
SAMPLE = StoredSample("scenes-1", (300, 100), (), (LION, DOG, SPECK))


def test_a_name_takes_the_cells_whose_centres_it_covers():
    found = named_tokens(SAMPLE, (2, 3))  # centres at x = 50, 150, 250 and y = 25, 75
    assert {name: cells.nonzero().flatten().tolist() for name, cells in found.items()} == {"Lion": [0, 3], "dog": [5]}


def test_two_things_of_one_name_share_an_entry():
    twice = StoredSample("scenes-1", (300, 100), (), (LION, Region((200.0, 0.0, 300.0, 40.0), "Lion")))
    assert named_tokens(twice, (2, 3))["Lion"].nonzero().flatten().tolist() == [0, 2, 3]


def test_named_cells_fade_from_name_and_place_to_what_the_projector_makes(make_leo, tokenizer):
    model = make_leo(reducer=ReducerConfig(kind="keep_all", tokens=6, grid=(2, 3)), mmoe=MMoEConfig(num_experts=0, general=False, balance="none"))
    model.decoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    processor = LeoProcessor(LeoImageProcessor([]), tokenizer, visual_tokens=6)
    width = model.get_input_embeddings().weight.shape[1]
    model.projector.positions = torch.nn.Parameter(torch.randn(6, width))
    visual = torch.randn(2, 6, width, requires_grad=True)
    lion, positions = name_embedding(model, processor, "Lion"), model.projector.positions
    assert torch.equal(lion, name_embedding(model, processor, "lion"))
    for share in (1.0, 0.25):
        shown = shown_names(model, processor, [SAMPLE, StoredSample("x", (9, 9), (), ())], share)(visual)
        assert_close(shown[0, 3], share * (lion + positions[3]) + (1 - share) * visual[0, 3])
        assert torch.equal(shown[0, 1], visual[0, 1]) and torch.equal(shown[1], visual[1])
    shown.sum().backward()
    assert_close(visual.grad[0, 3], torch.full((width,), 0.75))  # the projector learns in proportion to what is left of it
