"""Small pages: a title, paragraphs, perhaps a table and a figure, in one or two columns."""

from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw

from leo_core.data.asking import Group, choose, single, yes_and_no
from leo_core.data.backgrounds import COLOURS, background
from leo_core.data.english import NUMBERS
from leo_core.data.fonts import UPRIGHT, any_face, font
from leo_core.data.samples import Box, Question, Region, Sample
from leo_core.data.scenes import IconSource
from leo_core.data.text import word_regions, words

INK = (25, 25, 25)
GREY = (95, 95, 95)
MARGIN = 18
TITLE_SIZES = (26, 32)
TEXT_SIZE = 9
CELL_SIZE = 12
HEADING_SIZE = 14
LINE = 12

TITLE = ("What is the title?", "What is the title of the page?", "Read the title.", "What does the title say?")
COLUMNS = ("How many columns of text are there?", "Does the page have one column or two?", "How many columns does the page have?",
           "Is the text set in one column or two?")  # fmt: skip
HAS = ("Is there a {thing} on the page?", "Does the page have a {thing}?", "Can you see a {thing} on this page?",
       "Does the document contain a {thing}?")  # fmt: skip
IS_TITLE = ('Is the title "{text}"?', 'Does the title say "{text}"?', 'Is this page called "{text}"?', 'Does the page have the title "{text}"?')
ROWS = ("How many rows does the table have?", "How many rows are in the table?", "Count the rows of the table.",
        "How many table rows are there?")  # fmt: skip
SECTIONS = ("Summary", "Method", "Results", "Notes", "Budget", "History", "Contact", "Plans", "Goals", "Safety", "Travel", "Prices")
SECTION = ("What is the {which} section called?", "What is the heading of the {which} section?", "Which section comes {which}?",
           "Read the {which} heading.")  # fmt: skip
HEADERS = ("Price", "Age", "Size", "Year", "Weight", "Score", "Stock", "Height")
CELL = ("What is the {column} of {row}?", "Which {column} does {row} have?", "What {column} does the table give for {row}?",
        "Read the {column} of {row}.")  # fmt: skip
PLACE = ("Where is the {thing}, top or bottom?", "Is the {thing} near the top or the bottom of the page?",
         "In which half of the page is the {thing}, top or bottom?", "Is the {thing} in the top or the bottom half?")  # fmt: skip


@dataclass
class Page:
    """A page in the making: what is on it. headings: in reading order; cells: (column, row, number) of the table."""

    picture: Image.Image
    columns: int
    regions: list[Region] = field(default_factory=list)
    rows: int = 0
    headings: list[str] = field(default_factory=list)
    cells: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def pen(self) -> ImageDraw.ImageDraw:
        return ImageDraw.Draw(self.picture)

    def box_of(self, thing: str) -> Box | None:
        return next((region.box for region in self.regions if region.phrase == thing), None)


def draw_document(rng: np.random.Generator, source: IconSource, name: str) -> Sample:
    """A sample of the documents domain. Columns, table and figure are drawn evenly and independently."""
    width = int(rng.integers(290, 351))
    height = int(min(448, width * rng.uniform(1.15, 1.42)))
    paper = tuple(int(value) for value in rng.integers(244, 256, 3))
    page = Page(Image.new("RGB", (width, height), paper), int(rng.integers(1, 3)))
    title, decoy = _title(rng), _title(rng)
    while decoy == title:
        decoy = _title(rng)
    top = _write_title(rng, page, title)
    things = [thing for thing in ("table", "figure") if rng.random() < 0.5]
    _fill(rng, page, [things[i] for i in rng.permutation(len(things))], top)
    return Sample(name, page.picture, _ask(rng, page, title, decoy), tuple(page.regions))


def _title(rng: np.random.Generator) -> str:
    return " ".join(words()[i].capitalize() for i in rng.integers(len(words()), size=rng.integers(1, 3)))


