"""What the embedded model was meant to reach, beside what evaluation.json says it reaches."""

from collections.abc import Callable
from dataclasses import dataclass

from leo_core.training.scores import row_of

OWN_DOMAIN = {"objects": "objects", "details": "scenes", "regions": "charts", "reading": "reading"}
"""The domain of drawn questions that each vision expert was chosen for."""


@dataclass(frozen=True)
class Target:
    """at_least and what `measured` finds in a report are shares (0..1); None = the report does not tell."""

    what: str
    at_least: float
    measured: Callable[[dict], float | None]


def _right(test: str) -> Callable[[dict], float | None]:
    return lambda report: row_of(report["tests"][test]["rows"])["picture"] if test in report["tests"] else None


def _of_ceiling(test: str, kind: str) -> Callable[[dict], float | None]:
    return lambda report: report["ceilings"].get(test, {}).get(kind, {}).get("share")


def _weakest_domain(report: dict) -> float | None:
    shares = [row["picture"] for row in report["tests"].get("new_scenes", {"rows": ()})["rows"] if row["kind"] == "all" != row["domain"]]
    return min(shares, default=None)


def _kept(report: dict) -> float | None:
    whole = [row for row in report.get("beside", {}).get("new_scenes", ()) if row["domain"] == "all" and row["variant"]]
    return whole[0]["model"] / whole[0]["variant"] if whole else None


def _least_earned(report: dict) -> float | None:
    return min((row["difference"] for row in report.get("experts", ()) if OWN_DOMAIN.get(row["name"]) == row["domain"]), default=None)


TARGETS = (
    Target("unseen scenes: all questions", 0.85, _right("new_scenes")),
    Target("unseen scenes: the weakest domain", 0.65, _weakest_domain),
    Target("unseen drawing style: naming, as a share of the linear probe", 0.90, _of_ceiling("new_style", "naming")),
    Target("unseen names: where, how many, colour, yes/no", 0.80, _right("new_names")),
    Target("reading, as a share of the recogniser's own decoding", 0.80, _of_ceiling("new_scenes", "reading")),
    Target("easy-VQA, its own test", 0.90, _right("easy_vqa")),
    Target("CoTR's accuracy, as a share of the all-token model's", 0.97, _kept),
    Target("the vision expert that earns least in its own domain", 0.05, _least_earned),
)


def table(report: dict) -> str:
    """Markdown: one line a target, with whether it is reached (by the measured share itself, not by its interval)."""
    lines = ["| what | at least | measured | |", "| --- | --- | --- | --- |"]
    for target in TARGETS:
        found = target.measured(report)
        told, verdict = ("not measured", "-") if found is None else (f"{found:.0%}", "reached" if found >= target.at_least else "**missed**")
        lines.append(f"| {target.what} | {target.at_least:.0%} | {told} | {verdict} |")
    return "\n".join(lines)
