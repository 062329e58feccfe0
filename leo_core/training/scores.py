"""From graded questions to tables: shares right with bootstrap intervals, per domain and question kind."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from leo_core.statistics import bootstrap
from leo_core.training.evaluate import CONDITIONS, Graded


def table(graded: Sequence[Graded]) -> list[dict]:
    """One row for each (domain, kind), each domain and all: n, share right per condition, interval, mean log p of the right answer."""
    groups = defaultdict(list)
    for one in graded:
        for key in ((one.question.domain, one.question.kind), (one.question.domain, "all"), ("all", "all")):
            groups[key].append(one)
    rows = []
    for (domain, kind), members in sorted(groups.items(), key=lambda item: (item[0][0] != "all", item[0][0], item[0][1] != "all", item[0][1])):
        share = {name: float(np.mean([one.right(name) for one in members])) for name in CONDITIONS}
        likely = {name: float(np.mean([one.log_probability[name] for one in members])) for name in CONDITIONS}
        right = bootstrap(np.array([one.right() for one in members]), np.array([one.picture for one in members]))
        rows.append({"domain": domain, "kind": kind, "n": len(members), **share, "interval": [right.low, right.high], "log_probability": likely})
    return rows


def row_of(rows: Sequence[dict], domain: str = "all", kind: str = "all") -> dict | None:
    """The row of a domain and kind, None where there was no such question."""
    return next((row for row in rows if (row["domain"], row["kind"]) == (domain, kind)), None)


def markdown(rows: Sequence[dict]) -> str:
    """A table for a model card."""
    lines = ["| domain | question | n | right [95 % interval] | no picture | another picture | log p (with / without picture) |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in rows:
        (low, high), likely = row["interval"], row["log_probability"]
        cells = (
            f"{row['picture']:.0%} [{low:.0%}, {high:.0%}]", f"{row['no picture']:.0%}", f"{row['another picture']:.0%}",
            f"{likely['picture']:.2f} / {likely['no picture']:.2f}",
        )  # fmt: skip
        lines.append(f"| {row['domain']} | {row['kind']} | {row['n']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
