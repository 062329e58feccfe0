"""Reading results: the runs of a grid, and differences with intervals. Needs neither the lab nor a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leo_core.errors import InputError
from leo_core.experiments.configuration import Training
from leo_core.experiments.grids import GRIDS, Grid, grid_named
from leo_core.experiments.runs import RESULTS, Questions, Run, load_all, load_questions
from leo_core.statistics import Estimate, bootstrap, difference


@dataclass(frozen=True)
class Results:
    """All runs of a study that are finished, by configuration name; and the test questions they answered.

    Only runs of the default training count: quick looks with other steps are left aside.
    """

    runs: dict[str, tuple[Run, ...]]
    questions: Questions

    def of(self, name: str) -> tuple[Run, ...]:
        """The runs of a configuration, by seed; empty where none is finished."""
        return self.runs.get(name, ())

    def seeds(self, *names: str) -> tuple[int, ...]:
        """Seeds with which all of these are finished."""
        common = set.intersection(*({run.seed for run in self.of(name)} for name in names))
        return tuple(sorted(common))

    def answered(self, name: str, seeds: Sequence[int], condition: str = "picture") -> np.ndarray:
        """(seeds, questions) of 0 and 1."""
        by_seed = {run.seed: run for run in self.of(name)}
        return np.stack([by_seed[seed].answered(condition) for seed in seeds])

    def share(self, name: str, condition: str = "picture", domain: str = "all") -> Estimate | None:
        """Share answered, mean over the seeds there are; None without any run."""
        seeds = self.seeds(name)
        if not seeds or any(condition not in run.right for run in self.of(name)):
            return None
        mask = self.questions.of(domain)
        return bootstrap(self.answered(name, seeds, condition)[:, mask].mean(axis=0), self.questions.picture[mask])

    def compare(
        self, first: str, second: str, condition: str = "picture", other_condition: str | None = None, domain: str = "all"
    ) -> Estimate | None:
        """first - second in share answered, paired by question and seed; None where no seed is finished for both.

        other_condition: of `second` (default: the same).
        """
        seeds = self.seeds(first, second)
        if not seeds:
            return None
        mask = self.questions.of(domain)
        pair = self.answered(first, seeds, condition), self.answered(second, seeds, other_condition or condition)
        return difference(pair[0][:, mask], pair[1][:, mask], self.questions.picture[mask])

    def measure(self, name: str, *path: str) -> list[float]:
        """A number of `measures` from each run of a configuration; empty where it was not measured."""
        found = []
        for run in self.of(name):
            value = run.measures
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found.append(value)
        return found


def results(grid: str | Grid | None = None, folder: Path = RESULTS, study: str = "lab") -> Results:
    """The finished runs of a grid (all grids by default). Raises InputError where there is none.

    A file counts when its identity is what the grid asks for today: results of changed configurations are left aside.
    """
    grids = GRIDS if grid is None else (grid_named(grid) if isinstance(grid, str) else grid,)
    runs = load_all(folder, study)
    if study == "lab":
        wanted = {one.identity(Training()): one.name for chosen in grids for one in chosen.configurations}
        runs = [run for run in runs if run.identity in wanted]
    else:
        runs = [run for run in runs if run.steps == max(one.steps for one in runs)]  # the others are quick looks
    if not runs:
        raise InputError(f"There are no results in {folder}: run 'python -m leo_core experiment all' first.")
    lab = max(sorted({run.data for run in runs}), key=lambda data: sum(run.data == data for run in runs))  # a rebuilt lab is another one
    by_name: dict[str, list[Run]] = {}
    for run in sorted((run for run in runs if run.data == lab), key=lambda run: run.seed):
        by_name.setdefault(run.name, []).append(run)
    return Results({name: tuple(found) for name, found in by_name.items()}, load_questions(study, folder))
