"""Look at trace files: validate them, compare two, show one, or index a folder. Needs neither a model nor torch."""

import argparse
import json
import sys

from leo_core.errors import LeoError
from leo_core.tracing.terminal_text import terminal_text
from leo_core.tracing.trace_diff import TraceDiff, diff_traces
from leo_core.tracing.trace_file import load_trace, validate_trace
from leo_core.tracing.trace_index import INDEX, write_index
from leo_core.tracing.trace_show import show_trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    add = lambda name, text: actions.add_parser(name, help=text, description=text)  # noqa: E731
    validate = add("validate", "name every rule of the format that a file breaks; exit code 1 when there is one")
    validate.add_argument("files", nargs="+", metavar="FILE")
    diff = add("diff", "say what changed between two runs and how much; exit code 1 when something did")
    diff.add_argument("files", nargs=2, metavar="FILE")
    diff.add_argument("--json", action="store_true", help="print the same as JSON")
    add("show", "print a summary of one run").add_argument("file", metavar="FILE")
    add("index", f"write {INDEX} for a folder of traces; exit code 1 when a file in it is no trace").add_argument("folder", metavar="FOLDER")


def run(options: argparse.Namespace) -> int:
    sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode shows escapes instead of failing
    return {"validate": _validate, "diff": _diff, "show": _show, "index": _index}[options.action](options)


def _validate(options: argparse.Namespace) -> int:
    invalid = False
    for file in options.files:
        try:
            problems = [str(one) for one in validate_trace(file)]
        except LeoError as error:
            problems = [str(error)]
        invalid |= bool(problems)
        print(f"{terminal_text(file)}: {'not valid' if problems else 'valid'}")
        for problem in problems:
            print(f"  {problem}")
    return int(invalid)


def _diff(options: argparse.Namespace) -> int:
    diff = diff_traces(*map(load_trace, options.files))
    print(json.dumps(diff.as_dict(), indent=2) if options.json else diff_text(diff))
    return int(not diff.same)


def _show(options: argparse.Namespace) -> int:
    print(show_trace(load_trace(options.file)))
    return 0


def _index(options: argparse.Namespace) -> int:
    entries, refused = write_index(options.folder)
    print(f"{INDEX} lists {len(entries)} traces.")
    for sentence in refused:
        print(sentence, file=sys.stderr)
    return int(bool(refused))


def diff_text(diff: TraceDiff) -> str:
    """The comparison for a terminal."""
    if diff.same:
        return "No difference."
    settings = [f"settings   {terminal_text(name)}: {_value(a)} -> {_value(b)}" for name, (a, b) in diff.settings.items()]
    lines = settings or ["settings   no difference"]
    lines += [f"pictures   {sentence}" for sentence in diff.pictures]
    tokens = diff.tokens
    for name, (a, b) in (("question", tokens.question), ("answer", tokens.answer)):
        lines.append(f"{name:<11}{_value(a)}" + ("" if a == b else f" -> {_value(b)}"))
    prompt = "no difference" if tokens.prompt_changed == (0, 0) else f"{tokens.prompt_changed[0]} positions replaced by {tokens.prompt_changed[1]}"
    log_p = " -> ".join(map(_nats, tokens.log_probability))
    together = f"{tokens.answer_common} of {tokens.answer_length[0]} and {tokens.answer_length[1]} tokens in common"
    lines += [f"tokens     prompt: {prompt}", f"           answer: {together}; log p {log_p}"]
    for one in diff.weights:
        moved = f"{one.moved_mean:.1%} of the weight moved on average, {one.moved_most:.1%} in output token {one.output_token}"
        what = f"not compared: {one.not_compared}" if one.not_compared else moved if one.largest else "no difference"
        lines.append(f"weights    {terminal_text(one.expert, 40)}, picture {one.picture}: {what}")
    return "\n".join([*lines, f"routes     {_routes(diff)}"])


def _routes(diff: TraceDiff) -> str:
    routes = diff.routes
    if routes.not_compared:
        return f"not compared: {routes.not_compared}"
    if not (routes.changed or routes.probability_most):
        return "no difference"
    most = max(range(len(routes.by_layer)), key=routes.by_layer.__getitem__)
    return (
        f"other experts at {routes.changed:.1%} of {len(routes.by_layer)} layers x {routes.positions} positions, most in layer {most} "
        f"({routes.by_layer[most]:.1%}); probabilities differ by {routes.probability_mean:.3f} on average, {routes.probability_most:.3f} at most"
    )


def _value(value) -> str:
    return "nothing" if value is None else terminal_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 120)


def _nats(value: float | None) -> str:
    return "no number" if value is None else f"{value:.3f}"
