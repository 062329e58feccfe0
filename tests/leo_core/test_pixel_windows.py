"""The window of the picture that an encoder's input covers: a marker drawn at a known pixel is found where the window says."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.clip import CLIPImageProcessor
from transformers.models.convnext import ConvNextImageProcessor
from transformers.models.vit import ViTImageProcessor

from leo_core.errors import InputError
from leo_core.experts.expert import VisionExperts
from leo_core.experts.pixels import PixelSettings, normalise, to_pixels
from leo_core.experts.transformers_expert import TransformersExpert, processor_window
from leo_core.geometry import grid_geometry

SIZES = [(90, 50), (50, 120), (121, 77), (64, 64), (33, 200)]
PROCESSORS = {
    "clip": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    "clip, smaller crop": CLIPImageProcessor(size={"shortest_edge": 45}, crop_size={"height": 32, "width": 32}),
    "clip, wide crop": CLIPImageProcessor(size={"shortest_edge": 45}, crop_size={"height": 24, "width": 40}),
    "clip, odd": CLIPImageProcessor(size={"shortest_edge": 41}, crop_size={"height": 32, "width": 32}),
    "clip, no crop": CLIPImageProcessor(size={"shortest_edge": 32}, do_center_crop=False),
    "clip, no resize": CLIPImageProcessor(do_resize=False, crop_size={"height": 40, "width": 40}),
    "convnext": ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.8),
    "convnext, odd": ConvNextImageProcessor(size={"shortest_edge": 48}, crop_pct=0.875),
    "convnext, 384": ConvNextImageProcessor(size={"shortest_edge": 384}),
    "vit": ViTImageProcessor(size={"height": 32, "width": 48}),
}
SETTINGS = {
    "stretch": PixelSettings((32, 48), "stretch"),
    "within": PixelSettings((64, 96), "within", multiple=16),
    "pad": PixelSettings((48, 40), "pad"),
    "crop": PixelSettings((40, 64), "crop"),
    "crop, tall": PixelSettings((64, 24), "crop"),
}
MARKER = 6


def markers(size):
    """Pictures that are black but for a white square, and the square's centre; on a grid that reaches all edges."""
    width, height = size
    for x in np.linspace(0, width - MARKER, 11).round().astype(int):
        for y in np.linspace(0, height - MARKER, 11).round().astype(int):
            array = np.zeros((height, width, 3), np.uint8)
            array[y : y + MARKER, x : x + MARKER] = 255
            yield Image.fromarray(array), (x + MARKER / 2, y + MARKER / 2)


