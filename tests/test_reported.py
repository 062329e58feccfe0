"""Reported numbers: every one has a source and says how certain it is."""

import json

from leo_core.checkpoint import ASSETS

REPORTED = json.loads((ASSETS / "reported" / "reported.json").read_text())


def test_every_number_names_its_source_and_its_certainty():
    rows = [*REPORTED["scores"], *REPORTED["savings"], REPORTED["llava_mini"]]
    assert {row["source"] for row in rows} == set(REPORTED["sources"])
    assert {row["certainty"] for row in rows} == set(REPORTED["certainty"])


def test_scores_lie_on_one_scale_under_known_names():
    for row in REPORTED["scores"]:
        assert row["values"].keys() <= set(REPORTED["benchmarks"]) and row["tokens"] > 0
        assert all(0 < value < 100 for value in row["values"].values())
    assert len({row["model"] for row in REPORTED["scores"]}) == len(REPORTED["scores"])


def test_shares_and_series_fit():
    assert all(0 < row["share"] < 1 for row in REPORTED["savings"])
    series = REPORTED["llava_mini"]
    assert len(series["tokens"]) == len(series["teraflops"]) == len(series["milliseconds"])
    assert series["tokens"] == sorted(series["tokens"]) and series["teraflops"] == sorted(series["teraflops"])
