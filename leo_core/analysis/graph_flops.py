"""Floating-point operations of an ONNX graph on one input, counted from the shapes that really occur.

A multiply-add is two. Convolutions and matrix products are counted, as papers count them; norms, activations and resizing are not.
"""

from collections.abc import Iterator

import numpy as np
import onnx

from leo_core.experts.onnx_graph import OnnxGraph

COUNTED = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def graph_flops(graph: OnnxGraph, pixels: np.ndarray) -> float:
    """Of the part of the graph that leads to its tensors. pixels: its input. The file stays as it is; the graph runs once more."""
    model = onnx.load(graph.path)
    nodes = [node for node in _leading_to(model, graph.tensors) if node.op_type in COUNTED]
    if not nodes:
        return 0.0
    inner = {name for node in model.graph.node for name in node.output}
    wanted = dict.fromkeys(name for node in nodes for name in (node.output[0], *node.input[:2]) if name in inner)
    shapes = {name: array.shape for name, array in zip(wanted, OnnxGraph(graph.path, tuple(wanted))(pixels), strict=True)}
    shapes |= {one.name: tuple(one.dims) for one in model.graph.initializer} | {one.name: pixels.shape for one in model.graph.input[:1]}
    return float(sum(_flops(node, shapes) for node in nodes))


def _leading_to(model: onnx.ModelProto, tensors: tuple[str, ...]) -> Iterator[onnx.NodeProto]:
    """Nodes that at least one of the tensors depends on; graphs list their nodes in the order of computation."""
    needed = set(tensors)
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            yield node


def _flops(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> float:
    left, right, out = (shapes[name] for name in (node.input[0], node.input[1], node.output[0]))
    if node.op_type == "Conv":  # weight (out, in / groups, kernel ...): products behind each output value
        return 2.0 * np.prod(out) * np.prod(right[1:])
    if node.op_type == "ConvTranspose":  # weight (in, out / groups, kernel ...): products from each input value
        return 2.0 * np.prod(left) * np.prod(right[1:])
    return 2.0 * np.prod(out) * left[-2 if _turned(node) else -1]


def _turned(node: onnx.NodeProto) -> bool:
    """Gemm may take its left matrix transposed."""
    return any(one.name == "transA" and one.i for one in node.attribute)
