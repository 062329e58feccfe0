"""Tiny vision experts on disk: two transformers models with their image processors, and an ONNX graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import AutoImageProcessor, CLIPVisionConfig, CLIPVisionModel, ConvNextConfig, ConvNextModel
from transformers.models.clip import CLIPImageProcessor
from transformers.models.convnext import ConvNextImageProcessor


def write_graph(path: Path, seed: int = 0) -> Path:
    """Conv (stride 4, 5 channels, inner tensor `early`) -> Relu (`middle`) -> Conv (stride 2, 7 channels, output `last`)."""
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
    root = tmp_path_factory.mktemp("vision")
    torch.manual_seed(5)
    clip = CLIPVisionModel(CLIPVisionConfig(hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8))
    convnext = ConvNextModel(ConvNextConfig(hidden_sizes=[6, 10], depths=[1, 1], num_stages=2, image_size=64))
    processors = {
        "clip": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        "convnext": ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.8),
    }
    for name, model in (("clip", clip), ("convnext", convnext)):
        model.save_pretrained(root / name)
        processors[name].save_pretrained(root / name)
        AutoImageProcessor.from_pretrained(root / name)
    return {"clip": root / "clip", "convnext": root / "convnext"}


@pytest.fixture(scope="session")
def expert_sources(vision_folders, tmp_path_factory) -> list[dict]:
    """Settings of four experts, as LeoConfig.experts holds them: two transformers, two ONNX from one graph."""
    path = str(write_graph(tmp_path_factory.mktemp("graphs") / "tiny.onnx"))
    pixels = {"size": [16, 24], "fit": "stretch"}
    return [
        {"name": "clip", "kind": "transformers", "domain": "words", "settings": {"source": {"path": str(vision_folders["clip"])}, "layer": -2, "leading": 1}},
        {"name": "convnext", "kind": "transformers", "domain": "objects", "settings": {"source": {"path": str(vision_folders["convnext"])}}},
        {"name": "last", "kind": "onnx", "domain": "lines", "settings": {"graph": {"path": path, "tensors": ["last"]}, "pixels": pixels, "stride": 8, "width": 7}},
        {
            "name": "both", "kind": "onnx", "domain": "edges",
            "settings": {"graph": {"path": path, "tensors": ["middle", "last"]}, "pixels": {"size": [24, 32], "fit": "pad"}, "stride": 8, "width": 12},
        },
    ]  # fmt: skip
