"""One finished run as one JSON file, and the way back: read without torch, the lab or any model."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from leo_core.errors import InputError
from leo_core.files import atomic_path
from leo_core.statistics import Estimate, bootstrap

RESULTS = Path(__file__).parents[2] / "assets" / "results"
SCHEMA = 1


@dataclass(frozen=True)
class Run:
    """A finished run.

    name, identity, configuration: what was run (see Configuration); study: lab or embedded. seed, steps, data: hash of the
    lab, or of the embedded model's start and features. seconds: {train, evaluate}. versions: of python and libraries.
    right: condition -> one character for each test question, 1 = answered; which question is which says `Questions`.
    accuracy: condition -> domain ("all" too) -> [share, low, high, n]. loss: mean of the last tenth of the steps.
    measures: everything else (cost, effective tokens, likeness, routes, Shapley values); absent where it was not measured.
    """

    name: str
    identity: str
    study: str
    seed: int
    steps: int
    data: str
    configuration: dict
    seconds: dict
    versions: dict
    loss: float
    right: dict[str, str]
    accuracy: dict[str, dict[str, list[float]]]
    measures: dict = field(default_factory=dict)
    schema: int = SCHEMA

    def answered(self, condition: str = "picture") -> np.ndarray:
        """(questions,) of 0 and 1."""
        if condition not in self.right:
            raise InputError(f"Run '{self.name}' was not measured under '{condition}'; it has {', '.join(self.right)}.")
        return np.frombuffer(self.right[condition].encode(), dtype=np.uint8) - ord("0")

    def share(self, condition: str = "picture", domain: str = "all") -> Estimate:
        """Share answered with its interval."""
        value, low, high, n = self.accuracy[condition][domain]
        return Estimate(value, low, high, int(n))


@dataclass(frozen=True)
class Questions:
    """The test questions of a study, in the order of the runs' 0s and 1s."""

    picture: np.ndarray
    domain: tuple[str, ...]
    kind: tuple[str, ...]

    def of(self, domain: str = "all") -> np.ndarray:
        """(questions,) mask of a domain; "all" for all."""
        return np.array([domain in ("all", one) for one in self.domain])

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.domain))


def bits(answers: Iterable[bool]) -> str:
    """A compact string of 0 and 1."""
    return "".join("1" if one else "0" for one in answers)


def accuracy(right: dict[str, str], questions: Questions) -> dict[str, dict[str, list[float]]]:
    """Share answered with interval and number of questions, by condition and domain."""
    table = {}
    for condition, answers in right.items():
        values = np.frombuffer(answers.encode(), dtype=np.uint8) - ord("0")
        rows = {}
        for domain in ("all", *sorted(questions.domains)):
            mask = questions.of(domain)
            one = bootstrap(values[mask], questions.picture[mask])
            rows[domain] = [round(one.value, 4), round(one.low, 4), round(one.high, 4), one.n]
        table[condition] = rows
    return table


def path_of(folder: Path, name: str, identity: str, seed: int) -> Path:
    """Where a run's file is: readable name, identity and seed."""
    plain = "".join(c if c.isalnum() or c in "=.^" else "-" for c in name.lower())
    while "--" in plain:
        plain = plain.replace("--", "-")
    return folder / "runs" / f"{plain.strip('-')}.{identity}.seed{seed}.json"


def save(run: Run, folder: Path = RESULTS) -> Path:
    """Write a run atomically."""
    path = path_of(folder, run.name, run.identity, run.seed)
    with atomic_path(path) as temporary:
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(asdict(run).items()))
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def load(path: Path) -> Run:
    """Raises InputError for a file of another schema."""
    values = json.loads(path.read_text())
    if values.get("schema") != SCHEMA:
        raise InputError(f"{path.name} has schema {values.get('schema')}; this version reads {SCHEMA}: run the experiment again.")
    return Run(**values)


def load_all(folder: Path = RESULTS, study: str = "lab") -> list[Run]:
    """Every run of a study, by name and seed."""
    runs = [load(path) for path in sorted((folder / "runs").glob("*.json"))]
    return [run for run in runs if run.study == study]


def save_questions(rows: Sequence[tuple[int, str, str]], study: str, folder: Path = RESULTS) -> None:
    """rows: (picture, domain, kind) of each test question."""
    picture, domain, kind = zip(*rows, strict=True)
    with atomic_path(folder / f"questions-{study}.json") as temporary:
        temporary.write_text(json.dumps({"picture": picture, "domain": domain, "kind": kind}) + "\n")


def load_questions(study: str = "lab", folder: Path = RESULTS) -> Questions:
    values = json.loads((folder / f"questions-{study}.json").read_text())
    return Questions(np.array(values["picture"]), tuple(values["domain"]), tuple(values["kind"]))
