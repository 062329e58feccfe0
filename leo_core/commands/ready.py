"""What the commands share: model options, parts fetched with a progress bar, and quiet libraries."""

import argparse
import os
import sys
import warnings
from pathlib import Path

from leo_core.checkpoint import EMBEDDED, load, part_names
from leo_core.errors import InputError
from leo_core.model import LeoMini
from leo_core.parts import Parts
from leo_core.processor import LeoProcessor


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --cache, --device, --dtype, --threads; each also an environment variable LEO_MODEL and so on."""
    parser.add_argument("--model", default=os.environ.get("LEO_MODEL", str(EMBEDDED)), help="checkpoint folder or hub id (default: the embedded model)")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")
    parser.add_argument("--device", default=os.environ.get("LEO_DEVICE", "cpu"), help="cpu, cuda, cuda:1, mps (default: cpu)")
    parser.add_argument("--dtype", default=os.environ.get("LEO_DTYPE", "float32"), choices=["float32", "bfloat16", "float16"])


def quiet_libraries() -> None:
    """Bars and warnings of the libraries would drown the one sentence that matters."""
    from transformers.utils import logging

    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def use_cache(options: argparse.Namespace) -> None:
    """--cache speaks to everything below through LEO_CACHE."""
    if options.cache:
        os.environ["LEO_CACHE"] = options.cache


def fetched_parts(model: str | Path = EMBEDDED) -> Parts:
    """The parts that a checkpoint needs, fetched now if need be, with a bar on stderr."""
    parts = Parts()
    parts.fetch(part_names(model), progress=bar)
    return parts


def bar(name: str, done: int, total: int) -> None:
    """One line per part, rewritten in place on a terminal."""
    share = done / max(total, 1)
    line = f"{name:<16} [{'#' * int(30 * share):<30}] {done / 1e6:6.1f} of {total / 1e6:.1f} MB"
    print(line, end="\n" if done >= total else "\r", file=sys.stderr, flush=True)


def loaded(options: argparse.Namespace) -> tuple[LeoMini, LeoProcessor]:
    """Model and processor as the options ask."""
    import torch

    quiet_libraries()
    use_cache(options)
    try:
        device = torch.device(options.device)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise InputError(f"Device '{options.device}' is not there; use cpu, or cuda or mps where this torch supports it.") from None
    return load(options.model, fetched_parts(options.model), device, getattr(torch, options.dtype))
