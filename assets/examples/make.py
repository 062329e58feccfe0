"""Draw the six example pictures again: python assets/examples/make.py ICON_FOLDER (see leo_core.data.fetch_packs)."""

import json
import sys
from pathlib import Path

from PIL import Image
from skimage import data

from leo_core.data import Icons, fetch_packs, generate

HERE = Path(__file__).parent
SEED = 424242
WANTED = {"scenes": (3, "Where is the"), "reading": (1, ""), "charts": (1, "most"), "documents": (1, "title")}


def main(folder: str) -> None:
    icons = Icons(fetch_packs(Path(folder)))
    drawn = {domain: list(generate(icons, 24, SEED, domains={domain: 1.0})) for domain in WANTED}
    scene = next(s for s in drawn["scenes"] if len(s.regions) >= 3 and any(q.kind == "where" for q in s.questions))
    single = next(s for s in drawn["scenes"] if len(s.regions) == 1)
    chosen = [
        ("scene", scene, next(q.text for q in scene.questions if q.kind == "where")),
        ("one-thing", single, "What is in the picture?"),
        ("word", next(s for s in drawn["reading"] if s.questions[0].kind == "word"), None),
        ("chart", next(s for s in drawn["charts"] if any(q.kind == "largest" for q in s.questions)), None),
    ]
    listed = []
    for name, sample, question in chosen:
        question = question or next(q.text for q in sample.questions if q.kind in ("word", "largest"))
        sample.picture.save(HERE / f"{name}.png", optimize=True)
        listed.append({"picture": f"{name}.png", "question": question})
    for name, array, question in (("coffee", data.coffee(), "What is in the picture?"), ("cat", data.chelsea(), "Is there a cat in the picture?")):
        Image.fromarray(array).save(HERE / f"{name}.jpg", quality=88)
        listed.append({"picture": f"{name}.jpg", "question": question})
    (HERE / "examples.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
