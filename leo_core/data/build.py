"""The generator: sample i of a seed, whatever the number of samples asked for."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from leo_core.data.charts import draw_chart
from leo_core.data.documents import draw_document
from leo_core.data.icons import Icons
from leo_core.data.samples import Sample
from leo_core.data.scene_questions import ask_scene
from leo_core.data.scenes import IconSource, draw_scene
from leo_core.data.text import draw_text
from leo_core.errors import InputError

DEFAULT_MIX = {"scenes": 0.5, "reading": 0.17, "charts": 0.18, "documents": 0.15}
LEAST_NAMES = 8


def generate(
    icons: Icons,
    count: int,
    seed: int,
    names: Sequence[str] | None = None,
    styles: Sequence[str] | None = None,
    domains: Mapping[str, float] | None = None,
    first: int = 0,
) -> Iterator[Sample]:
    """Yield `count` samples from number `first` on; each depends on (seed, its number) and the options only.

    names, styles: the icons that may appear or be asked for (all by default); domains: relative share of pictures of
    `scenes`, `reading`, `charts`, `documents` (DEFAULT_MIX). Raises InputError for unknown names, styles or domains.
    """
    source = _source(icons, names, styles)
    mix = dict(DEFAULT_MIX if domains is None else domains)
    if not mix or not set(mix) <= set(DEFAULT_MIX) or min(mix.values()) < 0 or sum(mix.values()) <= 0:
        raise InputError(f"Domains must be some of {', '.join(DEFAULT_MIX)} with positive shares; got {mix}.")
    kinds, shares = list(mix), np.array(list(mix.values()), dtype=float)
    return (_sample(source, seed, index, kinds, shares / shares.sum()) for index in range(first, first + count))


def split_names(names: Sequence[str], held_out: float = 0.1, seed: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(train, held out): a random share of `names` kept away from training, both sorted; the same for a seed."""
    ordered = sorted(names)
    chosen = set(np.random.default_rng(seed).permutation(len(ordered))[: round(held_out * len(ordered))].tolist())
    return (
        tuple(name for i, name in enumerate(ordered) if i not in chosen),
        tuple(name for i, name in enumerate(ordered) if i in chosen),
    )


def _source(icons: Icons, names: Sequence[str] | None, styles: Sequence[str] | None) -> IconSource:
    names = tuple(sorted(set(icons.names if names is None else names)))
    styles = tuple(icons.styles if styles is None else styles)
    for name in names:
        icons.category(name)
    if len(names) < LEAST_NAMES:
        raise InputError(f"Scenes need at least {LEAST_NAMES} icon names to ask about; got {len(names)}.")
    if not styles or not set(styles) <= set(icons.styles):
        raise InputError(f"Styles must be some of {', '.join(icons.styles)}; got {', '.join(styles) or 'none'}.")
    return IconSource(icons, names, styles)


def _sample(source: IconSource, seed: int, index: int, kinds: list[str], shares: np.ndarray) -> Sample:
    rng = np.random.default_rng([seed, index])
    domain = kinds[rng.choice(len(kinds), p=shares)]
    name = f"{domain}-{seed}-{index:06d}"
    if domain == "scenes":
        scene = draw_scene(rng, source)
        return Sample(name, scene.picture, ask_scene(rng, scene, source), scene.regions)
    return {"reading": draw_text, "charts": draw_chart, "documents": draw_document}[domain](rng, source, name)
