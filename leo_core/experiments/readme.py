"""assets/results/README.md and the tables, made from the files alone: python -m leo_core experiment readme."""

from collections import Counter
from pathlib import Path

from leo_core.errors import InputError
from leo_core.experiments.claim_list import CLAIMS
from leo_core.experiments.claims import FAILS, HOLDS, OPEN
from leo_core.experiments.embedded_table import embedded_section
from leo_core.experiments.grids import GRIDS, distinct
from leo_core.experiments.results import Results, results
from leo_core.experiments.runs import RESULTS
from leo_core.experiments.tables import markdown, write_table
from leo_core.files import atomic_path

TEXT = """# The paper's claims, measured in miniature

A lab model ({runs} runs of {configurations} configurations, seeds {seeds}; about {seconds:.0f} s each) with cached features of three real vision experts and a
decoder of three layers that starts from nothing. What a claim about an 8-billion-parameter model does here says what the mechanism does at this size,
on drawn pictures; it does not say what the paper's model does. Share of {n} questions about {pictures} unseen pictures of which every token of the answer
is the likeliest (what greedy decoding would give). Differences are paired; intervals are bootstrap 95 % over pictures and seeds: with so few seeds they are
rather too narrow. A claim **holds** or **does not hold** where its interval lies on one side; otherwise one **cannot tell**: {count}. With so many claims
one or two intervals miss by chance.

{table}

## Tables

{tables}

## At embedded size

{embedded}

{starts}

## Files

- `runs/NAME.IDENTITY.seedN.json`: one finished run each (configuration, seed, hash of the lab, versions, seconds, every answer as 0 or 1). The identity is a
  hash of configuration and training: the same configuration in two grids is one file.
- `questions-lab.json`, `questions-embedded.json`: picture, domain and kind of each test question, in the order of the 0s and 1s.

Everything is made again by `python -m leo_core experiment all` (what is finished is kept; remove `runs/` to start anew) and
`python -m leo_core experiment readme`. The lab itself: `assets/lab/`. This project's own results, Apache-2.0.
"""


def write_all(folder: Path = RESULTS) -> list[Path]:
    """Every table that has results, and the README; returns their paths."""
    found, paths = results(folder=folder), []
    for grid in GRIDS:
        try:
            paths.append(write_table(grid, folder))
        except InputError:
            continue
    with atomic_path(folder / "README.md") as temporary:
        temporary.write_text(readme(found, folder))
    return [*paths, folder / "README.md"]


def readme(found: Results, folder: Path = RESULTS) -> str:
    """The text, from results alone."""
    findings = [(claim, claim.measure(found)) for claim in CLAIMS]
    rows = [[claim.sentence, claim.expected, one.measured, f"**{one.verdict}**", f"`{claim.command}`"] for claim, one in findings]
    counted = Counter(one.verdict for _, one in findings)
    runs = [run for group in found.runs.values() for run in group]
    tables = "\n".join(
        f"- [{grid.title}]({grid.name}.md): {len(grid.configurations)} configurations, `python -m leo_core experiment {grid.name}`" for grid in GRIDS
    )
    return TEXT.format(
        runs=len(runs), configurations=f"{len(found.runs)} of {len(distinct())}", seeds=", ".join(map(str, sorted({run.seed for run in runs}))),
        seconds=sorted(sum(run.seconds.values()) for run in runs)[len(runs) // 2], n=len(found.questions.domain),
        pictures=len(set(found.questions.picture.tolist())), count=f"{counted[HOLDS]} hold, {counted[FAILS]} do not, {counted[OPEN]} cannot be told",
        starts=_starts(folder), table=markdown(["claim", "expected; source", "measured", "verdict", "command"], rows), tables=tables, embedded=embedded_section(found, folder),
    )  # fmt: skip


def _starts(folder: Path) -> str:
    command = "`python -m leo_core experiment starts --run RUN`"
    if not (folder / "starts.md").exists():
        return f"What the closed-form starts are worth was not measured yet: {command}."
    return f"What the closed-form starts are worth before any training: [starts](starts.md), {command}."
