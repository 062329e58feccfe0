"""The embedded model's recipe: ridge start, all tokens with LoRA on the decoder, then CoTR and MMoE.

Each stage keeps its result in the run folder and is not repeated when that is there.
"""

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from leo_core.config import LeoConfig
from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
from leo_core.experts.expert import VisionExperts
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.reducers import block_means
from leo_core.saving import save_model
from leo_core.training.adapter import ADAPTER, lora_on, write_half
from leo_core.training.batches import answered, by_domain, model_inputs, question_batch, some_questions
from leo_core.training.features import FeatureStore
from leo_core.training.first_stage import packed_questions_loss, start_from
from leo_core.training.loop import Report, train_stage
from leo_core.training.stages import Stage, pictures_of
from leo_core.training.text_start import start_text
from leo_core.training.watching import WATCHED, watched


def fit_scaling(experts: VisionExperts, store: FeatureStore) -> None:
    """Standardise every expert by its features on the training pictures."""
    for name, expert in experts.items():
        mean, std = store.scaling(name)
        expert.mean.copy_(mean)
        expert.std.copy_(std)
    store.standardise_as(experts)


def stage_2(config: LeoConfig, decoder, experts: VisionExperts, processor: LeoProcessor, store: FeatureStore, stage: Stage, folder: Path, report: Report,
            adapter: Path | None = None) -> Path:  # fmt: skip
    """All 64 tokens; one LoRA on all decoder linears, from stage 1's projector. Writes `folder`/adapter (peft) and `folder`/stage2.

    adapter: a peft LoRA of the same decoder to go on from, instead of a new one that does nothing yet.
    """
    done = folder / "stage2"
    if done.exists():
        return done
    torch.manual_seed(0)
    model = LeoMini(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), decoder, experts).train()
    processor.visual_tokens = KEEP_ALL.tokens
    start_from(model, folder / "stage1" / "projector.safetensors")
    model.decoder.set_attn_implementation("eager")  # for short rows its backward pass is faster on a CPU than the fused kernel's
    model.decoder = lora_on(model.decoder, adapter)
    body = model.decoder.get_base_model().base_model
    loss = packed_questions_loss(model, processor, store, stage, seed=2, body=body)
    starts = [folder / "stage1" / "projector.safetensors", *([] if adapter is None else [adapter / ADAPTER])]
    for metrics in train_stage(model, stage, loss, folder, data=store.identity() + "".join(map(_sha256, starts))):
        report(metrics)
    model.decoder.save_pretrained(folder / "adapter")
    model.decoder = model.decoder.merge_and_unload()
    model.decoder.set_attn_implementation("sdpa")
    model.reducer.set_absent(mean_reduced(model, processor, store))
    model.config.decoder_source = {**config.decoder_source, "adapter": "adapter"}
    save_model(model, done, trained_only=True, extra=[folder / "adapter"], processor=processor)  # so that it can be evaluated too
    return done


def stage_3(stage2: LeoMini, config: LeoConfig, processor: LeoProcessor, store: FeatureStore, stage: Stage, folder: Path, report: Report) -> LeoMini:
    """CoTR (or another reducer), MMoE and projector from the stage-2 model; decoder frozen, experts dropped at random."""
    torch.manual_seed(0)
    model = LeoMini(config, stage2.decoder, stage2.vision_experts).train()
    processor.visual_tokens = config.reducer_config.tokens
    start_projector(model, stage2)
    start_text(model, processor, store)
    model.decoder.set_attn_implementation("eager")  # as in stage 2; 2.6 s a step instead of 3.2 on two cores
    order = pictures_of(stage, len(store), seed=3)

    def loss(step: int) -> tuple[Tensor, dict[str, float]]:
        pairs = [(i, some_questions(store.samples[i].questions, 1, seed=[3, step, i])[0]) for i in order(step)]
        batch = question_batch(store, processor, pairs, device=model.device)
        if step % 100 == 0:
            model.reducer.set_absent(mean_reduced(model, processor, store))
        longest = int((batch["labels"] != -100).sum(dim=1).max()) + 1
        inputs = model_inputs(batch)
        with torch.autocast(model.device.type, enabled=False):  # weights of a softmax over similarities: not in half precision
            mask = drop_experts(batch, stage.expert_dropout)
            inputs["reduced"] = model.reduce(inputs.pop("pictures"), batch["input_ids"], batch["question_mask"], batch["picture_owner"], mask)
        output = model(**inputs, logits_to_keep=longest)
        right = by_domain([question for _, question in pairs], answered(output.logits, batch["labels"]))
        balance = {} if output.balance is None else {"balance": output.balance.item()}
        return output.loss, {**right, **balance, **(watched(model, batch, inputs) if step % WATCHED == 0 else {})}

    for metrics in train_stage(model, stage, loss, folder, data=f"{store.identity()} {stage2.origin} {config.reducer} {config.mmoe}"):
        report(metrics)
    model.eval()
    model.decoder.set_attn_implementation("sdpa")
    model.reducer.set_absent(mean_reduced(model, processor, store))
    return model


# --- pieces ---


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def replace_reducer(config: LeoConfig, reducer, mmoe) -> LeoConfig:
    """The same model with another reducer and MMoE."""
    return LeoConfig(**{**config.to_dict(), "text_config": config.text_config, "reducer": reducer, "mmoe": mmoe})


def start_projector(model: LeoMini, stage2: LeoMini) -> None:
    """Stage 2's projector; its 64 learned positions averaged onto the new model's tokens."""
    weights = stage2.projector.state_dict()
    positions = block_means(stage2.reducer.grid, model.reducer.tokens) @ weights["positions"]
    model.projector.load_state_dict({**weights, "positions": positions})


def drop_experts(batch: dict, rate: float) -> Tensor:
    """(p, m) mask: each expert is absent with probability `rate`, but never all of them."""
    shape = (batch["pictures"].pictures, len(batch["pictures"].features))
    mask = torch.rand(shape).to(batch["input_ids"].device) >= rate  # drawn on the CPU: the same on every device
    return mask | ~mask.any(dim=1, keepdim=True)


@torch.no_grad()
def mean_reduced(model: LeoMini, processor: LeoProcessor, store: FeatureStore, most: int = 192) -> tuple[Tensor, ...]:
    """Mean reduced tokens of each expert over training pictures (their first question): what "absent" delivers."""
    sums, count = None, 0
    for start in range(0, min(most, len(store)), 32):
        pairs = [(index, store.samples[index].questions[0]) for index in range(start, min(start + 32, len(store)))]
        batch = question_batch(store, processor, pairs, device=model.device)
        reduced = model.reduce(batch["pictures"], batch["input_ids"], batch["question_mask"], batch["picture_owner"])
        parts = [tokens.sum(dim=0) for tokens in reduced]
        sums = parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]
        count += len(pairs)
    return tuple(total / count for total in sums)


def ship(model: LeoMini, processor: LeoProcessor, folder: Path, adapter: Path) -> None:
    """Write the trained weights in half precision with their processor and the decoder's adapter, without any machine's paths."""
    with tempfile.TemporaryDirectory() as name:
        half = Path(name) / "adapter"
        write_half(adapter, half)
        processor.visual_tokens = model.reducer.tokens
        save_model(model, folder, trained_only=True, dtype=torch.float16, extra=[half], processor=processor)


def shorter(stage: Stage, steps: int) -> Stage:
    """The same stage with another number of steps."""
    return replace(stage, steps=steps)
