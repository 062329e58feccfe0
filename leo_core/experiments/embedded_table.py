"""What the embedded model says to the lab's ranking: a section of the results' README."""

from itertools import combinations
from pathlib import Path

from leo_core.errors import InputError
from leo_core.experiments.results import Results, results
from leo_core.experiments.tables import interval, markdown, percent, points

REFERENCE = "CoTR, 16 tokens"


def embedded_section(lab: Results, folder: Path) -> str:
    """Markdown; says so where nothing has been run at embedded size."""
    try:
        found = results(folder=folder, study="embedded")
    except InputError:
        return "Not run yet: `python -m leo_core experiment embedded --run RUN`."
    rows = []
    for name, runs in found.runs.items():
        gain = "reference" if name == REFERENCE else points(found.compare(name, REFERENCE))
        cells = [percent(found.share(name, condition).value) for condition in ("no picture", "another picture")]
        rows.append(
            [name, str(runs[0].steps), interval(found.share(name)), gain, *cells, "-" if name == REFERENCE else points(lab.compare(name, REFERENCE))]
        )
    head = ["configuration", "steps", "right [95 %]", "difference, points", "no picture", "another picture", "difference in the lab"]
    n = len(found.questions.domain)
    text = f"The same comparisons with the embedded model: {n} questions about unseen scenes, greedy decoding, one seed: its spread is not known.\n\n"
    return f"{text}{markdown(head, rows)}\n{ranking(lab, found)}\n\n`python -m leo_core experiment embedded --run RUN`"


def ranking(lab: Results, embedded: Results) -> str:
    """Whether pairs that both studies can tell apart stand in the same order."""
    same, opposite, untold = [], [], []
    for first, second in combinations([name for name in embedded.runs if lab.of(name)], 2):
        signs = [study.compare(first, second) for study in (lab, embedded)]
        if None in signs or 0 in (signs[0].sign, signs[1].sign):
            untold.append((first, second))
        else:
            (same if signs[0].sign == signs[1].sign else opposite).append((first, second))
    verdict = "does not hold" if opposite else "holds" if same else "cannot be told"
    text = f"**The lab's ranking {verdict}**: of {len(same) + len(opposite) + len(untold)} pairs, {len(same)} stand in the same order with intervals on one side, "
    return text + f"{len(opposite)} in the opposite order, {len(untold)} are not told apart by one of the two."
