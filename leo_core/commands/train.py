"""Train the embedded model's stages 2 and 3 on cached features and evaluate it; resumes, and keeps each finished stage."""

import argparse
import json
import os
import sys
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=["2", "3", "evaluate", "all"], default="all")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run (default: runs/embedded)")
    parser.add_argument("--steps2", type=int, default=450, metavar="N", help="steps of stage 2, 40 questions each (default: 450)")
    parser.add_argument("--steps3", type=int, default=600, metavar="N", help="steps of stage 3, 24 questions each (default: 600)")
    parser.add_argument("--questions", type=int, default=800, metavar="N", help="test questions to evaluate (default: 800)")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    quiet_libraries()
    use_cache(options)
    stages = {"2": ["2"], "3": ["3"], "evaluate": ["evaluate"], "all": ["2", "3", "evaluate"]}[options.stage]
    recipe = _Recipe(options)
    for stage in stages:
        {"2": recipe.stage_2, "3": recipe.stage_3, "evaluate": recipe.evaluate}[stage]()
    return 0


class _Recipe:
    """The embedded model's recipe over one run folder."""

    def __init__(self, options: argparse.Namespace):
        from leo_core.decoder import converted_folder

        self.options, self.folder = options, options.run
        self.parts = fetched_parts()
        self.decoder_folder = converted_folder(self.parts.path("smollm2"))

    def _store(self, experts, kind: str):
        from leo_core.training.features import FeatureStore

        return FeatureStore(sorted((self.folder / "features" / kind).glob("shard-*.safetensors")), list(experts))

    def _config(self, text_config):
        from leo_core.checkpoint import new_processor
        from leo_core.embedded import CHAT_TEMPLATE, IMAGE_TOKEN, embedded_config

        config = embedded_config(text_config)
        processor = new_processor(self.decoder_folder, config, IMAGE_TOKEN, CHAT_TEMPLATE)
        config.image_token_id = processor.image_token_id
        return config, processor

    def stage_2(self) -> None:
        from leo_core.checkpoint import EMBEDDED, Sources
        from leo_core.decoder import load_decoder
        from leo_core.embedded import embedded_experts
        from leo_core.experts.build import build_experts
        from leo_core.training.recipe import fit_scaling, shorter, stage_2
        from leo_core.training.stages import STAGE_2

        experts = build_experts(embedded_experts(), Sources(EMBEDDED, self.parts))
        store = self._store(experts, "train")
        fit_scaling(experts, store)
        decoder = load_decoder(self.decoder_folder)
        config, processor = self._config(decoder.config)
        stage_2(config, decoder, experts, processor, store, shorter(STAGE_2, self.options.steps2), self.folder, line)

    def stage_3(self) -> None:
        from leo_core.checkpoint import load_model
        from leo_core.training.recipe import ship, shorter, stage_3
        from leo_core.training.stages import STAGE_3

        if (self.folder / "stage3").exists():
            return
        base = load_model(self.folder / "stage2", self.parts)
        store = self._store(base.vision_experts, "train").standardise_as(base.vision_experts)
        config, processor = self._config(base.config.text_config)
        config.decoder_source = base.config.decoder_source
        model = stage_3(base, config, processor, store, shorter(STAGE_3, self.options.steps3), self.folder, line)
        ship(model, processor, self.folder / "stage3", self.folder / "adapter")

    def evaluate(self) -> None:
        from leo_core.checkpoint import load
        from leo_core.files import atomic_path
        from leo_core.training.evaluate import evaluate, held_out_questions, markdown, table

        model, processor = load(self.folder / "stage3", self.parts)
        store = self._store(model.vision_experts, "test").standardise_as(model.vision_experts)
        pairs = held_out_questions(store, self.options.questions, seed=0)
        graded = evaluate(model, processor, store, pairs, progress=lambda done, all_: print(f"{done} of {all_} questions", end="\r", file=sys.stderr))
        rows = table(graded)
        with atomic_path(self.folder / "evaluation.json") as temporary:
            temporary.write_text(json.dumps({"seed": 0, "pictures": len(store), "rows": rows}, indent=1) + "\n")
        with atomic_path(self.folder / "evaluation.md") as temporary:
            temporary.write_text(markdown(rows))
        print(markdown(rows))


def line(metrics) -> None:
    """One line of progress, with rate and time left."""
    more = " ".join(f"{name} {value:.2f}" for name, value in metrics.more.items())
    text = f"{metrics.stage} {metrics.step}/{metrics.steps}  loss {metrics.loss:.3f}  {metrics.rate:.1f} questions/s  {metrics.eta:.0f} s left  {more}"
    print(text, file=sys.stderr, end="\n" if metrics.step % 20 == 0 or metrics.step == metrics.steps else "\r", flush=True)
