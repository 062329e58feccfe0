"""Charts with three to five labelled values: vertical and horizontal bars, a pie, a line; drawn with Pillow."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from leo_core.data.backgrounds import LONG_SIDE, jittered
from leo_core.data.chart_facts import Chart, invent
from leo_core.data.chart_questions import ask_chart
from leo_core.data.fonts import UPRIGHT, any_face, font
from leo_core.data.samples import Box, Region, Sample
from leo_core.data.scenes import IconSource

PAPERS = ((255, 255, 255), (250, 248, 240), (240, 245, 250), (245, 245, 245))
INK = (30, 30, 35)
FONT_SIZES = (14, 19)
SLOT = 62
"""Least width in pixels for one label of a row."""

Pen, Face = ImageDraw.ImageDraw, ImageFont.FreeTypeFont
Size, Rgb = tuple[int, int], tuple[int, int, int]


def draw_chart(rng: np.random.Generator, source: IconSource, name: str) -> Sample:
    """A sample of the charts domain."""
    chart = invent(rng)
    narrowest = 320 if chart.kind == "pie" else SLOT * len(chart.values) + 40
    width = int(rng.integers(narrowest, 421))
    height = int(np.clip(width * rng.uniform(0.72, 1.15), 280 if chart.kind == "pie" else LONG_SIDE[0], 420))
    picture = Image.new("RGB", (width, height), PAPERS[rng.integers(len(PAPERS))])
    pen = ImageDraw.Draw(picture)
    face = _fitting(rng, chart, (width - 32) / len(chart.values))
    rgbs = [tuple(int(value) for value in jittered(rng, fill)) for fill in chart.fills]
    paint = {"vertical": _vertical, "horizontal": _horizontal, "pie": _pie, "line": _line}[chart.kind]
    regions = paint(pen, (width, height), chart, face, rgbs)
    return Sample(name, picture, ask_chart(rng, chart), tuple(regions))


def _fitting(rng: np.random.Generator, chart: Chart, slot: float) -> Face:
    """A random face, at the largest of FONT_SIZES up to a random one whose labels fit into `slot` pixels."""
    name, size = any_face(rng, UPRIGHT), int(rng.integers(FONT_SIZES[0] + 1, FONT_SIZES[1] + 1))
    while size > FONT_SIZES[0] and max(font(name, size).getlength(label) for label in chart.labels) > 0.86 * slot:
        size -= 1
    return font(name, size)


def _write(pen: Pen, at: tuple[float, float], text: str, face: Face, anchor: str = "mm", ink: Rgb = INK) -> Box:
    """Write one label; returns the box of its ink."""
    pen.text(at, text, font=face, fill=ink, anchor=anchor)
    return pen.textbbox(at, text, font=face, anchor=anchor)


def _part(chart: Chart, i: int, label: Box, number: Box, area: Box | None = None) -> list[Region]:
    """What is named of part i: its label, its printed value, and its colour where it fills an area."""
    return [Region(label, chart.labels[i]), Region(number, chart.printed[i])] + ([Region(area, chart.fills[i])] if area else [])


def _vertical(pen: Pen, size: Size, chart: Chart, face: Face, rgbs: list[Rgb]) -> list[Region]:
    (width, height), line = size, face.size * 1.5
    base, top, slot = height - line - 4, line + 6, (width - 24) / len(chart.values)
    pen.line((10, base, width - 10, base), fill=INK, width=2)
    regions = []
    for i, (label, value, printed, rgb) in enumerate(zip(chart.labels, chart.values, chart.printed, rgbs, strict=True)):
        middle, tip = 12 + slot * (i + 0.5), base - (base - top) * value / max(chart.values)
        bar = (middle - slot * 0.32, tip, middle + slot * 0.32, base)
        pen.rectangle(bar, fill=rgb)
        number = _write(pen, (middle, tip - face.size * 0.7), printed, face)
        regions += _part(chart, i, _write(pen, (middle, base + line / 2 + 2), label, face), number, bar)
    return regions


def _horizontal(pen: Pen, size: Size, chart: Chart, face: Face, rgbs: list[Rgb]) -> list[Region]:
    width, height = size
    left = 16 + max(face.getlength(label) for label in chart.labels)
    right, slot = width - 14 - face.getlength("100") - 6, (height - 20) / len(chart.values)
    pen.line((left, 8, left, height - 8), fill=INK, width=2)
    regions = []
    for i, (label, value, printed, rgb) in enumerate(zip(chart.labels, chart.values, chart.printed, rgbs, strict=True)):
        middle, tip = 10 + slot * (i + 0.5), left + (right - left) * value / max(chart.values)
        bar = (left + 1, middle - slot * 0.3, tip, middle + slot * 0.3)
        pen.rectangle(bar, fill=rgb)
        number = _write(pen, (tip + 6, middle), printed, face, "lm")
        regions += _part(chart, i, _write(pen, (left - 6, middle), label, face, "rm"), number, bar)
    return regions


def _pie(pen: Pen, size: Size, chart: Chart, face: Face, rgbs: list[Rgb]) -> list[Region]:
    """A pie of disjoint slices; each label stands outside at the middle of its slice, its value inside."""
    width, height = size
    margin = max(face.getlength(label) for label in chart.labels) + 14
    radius = min(width / 2 - margin, height / 2 - 1.8 * face.size - 6)
    centre, start, regions = (width / 2, height / 2), -90.0, []
    for i, (label, value, printed, rgb) in enumerate(zip(chart.labels, chart.values, chart.printed, rgbs, strict=True)):
        end = start + 360 * value / sum(chart.values)
        box = (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)
        pen.pieslice(box, start, end, fill=rgb, outline=(255, 255, 255), width=2)
        angle = np.radians((start + end) / 2)
        x = centre[0] + np.cos(angle) * (radius + 8 + abs(np.cos(angle)) * (margin - 14) / 2)
        y = centre[1] + np.sin(angle) * (radius + 8 + abs(np.sin(angle)) * face.size * 1.1)
        written = _write(pen, (x, y), label, face)
        inside = (centre[0] + np.cos(angle) * radius * 0.66, centre[1] + np.sin(angle) * radius * 0.66)
        number = _write(pen, inside, printed, face, ink=INK if np.dot(rgb, (0.3, 0.59, 0.11)) > 110 else PAPERS[0])
        x, y = centre[0] + np.cos(angle) * radius * 0.5, centre[1] + np.sin(angle) * radius * 0.5
        regions += _part(chart, i, written, number, (x - radius / 4, y - radius / 4, x + radius / 4, y + radius / 4))
        start = end
    return regions


def _line(pen: Pen, size: Size, chart: Chart, face: Face, rgbs: list[Rgb]) -> list[Region]:
    (width, height), line = size, face.size * 1.5
    base, top, slot = height - line - 6, line + 8, (width - 32) / len(chart.values)
    pen.line((12, base, width - 10, base), fill=INK, width=2)
    pen.line((12, top - 10, 12, base), fill=INK, width=2)
    low, values = base - 1.6 * face.size, chart.values
    points = [(16 + slot * (i + 0.5), low - (low - top) * value / max(values)) for i, value in enumerate(values)]
    pen.line(points, fill=rgbs[0], width=4)
    regions = []
    for i, (label, printed, (x, y)) in enumerate(zip(chart.labels, chart.printed, points, strict=True)):
        valley = all(values[j] > values[i] for j in (i - 1, i + 1) if 0 <= j < len(values))
        pen.ellipse((x - 5, y - 5, x + 5, y + 5), fill=rgbs[0])
        number = _write(pen, (x, y + face.size * (1.0 if valley else -0.95)), printed, face)
        regions += _part(chart, i, _write(pen, (x, base + line / 2 + 2), label, face), number)
    return regions
