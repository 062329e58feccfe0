"""The tables of the model card: from evaluation.json to Markdown."""

from collections.abc import Sequence

from leo_core.training.scores import markdown, row_of

TESTS = {
    "new_scenes": "Unseen scenes of seen drawings",
    "new_style": "Seen names in a drawing style that training never shows",
    "new_names": "Names that training never shows: where, count, colour, yes/no",
    "naming_new_names": "Naming what training never named (no target: it cannot know the words' pictures)",
    "easy_vqa": "easy-VQA, its own test pictures (a blind model reaches 67 %)",
}


def summary(rows: list[dict]) -> str:
    everything = row_of(rows)
    low, high = everything["interval"]
    return (
        f"{everything['picture']:.0%} of {everything['n']} questions exactly (95 % interval {low:.0%} to {high:.0%}); without the picture "
        f"{everything['no picture']:.0%}, with another question's picture {everything['another picture']:.0%}"
    )


def tables(tests: dict) -> list[str]:
    return [f"### {TESTS.get(name, name)} (`{name}`, {one['pictures']} pictures)\n\n{markdown(one['rows'])}" for name, one in tests.items()]


def ceilings(tests: dict) -> str:
    lines = ["| test | what | n | model | ceiling | share of the ceiling |", "| --- | --- | --- | --- | --- | --- |"]
    for test, found in tests.items():
        for kind, one in found.items():
            share = "-" if one["share"] is None else f"{one['share']:.0%}"
            lines.append(f"| {test} | {kind}: {one['what']} | {one['n']} | {one['model']:.0%} | {one['ceiling']:.0%} | {share} |")
    return "\n".join(lines)


def earned(found: Sequence[dict]) -> str:
    if not found:
        return "Not measured for this model: `python -m leo_core evaluate` does."
    domains = list(dict.fromkeys(one["domain"] for one in found))
    lines = [
        "Points of exact match that are lost on unseen scenes when the expert is absent at inference (paired; bootstrap 95 % interval):", "",
        f"| expert | {' | '.join(domains)} |", "| --- |" + " --- |" * len(domains),
    ]  # fmt: skip
    for expert in dict.fromkeys(one["name"] for one in found):
        cells = {one["domain"]: _points(one) for one in found if one["name"] == expert}
        lines.append(f"| {expert} | {' | '.join(cells[domain] for domain in domains)} |")
    counts = ", ".join(f"{one['domain']} {one['n']}" for one in found if one["name"] == found[0]["name"])
    return "\n".join([*lines, "", f"Questions: {counts}."])


def _points(one: dict) -> str:
    return f"{100 * one['difference']:+.0f} [{100 * one['low']:+.0f}, {100 * one['high']:+.0f}]"


def reduction(beside: dict) -> str:
    if not beside:
        return "Not measured for this model: `python -m leo_core evaluate --beside` an evaluation of the run's stage 2."
    lines = ["| test | domain | n | all 64 tokens (stage 2) | this model | share kept | difference, points [95 % interval] |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for test, rows in beside.items():
        for one in rows:
            kept = f"{one['model'] / one['variant']:.0%}" if one["variant"] else "-"
            lines.append(f"| {test} | {one['domain']} | {one['n']} | {one['variant']:.0%} | {one['model']:.0%} | {kept} | {_points(one)} |")
    return "\n".join(lines)


def mass(found: list[dict]) -> str:
    lines = [
        "Share of CoTR's mass on the thing a question names, against the same picture's other questions (paired; 95 % interval):", "",
        "| expert | named | other questions | difference | n |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for one in found:
        difference = f"{one['difference']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"
        lines.append(f"| {one['expert']} | {one['named']:.3f} | {one['other']:.3f} | {difference} | {one['n']} |")
    return "\n".join(lines)
