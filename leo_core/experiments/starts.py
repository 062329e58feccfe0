"""What the closed-form starts are worth before anything is trained, one cause at a time.

The projector's start is judged by cells: is a visual token nearest to the name of what its cell shows? CoTR's is judged
by questions, behind the decoder of stage 2: what do the position code's amplitude and the TEXT term's temperature cost?
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional as F

from leo_core.config import ReducerConfig
from leo_core.data.backgrounds import COLOURS
from leo_core.data.samples import Question
from leo_core.embedded import COTR, KEEP_ALL, PLAIN_DECODER
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.statistics import Estimate, bootstrap
from leo_core.training.closed_form import THING_SHARE, WORD_SHARE, names_in
from leo_core.training.evaluate import question_inputs, teacher_forced
from leo_core.training.features import FeatureStore, StoredSample
from leo_core.training.recipe import replace_reducer, start_projector
from leo_core.training.ridge import named_tokens

UNITS = {
    "linear part alone": (0.0, 0.0),
    "units learned from pictures": (0.0, WORD_SHARE + THING_SHARE),
    "words from spelling, things from pictures": (WORD_SHARE, THING_SHARE),
}
"""Starts of the projector: shares of the hidden units for words and for things (`closed_form.ridge_start`)."""


@dataclass(frozen=True)
class ReducerStart:
    """name: as in the table. text: temperature of the TEXT term fitted in closed form (`text_start`); 0 = switched off."""

    name: str
    reducer: ReducerConfig = COTR
    text: float = 0.0


REDUCER_STARTS = (
    ReducerStart("all 64 tokens", KEEP_ALL),
    ReducerStart("average pooling, 16", replace(COTR, kind="average")),
    *(ReducerStart(f"CoTR, amplitude {a:g}, without TEXT", replace(COTR, position_amplitude=a)) for a in (0.6, 1.2, 2.4, 6.0)),
    *(ReducerStart(f"CoTR, amplitude {a:g}, TEXT at {t:g}", replace(COTR, position_amplitude=a), t) for a, t in ((2.4, 6.0), (2.4, 20.0), (2.4, 40.0), (6.0, 20.0))),
)  # fmt: skip


def kind_of(sample: StoredSample, phrase: str) -> str:
    """What sort of name a region has: a drawing's, a colour, a number (anything with a digit) or a written word."""
    if any(letter.isdigit() for letter in phrase):
        return "numbers"
    if phrase.lower() in COLOURS:
        return "colours"
    return "drawings" if sample.questions and sample.questions[0].domain in ("scenes", "objects") else "words"


@torch.no_grad()
def cells_right(model: LeoMini, processor: LeoProcessor, tests: FeatureStore) -> dict[str, Estimate]:
    """Share of the cells that show something named whose visual token, less its position, is nearest to that name's embedding.

    Nearest by cosine among all names of the test pictures, tokens and embeddings less the names' mean. model: with a reducer
    that keeps all tokens. Returns one estimate for each kind of name; intervals are over pictures.
    """
    named, tokens, names, kinds, owners = names_in(model, processor), [], [], [], []
    nothing = torch.zeros(1, 0, 1)
    for start in range(0, len(tests), 50):
        index = torch.arange(start, min(start + 50, len(tests)))
        shown = model.project(model.reducer(tests.features(index), nothing, nothing[..., 0].bool())) - model.projector.positions
        for row, i in enumerate(index.tolist()):
            for phrase, inside in named_tokens(tests.samples[i], model.reducer.grid).items():
                count = int(inside.sum())
                tokens.append(shown[row, inside])
                names += [phrase.lower()] * count
                kinds += [kind_of(tests.samples[i], phrase)] * count
                owners += [i] * count
    known = sorted(set(names))
    said, number = torch.stack([named(name) for name in known]), {name: i for i, name in enumerate(known)}
    unit = lambda rows: F.normalize(rows - said.mean(dim=0), dim=-1)  # noqa: E731
    right = (unit(torch.cat(tokens)) @ unit(said).T).argmax(dim=1) == torch.tensor([number[name] for name in names])
    found = {}
    for kind in sorted(set(kinds)):
        chosen = np.array([one == kind for one in kinds])
        found[kind] = bootstrap(right.numpy()[chosen].astype(float), np.array(owners)[chosen])
    return found


@torch.no_grad()
def questions_right(model: LeoMini, processor: LeoProcessor, tests: FeatureStore, pairs: Sequence[tuple[int, Question]]) -> tuple[Estimate, Estimate]:
    """For (picture, question) pairs: log p of the right answer, in nats, and the share of answers whose every token is the likeliest."""
    processor.visual_tokens = model.reducer.tokens
    log_probability, right = [], []
    for start in range(0, len(pairs), 32):
        forced = teacher_forced(model, question_inputs(processor, tests, pairs[start : start + 32], True))
        log_probability += forced.log_probability
        right += forced.right
    owners = np.array([picture for picture, _ in pairs])
    return bootstrap(np.array(log_probability), owners), bootstrap(np.array(right, dtype=float), owners)


def started(start: ReducerStart, stage2: LeoMini) -> LeoMini:
    """The stage-2 model with another reducer, as stage 3 begins (but for TEXT), its decoder without new experts. The same
    random projections every time: what is fitted for one start's TEXT holds for the others."""
    torch.manual_seed(0)
    model = LeoMini(replace_reducer(stage2.config, start.reducer, PLAIN_DECODER), stage2.decoder, stage2.vision_experts).eval()
    start_projector(model, stage2)
    return model
