"""Running one notebook from top to bottom in a kernel of its own, within a bound of time."""

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from leo_core.errors import InputError, LeoError

SECONDS = 600.0
"""Most that one notebook may take: they are made for two minutes, and machines differ."""
STARTING = 300
"""Seconds that a kernel may take to start on a busy machine; they count among the notebook's."""
_ENVIRONMENT = {"PLOTLY_RENDERER": "plotly_mimetype", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "default"}


class NotebookFailed(LeoError):
    """A notebook that did not run to its end, or wrote a warning: which one, which cell, why."""


def read(path: Path) -> NotebookNode:
    """A notebook file. Raises InputError where it cannot be read."""
    try:
        return nbformat.read(path, 4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise InputError(f"Notebook '{path.name}' cannot be read ({type(error).__name__}): restore it.") from None


def execute(notebook: NotebookNode, name: str, seconds: float = SECONDS) -> float:
    """Fill the notebook's outputs in place; returns the seconds it took. A notebook without code takes none.

    It runs in an empty temporary folder, so that it can rely on nothing beside the installed packages and leaves nothing
    behind. Raises NotebookFailed for an error, for text on stderr (warnings, progress bars), and beyond `seconds`.
    """
    if not any(cell.cell_type == "code" for cell in notebook.cells):
        return 0.0
    started = time.monotonic()
    left = lambda cell: max(1.0, seconds - (time.monotonic() - started))  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="notebook.") as folder:
        client = NotebookClient(
            notebook, timeout_func=left, startup_timeout=STARTING, resources={"metadata": {"path": folder}}, store_widget_state=False
        )
        client.log.disabled = True  # the sentence below says it all
        try:
            asyncio.run(client.async_execute(env={**os.environ, **_ENVIRONMENT}, stderr=subprocess.DEVNULL))
        except CellTimeoutError:
            raise NotebookFailed(f"Notebook '{name}' was not through after {seconds:g} seconds, {_running(notebook)}.") from None
        except CellExecutionError as error:
            reason = f"{error.ename}: {(error.evalue or '').strip().splitlines()[0] if error.evalue else 'no words'}"
            raise NotebookFailed(f"Notebook '{name}' failed {_running(notebook)}: {reason}") from None
        except DeadKernelError:
            raise NotebookFailed(f"Notebook '{name}' failed {_running(notebook)}: its kernel died, often for want of memory.") from None
        except RuntimeError as error:
            raise NotebookFailed(f"Notebook '{name}' has no kernel: {str(error).strip().splitlines()[0]}.") from None
    for place, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise NotebookFailed(f"Notebook '{name}' wrote to stderr in cell {place}: {' '.join(output.text.split())[:300]}")
    return time.monotonic() - started


def _running(notebook: NotebookNode) -> str:
    """The cell that was being executed: the last one that has a number or an output."""
    begun = [place for place, cell in enumerate(notebook.cells, 1) if cell.get("execution_count") or cell.get("outputs")]
    started = [place for place, cell in enumerate(notebook.cells, 1) if "execution" in cell.metadata and cell.metadata.execution]
    place = max(begun + started, default=1)
    lines = notebook.cells[place - 1].source.strip().splitlines()
    return f"in cell {place} (`{lines[0] if lines else ''}`)"
