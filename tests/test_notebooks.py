"""Every notebook is stored without outputs, defines nothing, keeps its cells short and ends with findings; `make docs` executes them."""

import ast
import re
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path for path in FOLDER.glob("*.ipynb") if path.stem != "index")
EVERY = [*NOTEBOOKS, FOLDER / "index.ipynb"]
ALLOWED = {"leo_core", "studio", "numpy", "torch", "captum", "peft", "transformers", "PIL", "IPython"} | set(sys.stdlib_module_names)
NAMES = {
    "1_meet_leo_mini", "2_conditional_token_reduction", "3_mixture_of_multimodal_experts", "4_what_each_vision_expert_contributes",
    "5_efficiency", "6_ablations", "7_reading_one_answer", "8_bring_your_own",
}  # fmt: skip
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


def prose(path: Path) -> str:
    return "\n\n".join(cell.source for cell in cells(path, "markdown"))


def parsed(cell) -> list[ast.AST]:
    return list(ast.walk(ast.parse(cell.source)))


def test_the_set_is_whole():
    assert {path.stem for path in NOTEBOOKS} == NAMES


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_stored_clean_with_ids_of_their_own(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@each
def test_cells_are_short_and_define_nothing(path):
    for cell in cells(path, "code"):
        lines = cell.source.splitlines()
        assert 0 < len(lines) <= 12 and max(map(len, lines)) <= 150, cell.source
        assert not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in parsed(cell)), cell.source
        assert not re.search(r"^\s*[%!]", cell.source, re.MULTILINE), "plain Python only"


@each
def test_only_the_projects_packages_are_imported(path):
    for node in (node for cell in cells(path, "code") for node in parsed(cell)):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module.split(".")[0] in ALLOWED


@each
def test_no_place_outside_the_project_is_named(path):
    for node in (node for cell in cells(path, "code") for node in parsed(cell)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.match(r"(/[a-z]|~|[A-Za-z]:\\|https?://)", node.value), node.value


@each
def test_the_story_ends_with_what_we_saw_an_exercise_and_its_findings(path):
    text = prose(path)
    assert re.match(r"# \S", text), "a title"
    assert re.search(r"^## What we saw", text, re.MULTILINE)
    hidden = any("source_hidden" in str(cell.metadata) or "hide" in str(cell.metadata.get("tags")) for cell in cells(path, "code"))
    assert re.search(r"exercise", text, re.IGNORECASE) and ("<details" in text or hidden)
    findings = [cell for cell in cells(path, "code") if "findings" in cell.metadata.get("tags", [])]
    assert len(findings) == 1 and any(isinstance(node, ast.Assert) for node in parsed(findings[0]))


@each
def test_there_is_more_prose_than_code(path):
    code = "".join(cell.source for cell in cells(path, "code"))
    assert len(prose(path).split()) > len(code.split())


def test_the_index_leads_to_every_notebook_and_every_link_leads_somewhere():
    assert {f"{path.name}" for path in NOTEBOOKS} <= set(re.findall(r"\]\(([^)#]+)", prose(FOLDER / "index.ipynb")))
    for path in EVERY:
        for target in re.findall(r"\]\(([^)#:]+)\)", prose(path)):
            assert (FOLDER / target).exists(), f"{path.name} links to {target}"
