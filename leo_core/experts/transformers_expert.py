"""A vision expert from any transformers vision model and its own image processor."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from transformers import PreTrainedModel

from leo_core.errors import InputError
from leo_core.experts.expert import MAX_TOKENS, Prepared, VisionExpert
from leo_core.experts.pixels import Window
from leo_core.geometry import grid_geometry


class TransformersExpert(VisionExpert):
    """Hidden states of a vision model: a map (batch, channels, rows, columns), or a sequence with leading extra tokens.

    model: a vision model (CLIPVisionModel, ConvNextModel, ...). image_processor: its own, so its own normalisation.
    layer: which of the model's hidden states, e.g. -2 (LLaVA's choice for CLIP) or -1 for the last.
    leading: class and register tokens before the grid; they stay tokens, without a place on the picture.
    """

    def __init__(self, name: str, domain: str, model: PreTrainedModel, image_processor, layer: int = -1, leading: int = 0):
        hidden_sizes = getattr(model.config, "hidden_sizes", None)
        super().__init__(name, domain, hidden_sizes[layer] if hidden_sizes else model.config.hidden_size)
        self.model, self.image_processor, self.layer, self.leading = model.eval().requires_grad_(False), image_processor, layer, leading

    def prepare(self, picture: Image.Image) -> Prepared:
        pixels = self.image_processor(picture.convert("RGB"), return_tensors="pt")["pixel_values"][0]
        size = (pixels.shape[1], pixels.shape[2])
        geometry = grid_geometry(picture.size, self._grid(size), processor_window(self.image_processor, picture.size, size), self.leading)
        return Prepared((pixels,), geometry)

    def _grid(self, size: tuple[int, int]) -> tuple[int, int]:
        patch = getattr(self.model.config, "patch_size", 16)
        depths = getattr(self.model.config, "depths", None)
        stages = len(depths) if depths else 0
        stride = patch * 2 ** (stages - 1 if self.layer == -1 else stages + self.layer) if stages else patch
        grid = (size[0] // stride, size[1] // stride)
        if not 0 < grid[0] * grid[1] + self.leading <= MAX_TOKENS:
            raise InputError(f"Vision expert '{self.name}' would give {grid[0]} x {grid[1]} tokens; 1 to {MAX_TOKENS} are allowed.")
        return grid

    def raw_features(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        pixels = torch.stack([one.pixels[0] for one in prepared]).to(self.model.device, self.model.dtype)
        states = self.model(pixel_values=pixels, output_hidden_states=True).hidden_states[self.layer]
        rows = states.flatten(2).transpose(1, 2) if states.ndim == 4 else states
        return list(rows.float())


def processor_window(processor, size: tuple[int, int], output: tuple[int, int]) -> Window:
    """The rectangle of the original picture that an image processor's output covers, from the processor's own settings.

    size: (width, height) of the original; output: (rows, columns) it made. Raises InputError for processors that pad or
    cut patches in a way this function does not know: a wrong map is worse than none.
    """
    width, height = size
    whole = (0.0, 0.0, float(width), float(height))
    unknown = [name for name in ("do_pad", "do_patch", "do_image_splitting") if getattr(processor, name, None)]
    if unknown:
        raise InputError(f"{type(processor).__name__} uses {unknown[0]}, for which no exact map to the picture is known; turn it off.")
    wanted = processor.size if getattr(processor, "do_resize", False) else {}
    crop_to = processor.crop_size if getattr(processor, "do_center_crop", False) else None
    shortest = wanted.get("shortest_edge")
    crop_pct = getattr(processor, "crop_pct", None)
    if shortest and crop_pct and shortest < 384:  # ConvNeXT: resize the shortest edge to size / crop_pct, then crop to size
        crop_to, shortest = {"height": shortest, "width": shortest}, int(shortest / crop_pct)
    elif shortest and crop_pct:
        return whole  # ConvNeXT at 384 and above: plain resize to a square
    if crop_to is None:
        return whole
    scaled = _resized(width, height, shortest, wanted)
    return _centre_crop(size, scaled, (crop_to["width"], crop_to["height"]))


def _resized(width: int, height: int, shortest: int | None, wanted) -> tuple[int, int]:
    if shortest:
        longer = int(shortest * max(width, height) / min(width, height))
        return (shortest, longer) if width <= height else (longer, shortest)
    return (wanted["width"], wanted["height"]) if "width" in wanted else (width, height)


def _centre_crop(size: tuple[int, int], scaled: tuple[int, int], crop: tuple[int, int]) -> Window:
    edges = []
    for original, after, kept in zip(size, scaled, crop, strict=True):
        start = (after - kept) // 2
        edges.append((start * original / after, (start + kept) * original / after))
    return (edges[0][0], edges[1][0], edges[0][1], edges[1][1])
