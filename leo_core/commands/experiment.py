"""The paper's claims measured in miniature: grids of lab runs, their tables and readings; goes on where it was stopped."""

import argparse
import os
import sys
import time
from pathlib import Path

from leo_core.commands.ready import quiet_libraries, use_cache

GRIDS = ("reducers", "budget", "mmoe", "terms", "experts", "stages", "length")
OTHERS = ("all", "embedded", "starts", "readme", "lab")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", choices=[*GRIDS, *OTHERS], nargs="+", metavar="NAME",
        help=f"{', '.join(GRIDS)} or all: run these grids; embedded: the comparisons at embedded size; starts: the closed-form starts, before training; readme: write the tables and the readings; lab: build the lab",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default: 3)")
    parser.add_argument("--only", metavar="PATTERN", help="configurations whose name fits, for example 'router*'")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps, for a quick look (such runs are files of their own)")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="do every N-th run only, starting with the I-th: for several processes")
    parser.add_argument("--list", action="store_true", help="say which runs there are and which are finished; run nothing")
    parser.add_argument("--table", action="store_true", help="write GRID.md from the files; run nothing")
    parser.add_argument("--results", type=Path, help="folder of the results (default: assets/results)")
    parser.add_argument("--folder", type=Path, default=Path("runs/lab"), help="lab only: where raw features are kept (default: runs/lab)")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="embedded and starts: folder of a trained run (default: runs/embedded)")
    parser.add_argument("--questions", type=int, default=500, metavar="N", help="embedded and starts: test questions (default: 500)")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.errors import InputError

    quiet_libraries()
    use_cache(options)
    special = {"embedded": _embedded, "starts": _starts, "readme": _readme, "lab": _lab}
    if set(options.name) & set(special):
        if len(options.name) > 1:
            raise InputError(f"'{options.name[0]}' and '{options.name[1]}' cannot be asked for together: one of them at a time.")
        given = [f"--{name}" for name, set_ in (("list", options.list), ("table", options.table), ("share", options.share != "1/1")) if set_]
        if given:
            raise InputError(f"'{options.name[0]}' knows no {given[0]}: leave it out, or name one of the grids {', '.join(GRIDS)}.")
        return special[options.name[0]](options)
    return _list(options) if options.list else _table(options) if options.table else _grids(options)


def _folder(options: argparse.Namespace) -> Path:
    from leo_core.experiments.runs import RESULTS

    return options.results or RESULTS


def _training(options: argparse.Namespace):
    from leo_core.experiments.configuration import Training

    return Training() if options.steps is None else Training(steps=options.steps, warmup=min(Training.warmup, options.steps))


def _jobs(options: argparse.Namespace) -> list:
    from leo_core.experiments.runner import jobs

    return jobs(options.name, range(options.seeds), options.only, options.share)


def _list(options: argparse.Namespace) -> int:
    from leo_core.experiments.lab import Lab
    from leo_core.experiments.runner import is_finished

    lab = Lab()
    for job in _jobs(options):
        state = "finished" if is_finished(job, _folder(options), _training(options), lab.hash) else "-"
        print(f"{state:<9} seed {job.seed}  {job.configuration.identity(_training(options))}  {job.configuration.name}")
    return 0


def _grids(options: argparse.Namespace) -> int:
    from leo_core.experiments.runner import run_jobs

    todo, training, started = _jobs(options), _training(options), time.monotonic()

    def step(job, at: int, loss: float) -> None:
        _line(f"{job.configuration.name}, seed {job.seed}: step {at} of {training.steps * job.configuration.times}, loss {loss:.3f}")

    left = len(todo)
    for progress in run_jobs(todo, _folder(options), training, step=step):
        left = progress.total - progress.done
        share, width = progress.done / progress.total, 24
        bar = f"[{'#' * int(width * share):<{width}}] {progress.done} of {progress.total}"
        name = f"{progress.job.configuration.name}, seed {progress.job.seed}"
        _line(f"{bar}  {progress.eta / 60:.0f} min left  {name}: {progress.answered:.1%} in {progress.seconds:.0f} s", last=True)
    if left == len(todo):
        print(f"All {len(todo)} runs are finished.")
    else:
        print(f"Done after {(time.monotonic() - started) / 60:.0f} min. Tables and readings: python -m leo_core experiment readme")
    return 0


def _line(text: str, last: bool = False) -> None:
    print(f"{text:<110}", end="\n" if last else "\r", file=sys.stderr, flush=True)


def _table(options: argparse.Namespace) -> int:
    from leo_core.experiments.grids import GRIDS as known
    from leo_core.experiments.grids import grid_named
    from leo_core.experiments.tables import write_table

    for grid in known if "all" in options.name else [grid_named(name) for name in options.name]:
        print(f"Written: {write_table(grid, _folder(options))}")
    return 0


def _readme(options: argparse.Namespace) -> int:
    from leo_core.experiments.readme import write_all

    for path in write_all(_folder(options)):
        print(f"Written: {path}")
    return 0


def _lab(options: argparse.Namespace) -> int:
    from leo_core.experiments.lab_build import build_lab

    build_lab(options.folder, _line)
    return 0


def _embedded(options: argparse.Namespace) -> int:
    from leo_core.experiments.embedded_runs import run_embedded

    for text in run_embedded(options.run, _folder(options), options.steps, options.questions, options.only):
        _line(text, last=True)
    return 0


def _starts(options: argparse.Namespace) -> int:
    from leo_core.experiments.starts_run import run_starts

    for name in run_starts(options.run, _folder(options), options.questions):
        _line(f"{name}: measured", last=True)
    print(f"Written: {_folder(options) / 'starts.md'}")
    return 0
