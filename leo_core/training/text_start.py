"""The start of CoTR's TEXT term in closed form: from a question onto what the tokens of the thing it names look like.

TEXT compares the pooled question with every token in a common space. A random projection of the question points nowhere
in that space, its gradient is small beside QUERY's, and in the minutes of a third stage it stays unused. Ridge
regression on training pictures gives the projection whose image of a question is nearest to the named thing's tokens,
less the picture's mean token.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from leo_core.cotr import CoTR, pooled
from leo_core.data.english import mentions
from leo_core.data.samples import Box, Question
from leo_core.data.scenes import CORNERS, corner_name
from leo_core.model import LeoMini
from leo_core.position import centred_in
from leo_core.processor import LeoProcessor
from leo_core.training.batches import question_batch
from leo_core.training.features import FeatureStore, StoredSample

PENALTY = 0.03
"""Of the ridge regression, as a share of the questions' mean square per channel summed over them: embeddings differ in scale."""
TEMPERATURE = 20.0
"""Of the fitted TEXT term, as QUERY's: before any training the loss of 240 questions is 0.90 without the term, 0.83 at 6, 0.74 at 20
and 0.97 at 40, where it begins to undo the grid."""


@torch.no_grad()
def start_text(model: LeoMini, processor: LeoProcessor, store: FeatureStore, most: int = 3000) -> int:
    """Fit `text_proj` on up to `most` pictures; returns the number of questions that name something on their picture.

    For a CoTR under cosine similarity; another reducer, and one whose questions name nothing, is left as it is.
    """
    cotr = model.reducer
    if not isinstance(cotr, CoTR) or cotr.config.similarity != "cosine":
        return 0
    questions, targets = [], []
    for index, sample in enumerate(store.samples[:most]):
        asked = [(question, boxes) for question in sample.questions if (boxes := named_boxes(sample, question))]
        if not asked:
            continue
        batch = question_batch(store, processor, [(index, question) for question, _ in asked], answered=False, device=model.device)
        text, mask = model.question(batch["input_ids"], batch["question_mask"])
        for (_, boxes), vector in zip(asked, pooled(text, mask, cotr.config.pool), strict=True):
            target = _named_against_all(cotr, store, index, torch.tensor(boxes) / torch.tensor([*sample.size, *sample.size]))
            if target is not None:
                questions.append(vector)
                targets.append(target)
    if questions:
        x, y = torch.stack(questions).double(), torch.stack(targets).double()
        gram = x.T @ x
        gram += PENALTY * gram.diagonal().mean() * torch.eye(len(gram), dtype=x.dtype, device=x.device)
        weight = torch.linalg.solve(gram, x.T @ y).T
        cotr.text_proj.weight.copy_(weight)
        cotr.temperature[3] = TEMPERATURE
    return len(questions)


def named_boxes(sample: StoredSample, question: Question) -> list[Box]:
    """Boxes of the things whose name stands in the question; of the corner that it names where it names no thing."""
    text = question.text.lower()
    boxes = [region.box for region in sample.regions if mentions(question.text, region.phrase)]
    if boxes or question.kind != "corner":
        return boxes
    width, height = sample.size
    return [
        (x * width / 2, y * height / 2, (x + 1) * width / 2, (y + 1) * height / 2) for x, y in CORNERS if corner_name((x, y)) in text
    ]


def _named_against_all(cotr: CoTR, store: FeatureStore, index: int, boxes: Float[Tensor, "k 4"]) -> Float[Tensor, "projection"] | None:
    """Summed over experts: mean similarity row of the tokens inside the boxes less that of all tokens."""
    device = next(cotr.parameters()).device
    pictures, boxes = store.features(torch.tensor([index])).to(device), boxes.to(device)
    keys, _ = cotr.located(pictures)
    total = None
    for project, key, places in zip(cotr.token_proj, keys, pictures.boxes, strict=True):
        rows, inside = F.normalize(project(key)[0], dim=-1), centred_in(places[0], boxes)
        if inside.any() and len(rows) > 1:
            difference = rows[inside].mean(dim=0) - rows.mean(dim=0)
            total = difference if total is None else total + difference
    return total
