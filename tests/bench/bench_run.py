"""The embedded model: traced against untraced, reduced against all tokens, and one whole run: python tests/bench/bench_run.py"""

import json
import tempfile
import time
from pathlib import Path

import torch
from timing import medians, report

from leo_core.accounting import cost
from leo_core.checkpoint import ASSETS
from leo_core.commands.ready import quiet_libraries
from leo_core.embedded import KEEP_ALL
from leo_core.generation import generate_answer
from leo_core.tracing.run import ask, trace_run
from leo_core.tracing.trace_file import save_trace
from studio.session import Session


def main() -> None:
    quiet_libraries()
    started = time.perf_counter()
    session = Session().start()
    session.wait()
    print(f"loading: {time.perf_counter() - started:.1f} s")
    model, processor = session.model, session.processor
    example = json.loads((ASSETS / "examples" / "examples.json").read_text())[0]
    picture = str(ASSETS / "examples" / example["picture"])
    asked = ask(model, processor, [picture], example["question"])
    inputs = {**asked.inputs, "pictures": asked.features}
    variants = {
        "untraced": lambda: generate_answer(model, processor.tokenizer, inputs),
        "traced": lambda: trace_run(model, processor, asked),
    }
    report("answer to one question, features cached", medians(variants, rounds=15), "untraced")
    with tempfile.TemporaryDirectory() as folder:
        save_trace(trace_run(model, processor, asked), Path(folder) / "t.safetensors", pictures=False)
        print(f"  trace without the picture: {(Path(folder) / 't.safetensors').stat().st_size / 1e3:.0f} KB")
    prefill(model, asked)
    seconds = medians({"whole run": lambda: list(session.ask(picture, example["question"]))}, rounds=7)
    print(f"answer, trace, Shapley, leave-one-out, gradient, blind answer (features cached): {seconds['whole run']:.2f} s")


def prefill(model, asked) -> None:
    """The decoder alone on prompts of 16 and 64 visual tokens: measured beside counted."""
    text = asked.inputs["input_ids"].shape[1] - model.reducer.tokens
    embeds = {n: torch.randn(1, n + text, model.config.text_config.hidden_size) for n in (KEEP_ALL.tokens, model.reducer.tokens)}
    with torch.inference_mode():
        runs = {f"{n} visual tokens": lambda e=e: model.decoder(inputs_embeds=e, logits_to_keep=1) for n, e in embeds.items()}
        report("prefill", medians(runs, rounds=15), f"{KEEP_ALL.tokens} visual tokens")
    counted = cost(model.config, model.reducer.tokens, text).flops / cost(model.config, KEEP_ALL.tokens, text).flops
    print(f"  counted FLOPs ratio: {counted:.2f}")


if __name__ == "__main__":
    main()
