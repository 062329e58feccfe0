"""Tiny random models, features and a tokenizer, built offline: what the tests of the core share."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config

from leo_core.config import LeoConfig, MMoEConfig, ReducerConfig
from leo_core.embedded import CHAT_TEMPLATE, IMAGE_TOKEN
from leo_core.experts.expert import PictureFeatures
from leo_core.mmoe import mmoe_layers
from leo_core.model import LeoMini

torch.set_num_threads(1)

WIDTHS, LENGTHS = (12, 20, 33), (15, 9, 22)  # three experts, unequal d_i and N_i
VOCABULARY, PLACE, TOKENS = 200, 199, 3  # PLACE: the id that marks a visual token's place; TOKENS: N^V
KINDS = {"llama": LlamaConfig, "qwen2": Qwen2Config}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def make_features() -> Callable[..., PictureFeatures]:
    """Random features of p pictures; picture 0 is full, the others have ever fewer valid tokens, not only at the end."""

    def make(pictures=3, widths=WIDTHS, lengths=LENGTHS, seed=0, dtype=torch.float32) -> PictureFeatures:
        generator = torch.Generator().manual_seed(seed)
        features, masks, boxes = [], [], []
        for width, length in zip(widths, lengths, strict=True):
            features.append(torch.randn(pictures, length, width, generator=generator, dtype=dtype))
            mask = torch.rand(pictures, length, generator=generator) > 0.15 * torch.arange(pictures)[:, None]
            mask[:, length // 2] = True
            masks.append(mask)
            corner = torch.rand(pictures, length, 2, generator=generator, dtype=dtype) * 0.8
            boxes.append(torch.cat([corner, corner + torch.rand(pictures, length, 2, generator=generator, dtype=dtype) * 0.2], -1))
        return PictureFeatures(tuple(features), tuple(masks), tuple(boxes))

    return make


@pytest.fixture(scope="session")
def make_decoder() -> Callable:
    """A causal language model of three layers whose weights are large enough to tell tokens apart."""

    def make(kind="llama", seed=0, **options):
        torch.manual_seed(seed)
        config = KINDS[kind](
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.15,
            **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **options},
        )  # fmt: skip
        return AutoModelForCausalLM.from_config(config).eval()

    return make


@pytest.fixture(scope="session")
def make_leo(make_decoder) -> Callable[..., LeoMini]:
    """A LeoMini fed with features; B matrices and routers are away from their start, so that every expert matters."""

    def make(kind="llama", reducer=None, mmoe=None, seed=0, widths=WIDTHS, decoder=None, vision_experts=None, **config) -> LeoMini:
        decoder = decoder or make_decoder(kind, seed)
        settings = LeoConfig(
            text_config=decoder.config, reducer=reducer or ReducerConfig(tokens=TOKENS, projection=10),
            mmoe=mmoe or MMoEConfig(rank=4, alpha=8.0, router_width=8), **{"image_token_id": PLACE, **config},
        )  # fmt: skip
        model = LeoMini(settings, decoder, vision_experts, widths=None if vision_experts is not None else widths)
        for layer in mmoe_layers(model.decoder).values():
            torch.nn.init.normal_(layer.lora_b.weight, std=0.3)
            if layer.router is not None:
                torch.nn.init.normal_(layer.router.out.weight, std=2.0)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def make_prompts() -> Callable[..., dict]:
    """Inputs of LeoMini: for each sample its number of pictures and of question tokens, padded on one side."""

    def make(pictures, questions, side="left", seed=0, answer=0) -> dict:
        generator, rows = torch.Generator().manual_seed(seed), []
        for count, length in zip(pictures, questions, strict=True):
            words = torch.randint(3, PLACE, (2 + length + 2 + answer,), generator=generator).tolist()
            rows.append((words[:2] + [PLACE] * (TOKENS * count) + words[2:], 2 + TOKENS * count, length))
        longest = max(len(ids) for ids, _, _ in rows)
        data = {name: torch.zeros(len(rows), longest, dtype=torch.long) for name in ("input_ids", "attention_mask")}
        data["question_mask"] = torch.zeros(len(rows), longest, dtype=torch.bool)
        labels = torch.full((len(rows), longest), -100)
        for index, (ids, start, length) in enumerate(rows):
            first = longest - len(ids) if side == "left" else 0
            data["input_ids"][index, first : first + len(ids)] = torch.tensor(ids)
            data["attention_mask"][index, first : first + len(ids)] = 1
            data["question_mask"][index, first + start : first + start + length] = True
            if answer:
                end = first + len(ids)
                labels[index, end - answer : end] = data["input_ids"][index, end - answer : end]
        data["picture_owner"] = torch.tensor([index for index, count in enumerate(pictures) for _ in range(count)])
        return {**data, "labels": labels} if answer else data

    return make


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with SmolLM2's chat marks and template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", IMAGE_TOKEN]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    backend.train_from_iterator(["user assistant system What is in the picture? A red lion and a dog."] * 3, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE,
        additional_special_tokens=["<|im_start|>", IMAGE_TOKEN],
    )  # fmt: skip
