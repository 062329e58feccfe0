"""Print parameters, and FLOPs and cache bytes of a prompt with and without token reduction."""

import argparse

from leo_core.commands.ready import add_model_options, loaded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text-tokens", type=int, default=24, metavar="N", help="prompt tokens beside the visual ones (default: 24)")
    add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    from leo_core.accounting import cost, parameters
    from leo_core.embedded import KEEP_ALL

    model, _ = loaded(options)
    counts = parameters(model)
    for part, count in counts.items():
        print(f"{part:<24}{count:>14,} parameters")
    print(f"{'together':<24}{sum(counts.values()):>14,}   (vision experts that run as ONNX graphs not counted)\n")
    config, text = model.config, options.text_tokens
    full, kept = KEEP_ALL.tokens, config.reducer_config.tokens
    size = model.dtype.itemsize
    print(f"{'prompt':<34}{'positions':>10}{'GFLOPs':>10}{'cache KB':>10}")
    rows = [(f"all {full} tokens of the common grid", full), (f"reduced to {kept} tokens", kept), ("text alone", 0)]
    costs = {name: cost(config, tokens, text, size) for name, tokens in rows}
    for name, one in costs.items():
        print(f"{name:<34}{one.positions:>10}{one.flops / 1e9:>10.2f}{one.cache_bytes / 1024:>10.0f}")
    whole, less = costs[rows[0][0]], costs[rows[1][0]]
    print(f"\nReduced / all: FLOPs {less.flops / whole.flops:.2f}, cache {less.cache_bytes / whole.cache_bytes:.2f} (counted, not measured)")
    return 0
