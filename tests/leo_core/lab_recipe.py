"""A whole recipe at lab size, as a program that can be killed: python lab_recipe.py FOLDER [STAGE STEP]

Random decoder of two layers, two made-up vision experts on noise pictures. With STAGE and STEP it kills itself (SIGKILL) right
after that step; started again without them it goes on.
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from leo_core.config import LeoConfig, MMoEConfig, ProjectorConfig, ReducerConfig
from leo_core.data.samples import Question, Region, Sample
from leo_core.embedded import CHAT_TEMPLATE, IMAGE_TOKEN, KEEP_ALL, PLAIN_DECODER
from leo_core.experts.expert import Prepared, VisionExpert, VisionExperts
from leo_core.geometry import polygon_geometry, rectangles
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.features import FeatureStore, write_shard
from leo_core.training.first_stage import stage_1
from leo_core.training.recipe import fit_scaling, replace_reducer, stage_2, stage_3
from leo_core.training.stages import STAGE_2, STAGE_3

NAMES = ("lion", "dog", "red", "bell")
STAGES = tuple(replace(stage, steps=7, batch=6, warmup=2, save_every=3, precision="float32") for stage in (STAGE_2, STAGE_3))


class Cells(VisionExpert):
    """Mean colours of a grid's cells, and their squares: width 6."""

    def __init__(self, name: str, rows: int, columns: int):
        super().__init__(name, name, 6)
        self.rows, self.columns = rows, columns

    def prepare(self, picture: Image.Image) -> Prepared:
        x, y = np.meshgrid(np.arange(self.columns), np.arange(self.rows))
        low = np.stack([x.ravel(), y.ravel()], axis=1) / (self.columns, self.rows) * picture.size
        boxes = rectangles(np.concatenate([low, low + np.array(picture.size) / (self.columns, self.rows)], axis=1))
        pixels = np.asarray(picture.resize((self.columns, self.rows), Image.Resampling.BOX), dtype=np.float32).reshape(-1, 3) / 255
        return Prepared((torch.from_numpy(pixels),), polygon_geometry(picture.size, boxes, boxes))

    def raw_features(self, prepared):
        return [torch.cat([one.pixels[0], one.pixels[0] ** 2], dim=1) for one in prepared]


def samples(count: int) -> list[Sample]:
    rng, made = np.random.default_rng(0), []
    for number in range(count):
        picture = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((80, 60), Image.Resampling.NEAREST)
        name = NAMES[number % len(NAMES)]
        asked = (Question("What is in the picture?", f"a {name}", "what", "objects"), Question("Is it red?", ("yes", "no")[number % 2], "yesno", "scenes"))
        made.append(Sample(f"scenes-{number}", picture, asked, (Region((10.0, 5.0, 60.0, 50.0), name),)))
    return made


def tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", IMAGE_TOKEN]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    backend.train_from_iterator(["user assistant What is in the picture? a lion a dog red bell yes no"] * 3, trainer)
    marks = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>", IMAGE_TOKEN]}
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=CHAT_TEMPLATE, **marks)


def decoder(vocabulary: int):
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=vocabulary, max_position_embeddings=256, initializer_range=0.15, **sizes))


def main(folder: Path, kill: tuple[str, int] | None, start: str = "ridge") -> None:
    torch.set_num_threads(1)
    experts, words = VisionExperts([Cells("fine", 6, 8), Cells("coarse", 2, 3)]), tokenizer()
    shard = folder / "features" / "shard-0000.safetensors"
    if not shard.exists():
        write_shard(shard, samples(24), experts)
    store = FeatureStore([shard], list(experts))
    fit_scaling(experts, store)
    processor = LeoProcessor(LeoImageProcessor([]), words, visual_tokens=KEEP_ALL.tokens)
    language = decoder(len(words))
    config = LeoConfig(
        text_config=language.config, reducer=ReducerConfig(tokens=4, projection=8, similarity="cosine", query_init="grid", position="similarity"),
        mmoe=MMoEConfig(rank=2, alpha=4.0, router_width=4), projector=ProjectorConfig(kind="residual"),
        image_token_id=words.convert_tokens_to_ids(IMAGE_TOKEN), decoder_source={"part": "lab"}, expert_widths=[6, 6],
    )  # fmt: skip

    def report(metrics) -> None:
        if kill == (metrics.stage, metrics.step):
            os.kill(os.getpid(), signal.SIGKILL)

    cold = replace(STAGES[0], name="stage1", rates={"projector.*": 1e-3}) if start == "cold" else None
    stage_1(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), language, experts, processor, store, cold, folder, report)
    stage_2(config, decoder(len(words)), experts, processor, store, STAGES[0], folder, report)
    from safetensors.torch import load_file, save_file

    from leo_core.model import LeoMini

    kept = LeoMini(replace_reducer(config, KEEP_ALL, PLAIN_DECODER), decoder(len(words)), experts)
    kept.load_state_dict(load_file(folder / "stage2" / "model.safetensors"), strict=False)
    model = stage_3(kept, config, processor, store, STAGES[1], folder, report)
    trained = {name: value.contiguous() for name, value in model.state_dict().items() if name.startswith(("reducer", "projector")) or "lora" in name or "router" in name}
    save_file(trained, folder / "result.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 3 else None, os.environ.get("LAB_START", "ridge"))