def _write_title(rng: np.random.Generator, page: Page, title: str) -> float:
    """The title at the top, centred or at the left; returns where the body begins (y)."""
    face_name, size = any_face(rng, UPRIGHT), int(rng.integers(*TITLE_SIZES))
    room = page.picture.width - 2 * MARGIN
    face = font(face_name, min(size, int(size * room / font(face_name, size).getlength(title))))
    at, anchor = ((page.picture.width / 2, MARGIN), "ma") if rng.random() < 0.5 else ((MARGIN, MARGIN), "la")
    page.pen.text(at, title, font=face, fill=INK, anchor=anchor)
    box = page.pen.textbbox(at, title, font=face, anchor=anchor)
    page.regions += word_regions(tuple(float(value) for value in box), title)
    return box[3] + 14


def _fill(rng: np.random.Generator, page: Page, things: list[str], top: float) -> None:
    """Text down every column, with each thing in a slot of its own: the body's halves, one thing in each."""
    width, bottom, gutter = page.picture.width, page.picture.height - MARGIN, 18
    across = (width - 2 * MARGIN - gutter * (page.columns - 1)) / page.columns
    middle = (top + bottom) / 2
    slots = [(column, half) for column in range(page.columns) for half in range(2)]
    taken = {0: "", 1: ""}
    order = [slots[i] for i in rng.permutation(len(slots))]
    placed: dict[tuple[int, int], str] = {}
    for thing in things:
        slot = next(slot for slot in order if not taken[slot[1]])
        taken[slot[1]], placed[slot] = thing, thing
    for column, half in slots:
        x, y = MARGIN + column * (across + gutter), (top, middle)[half]
        end, thing = (middle - 10, bottom)[half], placed.get((column, half))
        if (column, half) in ((0, 0), (page.columns - 1, 1)):
            y = _heading(rng, page, (x, y))
        if thing:
            below = rng.random() < 0.5
            tall = min(end - y - 3 * LINE, rng.uniform(0.6, 0.85) * (end - y))
            box = (x, end - tall, x + across, end) if below else (x, y, x + across, y + tall)
            page.regions.append(Region(box, thing))
            _table(rng, page, box) if thing == "table" else _figure(rng, page, box)
            y, end = (y, end - tall - 6) if below else (y + tall + 8, end)
        _paragraphs(rng, page, (x, y, x + across, end))


def _heading(rng: np.random.Generator, page: Page, at: tuple[float, float]) -> float:
    """A section's heading in bold; returns where its text begins (y)."""
    free = [name for name in SECTIONS if name not in page.headings]
    name, face = free[rng.integers(len(free))], font("DejaVuSans-Bold", HEADING_SIZE)
    page.pen.text(at, name, font=face, fill=INK)
    page.headings.append(name)
    page.regions.append(Region(tuple(float(value) for value in page.pen.textbbox(at, name, font=face)), name))
    return at[1] + 1.5 * HEADING_SIZE


def _paragraphs(rng: np.random.Generator, page: Page, box: Box) -> None:
    """Small grey text, ragged at the end of each paragraph."""
    pen, face = page.pen, font("DejaVuSans", TEXT_SIZE)
    x0, y, x1, y1 = box
    while y + TEXT_SIZE <= y1:
        last = rng.random() < 0.2
        room, line = (x1 - x0) * (rng.uniform(0.3, 0.7) if last else 1.0), ""
        while True:
            longer = f"{line} {words()[rng.integers(len(words()))]}".strip()
            if face.getlength(longer) > room:
                break
            line = longer
        pen.text((x0, y), line, font=face, fill=GREY)
        y += LINE * (1.7 if last else 1.0)


