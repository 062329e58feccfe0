"""Answer a question about a picture and say which tokens and vision experts it came from."""

import argparse
import json
import sys
import time

from leo_core.analysis.tokens import mass
from leo_core.commands.ready import add_model_options, loaded
from leo_core.tracing.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("picture", help="a PNG, JPEG, WebP, GIF, BMP or TIFF file")
    parser.add_argument("question")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_argument("--trace", metavar="FILE", help="save the whole run as a trace file (.safetensors)")
    parser.add_argument("--no-picture", action="store_true", help="leave the picture's copy out of the trace file")
    parser.add_argument("--most", type=int, default=48, metavar="N", help="most tokens of an answer (default: 48)")
    add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    from leo_core.analysis.contributions import contributions
    from leo_core.picture import load_picture
    from leo_core.tracing.run import ask, trace_run
    from leo_core.tracing.trace_file import save_trace

    picture = load_picture(options.picture)  # before anything slow: a bad picture is refused at once
    model, processor = loaded(options)
    started = time.perf_counter()
    asked = ask(model, processor, [picture], options.question)
    trace = trace_run(model, processor, asked, max_new_tokens=options.most)
    import torch

    shares = contributions(model, asked, torch.from_numpy(trace.token_ids[trace.prompt_length :]))
    report = summary(trace, shares, time.perf_counter() - started)
    if options.trace:
        save_trace(trace, options.trace, pictures=not options.no_picture)
        print(f"Trace saved to {options.trace}", file=sys.stderr)
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.json else table(report))
    return 0


def summary(trace: Trace, shares, seconds: float) -> dict:
    """The printed numbers as plain values."""
    import torch

    experts = []
    for index, one in enumerate(trace.experts):
        share = mass(torch.from_numpy(one.weights))
        heaviest = int(share.argmax())
        box = [round(float(v)) for v in (*one.geometry.polygons[heaviest].min(axis=0), *one.geometry.polygons[heaviest].max(axis=0))]
        experts.append(
            {
                "name": one.name, "tokens_in": len(one.geometry), "tokens_out": len(one.weights),
                "heaviest_token": {"box": box, "mass": round(float(share[heaviest]), 4)},
                "shapley_nats": round(float(shares.shapley[index]), 3), "leave_one_out_nats": round(float(shares.leave_one_out[index]), 3),
            }
        )  # fmt: skip
    return {
        "answer": trace.answer,
        "probability": round(float(trace.probability.prod()), 4),
        "experts": experts,
        "completeness_error_nats": shares.completeness_error,
        "seconds": round(seconds, 2),
        "model": trace.provenance["model"],
    }


def table(report: dict) -> str:
    """The report for a terminal."""
    lines = [report["answer"], "", f"{'vision expert':<14}{'in':>5}{'out':>5}  {'Shapley':>8}  {'left out':>8}  heaviest token (x0, y0, x1, y1)"]
    for one in report["experts"]:
        place = f"{tuple(one['heaviest_token']['box'])} holds {one['heaviest_token']['mass']:.1%}"
        lines.append(
            f"{one['name']:<14}{one['tokens_in']:>5}{one['tokens_out']:>5}  {one['shapley_nats']:>+8.2f}  {one['leave_one_out_nats']:>+8.2f}  {place}"
        )
    lines += ["", f"probability of this answer {report['probability']:.1%}; contributions in nats; {report['seconds']:.1f} s"]
    return "\n".join(lines)
