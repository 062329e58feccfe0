"""Stage 1: the projector alone, with all tokens and a frozen decoder; in closed form, or trained from a cold start."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from jaxtyping import Float
from torch import Tensor

from leo_core.config import LeoConfig
from leo_core.experts.expert import VisionExperts
from leo_core.files import atomic_path
from leo_core.model import LeoMini
from leo_core.position import grid_boxes
from leo_core.processor import LeoProcessor
from leo_core.projector import MlpProjector
from leo_core.training.batches import by_domain, packed_batch, packed_loss, some_questions
from leo_core.training.features import FeatureStore
from leo_core.training.loop import Report, train_stage
from leo_core.training.ridge import named_cells, ridge, scores_of_names
from leo_core.training.stages import Stage, pictures_of, told_share
from leo_core.training.transcripts import place, transcript

RIDGE_PENALTY = 300.0
NAMED_UNITS, SHARPNESS, LEAST_SCORE = 640, 8.0, 0.1
"""Hidden units for names; how steep they are; the score of a name below which its unit is nearly silent. A linear map says a
mixture of all names that look alike: of 4,845 cells of unseen scenes 52 % had the right name nearest, 64 % behind such units."""

PLACE_SHARE, DIRECTION_SHARE = 0.5, 0.5
"""In a visual token that also carries a thing's name: of its place's name, which is one of nine, and of "right" less "left" and
"bottom" less "top", which grow with the distance from the middle: what is left of what, within a place too."""

LATER_SHARE = 0.7
"""Of each further piece of a name beside the one before it: a plain mean would say the same of 37 and of 73."""


def ridge_start(model: LeoMini, processor: LeoProcessor, store: FeatureStore) -> None:
    """The projector onto token embeddings: of the names of what the tokens show (`name_embedding`), and of their places.

    A first layer of the MLP scores the most frequent names, its activation drops low scores, and its second layer says their
    embeddings; the linear part is fitted to what that leaves, which is all there is for rare names.
    """
    embedding = model.get_input_embeddings().weight.detach()
    named = cache(lambda phrase: name_embedding(embedding[processor.plain_ids(" " + phrase.lower())]))
    projector = model.projector
    inputs, names = named_cells(store, model.reducer, background=True)
    targets = torch.stack([named(name) for name in names])
    boxes = grid_boxes(*model.reducer.grid)
    places = PLACE_SHARE * torch.stack([named(place(tuple(box), (1, 1))) for box in boxes.tolist()])
    across, down = named("right") - named("left"), named("bottom") - named("top")
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 - 0.5
    places += DIRECTION_SHARE * centres @ torch.stack([across, down])
    with torch.no_grad():
        _start_names(projector.mlp, inputs, names, targets, named)
        weight, bias = ridge(inputs, targets - projector.mlp(inputs), RIDGE_PENALTY)
        projector.linear.weight.copy_(weight)
        projector.linear.bias.copy_(bias)
        projector.positions.copy_(places - places.mean(dim=0))


def name_embedding(pieces: Float[Tensor, "pieces d"]) -> Float[Tensor, "d"]:
    """The weighted mean of the embeddings of a name's pieces, of which the first weighs most."""
    weights = LATER_SHARE ** torch.arange(len(pieces)).to(pieces)
    return weights @ pieces / weights.sum()


def _start_names(mlp: MlpProjector, inputs: Tensor, names: Sequence[str], targets: Tensor, named: Callable[[str], Tensor]) -> None:
    """One hidden unit for each of the most frequent names; the other units stay as they are: silent."""
    known, weight, bias = scores_of_names(inputs, names, min(NAMED_UNITS, 3 * mlp[0].out_features // 4), RIDGE_PENALTY)
    said = torch.stack([named(name) for name in known])
    mlp[0].weight[: len(known)] = SHARPNESS * weight
    mlp[0].bias[: len(known)] = SHARPNESS * (bias - LEAST_SCORE)
    mlp[2].weight[:, : len(known)] = (said - said.mean(dim=0)).T
    out, wanted = mlp(inputs), targets - targets.mean(dim=0)
    mlp[2].weight[:, : len(known)] *= (out * wanted).sum() / out.square().sum().clamp(min=1e-12)  # the length that fits best


def stage_1(
    config: LeoConfig, decoder, experts: VisionExperts, processor: LeoProcessor, store: FeatureStore, stage: Stage | None, folder: Path, report: Report
) -> Path:  # fmt: skip
    """config: with a reducer that keeps all tokens and no MMoE. stage: how to train from a cold start; None = ridge regression.

    Writes `folder`/stage1/projector.safetensors; is not repeated when that is there.
    """
    done = folder / "stage1" / "projector.safetensors"
    if done.exists():
        return done
    torch.manual_seed(0)
    model = LeoMini(config, decoder, experts).train()
    processor.visual_tokens = config.reducer_config.tokens
    if stage is None:
        ridge_start(model, processor, store)
    else:
        for metrics in train_stage(model, stage, packed_questions_loss(model, processor, store, stage), folder):
            report(metrics)
    with atomic_path(done) as temporary:
        save_file({name: value.contiguous() for name, value in model.projector.state_dict().items()}, temporary)
    return done


def packed_questions_loss(model: LeoMini, processor: LeoProcessor, store: FeatureStore, stage: Stage, seed: int = 1, body=None):
    """Loss of a step on packed questions and, as far as the stage says, transcripts; the same step always sees the same.

    body: the decoder without its head, where it is wrapped (default: the model's own).
    """
    order = pictures_of(stage, len(store), seed)

    def loss(step: int):
        pictures = order(step)
        asked = [some_questions(store.samples[index].questions, stage.packed, seed=[seed, step, index]) for index in pictures]
        share = told_share(step, stage)
        for row in range(round(share * len(pictures))):
            asked[row] += filter(None, [transcript(store.samples[pictures[row]])])
        losses = packed_loss(model, body or model.decoder.base_model, packed_batch(store, processor, pictures, asked))
        right = by_domain([asked[row][number - 1] for row, number in losses.right], list(losses.right.values()))
        return losses.questions + share * losses.transcripts, {"loss.questions": losses.questions.item(), **right}

    return loss


def start_from(model: LeoMini, projector: Path) -> None:
    """Load what stage 1 wrote."""
    model.projector.load_state_dict(load_file(projector))