def check(size, convert):
    """convert: picture -> (pixels (3, rows, columns), black pixels, window)."""
    found = 0
    for picture, (x, y) in markers(size):
        pixels, black, (x0, y0, x1, y1) = convert(picture)
        light = np.abs(pixels - black).sum(axis=0)
        rows, columns = light.shape
        per_x, per_y = columns / (x1 - x0), rows / (y1 - y0)
        expected = ((x - x0) * per_x, (y - y0) * per_y)
        half = (MARKER / 2 * per_x, MARKER / 2 * per_y)
        if not all(h <= e <= side - h for e, h, side in zip(expected, half, (columns, rows), strict=True)):
            if any(e + h < -2 or e - h > side + 2 for e, h, side in zip(expected, half, (columns, rows), strict=True)):
                assert light.max() < 0.1, "outside the window nothing may be seen"
            continue  # cut by the window's edge: its centre of gravity is elsewhere
        found += 1
        light = np.where(light > 0.2 * light.max(), light, 0)
        centre = ((light.sum(0) * (np.arange(columns) + 0.5)).sum() / light.sum(), (light.sum(1) * (np.arange(rows) + 0.5)).sum() / light.sum())
        tolerance = 0.35 + 0.15 * max(per_x, per_y)
        assert abs(centre[0] - expected[0]) < tolerance and abs(centre[1] - expected[1]) < tolerance, (x, y, centre, expected)
        geometry = grid_geometry(size, (rows // 8, columns // 8), (x0, y0, x1, y1))
        token = int(min(centre[1] // 8, rows // 8 - 1)) * (columns // 8) + int(min(centre[0] // 8, columns // 8 - 1))
        if rows % 8 == columns % 8 == 0:  # the token that holds the marker in the input holds it on the picture, to a pixel
            low, high = geometry.polygons[token].min(axis=0) - 1, geometry.polygons[token].max(axis=0) + 1
            assert (low <= (x, y)).all() and ((x, y) <= high).all()
    assert found >= 4


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROCESSORS)
def test_image_processors_of_transformers(name, size):
    processor = PROCESSORS[name]

    def pixels(picture):
        return processor(picture, return_tensors="pt")["pixel_values"][0].numpy()

    black = pixels(Image.new("RGB", size))
    check(size, lambda picture: (pixels(picture), black, processor_window(processor, size, black.shape[1:])))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SETTINGS)
def test_pixel_settings(name, size):
    def convert(picture):
        pixels, window = to_pixels(picture, SETTINGS[name])
        black, _ = to_pixels(Image.new("RGB", picture.size), SETTINGS[name])
        return pixels, black, window

    check(size, convert)


@pytest.mark.parametrize("size", SIZES)
def test_shapes_and_windows_of_the_fits(size):
    width, height = size
    picture = Image.new("RGB", size)
    shapes = {name: (to_pixels(picture, settings)[0].shape[1:], to_pixels(picture, settings)[1]) for name, settings in SETTINGS.items()}
    assert shapes["stretch"] == ((32, 48), (0, 0, width, height))
    (rows, columns), window = shapes["within"]
    assert rows % 16 == columns % 16 == 0 and max(rows, columns) == 96 and window == (0, 0, width, height)
    (rows, columns), (x0, y0, x1, y1) = shapes["pad"]
    assert (rows, columns, x0, y0) == (48, 40, 0, 0) and x1 >= width and y1 >= height and min(x1 - width, y1 - height) < 1e-9
    (rows, columns), (x0, y0, x1, y1) = shapes["crop"]
    assert (rows, columns) == (40, 64) and x0 >= -1e-9 and y0 >= -1e-9 and x1 <= width + 1e-9 and y1 <= height + 1e-9
    assert (x1 - x0) / (y1 - y0) == pytest.approx(64 / 40) and min(x0, y0) == pytest.approx(0, abs=1e-9)


def test_numbers_of_an_encoder_are_its_own():
    picture = Image.new("RGB", (4, 3), (255, 51, 0))
    rgb = normalise(picture, PixelSettings((3, 4), mean=(0.5, 0.2, 0.1), std=(0.5, 1.0, 2.0)))
    bgr = normalise(picture, PixelSettings((3, 4), mean=(0.5, 0.2, 0.1), std=(0.5, 1.0, 2.0), order="bgr"))
    raw = normalise(picture, PixelSettings((3, 4), mean=(0,) * 3, std=(1,) * 3, scale=1.0))
    assert rgb.shape == (3, 3, 4) and rgb.dtype == np.float32
    assert rgb[:, 0, 0] == pytest.approx([1.0, 0.0, -0.05], abs=1e-6) and bgr[:, 0, 0] == pytest.approx([-1.0, 0.0, 0.45], abs=1e-6)
    assert raw[:, 2, 3].tolist() == [255, 51, 0]
    with pytest.raises(InputError):
        PixelSettings((3, 4), fit="squeeze")


def test_processors_whose_map_is_unknown_are_refused():
    processor = CLIPImageProcessor(size={"shortest_edge": 32})
    processor.do_pad = True
    with pytest.raises(InputError, match="do_pad"):
        processor_window(processor, (90, 50), (32, 32))


@pytest.mark.parametrize("name", ["clip", "convnext"])
@torch.no_grad()
def test_a_transformers_expert_gives_the_hidden_states_of_its_model(name, vision_folders):
    from transformers import AutoImageProcessor, AutoModel

    model, processor = AutoModel.from_pretrained(vision_folders[name]).eval(), AutoImageProcessor.from_pretrained(vision_folders[name])
    leading = 1 if name == "clip" else 0
    pictures = [Image.effect_noise(size, 90).convert("RGB") for size in SIZES[:2]]
    for layer in (-1, -2):
        expert = TransformersExpert(name, "any", model, processor, layer, leading)
        expert.mean += 0.3
        expert.std *= 2
        features = VisionExperts([expert])({name: [expert.prepare(picture) for picture in pictures]})
        states = model(**processor(pictures, return_tensors="pt"), output_hidden_states=True).hidden_states[layer]
        rows = states if states.ndim == 3 else states.flatten(2).transpose(1, 2)
        torch.testing.assert_close(features.features[0], (rows - 0.3) / 2, atol=1e-5, rtol=1e-5)
        assert features.masks[0].all() and expert.width == rows.shape[-1]
        for geometry, picture in zip(features.geometries[0], pictures, strict=True):
            assert len(geometry) == rows.shape[1] and (geometry.width, geometry.height) == picture.size
            assert geometry.placed.tolist() == [False] * leading + [True] * (len(geometry) - leading)
            assert 0 < geometry.unseen_share() < 0.8
