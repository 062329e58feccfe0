"""The other reducers: exact areas, identities, and a second computation of the resampler."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from leo_core.config import ReducerConfig, squarest
from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures
from leo_core.geometry import grid_geometry
from leo_core.position import grid_boxes, position_code
from leo_core.reducers import build_reducer, overlap

WIDTHS = (12, 20, 33)
KINDS = {
    "keep_all": ReducerConfig(kind="keep_all", tokens=15, grid=(3, 5)),
    "average": ReducerConfig(kind="average", tokens=6, grid=(5, 7)),
    "random": ReducerConfig(kind="random", tokens=4, grid=(3, 5)),
    "resampler": ReducerConfig(kind="resampler", tokens=4, projection=24, heads=3),
}
TEXT, TEXT_MASK = torch.zeros(3, 2, 14), torch.ones(3, 2, dtype=torch.bool)


def raster(cells, boxes, mask, side=120):
    """`overlap` by brute force: count the pixels of a fine raster that lie in both."""
    x = (torch.arange(side) + 0.5) / side
    inside = lambda b: ((x >= b[0]) & (x < b[2]))[None] & ((x >= b[1]) & (x < b[3]))[:, None]  # noqa: E731
    area = torch.tensor([[float((inside(cell) & inside(box)).sum()) * bool(m) for box, m in zip(boxes, mask, strict=True)] for cell in cells])
    return area / area.sum(-1, keepdim=True).clamp(min=1)


def on_grid(rows, columns, width=12, pictures=2):
    full = torch.ones(pictures, rows * columns, dtype=torch.bool)
    return PictureFeatures((torch.randn(pictures, rows * columns, width),), (full,), (grid_boxes(rows, columns).expand(pictures, -1, -1),))


@pytest.mark.parametrize("cells", [(3, 4), (2, 5), (6, 1)])
def test_overlap_is_the_shared_area(cells):
    boxes = torch.stack([grid_boxes(4, 6), grid_boxes(24, 1)])  # edges on the 120-pixel raster
    mask = torch.rand(2, 24) > 0.3
    shares = overlap(grid_boxes(*cells), boxes, mask)
    for picture in range(2):
        assert_close(shares[picture], raster(grid_boxes(*cells), boxes[picture], mask[picture]), atol=1e-5, rtol=0)
    covered = shares.sum(-1)
    assert (((covered - 1).abs() < 1e-5) | (covered == 0)).all()


def test_overlap_of_boxes_that_overlap_each_other():
    boxes = (torch.tensor([[[0, 0, 60, 120], [30, 30, 90, 60], [90, 0, 120, 24]]]) / 120).float()
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert_close(overlap(grid_boxes(2, 3), boxes, mask)[0], raster(grid_boxes(2, 3), boxes[0], mask[0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("grid", [(3, 5), (4, 8), (7, 7), (1, 6)])
def test_keep_all_on_an_equal_grid_is_the_identity(grid):
    pictures = on_grid(*grid)
    keep = build_reducer((12,), 14, ReducerConfig(kind="keep_all", tokens=grid[0] * grid[1], grid=grid))
    assert_close(keep(pictures, TEXT[:2], TEXT_MASK[:2])[0], pictures.features[0], atol=1e-5, rtol=1e-5)




@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cell_whose_only_token_is_masked_delivers_the_absent_mean(dtype):
    grid, count = (3, 5), 15
    boxes = torch.from_numpy(grid_geometry((97, 61), grid).boxes).to(dtype)  # as experts make them: rounding must not count as cover
    pictures = replace(on_grid(*grid).to(dtype), boxes=(boxes.expand(2, -1, -1),))
    keep = build_reducer((12,), 14, ReducerConfig(kind="keep_all", tokens=count, grid=grid)).to(dtype)
    keep.set_absent((torch.randn(count, 12, dtype=dtype),))
    for hidden in range(count):
        mask = torch.ones(2, count, dtype=torch.bool)
        mask[0, hidden] = False
        tokens = keep(replace(pictures, masks=(mask,)), TEXT[:2], TEXT_MASK[:2])[0]
        assert_close(tokens[0, hidden], keep.absent[0][hidden])


@pytest.mark.parametrize(("fine", "tokens"), [((8, 8), 16), ((6, 9), 6), ((5, 7), 6), ((4, 4), 4)])
def test_average_pooling_equals_torch_where_blocks_are_whole_and_areas_elsewhere(fine, tokens):
    pictures, coarse = on_grid(*fine), squarest(tokens)
    pool = build_reducer((12,), 14, ReducerConfig(kind="average", tokens=tokens, grid=fine))
    mean = pool(pictures, TEXT[:2], TEXT_MASK[:2])[0]
    if fine[0] % coarse[0] == 0 and fine[1] % coarse[1] == 0:
        maps = pictures.features[0].transpose(1, 2).unflatten(-1, fine)
        assert_close(mean, F.adaptive_avg_pool2d(maps, coarse).flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)
    exact = raster(grid_boxes(*coarse), grid_boxes(*fine), pictures.masks[0][0], side=840)
    assert_close(mean, exact @ pictures.features[0], atol=1e-2, rtol=0)


def test_random_choice_is_fixed_in_evaluation_and_drawn_anew_in_training():
    pictures, reducer = on_grid(3, 5), build_reducer((12,), 14, KINDS["random"]).eval()
    first = reducer(pictures, TEXT[:2], TEXT_MASK[:2])[0]
    torch.manual_seed(99)
    assert torch.equal(reducer(pictures, TEXT[:2], TEXT_MASK[:2])[0], first)
    assert torch.equal(build_reducer((12,), 14, KINDS["random"]).chosen, reducer.chosen)
    assert_close(first, pictures.features[0][:, reducer.chosen], atol=1e-5, rtol=1e-5)
    assert len(reducer.chosen.unique()) == 4 and (reducer.chosen.diff() > 0).all()
    reducer.train()
    draws = {tuple(reducer.mixing(torch.zeros(1)).argmax(-1).tolist()) for _ in range(10)}
    assert len(draws) > 1


@pytest.mark.parametrize("kind", ["keep_all", "average", "random"])
@torch.no_grad()
def test_weights_times_features_are_the_tokens_of_linear_reducers(kind, make_features):
    pictures = make_features()
    reducer = build_reducer(WIDTHS, 14, KINDS[kind]).eval()
    reducer.set_absent(tuple(torch.randn(reducer.tokens, width) for width in WIDTHS))
    present = torch.tensor([[True, True, True], [True, False, True], [True, True, True]])
    reduction = reducer.explain(pictures, TEXT, TEXT_MASK, present)
    for index, (weights, tokens) in enumerate(zip(reduction.weights, reduction.tokens, strict=True)):
        rest = (1 - weights.sum(-1, keepdim=True)) * reducer.absent[index]
        assert_close(weights @ pictures.features[index] + rest, tokens, atol=1e-5, rtol=1e-5)
        assert (weights * ~pictures.masks[index][:, None]).abs().max() == 0
    assert torch.equal(reduction.tokens[1][1], reducer.absent[1]) and reduction.weights[1][1].abs().max() == 0
    assert reduction.scores == ()


@torch.no_grad()
def test_the_resampler_is_multi_head_attention(make_features):
    pictures = make_features()
    reducer = build_reducer(WIDTHS, 14, KINDS["resampler"])
    fast, explained = reducer(pictures, TEXT, TEXT_MASK), reducer.explain(pictures, TEXT, TEXT_MASK)
    for i, width in enumerate(WIDTHS):
        twin = torch.nn.MultiheadAttention(24, 3, batch_first=True, kdim=width, vdim=width)
        twin.q_proj_weight.copy_(torch.eye(24))
        twin.k_proj_weight.copy_(reducer.key_proj[i].weight)
        twin.v_proj_weight.copy_(reducer.value_proj[i].weight)
        twin.in_proj_bias.copy_(torch.cat([torch.zeros(24), reducer.key_proj[i].bias, reducer.value_proj[i].bias]))
        twin.out_proj.weight.copy_(torch.eye(24))
        twin.out_proj.bias.zero_()
        located = pictures.features[i] + reducer.amplitude * position_code(pictures.boxes[i], width)
        mixed, weights = twin(reducer.query[i].expand(3, -1, -1), located, pictures.features[i], key_padding_mask=~pictures.masks[i])
        assert_close(fast[i], reducer.out_proj[i](mixed), atol=1e-5, rtol=1e-5)
        assert_close(explained.weights[i], weights, atol=1e-5, rtol=1e-5)
        assert_close(explained.tokens[i], fast[i])


@pytest.mark.parametrize("kind", KINDS)
def test_no_valid_token_gives_the_absent_mean_and_finite_gradients(kind, make_features):
    pictures, reducer = make_features(), build_reducer(WIDTHS, 14, KINDS[kind])
    reducer.set_absent(tuple(torch.randn(reducer.tokens, width) for width in WIDTHS))
    mask = pictures.masks[1].clone()
    mask[2] = False
    tokens = reducer(replace(pictures, masks=(pictures.masks[0], mask, pictures.masks[2])), TEXT, TEXT_MASK)
    assert torch.equal(tokens[1][2], reducer.absent[1])
    assert all(one.isfinite().all() for one in tokens)
    if kind == "resampler":
        sum(one.square().sum() for one in tokens).backward()
        assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in reducer.parameters())


@pytest.mark.parametrize(
    "options",
    [{"kind": "keep_all", "tokens": 16, "grid": (3, 5)}, {"kind": "random", "tokens": 16, "grid": (3, 5)}, {"tokens": 0}, {"kind": "best"}, {"pool": "max"},
     {"scale": "none"}, {"similarity": "l2"}, {"query_init": "zeros"}, {"position": "all"}],
)  # fmt: skip
def test_what_cannot_work_is_refused_when_it_is_configured(options):
    with pytest.raises(InputError):
        ReducerConfig(**options)
