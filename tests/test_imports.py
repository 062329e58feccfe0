"""Who may import whom (see the README's tree), walked from the sources themselves."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def imported(path: Path) -> set[str]:
    """Top-level and dotted names a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no files in {folder}: the rule would hold of nothing"
    return found


def offenders(paths: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in sorted(imported(path))
        if any(name == bad or name.startswith(bad + ".") for bad in forbidden)
    ]


def test_the_core_knows_no_page():
    assert offenders(files("leo_core"), ("gradio", "plotly", "studio")) == []


MODEL_FILES = ("config", "cotr", "reducer", "reducers", "position", "projector", "routing", "mmoe", "geometry", "processor", "accounting")


@pytest.mark.parametrize("name", MODEL_FILES)
def test_model_files_know_no_tracing_training_or_generation(name):
    above = ("leo_core.tracing", "leo_core.analysis", "leo_core.training", "leo_core.generation", "leo_core.commands")
    assert offenders([ROOT / "leo_core" / f"{name}.py"], above) == []


def test_figures_know_no_model_and_no_page():
    assert offenders(files("studio/figures"), ("torch", "gradio", "transformers", "leo_core.model", "studio.session", "studio.tabs")) == []


def test_tabs_do_not_know_each_other():
    for path in files("studio/tabs"):
        assert offenders([path], ("studio.tabs", "studio.app")) == []


def test_the_session_knows_no_gradio():
    assert offenders([ROOT / "studio" / "session.py"], ("gradio",)) == []


def test_hooks_are_registered_in_tracing_only():
    marks = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
    for path in files("leo_core") + files("studio"):
        if "tracing" not in path.parts:
            assert not any(mark in path.read_text() for mark in marks), path


def test_no_pickle_is_loaded():
    for path in files("leo_core") + files("studio"):
        text = path.read_text()
        assert "torch.load(" not in text and "import pickle" not in text, path
