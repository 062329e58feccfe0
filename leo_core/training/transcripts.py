"""A transcript of a picture: all its named things in reading order, as one more question of stage 2.

A question of its own says one word about a picture. A transcript asks every named place for its word, so each picture
seen once teaches as much as many questions: what captions do in LLaVA's first stage.
"""

from collections import Counter
from collections.abc import Sequence

from leo_core.data.english import counted, listed
from leo_core.data.samples import Box, Question
from leo_core.training.features import StoredSample

SEEN = ("List what you see and where.", "Which things are in the picture, and where are they?", "Describe the picture: what is where?")
CHARTED = ("Read the chart part by part.", "List the labels with their values.", "What are the labels, values and colours?")
WRITTEN = ("Read everything on the picture.", "Read all words from top to bottom.", "What is written here? Read it all.")
MOST = 24
"""Named things that one transcript lists; a page may hold more."""
KIND, DOMAIN = "transcript", "transcripts"


def transcript(sample: StoredSample) -> Question | None:
    """Things with their number and places, or the parts of a chart, or words in lower case; None for a picture without named regions."""
    if not sample.regions:
        return None
    ordered = reading_order([region.box for region in sample.regions], sample.size[1])
    regions = [sample.regions[i] for i in ordered][:MOST]
    asked = sum(map(ord, sample.name))  # a phrasing for each picture, the same in every pass
    if sample.name.startswith("charts"):  # as the generator orders them: a label with its value and its colour
        return Question(CHARTED[asked % len(CHARTED)], " ".join(region.phrase.lower() for region in sample.regions[:MOST]), KIND, DOMAIN)
    if not sample.name.startswith("scenes"):
        return Question(WRITTEN[asked % len(WRITTEN)], " ".join(region.phrase.lower() for region in regions), KIND, DOMAIN)
    numbers = listed([counted(number, name) for name, number in Counter(region.phrase for region in regions).items()])
    places = ", ".join(f"{region.phrase} {place(region.box, sample.size)}" for region in regions)
    return Question(SEEN[asked % len(SEEN)], f"{numbers}: {places}", KIND, DOMAIN)


def place(box: Box, size: tuple[int, int]) -> str:
    """`top left`, `left`, `middle` ...: in which third of the picture, each way, the box has its centre."""
    x, y = (box[0] + box[2]) / 2 / size[0], (box[1] + box[3]) / 2 / size[1]
    names = [("top", "", "bottom")[min(2, int(3 * y))], ("left", "", "right")[min(2, int(3 * x))]]
    return " ".join(filter(None, names)) or "middle"


def reading_order(boxes: Sequence[Box], height: float, band: float = 0.06) -> list[int]:
    """Indices from top to bottom, and from left to right among those whose centres are within `band` of the height of a row's first."""
    rows: list[tuple[float, list[int]]] = []
    for index in sorted(range(len(boxes)), key=lambda i: boxes[i][1] + boxes[i][3]):
        centre = (boxes[index][1] + boxes[index][3]) / 2
        if rows and centre - rows[-1][0] <= band * height:
            rows[-1][1].append(index)
        else:
            rows.append((centre, [index]))
    return [index for _, row in rows for index in sorted(row, key=lambda i: boxes[i][0])]
