"""A table for each grid, from the files: python -m leo_core experiment GRID --table."""

from collections.abc import Sequence
from pathlib import Path

from leo_core.experiments.claims import shapley_by_domain
from leo_core.experiments.configuration import TERMS
from leo_core.experiments.grids import CONTROLS, Grid
from leo_core.experiments.lab_sizes import EXPERT_VIEWS, EXPERTS
from leo_core.experiments.results import Results, results
from leo_core.experiments.runs import RESULTS
from leo_core.files import atomic_path
from leo_core.statistics import Estimate

HEAD = """# {title}

Share of test questions answered (teacher-forced exact match), mean over seeds; in brackets the 95 % interval (pictures resampled).
Difference: in points to the first row, paired by question and seed (pictures and seeds resampled). In italics: controls. Made by
`python -m leo_core experiment {name} --table` from the files in `runs/`; {n} test questions about {pictures} pictures.
"""


def write_table(grid: Grid, folder: Path = RESULTS) -> Path:
    """`folder`/GRID.md; returns its path."""
    path = folder / f"{grid.name}.md"
    with atomic_path(path) as temporary:
        temporary.write_text(table(grid, results(grid, folder)))
    return path


def table(grid: Grid, found: Results) -> str:
    """Markdown: accuracy by domain, then what the grid is about, then the cost."""
    head = HEAD.format(title=grid.title, name=grid.name, n=len(found.questions.domain), pictures=len(set(found.questions.picture.tolist())))
    parts = [head, _accuracy(grid, found)]
    parts += [more(grid, found) for more in MORE.get(grid.name, ())]
    return "\n".join([*parts, _cost(grid, found)])


def _accuracy(grid: Grid, found: Results) -> str:
    domains = sorted(found.questions.domains)
    reference = grid.reference.name
    rows = []
    for one in grid.configurations:
        share, gain = found.share(one.name), found.compare(one.name, reference)
        if share is None:
            rows.append([one.name, "not run", *[""] * (len(domains) + 3)])
            continue
        by_domain = [percent(found.share(one.name, domain=domain).value) for domain in domains]
        difference = "reference" if one.name == reference else points(gain)
        seeds = " / ".join(f"{100 * run.share().value:.1f}" for run in found.of(one.name))
        rows.append([_marked(one.name), interval(share), seeds, difference, *by_domain, _other(found, one.name)])
    return markdown(["configuration", "answered", "seed by seed", "difference", *domains, "another picture"], rows)


def _marked(name: str) -> str:
    return f"*{name}*" if name in {one.name for one in CONTROLS} else name


def _other(found: Results, name: str) -> str:
    share = found.share(name, "another picture")
    return "-" if share is None else percent(share.value)


def _terms_off(grid: Grid, found: Results) -> str:
    reference, rows = grid.reference.name, []
    for term in TERMS:
        retrained, off = found.compare(f"without {term.upper()}", reference), None
        if found.of(reference):
            off = found.compare(reference, reference, f"{term.upper()} off", "picture")
        rows.append([term.upper(), points(retrained), points(off)])
    return "Each term taken away: difference in share answered.\n\n" + markdown(["term", "retrained without it", "switched off at inference"], rows)


def _weights(grid: Grid, found: Results) -> str:
    rows = []
    for one in grid.configurations:
        if not found.measure(one.name, "output_likeness"):
            continue
        cells = [f"{mean(found.measure(one.name, 'effective_tokens', name)):.1f}" for name in EXPERTS]
        cells += [f"{mean(found.measure(one.name, 'likeness', name)):.2f}" for name in EXPERTS]
        rows.append([one.name, *cells, f"{mean(found.measure(one.name, 'output_likeness')):.2f}"])
    head = ["configuration", *(f"effective tokens: {name}" for name in EXPERTS), *(f"likeness: {name}" for name in EXPERTS), "likeness of outputs"]
    return "How many source tokens share an output token's weight, and how alike output tokens are (1 = all the same).\n\n" + markdown(head, rows)


def _routes(grid: Grid, found: Results) -> str:
    rows = []
    for one in grid.configurations:
        routes = [run.measures["routes"] for run in found.of(one.name) if "routes" in run.measures]
        if routes:
            cells = [f"{mean([r[key] for r in routes]):.3f}" for key in ("information", "null", "null_95")]
            load = mean([mean([max(layer) for layer in r["load"]]) for r in routes])
            rows.append([one.name, *cells, f"{max(r['p'] for r in routes):.3f}", f"{load:.0%}", f"{mean([r['entropy_bits'] for r in routes]):.2f}"])
    text = "Mutual information between the chosen LoRA expert and the question's domain (bits, mean over layers), against shuffled domains.\n\n"
    return text + markdown(
        ["configuration", "information", "null", "null, 95 %", "largest p", "busiest expert's share", "router's entropy (bits)"], rows
    )


def _experts(grid: Grid, found: Results) -> str:
    domains, rows = sorted(found.questions.domains), []
    for view in EXPERT_VIEWS:
        if found.share(grid.reference.name, view) is None:
            continue
        gains = [found.compare(grid.reference.name, grid.reference.name, view, "picture", domain=domain) for domain in ("all", *domains)]
        rows.append([view, percent(found.share(grid.reference.name, view).value), *map(points, gains)])
    return "Vision experts at inference: share answered, and the difference to all experts.\n\n" + markdown(
        ["experts", "answered", "all", *domains], rows
    )


def _shapley(grid: Grid, found: Results) -> str:
    table, cell = shapley_by_domain(found, grid.reference.name), "{0.value:+.2f} [{0.low:+.2f}, {0.high:+.2f}]"
    rows = [[domain, *(cell.format(one) for one in values)] for domain, values in table.items()]
    return "Shapley values: nats of the model's own answer that each expert contributes.\n\n" + markdown(["domain", *EXPERTS], rows)


def _cost(grid: Grid, found: Results) -> str:
    rows = []
    for one in grid.configurations:
        runs = found.of(one.name)
        if runs and "cost" in runs[0].measures:
            cost, sizes = runs[0].measures["cost"], runs[0].measures["parameters"]
            seconds = mean([run.seconds["train"] + run.seconds["evaluate"] for run in runs])
            prefill = min(run.measures["cost"]["prefill_ms"] for run in runs)
            cells = [
                str(cost["positions"]),
                f"{cost['flops'] / 1e6:.1f}",
                f"{prefill:.2f}",
                f"{sizes['reducer']:,}",
                f"{sizes['MMoE']:,}",
                f"{seconds:.0f}",
            ]
            rows.append([one.name, *cells])
    head = ["configuration", "positions", "MFLOP of the prefill", "prefill, ms a question", "reducer", "MMoE", "seconds of a run"]
    return "Cost. Prefill time: the best of the runs' medians on one core that other work was sharing.\n\n" + markdown(head, rows)


MORE = {"reducers": (_weights,), "budget": (_weights,), "terms": (_terms_off, _weights), "mmoe": (_routes,), "experts": (_experts, _shapley)}
"""What a grid shows besides accuracy and cost."""

# --- cells ---


def percent(value: float) -> str:
    return f"{value:.1%}"


def interval(one: Estimate) -> str:
    return f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]"


def points(one: Estimate | None) -> str:
    """A difference of shares in percentage points."""
    return "-" if one is None else f"{100 * one.value:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"
