"""Raw features of the lab's pictures from three of the embedded experts: the slow step (about 0.35 s a picture on one core)."""

from collections.abc import Callable
from pathlib import Path

from leo_core.experiments.lab_pictures import lab_samples
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.training.features import write_shard

SETS = ("lab_train", "lab_test")
SHARD = 50
"""Pictures in one file."""


def build_features(folder: Path, report: Callable[[str, int, int], None], counts: dict[str, int] | None = None) -> None:
    """Write `folder`/SET/shard-*.safetensors for both sets; goes on where it was stopped.

    report(set, files done, files): after each file. counts: pictures of a set (default: the set's own number). Needs the
    icon packs and the experts' parts, which are fetched when they are not there.
    """
    from leo_core.checkpoint import EMBEDDED, Sources
    from leo_core.data import Icons, fetch_packs
    from leo_core.data.icons import STYLES, UNSEEN_STYLE
    from leo_core.data.sets import set_named
    from leo_core.embedded import embedded_experts
    from leo_core.experts.build import build_experts
    from leo_core.files import cache_folder
    from leo_core.parts import Parts

    sources = [one for one in embedded_experts() if one.name in EXPERTS]
    parts = Parts()
    parts.fetch(
        list(dict.fromkeys(value["part"] for one in sources for value in one.settings.values() if isinstance(value, dict) and "part" in value))
    )
    icons = Icons(fetch_packs(cache_folder() / "icons"), (*STYLES, UNSEEN_STYLE))
    experts = build_experts(sources, Sources(EMBEDDED, parts))
    for name in SETS:
        chosen = set_named(name)
        count = (counts or {}).get(name, chosen.count)
        starts = range(0, count, SHARD)
        for number, first in enumerate(starts, start=1):
            path = folder / name / f"shard-{first // SHARD:04d}.safetensors"
            if not path.exists():
                write_shard(path, lab_samples(chosen, icons, min(SHARD, count - first), first), experts)
            report(name, number, len(starts))
