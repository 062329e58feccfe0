"""Stage 1: the projector alone, with all tokens and a frozen decoder; in closed form, or trained from a cold start."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from leo_core.config import LeoConfig
from leo_core.experts.expert import VisionExperts
from leo_core.files import atomic_path
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.training.batches import by_domain, packed_batch, packed_loss, some_questions
from leo_core.training.closed_form import ridge_start
from leo_core.training.features import FeatureStore
from leo_core.training.loop import Report, train_stage
from leo_core.training.stages import Stage, pictures_of, told_share
from leo_core.training.transcripts import transcript


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
        for metrics in train_stage(model, stage, packed_questions_loss(model, processor, store, stage), folder, data=store.identity()):
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