def _table(rng: np.random.Generator, page: Page, box: Box) -> None:
    """Ruled rows: a shaded one with the columns' names, then a name and its numbers in each."""
    pen, face, bold = page.pen, font("DejaVuSans", CELL_SIZE), font("DejaVuSans-Bold", CELL_SIZE)
    x0, y0, x1, y1 = box
    page.rows = int(rng.integers(2, max(3, min(5, int((y1 - y0) / (1.4 * CELL_SIZE))) + 1)))
    headers = [HEADERS[i] for i in rng.permutation(len(HEADERS))[: 1 if page.columns == 2 else int(rng.integers(1, 3))]]
    short = [word.capitalize() for word in words() if len(word) <= 6]
    names = [short[i] for i in rng.permutation(len(short))[: page.rows - 1]]
    down, across = (y1 - y0) / page.rows, (x1 - x0) / (1 + len(headers))
    pen.rectangle((x0, y0, x1, y0 + down), fill=(222, 228, 236))
    for row in range(page.rows + 1):
        pen.line((x0, y0 + row * down, x1, y0 + row * down), fill=INK)
    for column in range(len(headers) + 2):
        pen.line((x0 + column * across, y0, x0 + column * across, y1), fill=INK)

    def write(row: int, column: int, text: str, face) -> None:
        at = (x0 + (column + 0.5) * across, y0 + (row + 0.5) * down)
        pen.text(at, text, font=face, fill=INK, anchor="mm")
        page.regions.append(Region(tuple(float(value) for value in pen.textbbox(at, text, font=face, anchor="mm")), text))

    for column, header in enumerate(headers, start=1):
        write(0, column, header, bold)
    for row, name in enumerate(names, start=1):
        write(row, 0, name, face)
        for column, header in enumerate(headers, start=1):
            number = str(int(rng.integers(1, 1000)))
            write(row, column, number, face)
            page.cells.append((header, name, number))


def _figure(rng: np.random.Generator, page: Page, box: Box) -> None:
    """A framed picture: hills and a sun, or discs, in named colours."""
    x0, y0, x1, y1 = (int(value) for value in box)
    size = (x1 - x0, y1 - y0)
    names = [list(COLOURS)[i] for i in rng.permutation(len(COLOURS))[:4]]
    art = background(rng, size, names[0])
    pen = ImageDraw.Draw(art)
    if rng.random() < 0.5:
        base, peak = size[1], rng.uniform(0.2, 0.5, 2) * size[1]
        pen.polygon([(0, base), (size[0] * 0.35, peak[0]), (size[0] * 0.75, base)], fill=COLOURS[names[1]])
        pen.polygon([(size[0] * 0.4, base), (size[0] * 0.75, peak[1]), (size[0], base)], fill=COLOURS[names[2]])
    for name in names[1:]:
        radius = rng.uniform(0.08, 0.18) * min(size)
        x, y = rng.uniform(radius, size[0] - radius), rng.uniform(radius, size[1] - radius)
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=COLOURS[name])
    page.picture.paste(art, (x0, y0))
    page.pen.rectangle((x0, y0, x1, y1), outline=INK, width=2)


def _ask(rng: np.random.Generator, page: Page, title: str, decoy: str) -> tuple[Question, ...]:
    """Three to five questions; the title's yes comes with a no, tables and figures are there in half of the pages,
    and both are always asked for: asking only some pages would tell the answer."""

    def about(templates: tuple[str, ...], answer: str, kind: str, **fields: str) -> Group:
        return single(rng, templates, answer, kind, "documents", **fields)

    boxes = {thing: page.box_of(thing) for thing in ("table", "figure")}
    has = [about(HAS, "yes" if box else "no", f"has_{thing}", thing=thing) for thing, box in boxes.items()]
    optional = [about(COLUMNS, NUMBERS[page.columns], "columns")]
    optional.append(yes_and_no(rng, IS_TITLE, {"text": title}, {"text": decoy}, "is_title", "documents"))
    for thing, box in boxes.items():
        if box:
            half = "top" if box[1] + box[3] < page.picture.height else "bottom"
            optional.append(about(PLACE, half, "place", thing=thing))
    if page.rows:
        optional.append(about(ROWS, NUMBERS[page.rows], "rows"))
    if page.cells:
        column, row, number = page.cells[rng.integers(len(page.cells))]
        optional.append(about(CELL, number, "cell", column=column.lower(), row=row))
    section = int(rng.integers(2))
    optional.append(about(SECTION, page.headings[section].lower(), "section", which=("first", "second")[section]))
    return choose(rng, [about(TITLE, title.lower(), "title"), *has], optional)
