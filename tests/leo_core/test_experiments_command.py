"""The command line of the experiments: what it lists, refuses and writes."""

import pytest

from leo_core.__main__ import main
from leo_core.experiments.configuration import Training
from leo_core.experiments.grids import distinct, grid_named
from leo_core.experiments.runs import RESULTS


def test_list_names_every_run_and_runs_nothing(capsys, tmp_path):
    assert main(["experiment", "all", "--list", "--seeds", "1", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(distinct()) and not any(line.startswith("finished") for line in lines)
    assert not list(tmp_path.iterdir())
    assert main(["experiment", "reducers", "--list", "--seeds", "1"]) == 0
    assert any(grid_named("reducers").reference.identity(Training()) in line for line in capsys.readouterr().out.splitlines())


def test_tables_and_readme_can_be_written_elsewhere(tmp_path, capsys):
    import shutil

    shutil.copytree(RESULTS, tmp_path / "results")
    for path in (tmp_path / "results").glob("*.md"):
        path.unlink()
    assert main(["experiment", "reducers", "--table", "--results", str(tmp_path / "results")]) == 0
    assert (tmp_path / "results" / "reducers.md").read_text() == (RESULTS / "reducers.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["embedded", "all"], "one of them at a time"),
        (["reducers", "--only", "nothing"], "No configuration"),
        (["reducers", "--share", "3/2"], "I/N"),
        (["embedded", "--run", "/nonexistent"], "stage2"),
        (["embedded", "--only", "nothing"], "CoTR"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(arguments, words, capsys, tmp_path):
    assert main(["experiment", *arguments, "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said and len(said.strip().splitlines()) == 1


def test_an_empty_folder_has_no_tables(tmp_path, capsys):
    assert main(["experiment", "readme", "--results", str(tmp_path)]) == 2
    assert "experiment all" in capsys.readouterr().err
