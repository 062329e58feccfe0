"""Operations of vision experts: by hand, by torch's own counter, and what sharing a graph saves."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from leo_core.analysis.expert_cost import expert_costs
from leo_core.analysis.graph_flops import graph_flops
from leo_core.checkpoint import Sources
from leo_core.config import ExpertSource
from leo_core.experts.build import build_experts
from leo_core.experts.onnx_graph import OnnxGraph

PIXELS = np.zeros((1, 3, 16, 24), np.float32)
EARLY = 2 * (5 * 4 * 6) * (3 * 4 * 4)  # output values times products behind each, of the graph that the fixtures write
LAST = 2 * (7 * 2 * 3) * (5 * 2 * 2)


def test_convolutions_by_hand_and_only_what_leads_to_the_tensors(make_graph, tmp_path):
    path = make_graph(tmp_path / "tiny.onnx")
    assert graph_flops(OnnxGraph(path, ["last"]), PIXELS) == EARLY + LAST
    assert graph_flops(OnnxGraph(path, ["middle"]), PIXELS) == EARLY
    assert graph_flops(OnnxGraph(path, ["last"]), np.zeros((1, 3, 32, 24), np.float32)) == 2 * (EARLY + LAST)


def test_groups_transposed_convolutions_and_products_by_hand(tmp_path):
    weights = {"grouped": (6, 1, 3, 3), "up": (6, 2, 2, 2), "flat": (2 * 4 * 4, 5), "gemm": (5, 7)}
    nodes = [
        helper.make_node("Conv", ["x", "grouped"], ["g"], group=3, pads=[1, 1, 1, 1], strides=[2, 2]),  # (1, 6, 2, 2)
        helper.make_node("ConvTranspose", ["g", "up"], ["u"], strides=[2, 2]),  # (1, 2, 4, 4)
        helper.make_node("Flatten", ["u"], ["f"]),
        helper.make_node("MatMul", ["f", "flat"], ["m"]),
        helper.make_node("Gemm", ["m", "gemm"], ["out"]),
        helper.make_node("Conv", ["x", "grouped"], ["unused"], group=3),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 7])
    arrays = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [out], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "g.onnx")
    by_hand = 2 * (6 * 4) * 9 + 2 * (6 * 4) * (2 * 4) + 2 * 5 * 32 + 2 * 7 * 5
    assert graph_flops(OnnxGraph(tmp_path / "g.onnx", ["out"]), np.zeros((1, 3, 4, 4), np.float32)) == by_hand


def test_a_shared_graph_saves_nothing_when_one_of_two_goes(make_graph, vision_folders, tmp_path):
    path = str(make_graph(tmp_path / "tiny.onnx"))
    onnx_expert = lambda name: ExpertSource(name, "onnx", "lines", {  # noqa: E731
        "graph": {"path": path, "tensors": ["last"]}, "pixels": {"size": [16, 24], "fit": "stretch"}, "stride": 8, "width": 7})  # fmt: skip
    clip = ExpertSource("clip", "transformers", "words", {"source": {"path": str(vision_folders["clip"])}, "leading": 1})
    experts = build_experts([onnx_expert("one"), onnx_expert("two"), clip], Sources(tmp_path))
    graph = experts["one"].graph
    one, two, three = expert_costs(experts, Image.new("RGB", (50, 40)), repeats=1)
    assert (one.flops, one.saved, two.saved) == (EARLY + LAST, 0, 0) and experts["one"].graph is graph
    assert three.flops == three.saved > 0 and min(cost.seconds for cost in (one, two, three)) > 0
    alone = expert_costs(build_experts([onnx_expert("one"), clip], Sources(tmp_path)), Image.new("RGB", (50, 40)), repeats=1)[0]
    assert alone.saved == alone.flops == EARLY + LAST


def test_a_transformer_is_counted_with_its_patches_and_attention(vision_folders, tmp_path):
    clip = ExpertSource("clip", "transformers", "words", {"source": {"path": str(vision_folders["clip"])}, "leading": 1})
    (cost,) = expert_costs(build_experts([clip], Sources(tmp_path)), Image.new("RGB", (40, 40)), repeats=1)
    tokens, d, m, layers = 17, 12, 16, 2  # 4 x 4 patches and the class token
    patches = 2 * 16 * d * 3 * 8 * 8
    block = 2 * tokens * (4 * d * d + 2 * d * m) + 2 * 2 * tokens * tokens * d
    assert cost.flops == pytest.approx(patches + layers * block)
