"""Training pictures with questions: icons on backgrounds, text, charts and pages, all drawn and all decided by a seed.

`fetch_packs` brings the icons, `Icons` loads them, `generate` yields samples.
"""

from leo_core.data.build import DEFAULT_MIX, generate, split_names
from leo_core.data.icons import Icons
from leo_core.data.packs import fetch_packs
from leo_core.data.samples import Question, Region, Sample

__all__ = ["DEFAULT_MIX", "Icons", "Question", "Region", "Sample", "fetch_packs", "generate", "split_names"]
