"""Training at lab size: a stopped run goes on bit by bit, stages freeze what they name, packed rows equal single ones."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from leo_core.data.samples import Question
from leo_core.errors import InputError
from leo_core.training.loop import train_stage
from leo_core.training.ridge import ridge
from leo_core.training.stages import Stage, linear_decay, set_trainable, shuffled

STAGE = Stage("lab", {"0.*": 1e-2, "2.*": 3e-3}, steps=12, batch=4, warmup=3, save_every=4)


def net() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))


def loss_of(model):
    def loss(step):
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
        return (model(x) - x.sum(1, keepdim=True) + 0.1 * torch.randn(4, 1)).square().mean(), {}

    return loss


def test_a_stopped_run_resumes_to_bit_identical_weights(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    whole = net()
    list(train_stage(whole, STAGE, loss_of(whole), tmp_path / "a"))
    first = net()
    for metrics in train_stage(first, STAGE, loss_of(first), tmp_path / "b"):
        if metrics.step == 6:  # killed between two checkpoints
            break
    second = net()
    steps = [metrics.step for metrics in train_stage(second, STAGE, loss_of(second), tmp_path / "b")]
    assert steps == list(range(5, 13))
    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("stage", "data"), [(STAGE, "other pictures"), (Stage("lab", {"0.*": 1e-2, "2.*": 3e-3}, steps=20, batch=4), "")])
def test_a_checkpoint_of_other_data_or_settings_is_refused_and_kept(tmp_path, stage, data):
    model = net()
    list(train_stage(model, STAGE, loss_of(model), tmp_path))
    before = (tmp_path / "lab.checkpoint.safetensors").read_bytes()
    with pytest.raises(InputError, match="remove it to train anew"):
        next(train_stage(model, stage, loss_of(model), tmp_path, data=data))
    assert (tmp_path / "lab.checkpoint.safetensors").read_bytes() == before


def test_after_a_stage_in_bfloat16_the_model_computes_in_its_own_precision_again(tmp_path):
    model, stage = net(), Stage("lab", {"0.*": 1e-2}, steps=2, batch=4, precision="bfloat16")
    list(train_stage(model, stage, loss_of(model), tmp_path))
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    by_hand = torch.tanh(x @ model[0].weight.T + model[0].bias) @ model[2].weight.T + model[2].bias
    assert torch.equal(model(x), by_hand) or torch.allclose(model(x), by_hand, atol=1e-6)


def test_fitted_buffers_travel_with_the_checkpoint(tmp_path):
    class Fitted(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(7)
            self.linear, self.reducer = nn.Linear(5, 1), nn.Module()
            self.reducer.register_buffer("absent_0", torch.zeros(3))

    def loss_of_fitted(model):
        def loss(step):
            if step % 10 == 0:
                model.reducer.absent_0.copy_(torch.tensor([1.0, 2.0, 3.0]) + step)
            x = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
            return (model.linear(x).sum() - model.reducer.absent_0.sum()).square(), {}

        return loss

    stage, weights = Stage("lab", {"linear.*": 1e-3}, steps=9, batch=4, save_every=4), []
    for stop in (None, 6):
        folder = tmp_path / str(stop)
        folder.mkdir()
        if stop:
            killed = Fitted()
            for metrics in train_stage(killed, stage, loss_of_fitted(killed), folder):
                if metrics.step == stop:
                    break
        model = Fitted()
        list(train_stage(model, stage, loss_of_fitted(model), folder))
        weights.append(model.linear.weight.detach())
    assert torch.equal(*weights)


def test_only_what_a_stage_names_learns():
    model = net()
    groups = set_trainable(model, {"0.weight": 1e-3})
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["0.weight"]
    assert groups[0]["lr"] == 1e-3
    with pytest.raises(InputError, match="projektor"):
        set_trainable(model, {"projektor.*": 1e-3})


def test_the_rate_rises_then_falls_to_zero():
    factors = [linear_decay(step, STAGE) for step in range(STAGE.steps + 1)]
    assert factors[0] == pytest.approx(1 / 3) and max(factors) == 1 and factors[-1] == 0


def test_every_pass_sees_everything_once():
    stream = shuffled(7, seed=1)
    passes = [[next(stream) for _ in range(7)] for _ in range(3)]
    assert all(sorted(one) == list(range(7)) for one in passes) and passes[0] != passes[1]


def test_ridge_equals_the_normal_equations_with_an_unpenalised_bias():
    x, y = torch.randn(40, 6, dtype=torch.float64), torch.randn(40, 3, dtype=torch.float64)
    weight, bias = ridge(x, y, penalty=2.5)
    design = torch.cat([x, torch.ones(40, 1, dtype=torch.float64)], dim=1)
    penalty = torch.diag(torch.tensor([2.5] * 6 + [0.0], dtype=torch.float64))
    solution = torch.linalg.solve(design.T @ design + penalty, design.T @ y)
    assert_close(weight, solution[:6].T, atol=1e-5, rtol=1e-5)
    assert_close(bias, solution[6], atol=1e-5, rtol=1e-5)


def test_packed_questions_give_the_loss_of_single_ones(make_leo, tokenizer, make_features):
    from dataclasses import replace

    from leo_core.config import MMoEConfig, ReducerConfig
    from leo_core.processor import LeoImageProcessor, LeoProcessor
    from leo_core.training.batches import answered, packed_batch, packed_loss, question_batch
    from leo_core.training.transcripts import KIND

    class Store:
        def features(self, index):
            return make_features(3).pick(index)

    plain = replace(MMoEConfig(), num_experts=0, general=False, balance="none")
    place = tokenizer.convert_tokens_to_ids("<file_sep>")
    model = make_leo(reducer=ReducerConfig(kind="keep_all", tokens=6, grid=(2, 3)), mmoe=plain, image_token_id=place, decoder=None, kind="llama")
    model.decoder.resize_token_embeddings(len(tokenizer))
    processor = LeoProcessor(LeoImageProcessor([]), tokenizer, visual_tokens=6)
    asked = [Question("What is in the picture?", "a lion", "what", "d"), Question("Is it red?", "no", "yesno", "d"), Question("Read all.", "a red lion", KIND, "t")]
    batch = packed_batch(Store(), processor, [1], [asked])
    with torch.no_grad():
        packed = packed_loss(model, model.decoder.base_model, batch)
        losses, counts, alone = [], [], []
        for question in asked:
            single = question_batch(Store(), processor, [(1, question)])
            names = ("input_ids", "attention_mask", "question_mask", "pictures", "picture_owner", "labels")
            output = model(**{name: single[name] for name in names})
            losses.append(output.loss)
            alone += answered(output.logits, single["labels"])
            counts.append(int((single["labels"] != -100).sum()))
    questions = (losses[0] * counts[0] + losses[1] * counts[1]) / (counts[0] + counts[1])
    assert_close(packed.questions, questions, atol=1e-5, rtol=1e-5)
    assert_close(packed.transcripts, losses[2], atol=1e-5, rtol=1e-5)
    assert list(packed.right) == [(0, 1), (0, 2), (0, 3)] and list(packed.right.values()) == alone


def test_transcripts_fade_out_and_then_no_row_asks_for_one():
    from leo_core.training.stages import Stage, told_share

    stage = Stage("two", {}, steps=10, batch=4, told=0.5)
    assert [round(told_share(step, stage), 3) for step in range(7)] == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0]
    assert told_share(0, Stage("one", {}, steps=10, batch=4)) == 0.0


def test_watched_numbers_are_those_of_the_recorded_routes(make_leo, make_prompts, make_features):
    from leo_core.tracing.record import record
    from leo_core.training.watching import watched

    model = make_leo().eval()
    batch = make_prompts([1, 1, 1], [4, 2, 5])
    batch["pictures"] = make_features(3)
    inputs = {**batch, "labels": batch["input_ids"]}
    found = watched(model, batch, inputs)
    experts = model.config.mmoe_config.num_experts
    assert sum(found[f"load.{number}"] for number in range(1, experts + 1)) == pytest.approx(1)
    with record(model) as seen, torch.no_grad():
        model(**batch)
    rows = [p[b, s] for p in map(torch.cat, seen.probability.values()) for b in range(3) for s in range(p.shape[1]) if batch["attention_mask"][b, s]]
    entropy = sum(-(row * row.log()).sum() for row in rows) / len(rows) / torch.tensor(float(experts)).log()
    assert found["entropy"] == pytest.approx(float(entropy), abs=1e-4)
    assert {name.split(".")[0] for name in found} == {"effective", "likeness", "entropy", "load"}


def test_pictures_without_named_regions_are_refused_with_what_to_do(make_features):
    from types import SimpleNamespace

    from leo_core.config import ReducerConfig
    from leo_core.reducers import KeepAll
    from leo_core.training.features import StoredSample
    from leo_core.training.ridge import named_cells

    class Store(list):
        samples = [StoredSample(str(i), (30, 20), (), ()) for i in range(3)]
        features = staticmethod(lambda index: make_features(3).pick(index))

    features = make_features(3)
    reducer = KeepAll(tuple(one.shape[-1] for one in features.features), ReducerConfig(kind="keep_all", tokens=6, grid=(2, 3)))
    with pytest.raises(InputError, match="--start cold"):
        named_cells(Store(range(3)), reducer)


def test_a_parameter_that_no_loss_reaches_does_not_stop_a_resumption(tmp_path):
    class Idle(nn.Sequential):
        def __init__(self):
            super().__init__(*net())
            self.idle = nn.Parameter(torch.ones(2))

    stage = Stage("lab", {**STAGE.rates, "idle": 1e-3}, steps=6, batch=4, warmup=3, save_every=4)
    first = Idle()
    for metrics in train_stage(first, stage, loss_of(first), tmp_path):
        if metrics.step == 4:
            break
    second = Idle()
    assert [metrics.step for metrics in train_stage(second, stage, loss_of(second), tmp_path)] == [5, 6]
    assert torch.equal(second.idle, torch.ones(2))


def test_a_name_takes_the_cells_whose_centres_it_covers_and_a_small_one_the_cell_it_lies_in():
    from leo_core.data.samples import Region
    from leo_core.training.features import StoredSample
    from leo_core.training.ridge import named_tokens

    boxes = {"lion": [(0, 0, 100, 100), (200, 0, 300, 40)], "dog": [(250, 60, 300, 90)], "speck": [(1, 1, 3, 3)], "edge": [(290, 96, 310, 104)]}
    regions = tuple(Region(tuple(map(float, box)), name) for name, several in boxes.items() for box in several)
    found = named_tokens(StoredSample("scenes-1", (300, 100), (), regions), (2, 3))  # centres at x = 50, 150, 250 and y = 25, 75
    assert {name: cells.nonzero().flatten().tolist() for name, cells in found.items()} == {"lion": [0, 2, 3], "dog": [5], "speck": [0], "edge": [5]}


def test_a_background_is_some_cells_that_no_region_covers_and_only_where_its_colour_is_told():
    from leo_core.data.samples import Region
    from leo_core.training.features import StoredSample
    from leo_core.training.ridge import FREE_CELLS, background_tokens

    regions = (Region((0.0, 0.0, 100.0, 100.0), "orange"),)
    told = Question("What colour is the background?", "orange", "colour", "scenes")
    found = background_tokens(StoredSample("scenes-1", (300, 100), (told,), regions), (2, 3))["orange"]
    assert found.tolist() == [False, True, True, False, True, True]
    many = background_tokens(StoredSample("scenes-1", (300, 100), (told,), regions), (6, 6))["orange"]
    assert int(many.sum()) == FREE_CELLS and not many.reshape(6, 6)[:, :2].any()
    other = Question("What is the colour of C?", "orange", "bar_colour", "charts")
    assert background_tokens(StoredSample("charts-1", (300, 100), (other,), regions), (2, 3)) == {}
    assert background_tokens(StoredSample("scenes-1", (300, 100), (told,), (Region((0.0, 0.0, 300.0, 100.0), "sky"),)), (2, 3)) == {}
