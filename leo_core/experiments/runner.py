"""Run what is missing: resumable, in shares for several processes, seed by seed."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from leo_core.errors import InputError
from leo_core.experiments.configuration import Configuration, Training
from leo_core.experiments.grids import GRIDS, Grid, distinct, grid_named
from leo_core.experiments.lab import Lab
from leo_core.experiments.lab_run import lab_run, questions_of
from leo_core.experiments.runs import RESULTS, load, path_of, save, save_questions
from leo_core.share import share_of


@dataclass(frozen=True)
class Job:
    """One configuration with one seed."""

    configuration: Configuration
    seed: int

    def path(self, folder: Path, training: Training) -> Path:
        return path_of(folder, self.configuration.name, self.configuration.identity(training), self.seed)


@dataclass(frozen=True)
class Progress:
    """After each finished run. done, total: runs of this process, those found finished included; eta in seconds."""

    job: Job
    done: int
    total: int
    seconds: float
    eta: float
    answered: float


def jobs(names: Sequence[str], seeds: Sequence[int], only: str | None = None, share: str = "1/1") -> list[Job]:
    """Runs of the grids `names` ("all" for every grid), each once, seed by seed.

    only: a pattern of configuration names (* and ? as in file names). share: "i/n" takes every n-th run from the i-th on.
    Raises InputError for unknown grids, a pattern that matches nothing, or a share that is none.
    """
    grids: tuple[Grid, ...] = GRIDS if "all" in names else tuple(grid_named(name) for name in names)
    chosen = [one for one in distinct(grids) if only is None or fnmatchcase(one.name.lower(), only.lower())]
    if not chosen:
        raise InputError(f"No configuration is named like '{only}': see 'python -m leo_core experiment {' '.join(names)} --list'.")
    return share_of([Job(one, seed) for seed in seeds for one in chosen], share)


def is_finished(job: Job, folder: Path, training: Training, data: str) -> bool:
    """Whether the run's file is there and was made with this lab."""
    path = job.path(folder, training)
    return path.exists() and load(path).data == data


def run_jobs(
    todo: Sequence[Job],
    folder: Path = RESULTS,
    training: Training | None = None,
    lab: Lab | None = None,
    step: Callable[[Job, int, float], None] | None = None,
) -> Iterator[Progress]:
    """Run what is not finished, yielding after each run. step(job, step, loss): during training."""
    training, lab = training or Training(), lab or Lab()
    if not (folder / "questions-lab.json").exists():
        known = questions_of(lab)
        save_questions(list(zip(known.picture.tolist(), known.domain, known.kind, strict=True)), "lab", folder)
    waiting = [job for job in todo if not is_finished(job, folder, training, lab.hash)]
    started, found = time.monotonic(), len(todo) - len(waiting)
    for number, job in enumerate(waiting, start=1):
        begun = time.monotonic()
        report = (lambda at, loss, job=job: step(job, at, loss)) if step is not None else None
        run, _ = lab_run(job.configuration, job.seed, lab=lab, report=report, training=training)
        save(run, folder)
        now = time.monotonic()
        yield Progress(job, found + number, len(todo), now - begun, (now - started) / number * (len(waiting) - number), run.share().value)
