"""Draw training pictures and cache the vision experts' features of them; goes on where it was stopped."""

import argparse
import os
import sys
import time
from itertools import islice
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache

SHARD = 50
"""Pictures in one file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["build"])
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run (default: runs/embedded)")
    parser.add_argument("--train", type=int, default=3000, metavar="N", help="training pictures, seed 1 (default: 3000)")
    parser.add_argument("--test", type=int, default=400, metavar="N", help="test pictures, seed 999 (default: 400)")
    parser.add_argument("--share", default="1/1", metavar="I/K", help="do every K-th file only, starting with the I-th: for several processes")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.checkpoint import EMBEDDED, Sources
    from leo_core.data import Icons, fetch_packs, generate, split_names
    from leo_core.embedded import embedded_experts
    from leo_core.experts.build import build_experts
    from leo_core.files import cache_folder
    from leo_core.training.features import write_shard

    quiet_libraries()
    use_cache(options)
    experts = build_experts(embedded_experts(), Sources(EMBEDDED, fetched_parts()))
    icons = Icons(fetch_packs(cache_folder() / "icons"))
    names, _ = split_names(icons.names)  # a tenth of the names is never seen in training
    first, every = (int(part) for part in options.share.split("/"))
    for kind, count, seed in (("test", options.test, 999), ("train", options.train, 1)):
        folder, samples, started = options.run / "features" / kind, generate(icons, count, seed, names=names), time.monotonic()
        shards = -(-count // SHARD)
        for shard in range(shards):
            drawn = list(islice(samples, SHARD))
            path = folder / f"shard-{shard:04d}.safetensors"
            if shard % every == first - 1 and not path.exists():
                write_shard(path, drawn, experts)
            pace = (time.monotonic() - started) / (shard + 1)
            print(f"{kind}: {min((shard + 1) * SHARD, count)} of {count} pictures, {pace * (shards - shard - 1):.0f} s left   ", end="\r", file=sys.stderr)
        print(file=sys.stderr)
    return 0
