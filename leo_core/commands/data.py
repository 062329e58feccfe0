"""Draw training and test pictures (or take own ones) and cache the vision experts' features; goes on where it was stopped."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

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
    parser.add_argument("--checkpoint", metavar="PATH", help="whose vision experts compute the features (default: those the embedded model is trained with)")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="do every N-th file only, starting with the I-th: for several processes")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.checkpoint import EMBEDDED, Sources, checkpoint_folder, read_config
    from leo_core.embedded import embedded_experts
    from leo_core.errors import InputError
    from leo_core.experts.build import build_experts

    quiet_libraries()
    use_cache(options)
    folder = checkpoint_folder(options.checkpoint) if options.checkpoint else EMBEDDED
    chosen = read_config(folder).expert_sources if options.checkpoint else embedded_experts()
    if not chosen:
        raise InputError(f"'{folder.name}' has no vision experts whose features could be cached: choose another checkpoint.")
    sets = _own(options) if options.own else _drawn(options)
    experts = build_experts(chosen, Sources(folder, fetched_parts(folder)))
    for one in sets:
        _same_as_before(options.run / "features" / one.name, f"{one.source} {one.count} {chosen}")
        _build(options, one, experts)
    return 0


class _Set(NamedTuple):
    """One set to build. source: what tells its pictures apart from others'; samples: from (first, count) to samples."""

    name: str
    count: int
    source: str
    samples: Callable[[int, int], Iterator]


def _own(options: argparse.Namespace) -> list[_Set]:
    from leo_core.data.llava_format import read_rows, usable

    report = lambda sentence: print(sentence, file=sys.stderr)  # noqa: E731
    rows = read_rows(options.own, options.rows, options.on_bad, report)
    if options.on_bad == "skip":  # before they are dealt out to files, whose numbers must not change
        rows = usable(rows, report)
    source = "".join(f"{row.image} {(row.folder / row.image).stat().st_size} {row.questions}" for row in rows)
    return [_Set(options.name, len(rows), source, lambda first, count: (row.sample() for row in rows[first : first + count]))]


def _drawn(options: argparse.Namespace) -> list[_Set]:
    from leo_core.data import Icons, easy_vqa, fetch_packs
    from leo_core.data.icons import STYLES, UNSEEN_STYLE
    from leo_core.data.sets import SETS, pictures, set_named
    from leo_core.files import cache_folder

    chosen = [set_named(name) for name in options.sets] if options.sets else SETS
    icons = Icons(fetch_packs(cache_folder() / "icons"), (*STYLES, UNSEEN_STYLE))
    draw = lambda one: lambda first, count: pictures(one, icons, count, first)  # noqa: E731
    most = lambda one: easy_vqa.PICTURES.get(one.easy_vqa, sys.maxsize)  # noqa: E731
    return [_Set(one.name, min(options.count or one.count, most(one)), repr(replace(one, count=0)), draw(one)) for one in chosen]


def _same_as_before(folder: Path, source: str) -> None:
    """Raises InputError where the files in `folder` were built from something else; files of unknown source pass."""
    from leo_core.errors import InputError
    from leo_core.files import atomic_path

    path, made_of = folder / "source.sha256", sha256(source.encode()).hexdigest()
    if any(folder.glob("shard-*.safetensors")) and path.exists() and path.read_text().strip() != made_of:
        raise InputError(f"{folder} was built from other pictures, questions or experts, or from another number of them: remove it to build anew.")
    with atomic_path(path) as temporary:
        temporary.write_text(f"{made_of}\n")


def _build(options: argparse.Namespace, one: _Set, experts) -> None:
    from leo_core.training.features import write_shard

    name, count, samples = one.name, one.count, one.samples
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
