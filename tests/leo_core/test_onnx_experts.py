"""Experts from ONNX graphs: inner tensors, grids, and the file on disk left as it is."""

import copy
import hashlib
import pickle

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from PIL import Image
from torch.nn import functional as F

from leo_core.config import ExpertSource
from leo_core.errors import CheckpointError, InputError
from leo_core.experts.build import build_experts
from leo_core.experts.expert import Prepared, VisionExpert, VisionExperts
from leo_core.experts.onnx_expert import OnnxExpert
from leo_core.experts.onnx_graph import OnnxGraph, RememberingGraph
from leo_core.experts.pixels import PixelSettings, to_pixels
from leo_core.geometry import grid_geometry


@pytest.fixture(scope="module")
def path(make_graph, tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("onnx") / "tiny.onnx")


def in_torch(path, pixels) -> dict[str, torch.Tensor]:
    """The graph of conftest.write_graph once more, with torch."""
    w = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in onnx.load(path).graph.initializer}
    early = F.conv2d(torch.from_numpy(pixels), w["w1"], w["b1"], stride=4)
    return {"early": early, "middle": early.relu(), "last": F.conv2d(early.relu(), w["w2"], stride=2)}


def test_inner_tensors_come_in_the_order_asked_and_the_file_stays(path):
    before, pixels = hashlib.sha256(path.read_bytes()).hexdigest(), np.random.default_rng(0).normal(size=(1, 3, 16, 24)).astype(np.float32)
    expected = in_torch(path, pixels)
    for names in (["last"], ["early"], ["middle", "last"], ["last", "early", "middle"]):
        graph = OnnxGraph(path, names)
        for name, array in zip(names, graph(pixels), strict=True):
            torch.testing.assert_close(torch.from_numpy(array), expected[name], atol=1e-4, rtol=1e-4)
    assert graph.sha256 == before == hashlib.sha256(path.read_bytes()).hexdigest()
    assert graph.metadata == {"character": "abc"}
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert np.array_equal(twin(pixels)[0], graph(pixels)[0])


def test_a_remembering_graph_answers_the_same_and_runs_once_for_one_picture(path, monkeypatch):
    graph, calls, plain = RememberingGraph(path, ["last"]), [], OnnxGraph.__call__
    monkeypatch.setattr(OnnxGraph, "__call__", lambda self, pixels: calls.append(1) or plain(self, pixels))
    one = np.ones((1, 3, 16, 24), np.float32)
    answers = [graph(pixels)[0] for pixels in (one, one.copy(), one * 2, one.reshape(1, 3, 24, 16), one)]
    assert len(calls) == 4 and answers[1] is answers[0]
    for answer, pixels in zip(answers, (one, one, one * 2, one.reshape(1, 3, 24, 16), one), strict=True):
        torch.testing.assert_close(torch.from_numpy(answer), in_torch(path, pixels)["last"], atol=1e-4, rtol=1e-4)


def test_missing_damaged_and_wrong_graphs_are_refused(path, tmp_path):
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no graph at all" * 9)
    for file, tensors, word in ((tmp_path / "none.onnx", ["last"], "exist"), (damaged, ["last"], "read"), (path, ["lost"], "lost")):
        with pytest.raises(CheckpointError, match=word) as caught:
            OnnxGraph(file, tensors)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_graph_is_refused(path, tmp_path, share):
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(CheckpointError):
        OnnxGraph(cut, ["last"])


@pytest.mark.parametrize(("size", "stride"), [((16, 24), 8), ((32, 16), 8), ((24, 24), 8)])
def test_maps_are_averaged_onto_one_grid_and_joined(path, size, stride):
    settings = PixelSettings(size, "stretch")
    expert = OnnxExpert("lines", "lines", 12, OnnxGraph(path, ["middle", "last"]), settings, stride)
    picture = Image.effect_noise((90, 50), 90).convert("RGB")
    prepared = expert.prepare(picture)
    maps = in_torch(path, to_pixels(picture, settings)[0][None])
    rows, columns = size[0] // stride, size[1] // stride
    features = expert([prepared])[0]
    for row in range(rows):
        for column in range(columns):
            middle = maps["middle"][0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].mean(dim=(1, 2))
            expected = torch.cat([middle, maps["last"][0, :, row, column]])
            torch.testing.assert_close(features[row * columns + column], expected, atol=1e-4, rtol=1e-4)
    assert prepared.geometry.grid == (rows, columns)


