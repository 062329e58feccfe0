"""The embedded model's card, written from the files of a run: python -m leo_core.training.card"""

import json
from pathlib import Path

from leo_core.checkpoint import EMBEDDED, read_config
from leo_core.training.evaluate import markdown

TEXT = """# The embedded model

LEO-Mini of real pretrained parts, trained in under an hour and a half on two processor cores. It exists so that every view of the studio shows a
real model; it is **not** a good model. On unseen drawn pictures it answers {picture:.0%} of {n} questions exactly (95 % interval {low:.0%} to
{high:.0%}); without the picture {blind:.0%}, with another question's picture {other:.0%}. It hardly reads: words, numbers, titles and values in
charts are almost always wrong. It has seen no photographs. Training it properly is future work.

| | |
| --- | --- |
| decoder | SmolLM2-135M-Instruct (Apache-2.0), one LoRA (rank 16) on all linear layers merged at load (`adapter/`) |
| vision experts | {experts} |
| reducer | {reducer} |
| MMoE | {experts_llm} routed LoRA experts and a general one, rank {rank}, top-{top_k}, {gate} gate, balance {balance} x {weight} |
| files | `model.safetensors` ({size:.0f} MB, fp16): reducer, projector, MMoE, scaling; `adapter/` ({adapter:.0f} MB, fp16) |

## Recipe

3,100 training pictures (seed 1: half scenes of icons in two styles, the rest rendered text, charts, pages), about five questions each. Stage 1:
ridge regression of the projector. Stage 2: all 64 tokens, 450 steps of 40 questions. Stage 3: CoTR, MMoE and projector, 450 steps of 24
questions, experts dropped with p = 0.1. One seed. During stage 3 CoTR stayed spread and distinct (objects: about 7 to 9 effective source
tokens per output token, likeness of output tokens about 0.1). Balance and loss per step were logged; MMoE's routers stayed near balance.

    python -m leo_core data build --train 3100
    python -m leo_core train --steps2 450 --steps3 450 --questions {n}

## What it gets right

Exact match after lower-casing and dropping articles and end marks; greedy; seed 0; test pictures of seed 999 (same names and drawing styles as in
training, unseen scenes). Intervals are bootstrap 95 %. A kind with few questions has a wide interval: read it with that.

{table}
"""


def card(folder: Path = EMBEDDED) -> str:
    """Markdown from evaluation.json, config.json and the sizes of the files."""
    rows = json.loads((folder / "evaluation.json").read_text())["rows"]
    config = read_config(folder)
    everything = next(row for row in rows if row["domain"] == "all")
    mmoe, reducer = config.mmoe_config, config.reducer_config
    return TEXT.format(
        picture=everything["picture"], n=everything["n"], low=everything["interval"][0], high=everything["interval"][1],
        blind=everything["no picture"], other=everything["another picture"], table=markdown(rows),
        experts=", ".join(f"{one['name']} ({one['domain']})" for one in config.experts),
        reducer=f"{reducer.kind}, {reducer.tokens} tokens, {reducer.similarity} similarity, {reducer.query_init} queries, position in {reducer.position}",
        experts_llm=mmoe.num_experts, rank=mmoe.rank, top_k=mmoe.top_k, gate=mmoe.gate, balance=mmoe.balance, weight=mmoe.balance_weight,
        size=(folder / "model.safetensors").stat().st_size / 1e6, adapter=(folder / "adapter" / "adapter_model.safetensors").stat().st_size / 1e6,
    )  # fmt: skip


if __name__ == "__main__":
    (EMBEDDED / "README.md").write_text(card())
