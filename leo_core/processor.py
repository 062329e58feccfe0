"""From pictures and a question to the model's inputs, with the role of every position."""

from collections.abc import Sequence

import torch
from PIL import Image
from transformers import BatchFeature, ProcessorMixin
from transformers.image_processing_utils import BaseImageProcessor

from leo_core.errors import InputError
from leo_core.experts.expert import Prepared, VisionExperts
from leo_core.picture import load_picture
from leo_core.roles import ANSWER, PAD, PICTURE, QUESTION, SPECIAL, SYSTEM

MAX_QUESTION = 2000
"""Characters. Longer questions push the picture out of a small decoder's reach; they are refused, not cut."""

_MARK, _SYSTEM_MARK = "\ue000", "\ue001"  # private-use characters: where user's and system's texts go in the chat template


class LeoImageProcessor(BaseImageProcessor):
    """Every expert's own preprocessing. experts: their settings as in LeoConfig.experts; `attach` gives the finished ones."""

    model_input_names = ["prepared"]

    def __init__(self, experts: Sequence[dict] = (), **kwargs):
        super().__init__(**kwargs)
        self.experts = list(experts)
        self._vision_experts: VisionExperts | None = None

    def attach(self, vision_experts: VisionExperts) -> "LeoImageProcessor":
        """Use these experts' preprocessing; returns self."""
        self._vision_experts = vision_experts
        return self

    def __call__(self, pictures: Sequence[Image.Image]) -> dict[str, list[Prepared]]:
        if self._vision_experts is None:
            raise InputError("This image processor has no vision experts yet: load model and processor with leo_core.load.")
        return self._vision_experts.prepare(pictures)

    def to_dict(self) -> dict:
        kept = {name: value for name, value in self.__dict__.items() if name != "_vision_experts"}
        return {**kept, "image_processor_type": type(self).__name__}


