"""The papers' claims measured at a size that a laptop trains in half a minute.

`results` reads what was measured (grids: reducers, budget, mmoe, terms, experts, stages, length), `lab_run.lab_run` measures one configuration
more, `GRIDS` says what was asked. Command line: python -m leo_core experiment.
"""

from leo_core.experiments.configuration import COTR, MMOE, Configuration, Training
from leo_core.experiments.grids import GRIDS, Grid, distinct, grid_named
from leo_core.experiments.results import Results, results
from leo_core.statistics import Estimate, bootstrap, difference

__all__ = [
    "COTR", "GRIDS", "MMOE", "Configuration", "Estimate", "Grid", "Results", "Training", "bootstrap", "difference", "distinct", "grid_named", "results",
]  # fmt: skip
