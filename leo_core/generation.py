"""From prepared inputs to an answer: transformers' greedy decoding, with the probability of every token kept."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase, StoppingCriteria, StoppingCriteriaList

from leo_core.model import LeoMini

TOP_K = 8
"""Candidates kept for each answer token."""

OnToken = Callable[[str, float], None]
"""(answer so far, probability of its newest token): called after each token."""


@dataclass(frozen=True)
class Answer:
    """token_ids include the end mark when finished is True. log_probability: of each chosen token."""

    text: str
    token_ids: Int[Tensor, "a"]
    log_probability: Float[Tensor, "a"]
    top_ids: Int[Tensor, "a k"]
    top_probability: Float[Tensor, "a k"]
    finished: bool


class _Probabilities(LogitsProcessor):
    """Keeps what each step's distribution looked like; changes nothing."""

    def __init__(self):
        self.steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, input_ids, scores):
        log_probability = scores[0].float().log_softmax(dim=-1)
        top = log_probability.topk(min(TOP_K, log_probability.numel()))
        self.steps.append((log_probability, top.indices.cpu(), top.values.exp().cpu()))
        return scores


class _Listener(StoppingCriteria):
    """Tells the newest token, and ends the run when `stop` is set."""

    def __init__(self, prompt: int, tokenizer, probabilities: _Probabilities, stop: threading.Event | None, on_token: OnToken | None):
        self.prompt, self.tokenizer, self.probabilities, self.stop, self.on_token = prompt, tokenizer, probabilities, stop, on_token

    def __call__(self, input_ids, scores, **_):
        if self.on_token is not None:
            probability = self.probabilities.steps[-1][0][input_ids[0, -1]].exp().item()
            self.on_token(self.tokenizer.decode(input_ids[0, self.prompt :], skip_special_tokens=True), probability)
        stopped = self.stop is not None and self.stop.is_set()
        return torch.full((len(input_ids),), stopped, device=input_ids.device)


def generate_answer(
    model: LeoMini,
    tokenizer: PreTrainedTokenizerBase,
    inputs: dict,
    max_new_tokens: int = 48,
    stop: threading.Event | None = None,
    on_token: OnToken | None = None,
) -> Answer:
    """Greedy answer to one prompt (batch 1). inputs: keyword arguments of LeoMini.generate.

    stop: set it from another thread to end after the current token; the answer so far is returned, unfinished.
    """
    prompt = inputs["input_ids"].shape[1]
    probabilities = _Probabilities()
    listener = _Listener(prompt, tokenizer, probabilities, stop, on_token)
    output = model.generate(
        **inputs, max_new_tokens=max_new_tokens, do_sample=False, num_beams=1, pad_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id, logits_processor=LogitsProcessorList([probabilities]),
        stopping_criteria=StoppingCriteriaList([listener]),
    )  # fmt: skip
    ids = output[0, prompt:].cpu()
    logs = torch.stack([step[0][token] for step, token in zip(probabilities.steps, ids, strict=True)]).cpu()
    return Answer(
        text=tokenizer.decode(ids, skip_special_tokens=True).strip(),
        token_ids=ids,
        log_probability=logs,
        top_ids=torch.stack([step[1] for step in probabilities.steps]),
        top_probability=torch.stack([step[2] for step in probabilities.steps]),
        finished=bool(ids[-1] == tokenizer.eos_token_id),
    )
