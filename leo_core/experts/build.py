"""The one place that knows which class each kind of vision expert is."""

from collections.abc import Callable, Sequence
from pathlib import Path

from transformers import AutoConfig, AutoImageProcessor, AutoModel

from leo_core.config import ExpertSource
from leo_core.errors import InputError
from leo_core.experts.expert import VisionExpert, VisionExperts
from leo_core.experts.onnx_expert import OnnxExpert
from leo_core.experts.onnx_graph import OnnxGraph, RememberingGraph
from leo_core.experts.pixels import PixelSettings
from leo_core.experts.transformers_expert import TransformersExpert
from leo_core.experts.words import WordExpert

Resolve = Callable[[dict], Path]
"""From a source ({"part": name}, {"asset": path} or {"path": path}) to a file or folder that exists."""


def build_experts(sources: Sequence[ExpertSource], resolve: Resolve) -> VisionExperts:
    """Finished experts, in order. Two experts that ask the same graph for the same tensors share it and its last answer."""
    graphs: dict[tuple, OnnxGraph] = {}

    def graph(settings: dict) -> OnnxGraph:
        path, tensors = resolve(settings), tuple(settings["tensors"])
        return graphs.setdefault((path, tensors), RememberingGraph(path, tensors))

    return VisionExperts([build_expert(source, resolve, graph) for source in sources])


def build_expert(source: ExpertSource, resolve: Resolve, graph: Callable[[dict], OnnxGraph]) -> VisionExpert:
    """One expert. settings by kind:

    onnx: graph {source, tensors}, pixels (PixelSettings), stride, width, leading. words: detector and recogniser graphs,
    detector_pixels, strip_pixels. transformers: a folder written by save_pretrained (model and image processor),
    layer, leading.
    """
    settings, name, domain = dict(source.settings), source.name, source.domain
    if source.kind == "onnx":
        return OnnxExpert(
            name, domain, settings["width"], graph(settings["graph"]), _pixels(settings["pixels"]), settings["stride"], settings.get("leading", 0)
        )
    if source.kind == "words":
        return WordExpert(
            name, domain, graph(settings["detector"]), _pixels(settings["detector_pixels"]),
            graph(settings["recogniser"]), _pixels(settings["strip_pixels"]),
        )  # fmt: skip
    if source.kind == "transformers":
        return _transformers(name, domain, settings, resolve(settings["source"]))
    raise InputError(f"Vision expert '{name}' is of kind '{source.kind}'; allowed are onnx, words and transformers.")


def _transformers(name: str, domain: str, settings: dict, folder: Path) -> TransformersExpert:
    config = AutoConfig.from_pretrained(folder)
    if hasattr(config, "vision_config"):  # a two-tower checkpoint such as CLIP's: only its vision tower is wanted
        model = AutoModel.from_pretrained(folder).vision_model
    else:
        model = AutoModel.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder)
    return TransformersExpert(name, domain, model, processor, settings.get("layer", -1), settings.get("leading", 0))


def _pixels(settings: dict) -> PixelSettings:
    return PixelSettings(**{key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()})
