"""Build the lab from nothing: pictures and features, reduction, tokenizer, and the two starts after stage 2."""

import time
from collections.abc import Callable
from pathlib import Path

from leo_core.experiments.lab import FILES, FOLDER, STARTS, Lab
from leo_core.experiments.lab_features import build_features
from leo_core.experiments.lab_reduce import reduce_sets
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.experiments.lab_start import STEPS, train_start
from leo_core.experiments.lab_words import new_tokenizer


def build_lab(raw: Path, line: Callable[[str], None], folder: Path = FOLDER) -> None:
    """What is there stays: remove a file to have it made again. raw: where raw features are kept (about 0.9 GB)."""
    if not (folder / "tokenizer.json").exists():
        new_tokenizer().save_pretrained(folder)
    if not all((folder / name).exists() for name in FILES[:2]):
        build_features(raw, lambda name, done, files: line(f"{name}: {done} of {files} files of features"))
        line("Reducing the features")
        reduce_sets(raw, folder, EXPERTS)
    lab = Lab(folder)
    for name, file in STARTS.items():
        if (folder / file).exists():
            continue
        shares, started = [], time.monotonic()

        def report(step: int, loss: float, right: float, name=name, shares=shares, started=started) -> None:
            shares.append(right)
            recent = shares[-100:]
            left = (time.monotonic() - started) / step * (STEPS - step)
            line(f"{name}: step {step} of {STEPS}, loss {loss:.3f}, right {sum(recent) / len(recent):.1%}, {left / 60:.0f} min left")

        train_start(lab, name, report=report)
    line(f"The lab is in {folder}.")
