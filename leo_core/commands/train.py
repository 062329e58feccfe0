"""Train the embedded model's three stages on cached features; resumes, and keeps each finished stage."""

import argparse
import os
import sys
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=["1", "2", "3", "all"], default="all")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run (default: runs/embedded)")
    parser.add_argument("--data", nargs="+", metavar="SET", help="picture sets to train on (default: train easy_vqa_train)")
    parser.add_argument("--start", choices=["ridge", "cold"], default="ridge", help="stage 1 in closed form, or trained from a random projector")
    parser.add_argument("--adapter", type=Path, metavar="FOLDER", help="LoRA that stage 2 goes on from (assets/embedded/adapter; default: a new one)")
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
        from leo_core.training.adapter import has_adapter
        from leo_core.training.run_folder import TRAINED_ON, RunFolder

        if options.adapter is not None:
            has_adapter(options.adapter)  # told now, not after stage 1
        self.options, self.folder, self.sets = options, options.run, options.data or TRAINED_ON
        self.run = RunFolder(options.run, fetched_parts())

    def stage_1(self) -> None:
        from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
        from leo_core.training.first_stage import stage_1
        from leo_core.training.recipe import replace_reducer, shorter
        from leo_core.training.stages import COLD_STAGE_1

        if (self.folder / "stage1" / "projector.safetensors").exists():
            return
        config, *others = self.run.raw(*self.sets)
        stage = None if self.options.start == "ridge" else shorter(COLD_STAGE_1, self.options.steps1)
        stage_1(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), *others, stage, self.folder, line)

    def stage_2(self) -> None:
        from leo_core.training.recipe import shorter, stage_2
        from leo_core.training.stages import STAGE_2

        if (self.folder / "stage2").exists():
            return
        self.stage_1()
        stage_2(*self.run.raw(*self.sets), shorter(STAGE_2, self.options.steps2), self.folder, line, self.options.adapter)

    def stage_3(self) -> None:
        from leo_core.training.recipe import ship, shorter, stage_3
        from leo_core.training.stages import STAGE_3

        if (self.folder / "stage3").exists():
            return
        base = self.run.after_stage_2()
        store = self.run.standardised(base.vision_experts, *self.sets)
        config, processor = self.run.config(base.config.text_config)
        config.decoder_source = base.config.decoder_source
        model = stage_3(base, config, processor, store, shorter(STAGE_3, self.options.steps3), self.folder, line)
        ship(model, processor, self.folder / "stage3", self.folder / "adapter")


def line(metrics) -> None:
    """One line of progress, with rate and time left."""
    more = " ".join(f"{name} {value:.2f}" for name, value in metrics.more.items())
    text = f"{metrics.stage} {metrics.step}/{metrics.steps}  loss {metrics.loss:.3f}  {metrics.rate:.1f} questions/s  {metrics.eta:.0f} s left  {more}"
    print(text, file=sys.stderr, end="\n" if metrics.step % 20 == 0 or metrics.step == metrics.steps else "\r", flush=True)
