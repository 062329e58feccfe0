"""LeoMini's inputs: pictures in their places, what is dropped, the losses, and that no argument is ignored."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from leo_core.config import LeoConfig, MMoEConfig, ProjectorConfig, ReducerConfig
from leo_core.errors import InputError
from leo_core.mmoe import mmoe_layers
from leo_core.routing import RoutingContext, balance_loss, current_context, routing_context

PLACE, TOKENS = 199, 3


@pytest.fixture
def batch(make_prompts, make_features) -> dict:
    return {**make_prompts((1, 0, 2), (4, 7, 3), answer=4), "pictures": make_features()}


def plain(batch: dict) -> dict:
    return {name: value for name, value in batch.items() if name != "labels"}


@torch.no_grad()
def test_visual_tokens_stand_in_their_places_and_the_context_is_the_mean(make_leo, batch):
    model, inputs = make_leo(), plain(batch)
    prompt = model.prompt(**inputs)
    reduced = model.reduce(inputs["pictures"], inputs["input_ids"], inputs["question_mask"], inputs["picture_owner"])
    tokens = model.project(reduced)
    words = model.get_input_embeddings()(inputs["input_ids"])
    places = inputs["input_ids"] == PLACE
    assert torch.equal(prompt.embeds[0][places[0]], tokens[0])
    assert torch.equal(prompt.embeds[2][places[2]], tokens[1:].flatten(0, 1))
    assert torch.equal(prompt.embeds[~places], words[~places])
    assert prompt.has_picture.tolist() == [True, False, True]
    assert_close(prompt.visual, torch.stack([tokens[0].mean(0), torch.zeros(32), tokens[1:].flatten(0, 1).mean(0)]))
    for index in range(3):
        assert_close(prompt.text[index], words[index][inputs["question_mask"][index]].mean(0))


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_positions_count_from_the_first_real_token_through_dropped_ones(side, make_leo, make_prompts, make_features):
    inputs = make_prompts((1, 0, 2), (4, 7, 3), side=side)
    prompt = make_leo().prompt(**inputs, pictures=make_features(), visual_mask=torch.tensor([[False, True, False]] * 3))
    for positions, mask in zip(prompt.position_ids, inputs["attention_mask"].bool(), strict=True):
        assert positions[mask].tolist() == list(range(int(mask.sum())))


@torch.no_grad()
def test_each_picture_is_reduced_alone_with_the_question_of_its_sample(make_leo, batch):
    model, inputs = make_leo(), plain(batch)
    together = model.reduce(inputs["pictures"], inputs["input_ids"], inputs["question_mask"], inputs["picture_owner"])
    for picture, owner in enumerate(inputs["picture_owner"].tolist()):
        ids, asked = inputs["input_ids"][owner : owner + 1], inputs["question_mask"][owner : owner + 1]
        own = model.reduce(inputs["pictures"].pick(torch.tensor([picture])), ids, asked, torch.tensor([0]))
        for one, all_ in zip(own, together, strict=True):
            assert_close(one[0], all_[picture])


@torch.no_grad()
def test_an_owner_per_sample_is_the_default(make_leo, make_prompts, make_features):
    model, inputs = make_leo(), {**make_prompts((1, 1), (3, 5)), "pictures": make_features(pictures=2)}
    without = {name: value for name, value in inputs.items() if name != "picture_owner"}
    assert torch.equal(model(**inputs).logits, model(**without).logits)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@torch.no_grad()
def test_a_dropped_visual_token_is_masked_keeps_its_position_and_leaves_the_context(kind, make_leo, batch):
    model, inputs = make_leo(kind), plain(batch)
    kept = torch.tensor([[True, False, True], [True, True, True], [False, False, True]])
    dropped = model(**inputs, visual_mask=kept).logits
    prompt = model.prompt(**inputs)  # by hand: mask in attention, positions of the whole prompt, mean over what is left
    places = torch.nonzero(inputs["input_ids"] == PLACE)
    attended = inputs["attention_mask"].clone()
    for (row, column), keep in zip(places.tolist(), kept.flatten().tolist(), strict=True):
        attended[row, column] = int(keep)
    positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    tokens = model.project(model.reduce(inputs["pictures"], inputs["input_ids"], inputs["question_mask"], inputs["picture_owner"]))
    visual = torch.stack([tokens[0][kept[0]].mean(0), torch.zeros(32), torch.cat([tokens[1][kept[1]], tokens[2][kept[2]]]).mean(0)])
    with routing_context(RoutingContext(visual, prompt.text, prompt.has_picture)):
        by_hand = model.decoder(inputs_embeds=prompt.embeds, attention_mask=attended, position_ids=positions).logits
    where = attended.bool()
    assert_close(dropped[where], by_hand[where], atol=1e-4, rtol=1e-4)
    assert (dropped[where] - model(**inputs).logits[where]).abs().max() > 1e-2


@torch.no_grad()
def test_the_content_of_a_dropped_token_does_not_matter(make_leo, batch):
    model, inputs = make_leo(), {name: value for name, value in plain(batch).items() if name != "pictures"}
    reduced = model.reduce(batch["pictures"], inputs["input_ids"], inputs["question_mask"], inputs["picture_owner"])
    kept = torch.tensor([[True, False, True]] * 3)
    other = tuple(torch.where(kept[..., None], tokens, tokens + 9.0) for tokens in reduced)
    seen = inputs["attention_mask"].bool() & (inputs["input_ids"] != PLACE)
    one, two = (model(**inputs, reduced=tokens, visual_mask=kept).logits[seen] for tokens in (reduced, other))
    assert_close(one, two, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_all_visual_tokens_dropped_is_no_picture_for_the_routers(make_leo, batch):
    prompt = make_leo().prompt(**plain(batch), visual_mask=torch.tensor([[False] * 3, [True] * 3, [False] * 3]))
    assert prompt.has_picture.tolist() == [False, False, True] and prompt.visual[0].abs().max() == 0


@pytest.mark.parametrize("balance", ["switch", "squared", "none"])
@torch.no_grad()
def test_the_loss_is_cross_entropy_plus_weighted_balance(balance, make_leo, batch):
    config = MMoEConfig(rank=4, balance=balance, balance_weight=0.5, router_width=8)
    model = make_leo(mmoe=config)
    output, prompt = model(**batch), model.prompt(**plain(batch))
    assert torch.equal(output.logits, model(**plain(batch)).logits) and model(**plain(batch)).loss is None
    expected = [
        cross_entropy(output.logits[b, s - 1], batch["labels"][b, s]) for b, s in torch.nonzero(batch["labels"] >= 0).tolist()
    ]
    task = torch.stack(expected).mean()
    if balance == "none":
        assert output.balance is None
        return assert_close(output.loss, task)
    valid = prompt.attention_mask.bool() & prompt.has_picture[:, None]
    context = RoutingContext(prompt.visual, prompt.text, prompt.has_picture, valid, [])
    with routing_context(context):
        model.decoder(inputs_embeds=prompt.embeds, attention_mask=prompt.attention_mask, position_ids=prompt.position_ids)
    assert len(context.decisions) == 3
    assert_close(output.balance, balance_loss(context.decisions, valid, config))
    assert_close(output.loss, task + 0.5 * output.balance)


@torch.no_grad()
def test_padding_and_samples_without_picture_do_not_move_the_balance_loss(make_leo, make_prompts, make_features):
    model, pictures = make_leo(), make_features(pictures=1)
    short = {**make_prompts((1,), (4,), answer=3), "pictures": pictures}
    padded = make_prompts((1, 0), (4, 40), answer=3)
    padded["input_ids"][0, -short["input_ids"].shape[1] :] = short["input_ids"][0]
    padded["labels"][0, -short["labels"].shape[1] :] = short["labels"][0]
    assert_close(model(**padded, pictures=pictures).balance, model(**short).balance, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_keeping_only_the_last_logits_gives_the_same_loss(make_leo, batch):
    model = make_leo()
    full, few = model(**batch), model(**batch, logits_to_keep=6)
    assert few.logits.shape[1] == 6
    assert_close(few.loss, full.loss)


@pytest.mark.parametrize("pictures", [(1, 0, 1), (2, 0, 2), (1, 1, 1), (0, 0, 0)])
@torch.no_grad()
def test_another_number_of_places_than_visual_tokens_is_refused(pictures, make_leo, make_prompts, make_features):
    inputs = make_prompts(pictures, (4, 7, 3))
    inputs["picture_owner"] = torch.tensor([0, 2, 2])
    with pytest.raises(InputError, match="picture places"):
        make_leo()(**inputs, pictures=make_features())


@torch.no_grad()
def test_places_without_pictures_and_embeds_without_ids_are_refused(make_leo, make_prompts):
    model = make_leo()
    with pytest.raises(InputError):
        model(**make_prompts((1,), (4,)))
    with pytest.raises(InputError):
        model(inputs_embeds=torch.zeros(1, 3, 32))


@torch.no_grad()
def test_every_argument_changes_the_output(make_leo, batch):
    model, inputs = make_leo(), plain(batch)
    last = lambda **changes: model(**{**inputs, **changes}).logits[:, -1]  # noqa: E731
    before = last()
    ids, mask, asked = inputs["input_ids"].clone(), inputs["attention_mask"].clone(), inputs["question_mask"].clone()
    ids[:, -2], mask[:, -3], asked[:, -1] = 5, 0, True
    reduced = model.reduce(inputs["pictures"], inputs["input_ids"], inputs["question_mask"], inputs["picture_owner"])
    pictures = replace(inputs["pictures"], features=tuple(-f for f in inputs["pictures"].features))
    changes = {
        "input_ids": ids, "attention_mask": mask, "question_mask": asked, "pictures": pictures,
        "picture_owner": torch.tensor([2, 0, 2]), "expert_mask": torch.tensor([[True, False, True]] * 3),
        "visual_mask": torch.tensor([[True, True, False]] * 3), "reduced": tuple(-r for r in reduced),
        "position_ids": torch.arange(ids.shape[1]).flip(0).expand_as(ids),
    }  # fmt: skip
    for name, value in changes.items():
        assert (last(**{name: value})[0 if name != "picture_owner" else 2] - before[0 if name != "picture_owner" else 2]).abs().max() > 1e-4, name
    prompt = model.prompt(**inputs)
    step = {"inputs_embeds": prompt.embeds, "attention_mask": prompt.attention_mask, "position_ids": prompt.position_ids}
    context = {"routing_visual": prompt.visual, "routing_text": prompt.text, "routing_picture": prompt.has_picture}
    assert_close(model(**step, **context).logits[:, -1], before)
    for name, value in (("routing_visual", prompt.visual * -5), ("routing_text", prompt.text * -5), ("routing_picture", ~prompt.has_picture)):
        assert (model(**step, **{**context, name: value}).logits[0, -1] - before[0]).abs().max() > 1e-4, name
    assert current_context() is None


@torch.no_grad()
def test_without_mmoe_and_pictures_it_is_the_plain_decoder(make_leo, make_decoder, make_prompts):
    model = make_leo("qwen2", mmoe=MMoEConfig(num_experts=0, general=False, balance="none"))
    inputs = make_prompts((0, 0), (4, 7))
    assert not mmoe_layers(model.decoder)
    theirs = make_decoder("qwen2")(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    where = inputs["attention_mask"].bool()
    assert_close(model(**inputs).logits[where], theirs[where], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_configuration_made_around_a_finished_decoder_leaves_its_attention_alone(make_decoder):
    decoder, ids = make_decoder(), torch.arange(12).reshape(2, 6)
    before = decoder(ids).logits
    LeoConfig(text_config=decoder.config)
    assert decoder.config._attn_implementation is not None
    assert torch.equal(decoder(ids).logits, before)


@pytest.mark.parametrize("projector", ["mlp", "residual"])
@pytest.mark.parametrize("reducer", [ReducerConfig(kind="keep_all", tokens=3, grid=(1, 3)), ReducerConfig(kind="resampler", tokens=3, projection=8, heads=2)])
def test_other_reducers_and_projectors_fit_and_train(projector, reducer, make_leo, batch):
    model = make_leo(reducer=reducer, projector=ProjectorConfig(kind=projector))
    model(**batch).loss.backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if name.startswith(("projector", "reducer")))
    if projector == "residual":
        tokens = tuple(torch.randn(2, 3, width) for width in (12, 20, 33))
        assert_close(model.project(tokens), model.projector.linear(torch.cat(tokens, -1)))
