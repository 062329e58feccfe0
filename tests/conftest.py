"""Tiny random models, features, vision experts and a tokenizer, built offline: what the tests of the core share."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable
from pathlib import Path

import numpy as np
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
            hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, initializer_range=0.15,
            **{"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **options},
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


def write_graph(path: Path, seed: int = 0) -> Path:
    """An ONNX file: Conv (stride 4, 5 channels, inner tensor `early`) -> Relu (`middle`) -> Conv (stride 2, 7 channels, output `last`)."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    weights = {"w1": rng.normal(size=(5, 3, 4, 4)), "b1": rng.normal(size=5), "w2": rng.normal(size=(7, 5, 2, 2))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["pixels", "w1", "b1"], ["early"], strides=[4, 4]),
            helper.make_node("Relu", ["early"], ["middle"]),
            helper.make_node("Conv", ["middle", "w2"], ["last"], strides=[2, 2]),
        ],
        "tiny",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, "h", "w"])],
        [helper.make_tensor_value_info("last", TensorProto.FLOAT, [1, 7, "r", "c"])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.metadata_props.add(key="character", value="abc")
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def make_graph():
    return write_graph


@pytest.fixture(scope="session")
def vision_folders(tmp_path_factory) -> dict[str, Path]:
    """Folders as save_pretrained writes them: CLIP 32 px, patch 8, one class token; ConvNeXt 64 px, two stages, stride 8."""
    from transformers import CLIPVisionConfig, CLIPVisionModel, ConvNextConfig, ConvNextModel
    from transformers.models.clip import CLIPImageProcessor
    from transformers.models.convnext import ConvNextImageProcessor

    root = tmp_path_factory.mktemp("vision")
    torch.manual_seed(5)
    sizes = {"hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    clip = CLIPVisionModel(CLIPVisionConfig(**sizes, image_size=32, patch_size=8))
    convnext = ConvNextModel(ConvNextConfig(hidden_sizes=[6, 10], depths=[1, 1], num_stages=2, image_size=64))
    processors = {
        "clip": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        "convnext": ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.8),
    }
    for name, model in (("clip", clip), ("convnext", convnext)):
        model.save_pretrained(root / name)
        processors[name].save_pretrained(root / name)
    return {name: root / name for name in processors}


@pytest.fixture(scope="session")
def expert_sources(vision_folders, tmp_path_factory) -> list[dict]:
    """Settings of four experts, as LeoConfig.experts holds them: two transformers, two ONNX from one graph."""
    path = str(write_graph(tmp_path_factory.mktemp("graphs") / "tiny.onnx"))
    pixels, folder = {"size": [16, 24], "fit": "stretch"}, lambda name: {"path": str(vision_folders[name])}
    return [
        {"name": "clip", "kind": "transformers", "domain": "words", "settings": {"source": folder("clip"), "layer": -2, "leading": 1}},
        {"name": "convnext", "kind": "transformers", "domain": "objects", "settings": {"source": folder("convnext")}},
        {
            "name": "last", "kind": "onnx", "domain": "lines",
            "settings": {"graph": {"path": path, "tensors": ["last"]}, "pixels": pixels, "stride": 8, "width": 7},
        },
        {
            "name": "both", "kind": "onnx", "domain": "edges",
            "settings": {"graph": {"path": path, "tensors": ["middle", "last"]}, "pixels": {"size": [24, 32], "fit": "pad"}, "stride": 8, "width": 12},
        },
    ]  # fmt: skip
