"""A vision expert: a frozen encoder with a name, a domain, its own preprocessing, a token grid and a Geometry."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor, nn

from leo_core.errors import InputError
from leo_core.geometry import Geometry

MAX_TOKENS = 1024
"""Most source tokens one expert may deliver for one picture (design rule 4)."""


@dataclass(frozen=True)
class Prepared:
    """One picture as one expert wants it. pixels: one (3, height, width) tensor; readers get one for each text strip."""

    pixels: tuple[Float[Tensor, "3 height width"], ...]
    geometry: Geometry


class VisionExpert(nn.Module):
    """Base of all experts. A kind of expert implements `prepare` and `raw_features` and states its `width`.

    Features leave standardised by the buffers `mean` and `std` (zero and one unless fitted): frozen encoders differ in
    scale by orders of magnitude, and CoTR's dot products would otherwise be decided by the loudest one.
    """

    def __init__(self, name: str, domain: str, width: int):
        super().__init__()
        self.name, self.domain, self.width = name, domain, width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))

    def prepare(self, picture: Image.Image) -> Prepared:
        """Resize, crop, pad and normalise one RGB picture; say where each token will sit."""
        raise InputError(f"{type(self).__name__} does not say how it prepares a picture.")

    def raw_features(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        """Features of each picture, before standardising; one row per token of its geometry."""
        raise InputError(f"{type(self).__name__} does not say how it encodes a picture.")

    def written(self, text: str) -> Float[Tensor, "d"] | None:
        """Standardised feature of a token on which `text` is written, zero where the text does not decide it; None: this expert does not read."""
        return None

    @torch.no_grad()
    def forward(self, prepared: Sequence[Prepared]) -> list[Float[Tensor, "n d"]]:
        """Standardised features, one (n, d) tensor per picture on the device of the buffers. Frozen: no gradient."""
        features = []
        for one, raw in zip(prepared, self.raw_features(prepared), strict=True):
            if raw.shape != (len(one.geometry), self.width):
                raise InputError(
                    f"Vision expert '{self.name}' gave {tuple(raw.shape)} features for {len(one.geometry)} tokens of width "
                    f"{self.width}: its settings do not fit its encoder."
                )
            features.append((raw.to(self.mean) - self.mean) / self.std)
        return features


@dataclass(frozen=True)
class PictureFeatures:
    """What the experts say of p pictures: the input of the reducer, and the thing worth caching.

    features, masks, boxes: one entry per expert: tokens (p, n_i, d_i), which of them are real (p, n_i), and their
    boxes (x0, y0, x1, y1) in picture coordinates 0..1 (p, n_i, 4).
    geometries: geometries[i][picture], or empty where features come from a cache.
    """

    features: tuple[Float[Tensor, "p n d"], ...]
    masks: tuple[Bool[Tensor, "p n"], ...]
    boxes: tuple[Float[Tensor, "p n 4"], ...]
    geometries: tuple[tuple[Geometry, ...], ...] = ()

    @property
    def pictures(self) -> int:
        return self.features[0].shape[0]

    def to(self, *args, **kwargs) -> "PictureFeatures":
        """Moved (and, for the floating parts, cast) like a tensor."""
        move = lambda parts: tuple(part.to(*args, **kwargs) for part in parts)  # noqa: E731
        device = move(self.features)[0].device
        return PictureFeatures(move(self.features), tuple(m.to(device) for m in self.masks), move(self.boxes), self.geometries)

    def pick(self, index: Tensor) -> "PictureFeatures":
        """The pictures at `index` (repeats allowed), in that order."""
        chosen = tuple(tuple(g[i] for i in index.tolist()) for g in self.geometries)
        take = lambda parts: tuple(part[index] for part in parts)  # noqa: E731
        return PictureFeatures(take(self.features), take(self.masks), take(self.boxes), chosen)


def pad_tokens(rows: Sequence[Tensor]) -> tuple[Tensor, Bool[Tensor, "p n"]]:
    """Stack (n_j, ...) tensors of unequal length, padded with zeros behind; and the mask of what is real."""
    lengths = torch.tensor([len(row) for row in rows], device=rows[0].device)
    mask = torch.arange(int(lengths.max()), device=rows[0].device) < lengths[:, None]
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True), mask


class VisionExperts(nn.ModuleDict):
    """The mixture of vision experts (the paper's MMoE-Vision): all run on every picture, none is routed away."""

    def __init__(self, experts: Sequence[VisionExpert]):
        names = [expert.name for expert in experts]
        if len(set(names)) != len(names):
            raise InputError(f"Vision experts need different names; got {', '.join(names)}.")
        super().__init__({expert.name: expert for expert in experts})

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(expert.width for expert in self.values())

    def prepare(self, pictures: Sequence[Image.Image]) -> dict[str, list[Prepared]]:
        """Each expert's own view of each picture, by expert name."""
        return {name: [expert.prepare(picture) for picture in pictures] for name, expert in self.items()}

    def forward(self, prepared: dict[str, list[Prepared]]) -> PictureFeatures:
        """Features of all pictures from all experts, padded to each expert's longest picture."""
        features, masks, boxes, geometries = [], [], [], []
        for name, expert in self.items():
            padded, mask = pad_tokens(expert(prepared[name]))
            places = [torch.from_numpy(one.geometry.boxes).to(padded) for one in prepared[name]]
            features.append(padded)
            masks.append(mask)
            boxes.append(pad_tokens(places)[0])
            geometries.append(tuple(one.geometry for one in prepared[name]))
        return PictureFeatures(tuple(features), tuple(masks), tuple(boxes), tuple(geometries))
