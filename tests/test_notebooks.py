"""Every notebook runs in a clean kernel, is stored without outputs, defines nothing, and keeps its cells short."""

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_clean_and_short(path):
    code = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert code
    for cell in code:
        assert not cell.outputs and cell.execution_count is None
        assert len(cell.source.splitlines()) <= 12
        assert not any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(ast.parse(cell.source)))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_in_a_clean_kernel(path):
    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    text = str([cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"])
    assert "Traceback" not in text and "Warning" not in text
