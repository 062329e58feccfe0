"""A vision expert from any ONNX graph whose tensors are feature maps or token sequences."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from leo_core.errors import InputError
from leo_core.experts.expert import MAX_TOKENS, Prepared, VisionExpert
from leo_core.experts.onnx_graph import OnnxGraph
from leo_core.experts.pixels import PixelSettings, to_pixels
from leo_core.geometry import grid_geometry


class OnnxExpert(VisionExpert):
    """Features of one or more feature maps, averaged onto one grid and joined along channels.

    stride: input pixels per token side; the grid is (height / stride, width / stride) of the input.
    leading: tokens before the grid when the tensor is a sequence (batch, tokens, channels), e.g. 1 for a class token.
    Maps (batch, channels, rows, columns) finer than the grid are averaged; coarser ones are refused.
    """

    def __init__(self, name: str, domain: str, width: int, graph: OnnxGraph, pixels: PixelSettings, stride: int, leading: int = 0):
        super().__init__(name, domain, width)
        self.graph, self.pixels, self.stride, self.leading = graph, pixels, stride, leading
        rows, columns = (side // stride for side in pixels.size)
        if rows * columns + leading > MAX_TOKENS or rows * columns == 0:
            raise InputError(
                f"Vision expert '{name}' would give {rows} x {columns} tokens; 1 to {MAX_TOKENS} are allowed: choose another stride."
            )

    def prepare(self, picture: Image.Image) -> Prepared:
        array, window = to_pixels(picture, self.pixels)
        grid = (array.shape[1] // self.stride, array.shape[2] // self.stride)
        return Prepared((torch.from_numpy(array),), grid_geometry(picture.size, grid, window, leading=self.leading))

    def raw_features(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        features = []
        for one in prepared:
            (pixels,) = one.pixels
            grid = (pixels.shape[1] // self.stride, pixels.shape[2] // self.stride)
            tensors = [torch.from_numpy(array) for array in self.graph(pixels.cpu().numpy()[None])]
            parts = [self._on_grid(tensor, grid) for tensor in tensors]
            features.append(torch.cat(parts, dim=-1)[0])
        return features

    def _on_grid(self, tensor: Tensor, grid: tuple[int, int]) -> Float[Tensor, "1 n d"]:
        if tensor.ndim == 3:
            return tensor
        if tensor.ndim != 4 or tensor.shape[2] < grid[0] or tensor.shape[3] < grid[1]:
            raise InputError(
                f"Vision expert '{self.name}': a tensor of shape {tuple(tensor.shape)} cannot fill a grid of {grid[0]} x {grid[1]} tokens."
            )
        return F.adaptive_avg_pool2d(tensor, grid).flatten(2).transpose(1, 2)
