"""The embedded model's card, written from the files of a run: python -m leo_core.training.card RUN

Copies what the numbers come from (evaluation.json, recipe.json) beside the weights first, so that the card can be made
again from the checkpoint's folder alone: python -m leo_core.training.card. What numbers cannot tell is in `tried.md` there.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from leo_core.checkpoint import EMBEDDED, read_config
from leo_core.files import atomic_path
from leo_core.training import targets
from leo_core.training.card_tables import ceilings, earned, mass, reduction, summary, tables
from leo_core.training.stages import STAGE_2

TEXT = """# The embedded model

LEO-Mini of real pretrained parts, trained on two processor cores. It exists so that every view of the studio shows a real model on any laptop.
On unseen drawn scenes it answers {summary}. It has seen no photographs: about those it is
only fit for demonstration.

| | |
| --- | --- |
| decoder | SmolLM2-135M-Instruct (Apache-2.0), one LoRA (rank 16) on all linear layers merged at load (`adapter/`) |
| vision experts | {experts} |
| reducer | {reducer} |
| MMoE | {experts_llm} routed LoRA experts and a general one, rank {rank}, top-{top_k}, {gate} gate, balance {balance} x {weight} |
| files | `model.safetensors` ({size:.0f} MB, fp16): reducer, projector, MMoE, scaling; `adapter/` ({adapter:.0f} MB, fp16) |

Parts and licences: `python -m leo_core parts`. Training pictures are drawn with icons of Noto (Apache-2.0), Fluent (MIT) and OpenMoji (CC-BY-SA-4.0), tests of
unseen style with Twemoji (CC-BY-4.0); easy-VQA is MIT. None of these pictures are in this repository beyond the
examples and the failures below; a failure that shows an OpenMoji icon is CC-BY-SA-4.0.

## Recipe

{recipe}

    python -m leo_core data build
    python -m leo_core train
    python -m leo_core evaluate

## What it can do

Exact match after lower-casing and dropping articles and end marks; greedy decoding; questions drawn with seed 0; intervals are bootstrap 95 % over pictures. log p: of the
right answer, in nats. One training run (seed 0): the spread over seeds is not known.

{tables}
## What it was meant to reach

{targets}

{tried}

## Ceilings

{ceilings}

## What the reduction costs

The same questions, answered by the model of stage 2, which sees every token:

{reduction}

## What each vision expert earns

{earned}

## Known failures

The surest wrong answer of each kind of question that fails most (`python assets/embedded/show_failures.py RUN`):

{failures}

## Photographs

It has seen none. Ten questions about pictures of scikit-image and scikit-learn, as answered (`python assets/embedded/ask_photographs.py`):

{photographs}

## Does CoTR look where the question points?

