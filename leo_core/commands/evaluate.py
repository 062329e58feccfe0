"""Grade a checkpoint on the cached test sets, beside its controls and ceilings; goes on where it was stopped."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from leo_core.commands.ready import fetched_parts, quiet_libraries, use_cache

SEEN_KINDS = ("where", "count", "colour", "yesno")
NAMING_KINDS = ("what", "corner", "relation")
TESTS = {
    "new_scenes": ("new_scenes", ()), "new_style": ("new_style", ()), "new_names": ("new_names", SEEN_KINDS),
    "naming_new_names": ("new_names", NAMING_KINDS), "easy_vqa": ("easy_vqa_test", ()),
}  # fmt: skip
"""Test -> (picture set, question kinds; none given = all)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, help="folder of a trained model (default: the run's stage3)")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"), help="folder of the run, with its features (default: runs/embedded)")
    parser.add_argument("--tests", nargs="+", metavar="NAME", default=list(TESTS), help=f"{', '.join(TESTS)}, or the name of an own set (default: all of these)")
    parser.add_argument("--questions", type=int, default=500, metavar="N", help="questions of each test, drawn with seed 0 (default: 500)")
    parser.add_argument("--experts", action=argparse.BooleanOptionalAction, default=True, help="new_scenes also without each vision expert (default: yes)")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="answers of another checkpoint to the same questions: its --out folder, to be compared with")
    parser.add_argument("--out", type=Path, help="folder of the answers and tables (default: RUN/evaluation)")
    parser.add_argument("--cache", default=os.environ.get("LEO_CACHE"), help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.checkpoint import load
    from leo_core.errors import InputError
    from leo_core.files import atomic_path
    from leo_core.training.evaluate import drawn_questions
    from leo_core.training.scores import markdown, table

    quiet_libraries()
    use_cache(options)
    checkpoint, out = options.checkpoint or options.run / "stage3", options.out or options.run / "evaluation"
    out.mkdir(parents=True, exist_ok=True)
    model, processor = load(checkpoint, fetched_parts(checkpoint))
    path = out / "evaluation.json"  # tests made before stay in it
    fresh = {"checkpoint": model.origin, "seed": 0, "tests": {}, "ceilings": {}, "question_mass": [], "experts": [], "beside": {}}
    report = {**fresh, **json.loads(path.read_text())} if path.exists() else fresh  # an older report lacks some parts
    if report["checkpoint"] != model.origin:
        raise InputError(f"{out} holds the evaluation of another checkpoint ({report['checkpoint']}): choose another folder with --out.")
    _write(report, path)  # before any answer: it says whose answers the folder holds
    if options.beside and (missing := [name for name in options.tests if not (options.beside / f"{name}.jsonl").exists()]):
        raise InputError(f"{options.beside} holds no answers to '{missing[0]}': evaluate the other checkpoint first, with --out {options.beside}.")
    for name in options.tests:
        kind, kinds = TESTS.get(name, (name, ()))
        store = _store(options.run, kind, model)
        graded = _graded(name, model, processor, store, drawn_questions(store, options.questions, 0, kinds), out)
        rows = table(graded)
        report["tests"][name] = {"pictures": len(store), "rows": rows}
        report["ceilings"][name] = _ceilings(options.run, model, store, graded)
        if name == "new_scenes" and hasattr(model.reducer, "temperature"):
            from leo_core.training.question_mass import question_mass

            found = [question_mass(model, processor, store, expert) for expert in model.vision_experts]
            report["question_mass"] = [asdict(one) for one in found if one is not None]
        if options.beside:
            report["beside"][name] = _beside(options.beside / f"{name}.jsonl", graded)
        if name == "new_scenes" and options.experts:
            report["experts"] = _experts(model, processor, store, graded, out)
        with atomic_path(out / f"{name}.md") as temporary:
            temporary.write_text(markdown(rows))
        print(f"{name}\n{markdown(rows)}")
        _write(report, path)
    print(f"Written to {out}.")
    return 0


def _write(report: dict, path: Path) -> None:
    from leo_core.files import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n")


def _store(run: Path, kind: str, model):
    from leo_core.training.features import FeatureStore

    shards = sorted((run / "features" / kind).glob("shard-*.safetensors"))
    return FeatureStore(shards, list(model.vision_experts)).standardise_as(model.vision_experts)


def _graded(name: str, model, processor, store, pairs: list, out: Path) -> list:
    from leo_core.training.evaluate import graded_into

    graded, started = [], time.monotonic()
    for results in graded_into(out / f"{name}.jsonl", model, processor, store, pairs):
        graded += results
        rate = len(graded) / (time.monotonic() - started)
        right = sum(one.right() for one in graded) / len(graded)
        left = (len(pairs) - len(graded)) / rate
        print(f"{name}: {len(graded)} of {len(pairs)} questions, {right:.0%} right, {rate:.1f}/s, {left:.0f} s left   ", end="\r", file=sys.stderr)
    print(file=sys.stderr)
    return graded


def _experts(model, processor, store, graded: list, out: Path) -> list[dict]:
    """What each vision expert earns on the questions of `graded`; an expert whose answers are in `out` is not left out again."""
    from leo_core.files import atomic_path
    from leo_core.training.variants import answers_without, variant

    rows, asked = [], sha256(json.dumps([[one.picture, asdict(one.question)] for one in graded]).encode()).hexdigest()
    for expert in model.vision_experts:
        path = out / f"without_{expert}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        right = known["right"] if isinstance(known, dict) and known.get("questions") == asked else []
        if not right:
            for some in answers_without(model, processor, store, graded, expert):
                right += some
                print(f"without {expert}: {len(right)} of {len(graded)} questions   ", end="\r", file=sys.stderr)
            with atomic_path(path) as temporary:
                temporary.write_text(json.dumps({"questions": asked, "right": right}) + "\n")
        rows += [asdict(one) for one in variant(expert, graded, right)]
    print(file=sys.stderr)
    return rows


def _beside(path: Path, graded: list) -> list[dict]:
    """This checkpoint's answers against those in `path`, paired."""
    from leo_core.errors import InputError
    from leo_core.training.evaluate import read_graded
    from leo_core.training.variants import variant

    others = read_graded(path) if path.exists() else []
    if [one.question for one in others] != [one.question for one in graded]:
        raise InputError(f"{path} does not hold answers to the same {len(graded)} questions: evaluate the other checkpoint with the same --questions.")
    return [asdict(one) for one in variant(path.parent.name, graded, [one.right() for one in others])]


def _ceilings(run: Path, model, store, graded: list) -> dict:
    """Model against probe on questions that name one thing, and against the recogniser on what there is to read; of the experts it has."""
    from leo_core.training.ceilings import READ_KINDS, READS, SEE_THINGS, decoded, fit_probe, named_region, probed
    from leo_core.training.evaluate import normalised

    ceilings = {}
    naming = [one for one in graded if (one.question.domain, one.question.kind) == ("objects", "what")]
    naming = [one for one in naming if named_region(store, one.picture, one.question)]  # own pictures have no regions
    seeing = [expert for expert in SEE_THINGS if expert in model.vision_experts]
    if naming and seeing and any((run / "features" / "train").glob("shard-*.safetensors")):
        probe = fit_probe(_store(run, "train", model), seeing)
        right = probed(probe, store, [(one.picture, one.question) for one in naming])
        ceilings["naming"] = _against(naming, right, "linear probe, told where the thing is")
    reading = [one for one in graded if one.question.kind in READ_KINDS]
    if reading and READS in model.vision_experts:
        read = [decoded(store, READS, one.picture, one.question) for one in reading]
        right = [normalised(text) == normalised(one.question.answer) for text, one in zip(read, reading, strict=True)]
        ceilings["reading"] = _against(reading, right, "the recogniser's own decoding")
    return ceilings


def _against(graded: list, right: list[bool], what: str) -> dict:
    model, ceiling = sum(one.right() for one in graded) / len(graded), sum(right) / len(right)
    return {"n": len(graded), "model": model, "ceiling": ceiling, "share": model / ceiling if ceiling else None, "what": what}
