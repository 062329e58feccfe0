"""The comparisons that matter at embedded size: same start, same steps, same data; graded on unseen scenes by greedy decoding."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from leo_core.accounting import cost, parameters
from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.embedded import COTR, KEEP_ALL
from leo_core.errors import InputError
from leo_core.experiments.configuration import identity_of
from leo_core.experiments.grids import single_lora
from leo_core.experiments.lab_run import versions
from leo_core.experiments.runs import Questions, Run, accuracy, bits, load, path_of, save, save_questions
from leo_core.training.stages import STAGE_3, Stage

_FULL = MMoEConfig()
TEST = "new_scenes"
RESAMPLER_RATE = 1e-3
"""A resampler starts from nothing, unlike CoTR, whose rate would leave it there."""


@dataclass(frozen=True)
class Comparison:
    """name: as in the tables. The reference is the embedded model as it is shipped."""

    name: str
    reducer: ReducerConfig = COTR
    mmoe: MMoEConfig = _FULL

    def rates(self) -> dict[str, float]:
        """Stage 3's, without the patterns of parts that this comparison does not have."""
        kept = {
            "reducer.": self.reducer.kind in ("cotr", "resampler"), "router.": self.mmoe.num_experts > 0,
            "lora_": self.mmoe.installed, "projector.": True,
        }  # fmt: skip
        rates = {pattern: rate for pattern, rate in STAGE_3.rates.items() if all(here for mark, here in kept.items() if mark in pattern)}
        return rates | ({"reducer.*": RESAMPLER_RATE} if self.reducer.kind == "resampler" else {})


COMPARISONS = (
    Comparison("CoTR, 16 tokens"),
    Comparison("average pooling, 16", replace(COTR, kind="average")),
    Comparison("resampler, 16", replace(COTR, kind="resampler")),
    Comparison("one LoRA, equal active rank", mmoe=single_lora(_FULL.rank * (_FULL.top_k + 1))),
    Comparison("all 64 tokens", KEEP_ALL),
)
"""Cheapest first; the names are those of the lab's configurations, so that the rankings can be compared."""


def run_embedded(run: Path, results: Path, steps: int | None = None, questions: int = 500, only: str | None = None) -> Iterator[str]:
    """Train and grade what is not finished, yielding a line of progress now and then.

    run: folder of a trained run (`stage2`, `features`). Each comparison keeps its checkpoints and answers in
    `run`/experiments, so it goes on where it was stopped. Raises InputError where the run lacks its stage 2.
    """
    from leo_core.training.run_folder import data_hash, has_stage_2

    stage = replace(STAGE_3, steps=steps or STAGE_3.steps, warmup=min(STAGE_3.warmup, steps or STAGE_3.steps))
    chosen = [one for one in COMPARISONS if only is None or fnmatchcase(one.name.lower(), only.lower())]
    if not chosen:
        raise InputError(f"No comparison is named like '{only}'; there are {', '.join(one.name for one in COMPARISONS)}.")
    has_stage_2(run)
    data = data_hash(run)
    for one in chosen:
        content = {
            "reducer": asdict(one.reducer),
            "mmoe": asdict(one.mmoe),
            "rates": one.rates(),
            "steps": stage.steps,
            "batch": stage.batch,
            "questions": questions,
        }
        identity = identity_of(content)
        path = path_of(results, one.name, f"embedded.{identity}", 0)
        if path.exists() and load(path).data == data:
            yield f"{one.name}: finished"
            continue
        yield from _one(one, stage, run, results, content, identity, data, questions)


def _one(one: Comparison, stage: Stage, run: Path, results: Path, content: dict, identity: str, data: str, questions: int) -> Iterator[str]:
    from leo_core.parts import Parts
    from leo_core.training.evaluate import drawn_questions, graded_into
    from leo_core.training.recipe import replace_reducer, stage_3
    from leo_core.training.run_folder import TRAINED_ON, RunFolder

    here, folder, started = RunFolder(run, Parts()), run / "experiments" / f"{identity}-{data[:12]}", time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    base = here.after_stage_2()
    config, processor = here.config(base.config.text_config)
    config.decoder_source = base.config.decoder_source
    config = replace_reducer(config, one.reducer, one.mmoe)
    losses: list[float] = []
    train = replace(stage, name="stage3", rates=one.rates())
    lines: list[str] = []
    yield f"{one.name}: training {stage.steps} steps"
    model = stage_3(base, config, processor, here.standardised(base.vision_experts, *TRAINED_ON), train, folder, lambda metrics: losses.append(metrics.loss))
    trained = time.monotonic()
    tests = here.standardised(base.vision_experts, TEST)
    pairs, graded = drawn_questions(tests, questions, 0), []
    for some in graded_into(folder / f"{TEST}.jsonl", model, processor, tests, pairs):
        graded += some
        lines.append(f"{one.name}: {len(graded)} of {len(pairs)} questions graded")
        yield lines[-1]
    known = Questions(np.array([i for i, _ in pairs]), tuple(q.domain for _, q in pairs), tuple(q.kind for _, q in pairs))
    save_questions([(i, q.domain, q.kind) for i, q in pairs], "embedded", results)
    right = {condition: bits(g.right(condition) for g in graded) for condition in ("picture", "no picture", "another picture")}
    found = cost(config, one.reducer.tokens, 30)
    measures = {"cost": {"positions": found.positions, "flops": found.flops, "cache_bytes": found.cache_bytes}, "parameters": parameters(model)}
    measures["log_probability"] = {c: float(np.mean([g.log_probability[c] for g in graded])) for c in right}
    written = Run(
        name=one.name, identity=f"embedded.{identity}", study="embedded", seed=0, steps=stage.steps, data=data, configuration=content,
        seconds={"train": round(trained - started, 1), "evaluate": round(time.monotonic() - trained, 1)}, versions=versions(),
        loss=float(np.mean(losses[-max(1, len(losses) // 10) :])) if losses else float("nan"), right=right, accuracy=accuracy(right, known), measures=measures,
    )  # fmt: skip
    save(written, results)
    yield f"{one.name}: {written.share().value:.1%} right after {time.monotonic() - started:.0f} s"
