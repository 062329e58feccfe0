"""Fine-tuning from a trained model: it learns its pictures, touches only what stage 3 trains, and goes on where it was stopped."""

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import lab_recipe as lab  # noqa: E402
from leo_core.errors import InputError  # noqa: E402
from leo_core.experts.expert import VisionExperts  # noqa: E402
from leo_core.training.features import FeatureStore, write_shard  # noqa: E402
from leo_core.training.fine_tune import FINE_TUNE, exact, fine_tune  # noqa: E402

STAGE = replace(FINE_TUNE, steps=6, batch=6, warmup=2, save_every=2)


@pytest.fixture
def own(tmp_path, make_leo):
    """(model, processor, store): a small model whose two experts see colours, and 12 pictures with two questions each."""
    experts, words = VisionExperts([lab.Cells("fine", 3, 4), lab.Cells("coarse", 2, 3)]), lab.tokenizer()
    write_shard(tmp_path / "shard.safetensors", lab.samples(12), experts)
    store = FeatureStore([tmp_path / "shard.safetensors"], list(experts)).standardise_as(experts)
    place = words.convert_tokens_to_ids(lab.IMAGE_TOKEN)
    reducer = lab.ReducerConfig(tokens=3, projection=8, similarity="cosine", query_init="grid", position="similarity")
    model = make_leo(decoder=lab.decoder(len(words)), reducer=reducer, vision_experts=experts, image_token_id=place)
    processor = lab.LeoProcessor(lab.LeoImageProcessor([]), words, visual_tokens=model.reducer.tokens)
    return model, processor, store


def weights(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def test_only_the_stage_s_parameters_move_and_the_model_is_ready_to_answer(own, tmp_path):
    model, processor, store = own
    before = weights(model)
    steps = list(fine_tune(model, processor, store, tmp_path / "run", STAGE))
    moved = {name for name, value in weights(model).items() if not torch.equal(value, before[name])}
    assert moved and all(name.startswith(("reducer.", "projector.")) or any(mark in name for mark in (".lora_", ".router.")) for name in moved)
    assert any(".router." in name for name in moved) and any(name.startswith("reducer.") for name in moved)
    assert not any(name.startswith("reducer.absent") for name in moved)
    assert [one.step for one in steps] == list(range(1, 7)) and {"right", "balance"} <= set(steps[0].more)
    assert not model.training and not any(parameter.requires_grad or parameter.grad is not None for parameter in model.parameters())


def test_it_learns_its_pictures(own, tmp_path):
    model, processor, store = own
    before = exact(model, processor, store)
    steps = list(fine_tune(model, processor, store, tmp_path / "run", replace(STAGE, rates=dict.fromkeys(STAGE.rates, 1e-2), steps=60, batch=12)))
    after = exact(model, processor, store)
    assert len(before) == len(after) == 24 and steps[-1].loss < 0.7 * steps[0].loss and sum(after) > sum(before)


def test_a_stopped_run_goes_on_to_the_same_bits(own, tmp_path, make_leo):
    model, processor, store = own
    start = weights(model)
    list(fine_tune(model, processor, store, tmp_path / "whole", STAGE))
    whole = weights(model)
    model.load_state_dict(start)
    assert len(list(islice(fine_tune(model, processor, store, tmp_path / "parts", STAGE), 3))) == 3  # a checkpoint was written at step 2
    model.load_state_dict(start)
    assert [one.step for one in fine_tune(model, processor, store, tmp_path / "parts", STAGE)] == [3, 4, 5, 6]
    assert all(torch.equal(value, whole[name]) for name, value in weights(model).items())


def test_features_of_other_experts_are_refused(own, tmp_path):
    model, processor, _ = own
    other = VisionExperts([lab.Cells("other", 2, 2)])
    write_shard(tmp_path / "other.safetensors", lab.samples(2), other)
    with pytest.raises(InputError, match="fine, coarse"):
        list(fine_tune(model, processor, FeatureStore([tmp_path / "other.safetensors"], ["other"]), tmp_path / "run", STAGE))


def test_exact_is_what_greedy_decoding_writes(own):
    model, processor, store = own
    pairs = [(index, question) for index, one in enumerate(store.samples) for question in one.questions]
    for (index, question), right in zip(pairs, exact(model, processor, store, batch=5), strict=True):
        batch = dict(processor([[object()]], [question.text], prepare=False))
        out = model.generate(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], question_mask=batch["question_mask"],
            pictures=store.features(torch.tensor([index])), picture_owner=batch["picture_owner"], max_new_tokens=8, do_sample=False,
            eos_token_id=processor.tokenizer.eos_token_id, pad_token_id=0,
        )  # fmt: skip
        wanted = processor.answer_ids(question.answer)
        assert (out[0, batch["input_ids"].shape[1] :].tolist() == wanted) == right
