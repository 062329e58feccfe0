"""Known failures with their pictures: python assets/embedded/show_failures.py RUN

One question for each kind that the evaluation of RUN got wrong on unseen scenes, the surest wrong answer first: the kinds
with the most wrong answers come first. The pictures are drawn again from their seeds; writes failures/*.png and
failures.json. Needs the icons that `python -m leo_core data build` fetches.
"""

import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path

from leo_core.data import Icons, fetch_packs
from leo_core.data.icons import STYLES, UNSEEN_STYLE
from leo_core.data.sets import pictures, set_named
from leo_core.files import cache_folder
from leo_core.training.evaluate import Graded, read_graded

MOST = 8
HERE = Path(__file__).parent


def chosen(graded: list[Graded]) -> list[Graded]:
    """One wrong answer of each kind, that with the least likely right answer; kinds by their number of wrong answers."""
    wrong = defaultdict(list)
    for one in graded:
        if not one.right():
            wrong[one.question.domain, one.question.kind].append(one)
    kinds = sorted(wrong.values(), key=len, reverse=True)[:MOST]
    return [min(members, key=lambda one: one.log_probability["picture"]) for members in kinds]


def main(run: Path) -> None:
    scenes = set_named("new_scenes")
    icons = Icons(fetch_packs(cache_folder() / "icons"), (*STYLES, UNSEEN_STYLE))
    shutil.rmtree(HERE / "failures", ignore_errors=True)
    (HERE / "failures").mkdir()
    rows = []
    for one in chosen(read_graded(run / "evaluation" / "new_scenes.jsonl")):
        sample = next(pictures(scenes, icons, 1, one.picture))
        if one.question.text not in [question.text for question in sample.questions]:
            raise SystemExit(f"Picture {one.picture} of the unseen scenes is another one today: evaluate {run} again.")
        sample.picture.quantize(128).save(HERE / "failures" / f"{sample.name}.png", optimize=True)
        question = one.question
        rows.append({"picture": f"failures/{sample.name}.png", "question": question.text, "expected": question.answer, "kind": question.kind,
                     "domain": question.domain, "answer": one.answers["picture"]})  # fmt: skip
        print(rows[-1])
    (HERE / "failures.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
