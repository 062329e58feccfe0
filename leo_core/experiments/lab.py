"""The lab: cached features of a few vision experts, a small decoder's start, a tokenizer; everything a run needs, offline.

All pictures are standardised and padded once and questions tokenised once, so that a training step is nothing but the model.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Int
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedTokenizerFast

from leo_core.checkpoint import ASSETS
from leo_core.config import LeoConfig, ProjectorConfig
from leo_core.data.samples import Question
from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
from leo_core.errors import InputError
from leo_core.experiments.lab_sizes import EXPERTS, HEADS, HIDDEN, INNER, LAYERS
from leo_core.experts.expert import PictureFeatures
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.training.features import FeatureStore

FOLDER = ASSETS / "lab"
STARTS = {"stage2": "start.safetensors", "stage2_without_stage1": "start-without-stage1.safetensors"}
"""Common starts of stage 3: all tokens, with the projector from stage 1 or from nothing."""
FILES = ("train.safetensors", "test.safetensors", *STARTS.values(), "tokenizer.json")
"""What decides the result of a run: their bytes are the lab's hash."""


@dataclass(frozen=True)
class Asked:
    """A question of a picture as tokens. question: the user's text; after: template marks; answer: end mark included."""

    picture: int
    question: Question
    tokens: tuple[int, ...]
    after: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class LabSet:
    """Pictures with their questions. features: of all pictures, standardised and padded."""

    store: FeatureStore
    features: PictureFeatures
    questions: tuple[Asked, ...]

    def of_picture(self) -> list[list[int]]:
        """Numbers of the questions of each picture."""
        numbers = [[] for _ in range(len(self.store))]
        for number, asked in enumerate(self.questions):
            numbers[asked.picture].append(number)
        return numbers


class Lab:
    """Raises InputError where files are missing. folder: where the lab lies (default: the one that is shipped)."""

    def __init__(self, folder: Path = FOLDER):
        self.folder = folder
        missing = [name for name in FILES[:2] + FILES[-1:] if not (folder / name).exists()]
        if missing:
            raise InputError(f"The lab in {folder} lacks {missing[0]}: restore it, or build it with 'python -m leo_core experiment lab'.")
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        self.processor = self.new_processor()

    def new_processor(self) -> LeoProcessor:
        """Of the lab's tokenizer, with places for all tokens."""
        return LeoProcessor(LeoImageProcessor([]), self.tokenizer, image_token="<picture>", visual_tokens=KEEP_ALL.tokens)

    @cached_property
    def train(self) -> LabSet:
        return self._set("train")

    @cached_property
    def test(self) -> LabSet:
        return self._set("test")

    @cached_property
    def hash(self) -> str:
        """sha256 over the lab's files, in order."""
        digest = hashlib.sha256()
        for name in FILES:
            digest.update((self.folder / name).read_bytes())
        return digest.hexdigest()

    def start(self, name: str) -> dict[str, Tensor]:
        """Weights of decoder, projector and reducer after stage 2, float32."""
        return {key: value.float() for key, value in load_file(self.folder / STARTS[name]).items()}

    def config(self, reducer=KEEP_ALL, mmoe=PLAIN_DECODER) -> LeoConfig:
        """The lab model's configuration with a reducer and an MMoE."""
        text = AutoConfig.for_model("llama", **self.decoder_settings)
        return LeoConfig(
            text_config=text, reducer=reducer, mmoe=mmoe, projector=ProjectorConfig(kind="residual"),
            image_token_id=self.processor.image_token_id, expert_widths=[self.train.store.width(name) for name in EXPERTS],
        )  # fmt: skip

    @property
    def decoder_settings(self) -> dict:
        ids = {"bos_token_id": None, "eos_token_id": self.tokenizer.eos_token_id, "pad_token_id": self.tokenizer.pad_token_id}
        return {
            "vocab_size": len(self.tokenizer), "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "max_position_embeddings": 512, "tie_word_embeddings": True, **ids,
        }  # fmt: skip

    def _set(self, name: str) -> LabSet:
        store = FeatureStore([self.folder / f"{name}.safetensors"], EXPERTS)
        reference = store if name == "train" else self.train.store
        store._scaling = {one: reference.scaling(one) for one in EXPERTS}
        features = store.features(torch.arange(len(store)))
        features = PictureFeatures(features.features, features.masks, tuple(boxes.float() for boxes in features.boxes))
        return LabSet(store, features, tuple(self._asked([(i, question) for i, sample in enumerate(store.samples) for question in sample.questions])))

    def _asked(self, pairs: Sequence[tuple[int, Question]]) -> list[Asked]:
        """All questions of a set at once: what the processor does to one, for thousands in a second."""
        *_, (_, _, after) = self.processor.segments(0, pairs[0][1].text, None)
        plain = lambda texts: self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]  # noqa: E731
        tokens, answers = plain([question.text for _, question in pairs]), plain([question.answer for _, question in pairs])
        end = (self.tokenizer.eos_token_id,)
        return [
            Asked(picture, question, tuple(ids), tuple(after), (*answer, *end))
            for (picture, question), ids, answer in zip(pairs, tokens, answers, strict=True)
        ]

    def rows(self, asked: Sequence[Asked], places: int, answered: bool = True) -> dict[str, Int[Tensor, "b s"]]:
        """input_ids, attention_mask, question_mask and labels, left padded; `places` visual tokens before each question."""
        place, pad, data = self.processor.image_token_id, self.tokenizer.pad_token_id, []
        for one in asked:
            answer = one.answer if answered else ()
            data.append(((place,) * places + one.tokens + one.after + answer, places, len(one.tokens), len(answer)))
        longest = max(len(ids) for ids, *_ in data)
        ids, labels = torch.full((len(data), longest), pad), torch.full((len(data), longest), -100)
        mask, question = torch.zeros(len(data), longest, dtype=torch.long), torch.zeros(len(data), longest, dtype=torch.bool)
        for row, (tokens, before, length, answer) in enumerate(data):
            first = longest - len(tokens)
            ids[row, first:], mask[row, first:] = torch.tensor(tokens), 1
            question[row, first + before : first + before + length] = True
            if answer:
                labels[row, -answer:] = ids[row, -answer:]
        return {"input_ids": ids, "attention_mask": mask, "question_mask": question, "labels": labels}
