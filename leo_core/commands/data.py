"""Draw training and test pictures (or take own ones) and cache the vision experts' features; goes on where it was stopped."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache
from leo_core.share import share_of

SHARD = 50
"""Pictures in one file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["build"])
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run (default: runs/embedded)")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="new_scenes, new_style, new_names, train, easy_vqa_test, easy_vqa_train (default: all)")
    parser.add_argument("--count", type=int, metavar="N", help="pictures of each set (default: each set's own number)")
    parser.add_argument("--own", type=Path, metavar="FOLDER", help="own pictures with questions in the LLaVA conversation format, instead of drawn ones")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="their .json or .jsonl file (default: the only one in the folder)")
    parser.add_argument("--name", default="own", help="name of the set of own pictures (default: own)")
    parser.add_argument("--on-bad", choices=["refuse", "skip"], default="refuse", help="what to do with a row that cannot be used (default: refuse)")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="do every N-th file only, starting with the I-th: for several processes")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.checkpoint import EMBEDDED, Sources
    from leo_core.embedded import embedded_experts
    from leo_core.experts.build import build_experts

    quiet_libraries()
    use_cache(options)
    sets = _own(options) if options.own else _drawn(options)
    experts = build_experts(embedded_experts(), Sources(EMBEDDED, fetched_parts()))
    for name, count, samples in sets:
        _build(options, name, count, samples, experts)
    return 0


def _own(options: argparse.Namespace) -> list[tuple[str, int, Callable[[int, int], Iterator]]]:
    from leo_core.data.llava_format import read_rows

    rows = read_rows(options.own, options.rows, options.on_bad, lambda sentence: print(sentence, file=sys.stderr))
    return [(options.name, len(rows), lambda first, count: (row.sample() for row in rows[first : first + count]))]


def _drawn(options: argparse.Namespace) -> list[tuple[str, int, Callable[[int, int], Iterator]]]:
    from leo_core.data import Icons, fetch_packs
    from leo_core.data.icons import STYLES, UNSEEN_STYLE
    from leo_core.data.sets import SETS, pictures, set_named
    from leo_core.files import cache_folder

    chosen = [set_named(name) for name in options.sets] if options.sets else SETS
    icons = Icons(fetch_packs(cache_folder() / "icons"), (*STYLES, UNSEEN_STYLE))
    draw = lambda one: lambda first, count: pictures(one, icons, count, first)  # noqa: E731
    return [(one.name, options.count or one.count, draw(one)) for one in chosen]


def _build(options: argparse.Namespace, name: str, count: int, samples: Callable[[int, int], Iterator], experts) -> None:
    from leo_core.training.features import write_shard

    mine = share_of(range(0, count, SHARD), options.share)
    started, done = time.monotonic(), 0
    for number, first in enumerate(mine):
        path = options.run / "features" / name / f"shard-{first // SHARD:04d}.safetensors"
        if not path.exists():
            write_shard(path, samples(first, min(SHARD, count - first)), experts)
            done += min(SHARD, count - first)
        left = (time.monotonic() - started) / max(done, 1) * SHARD * (len(mine) - number - 1)
        pace = done / (time.monotonic() - started)
        print(f"{name}: {number + 1} of {len(mine)} files, {pace:.1f} pictures/s, {left:.0f} s left   ", end="\r", file=sys.stderr)
    print(file=sys.stderr)