class LeoProcessor(ProcessorMixin):
    """One image_processor (all experts' settings) and one tokenizer.

    visual_tokens: places per picture, as many as the reducer yields. image_token: the reserved token that marks them.
    answer_prefix: what the decoder learned to write before an answer. A space makes a word at the start of an answer the
    same token as the word inside a sentence, which is the one that a projector learns to imitate.
    """

    def __init__(self, image_processor=None, tokenizer=None, image_token="<file_sep>", visual_tokens=16, chat_template=None, answer_prefix="", **kwargs):
        self.image_token, self.visual_tokens, self.answer_prefix = image_token, visual_tokens, answer_prefix
        super().__init__(image_processor, tokenizer, chat_template=chat_template)
        self.image_token_id = tokenizer.convert_tokens_to_ids(image_token)

    @classmethod
    def get_attributes(cls):
        return ["image_processor", "tokenizer"]

    def __call__(
        self,
        pictures: Sequence | None = None,
        questions: str | Sequence[str] = "",
        answers: str | Sequence[str] | None = None,
        padding_side: str = "left",
        system: str | None = None,
        prepare: bool = True,
    ) -> BatchFeature:
        """Inputs of LeoMini for one or more samples.

        pictures: for each sample a picture, a list of pictures, or None (anything `load_picture` takes); for a single
            question a bare picture. answers: for teacher forcing; labels then hold their tokens and the end mark.
        Returns input_ids, attention_mask, question_mask, roles, picture_index (all (b, s)), picture_owner (p,), labels
        when answers are given, `prepared` for VisionExperts, and `pictures` as loaded. prepare=False leaves the pixels out.
        """
        questions = [questions] if isinstance(questions, str) else list(questions)
        answers = [answers] if isinstance(answers, str) else answers
        if not questions:
            raise InputError("There is no question: give at least one.")
        if answers is not None and len(answers) != len(questions):
            raise InputError(f"There are {len(answers)} answers for {len(questions)} questions; give one each.")
        if len(questions) == 1 and not (isinstance(pictures, (list, tuple)) and len(pictures) == 1 and isinstance(pictures[0], (list, tuple))):
            pictures = [pictures]
        groups = [_as_list(group) for group in (pictures if pictures is not None else [None] * len(questions))]
        if len(groups) != len(questions):
            raise InputError(f"There are {len(groups)} pictures or groups of pictures for {len(questions)} questions; give one each.")
        loaded = [[load_picture(picture) for picture in group] for group in groups] if prepare else groups
        rows = [
            self._row(len(group), question, system, answers[index] if answers is not None else None)
            for index, (group, question) in enumerate(zip(loaded, questions, strict=True))
        ]
        data = self._pad(rows, padding_side)
        if answers is None:
            data.pop("labels")
        flat = [picture for group in loaded for picture in group]
        owner = [index for index, group in enumerate(loaded) for _ in group]
        if flat:
            data["picture_owner"] = torch.tensor(owner)
            if prepare:
                data["prepared"], data["images"] = self.image_processor(flat), flat
        return BatchFeature(data)

    def segments(self, pictures: int, question: str, system: str | None) -> list[tuple[int, int, list[int]]]:
        """(role, picture number or -1, token ids) in order, from the tokenizer's chat template and the inputs alone."""
        if len(question) > MAX_QUESTION:
            raise InputError(f"The question has {len(question)} characters; at most {MAX_QUESTION} are allowed: shorten it.")
        if not question.strip():
            raise InputError("There is no question: type one, for example 'What is in the picture?'.")
        messages = [{"role": "system", "content": _SYSTEM_MARK}] if system else []
        text = self.tokenizer.apply_chat_template(
            [*messages, {"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
        )
        before, after = text.split(_MARK)
        first, *rest = before.split(_SYSTEM_MARK)
        parts = [(SPECIAL, -1, self._template_ids(first))]
        for template in rest:  # none without a system prompt, one with it
            parts += [(SYSTEM, -1, self.plain_ids(system)), (SPECIAL, -1, self._template_ids(template))]
        newline = self.plain_ids("\n")
        for number in range(pictures):
            parts += [(PICTURE, number, [self.image_token_id] * self.visual_tokens), (SPECIAL, -1, newline)]
        return [*parts, (QUESTION, -1, self.plain_ids(question)), (SPECIAL, -1, self._template_ids(after))]

    def plain_ids(self, text: str) -> list[int]:
        """Tokens of a user's text: chat marks and the picture placeholder inside it stay plain text."""
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    def answer_ids(self, answer: str) -> list[int]:
        """Tokens of an answer as the decoder writes it, end mark included."""
        return [*self.plain_ids(self.answer_prefix + answer), self.tokenizer.eos_token_id]

    def _template_ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=False)["input_ids"] if text else []

    def _row(self, pictures: int, question: str, system: str | None, answer: str | None) -> dict[str, list[int]]:
        parts = self.segments(pictures, question, system)
        if answer is not None:
            parts = [*parts, (ANSWER, -1, self.answer_ids(answer))]
        row = {"input_ids": [], "roles": [], "picture_index": []}
        for role, number, ids in parts:
            row["input_ids"] += ids
            row["roles"] += [role] * len(ids)
            row["picture_index"] += [number] * len(ids)
        return row

    def _pad(self, rows: list[dict[str, list[int]]], side: str) -> dict[str, torch.Tensor]:
        length = max(len(row["input_ids"]) for row in rows)
        pad_id = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else self.tokenizer.eos_token_id
        fill = {"input_ids": pad_id, "roles": PAD, "picture_index": -1}
        data = {}
        for name, value in fill.items():
            padded = [[value] * (length - len(row[name])) for row in rows]
            data[name] = torch.tensor([p + row[name] if side == "left" else row[name] + p for p, row in zip(padded, rows, strict=True)])
        data["attention_mask"] = (data["roles"] != PAD).long()
        data["question_mask"] = data["roles"] == QUESTION
        data["labels"] = data["input_ids"].masked_fill(data["roles"] != ANSWER, -100)
        return data


def _as_list(group) -> list:
    if group is None:
        return []
    return list(group) if isinstance(group, (list, tuple)) else [group]
