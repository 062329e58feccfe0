"""A made-up icon pack: a dozen names as simple shapes in four styles, so that tests need neither npm nor the network."""

import json
from pathlib import Path

import pytest

from leo_core.data import Icons

NAMES = ("dog", "cat", "lion", "horse", "banana", "carrot", "pizza", "lemon", "bus", "bicycle", "umbrella", "owl")
SHAPES = {
    "noto": '<rect x="{a}" y="8" width="48" height="40" rx="{a}" fill="{c}"/>',
    "fluent": '<ellipse cx="32" cy="32" rx="26" ry="{b}" fill="{c}"/>',
    "openmoji": '<path d="M8 8h{b}v{b}h-{a}z" fill="{c}" stroke="#000"/>',
    "twemoji": '<circle cx="30" cy="30" r="{b}" fill="{c}"/>',
}
COLOURS = ("#a52", "#fa0", "#e33", "#35c", "#fe3", "#3a5", "#c3c", "#777", "#111", "#fff", "#0cc", "#852")


@pytest.fixture(scope="session")
def pack_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs")
    for style, shape in SHAPES.items():
        icons = {name: {"body": shape.format(a=4 + i, b=10 + i, c=COLOURS[i])} for i, name in enumerate(NAMES)}
        (folder / style).mkdir()
        (folder / style / "icons.json").write_text(json.dumps({"prefix": style, "icons": icons, "width": 64, "height": 64}))
    return folder


@pytest.fixture(scope="session")
def icons(pack_folder: Path) -> Icons:
    return Icons(pack_folder)
