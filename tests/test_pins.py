"""environment.yml, pyproject.toml and the installed packages agree."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pins(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, number in re.findall(r"""["\s-]([a-z][a-z0-9-]+)==([0-9][0-9.]*)""", text):
        found.setdefault(name, set()).add(number)
    return found


PROJECT = pins((ROOT / "pyproject.toml").read_text())
CONDA = pins((ROOT / "environment.yml").read_text())


def test_conda_pins_are_the_projects_pins():
    assert CONDA.keys() == PROJECT.keys()
    for name, numbers in CONDA.items():
        assert len(numbers) == 1 and numbers <= PROJECT[name], name


@pytest.mark.parametrize("name", ["torch", "transformers", "peft", "accelerate", "gradio", "jupyterlab", "plotly", "captum", "pytest"])
def test_the_named_packages_are_pinned_and_installed(name):
    assert version(name).split("+")[0] in PROJECT[name]
