"""Train the embedded model's three stages on cached features; resumes, and keeps each finished stage."""

import argparse
import os
import sys
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache

TRAINED_ON = ("train", "easy_vqa_train")
"""Picture sets; what was not built is left out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=["1", "2", "3", "all"], default="all")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run (default: runs/embedded)")
    parser.add_argument("--data", nargs="+", default=TRAINED_ON, metavar="SET", help=f"picture sets to train on (default: {' '.join(TRAINED_ON)})")
    parser.add_argument("--start", choices=["ridge", "cold"], default="ridge", help="stage 1 in closed form, or trained from a random projector")
    parser.add_argument("--steps1", type=int, default=300, metavar="N", help="steps of a cold stage 1 (default: 300); ridge needs none")
    parser.add_argument("--steps2", type=int, default=1100, metavar="N", help="steps of stage 2 (default: 1100)")
    parser.add_argument("--steps3", type=int, default=900, metavar="N", help="steps of stage 3 (default: 900)")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    quiet_libraries()
    use_cache(options)
    recipe = _Recipe(options)
    for stage in ("1", "2", "3") if options.stage == "all" else (options.stage,):
        {"1": recipe.stage_1, "2": recipe.stage_2, "3": recipe.stage_3}[stage]()
    return 0


class _Recipe:
    """The embedded model's recipe over one run folder."""

    def __init__(self, options: argparse.Namespace):
        from leo_core.decoder import converted_folder

        self.options, self.folder = options, options.run
        self.parts = fetched_parts()
        self.decoder_folder = converted_folder(self.parts.path("smollm2"))

    def _store(self, experts):
        from leo_core.training.features import FeatureStore

        shards = [shard for kind in self.options.data for shard in sorted((self.folder / "features" / kind).glob("shard-*.safetensors"))]
        return FeatureStore(shards, list(experts))

    def _config(self, text_config):
        from leo_core.checkpoint import new_processor
        from leo_core.embedded import ANSWER_PREFIX, CHAT_TEMPLATE, IMAGE_TOKEN, embedded_config

        config = embedded_config(text_config)
        processor = new_processor(self.decoder_folder, config, IMAGE_TOKEN, CHAT_TEMPLATE)
        processor.answer_prefix = ANSWER_PREFIX
        config.image_token_id = processor.image_token_id
        return config, processor

    def _raw(self):
        """(config, decoder, experts, processor, store) before any training: the decoder as it came, the experts' scaling fitted."""
        from leo_core.checkpoint import EMBEDDED, Sources
        from leo_core.decoder import load_decoder
        from leo_core.embedded import embedded_experts
        from leo_core.experts.build import build_experts
        from leo_core.training.recipe import fit_scaling

        experts = build_experts(embedded_experts(), Sources(EMBEDDED, self.parts))
        store = self._store(experts)
        fit_scaling(experts, store)
        decoder = load_decoder(self.decoder_folder)
        config, processor = self._config(decoder.config)
        return config, decoder, experts, processor, store

    def stage_1(self) -> None:
        from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
        from leo_core.training.first_stage import stage_1
        from leo_core.training.recipe import replace_reducer, shorter
        from leo_core.training.stages import COLD_STAGE_1

        if (self.folder / "stage1").exists():
            return
        config, *others = self._raw()
        stage = None if self.options.start == "ridge" else shorter(COLD_STAGE_1, self.options.steps1)
        stage_1(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), *others, stage, self.folder, line)

    def stage_2(self) -> None:
        from leo_core.training.recipe import shorter, stage_2
        from leo_core.training.stages import STAGE_2

        if (self.folder / "stage2").exists():
            return
        self.stage_1()
        stage_2(*self._raw(), shorter(STAGE_2, self.options.steps2), self.folder, line)

    def stage_3(self) -> None:
        from leo_core.checkpoint import load_model
        from leo_core.training.recipe import ship, shorter, stage_3
        from leo_core.training.stages import STAGE_3

        if (self.folder / "stage3").exists():
            return
        base = load_model(self.folder / "stage2", self.parts)
        store = self._store(base.vision_experts).standardise_as(base.vision_experts)
        config, processor = self._config(base.config.text_config)
        config.decoder_source = base.config.decoder_source
        model = stage_3(base, config, processor, store, shorter(STAGE_3, self.options.steps3), self.folder, line)
        ship(model, processor, self.folder / "stage3", self.folder / "adapter")


def line(metrics) -> None:
    """One line of progress, with rate and time left."""
    more = " ".join(f"{name} {value:.2f}" for name, value in metrics.more.items())
    text = f"{metrics.stage} {metrics.step}/{metrics.steps}  loss {metrics.loss:.3f}  {metrics.rate:.1f} questions/s  {metrics.eta:.0f} s left  {more}"
    print(text, file=sys.stderr, end="\n" if metrics.step % 20 == 0 or metrics.step == metrics.steps else "\r", flush=True)