{mass}
"""


STAGES = (
    "Projector in closed form: hidden units that read the most frequent words, made from how each is spelled; units that score the most frequent names of things (and colours of backgrounds), from a ridge regression; each says its name's token embedding, and a second regression fits what they leave. Positions start as their places' names, directions and a code of row and column.",
    f"All 64 tokens, one LoRA on the decoder, up to {STAGE_2.packed} questions of each picture; transcripts of pictures fade out over the first {STAGE_2.told:.0%} of the steps.",
    "CoTR, MMoE and projector with the decoder frozen. CoTR's TEXT term starts from a ridge regression of questions onto the tokens of what they name.",
)


def recipe_of(run: Path) -> dict:
    """What the run did, from its logs: settings and last metrics of each stage, pictures of each set; and `notes.txt`, where
    whoever ran it says what the logs do not."""
    stages = []
    for log in sorted(run.glob("stage*.jsonl")):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        last = [line["more"] for line in lines[-50:]]
        names = sorted({name for more in last for name in more})
        metrics = {name: float(np.mean([more[name] for more in last if name in more])) for name in names}
        stages.append({"stage": lines[-1]["stage"], "steps": lines[-1]["steps"], "loss": float(np.mean([x["loss"] for x in lines[-50:]])), "metrics": metrics})
    from safetensors import safe_open

    pictures = {}
    for folder in sorted((run / "features").iterdir()):
        counted = 0
        for shard in folder.glob("shard-*.safetensors"):
            with safe_open(shard, "np") as file:
                counted += len(json.loads(file.metadata()["samples"]))
        pictures[folder.name] = counted
    notes = run / "notes.txt"
    return {"pictures": pictures, "stages": stages, "told": STAGES, "notes": notes.read_text().strip() if notes.exists() else ""}


def card(folder: Path = EMBEDDED) -> str:
    """Markdown from evaluation.json, recipe.json, config.json and the sizes of the files."""
    report, config = json.loads((folder / "evaluation.json").read_text()), read_config(folder)
    recipe = json.loads((folder / "recipe.json").read_text())
    mmoe, reducer = config.mmoe_config, config.reducer_config
    return TEXT.format(
        summary=summary(report["tests"]["new_scenes"]["rows"]), tables="\n".join(tables(report["tests"])), ceilings=ceilings(report["ceilings"]),
        targets=targets.table(report), tried=_tried(folder), earned=earned(report.get("experts", ())), reduction=reduction(report.get("beside", {})),
        mass=mass(report["question_mass"]), photographs=_photographs(folder), failures=_failures(folder), recipe=_recipe(recipe),
        experts=", ".join(f"{one['name']} ({one['domain']})" for one in config.experts),
        reducer=f"{reducer.kind}, {reducer.tokens} tokens, {reducer.similarity} similarity, {reducer.query_init} queries, position in {reducer.position}",
        experts_llm=mmoe.num_experts, rank=mmoe.rank, top_k=mmoe.top_k, gate=mmoe.gate, balance=mmoe.balance, weight=mmoe.balance_weight,
        size=(folder / "model.safetensors").stat().st_size / 1e6, adapter=(folder / "adapter" / "adapter_model.safetensors").stat().st_size / 1e6,
    )  # fmt: skip


def _photographs(folder: Path) -> str:
    path = folder / "photographs.json"
    if not path.exists():
        return "Not asked yet: `python assets/embedded/ask_photographs.py`."
    lines = ["| picture | question | a person would say | the model says | its probability |", "| --- | --- | --- | --- | --- |"]
    for one in json.loads(path.read_text()):
        lines.append(f"| {one['picture']} | {one['question']} | {one['expected']} | {one['answer']} | {one['probability']:.0%} |")
    return "\n".join(lines)


def _tried(folder: Path) -> str:
    """What whoever trained the model tried where it misses a target, in their words."""
    path = folder / "tried.md"
    return path.read_text().strip() if path.exists() else ""


def _failures(folder: Path) -> str:
    path = folder / "failures.json"
    if not path.exists():
        return "Not drawn yet: `python assets/embedded/show_failures.py RUN`."
    lines = ["| picture | question | right | the model says |", "| --- | --- | --- | --- |"]
    for one in json.loads(path.read_text()):
        kind = f"{one['domain']}, {one['kind']}"
        lines.append(f"| <img src=\"{one['picture']}\" alt=\"{kind}\" width=\"140\"> | {one['question']} ({kind}) | {one['expected']} | {one['answer']} |")
    return "\n".join(lines)


def _recipe(recipe: dict) -> str:
    pictures = ", ".join(f"{name} {count}" for name, count in recipe["pictures"].items())
    told = [f"{number}. {sentence}" for number, sentence in enumerate(recipe.get("told", ()), start=1)]  # of older runs it is not known
    lines = [*told, *([""] if told else []), f"Pictures: {pictures}. Means over the last 50 steps of each stage:", ""]
    for one in recipe["stages"]:
        metrics = ", ".join(f"{name} {value:.2f}" for name, value in one["metrics"].items())
        lines.append(f"- {one['stage']}: {one['steps']} steps, loss {one['loss']:.2f}; {metrics}")
    return "\n".join([*lines, "", recipe["notes"]] if recipe["notes"] else lines)


def main(arguments: list[str]) -> None:
    if arguments:
        run = Path(arguments[0])
        shutil.copyfile(run / "evaluation" / "evaluation.json", EMBEDDED / "evaluation.json")
        (EMBEDDED / "recipe.json").write_text(json.dumps(recipe_of(run), indent=1) + "\n")
    with atomic_path(EMBEDDED / "README.md") as temporary:
        temporary.write_text(card())


if __name__ == "__main__":
    main(sys.argv[1:])