def test_within_gives_a_grid_of_the_pictures_own_shape(path):
    expert = OnnxExpert("lines", "lines", 7, OnnxGraph(path, ["last"]), PixelSettings((32, 32), "within", multiple=8), 8)
    grids = [expert.prepare(Image.new("RGB", size)).geometry.grid for size in ((90, 50), (50, 120), (400, 20))]
    assert grids == [(2, 4), (4, 2), (1, 4)]
    features = VisionExperts([expert])({"lines": [expert.prepare(Image.new("RGB", size)) for size in ((90, 50), (400, 20))]})
    assert features.masks[0].sum(1).tolist() == [8, 4]


def test_settings_that_do_not_fit_the_graph_are_refused(path):
    picture, graph = Image.new("RGB", (90, 50)), OnnxGraph(path, ["last"])
    with pytest.raises(InputError, match="width"):
        wrong = OnnxExpert("lines", "lines", 9, graph, PixelSettings((16, 24)), 8)
        wrong([wrong.prepare(picture)])
    with pytest.raises(InputError, match="cannot fill"):
        fine = OnnxExpert("lines", "lines", 7, graph, PixelSettings((16, 24)), 4)
        fine([fine.prepare(picture)])
    for stride in (1, 64):
        with pytest.raises(InputError, match="stride"):
            OnnxExpert("lines", "lines", 7, graph, PixelSettings((48, 48)), stride)


def test_experts_share_a_graph_only_when_they_ask_the_same(path):
    def source(name, tensors):
        return ExpertSource(name, "onnx", name, {"graph": {"path": str(path), "tensors": tensors}, "pixels": {"size": [16, 24]}, "stride": 8, "width": 7})

    experts = build_experts([source("a", ["last"]), source("b", ["last"]), source("c", ["middle"])], lambda settings: settings["path"])
    assert experts["a"].graph is experts["b"].graph and experts["a"].graph is not experts["c"].graph
    with pytest.raises(InputError, match="different names"):
        build_experts([source("a", ["last"]), source("a", ["last"])], lambda settings: settings["path"])


class Leading(VisionExpert):
    """A made-up expert: features are the token's number."""

    def prepare(self, picture):
        return Prepared((torch.zeros(3, 2, 2),), grid_geometry(picture.size, (2, 3), leading=1))

    def raw_features(self, prepared):
        return [torch.arange(7.0)[:, None].expand(-1, self.width) for _ in prepared]


def test_features_are_standardised_picked_and_cast():
    expert = Leading("made up", "none", 2)
    expert.mean.copy_(torch.tensor([1.0, 3.0]))
    expert.std.copy_(torch.tensor([2.0, 0.5]))
    pictures = VisionExperts([expert])({"made up": [expert.prepare(Image.new("RGB", size)) for size in ((30, 20), (10, 60))]})
    assert pictures.pictures == 2 and pictures.features[0][0, 4].tolist() == [1.5, 2.0]
    assert pictures.boxes[0][0, 0].tolist() == [0, 0, 0, 0] and pictures.boxes[0][1, 6].tolist() == pytest.approx([2 / 3, 0.5, 1, 1])
    again = pictures.pick(torch.tensor([1, 0, 1]))
    assert [g.width for g in again.geometries[0]] == [10, 30, 10] and again.pictures == 3
    half = pictures.to(torch.bfloat16)
    assert half.features[0].dtype == half.boxes[0].dtype == torch.bfloat16 and half.masks[0].dtype == torch.bool
