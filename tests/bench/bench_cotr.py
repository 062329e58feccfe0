"""CoTR's fast path against the naive form: python tests/bench/bench_cotr.py

4 experts x 576 tokens, widths 1024/1024/768/2048, 64 output tokens, projection 256, batch 1, float32. The naive form
projects every I_i, pools, adds four score products, takes the softmax and the product: it is the explaining path. By
operation count 2.6x is the most: queries folded once per model, 2 N^V N d + N d per sample and expert against
N d d_proj + N^V N (d_proj + d).
"""

import torch
from timing import medians, report

from leo_core.config import ReducerConfig
from leo_core.cotr import CoTR, pooled
from leo_core.experts.expert import PictureFeatures

WIDTHS, TOKENS, TEXT = (1024, 1024, 768, 2048), 576, 2048


def inputs():
    torch.manual_seed(0)
    features = tuple(torch.randn(1, TOKENS, width) for width in WIDTHS)
    masks = tuple(torch.ones(1, TOKENS, dtype=torch.bool) for _ in WIDTHS)
    boxes = tuple(torch.rand(1, TOKENS, 4) for _ in WIDTHS)
    return PictureFeatures(features, masks, boxes), torch.randn(1, 12, TEXT), torch.ones(1, 12, dtype=torch.bool)


def naive(cotr: CoTR, pictures: PictureFeatures, text, text_mask):
    """The paper's form, straight."""
    projected = [proj(rows) for proj, rows in zip(cotr.token_proj, pictures.features, strict=True)]
    pools = [pooled(rows, mask, "mean") for rows, mask in zip(projected, pictures.masks, strict=True)]
    question = pooled(cotr.text_proj(text), text_mask, "mean")
    reduced = []
    for i, rows in enumerate(projected):
        a, b = cotr.scales[i]
        query = a * cotr.query_proj[i](cotr.query[i]) @ rows.transpose(1, 2)
        own = b * pools[i][:, None] @ rows.transpose(1, 2)
        cross = b * sum(pools[j] for j in range(len(pools)) if j != i)[:, None] @ rows.transpose(1, 2)
        asked = b * question[:, None] @ rows.transpose(1, 2)
        reduced.append((query + own + cross + asked).softmax(dim=-1) @ pictures.features[i])
    return tuple(reduced)


def main() -> None:
    cotr = CoTR(WIDTHS, TEXT, ReducerConfig(tokens=64, projection=256, scale="sqrt_proj"))
    pictures, text, mask = inputs()
    with torch.no_grad():
        difference = max((a - b).abs().max().item() for a, b in zip(cotr(pictures, text, mask), naive(cotr, pictures, text, mask), strict=True))
        cotr.eval()
        seconds = medians({"naive": lambda: naive(cotr, pictures, text, mask), "fast": lambda: cotr(pictures, text, mask)})
    report(f"CoTR inference (largest difference {difference:.1e})", seconds, "naive")

    def backward(form):
        cotr.zero_grad()
        sum(tokens.square().mean() for tokens in form()).backward()

    cotr.train()
    seconds = medians({"naive": lambda: backward(lambda: naive(cotr, pictures, text, mask)), "fast": lambda: backward(lambda: cotr(pictures, text, mask))})
    report("CoTR forward + backward", seconds, "naive")


if __name__ == "__main__":
    main()
