"""Ten questions about photographs that come with scikit-image and scikit-learn: python assets/embedded/ask_photographs.py

Writes photographs.json. The model has seen no photograph in training; good or bad, the answers stand in its card.
Needs scikit-image and scikit-learn.
"""

import json
from pathlib import Path

from PIL import Image
from skimage import data
from sklearn.datasets import load_sample_image

from leo_core.checkpoint import load
from leo_core.commands.ready import fetched_parts, quiet_libraries
from leo_core.tracing.run import ask, trace_run

QUESTIONS = (
    ("chelsea", "Is there a cat in the picture?", "yes"), ("chelsea", "What is in the picture?", "a cat"),
    ("coffee", "Is there a cup in the picture?", "yes"), ("coffee", "What is this?", "a cup"),
    ("astronaut", "Is there a dog in the picture?", "no"), ("rocket", "Is there a rocket in the picture?", "yes"),
    ("page", "What kind of chart is this?", "none: it is a page of text"), ("china.jpg", "Is there a castle in the picture?", "no: a pavilion"),
    ("flower.jpg", "What is in the picture?", "a flower"), ("flower.jpg", "What colour is the background?", "green or black"),
)  # fmt: skip


def main() -> None:
    quiet_libraries()
    model, processor = load(parts=fetched_parts())
    rows = []
    for name, question, expected in QUESTIONS:
        array = load_sample_image(name) if name.endswith(".jpg") else getattr(data, name)()
        trace = trace_run(model, processor, ask(model, processor, [Image.fromarray(array).convert("RGB")], question))
        rows.append({"picture": name, "question": question, "expected": expected, "answer": trace.answer, "probability": float(trace.probability.prod())})
        print(rows[-1])
    Path(__file__).with_name("photographs.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
