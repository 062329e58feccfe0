"""What is held out of training stays out: names are never drawn, asked for or answered, and the unseen style is never used."""

import pytest

from leo_core.data.build import split_names
from leo_core.data.icons import STYLES, UNSEEN_STYLE, Icons, read_objects
from leo_core.data.sets import SETS, pictures, set_named
from leo_core.errors import InputError

DRAWN = [one for one in SETS if not one.easy_vqa]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> Icons:
    """All names of the vocabulary, every icon the same square: this is about names, not looks."""
    import json

    folder = tmp_path_factory.mktemp("vocabulary")
    body = {"body": '<rect x="8" y="8" width="48" height="40" fill="#a52"/>'}
    icons = {icon: body for _, shown in read_objects().values() for icon in shown}
    for style in (*STYLES, UNSEEN_STYLE):
        (folder / style).mkdir()
        (folder / style / "icons.json").write_text(json.dumps({"prefix": style, "icons": icons, "width": 64, "height": 64}))
    return Icons(folder, (*STYLES, UNSEEN_STYLE))


def test_the_vocabulary_is_large_and_split_for_good(vocabulary):
    seen, unseen = split_names(vocabulary.names)
    assert len(seen) >= 300 and len(unseen) >= 30
    assert not set(seen) & set(unseen) and set(seen) | set(unseen) == set(vocabulary.names)


@pytest.mark.parametrize("name", ["train", "new_scenes", "new_style"])
def test_no_unseen_name_is_drawn_or_mentioned(vocabulary, name):
    _, unseen = split_names(vocabulary.names)
    seen_words = {word for phrase in vocabulary.names if phrase not in unseen for word in phrase.split()}
    telling = {phrase for phrase in unseen if not set(phrase.split()) <= seen_words}  # "box" may stand in a sign; a scene must not show it
    for sample in pictures(set_named(name), vocabulary, 150):
        if sample.name.startswith("scenes"):
            assert not {region.phrase for region in sample.regions} & set(unseen)
            for question in sample.questions:
                if question.kind == "colour":
                    continue  # "orange" is a colour too
                words = f" {question.text} {question.answer} ".replace("?", " ").replace(",", " ").lower()
                assert not any(f" {phrase} " in words for phrase in telling), (question, sample.name)


def test_the_set_of_new_names_draws_only_them(vocabulary):
    _, unseen = split_names(vocabulary.names)
    shown = {region.phrase for sample in pictures(set_named("new_names"), vocabulary, 60) for region in sample.regions}
    assert shown <= set(unseen) and len(shown) > 20


@pytest.mark.parametrize("chosen", DRAWN, ids=lambda one: one.name)
def test_only_the_test_of_styles_draws_the_unseen_style(vocabulary, monkeypatch, chosen):
    used = set()
    render = Icons.render
    monkeypatch.setattr(Icons, "render", lambda self, name, style, size, variant=0: used.add(style) or render(self, name, style, size, variant))
    list(pictures(chosen, vocabulary, 40))
    assert used == ({UNSEEN_STYLE} if chosen.name == "new_style" else set(STYLES))


def test_scenes_of_tests_are_not_those_of_training(vocabulary):
    facts = {one.name: {(s.picture.size, tuple(r.box for r in s.regions)) for s in pictures(one, vocabulary, 40)} for one in DRAWN}
    for one in DRAWN:
        if one.name != "train":
            assert not facts[one.name] & facts["train"]


def test_an_unknown_set_is_named():
    with pytest.raises(InputError, match="new_scenes"):
        set_named("trian")
