"""The viewer's page as text: self-contained, small, safe whatever a trace holds, and written by one command."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from figures_trace import make_trace
from paper_size import paper_size_trace

from leo_core.errors import InputError
from leo_core.tracing.trace_file import load_trace, save_trace
from studio.__main__ import main
from studio.viewer import Viewer, frame, page, write_page
from studio.viewer.payload import payload, script_json

MEGABYTE = 1_000_000


def data_of(text: str) -> dict:
    return json.loads(re.search('<script type="application/json" id="leo-data">(.*?)</script>', text, re.DOTALL).group(1))


def decoded(field: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(field["data"]), "<" + field["kind"]).reshape(field["shape"])


def test_a_paper_size_run_is_under_two_megabytes_without_its_picture():
    trace = paper_size_trace()
    text = page([replace(trace, pictures=(replace(trace.pictures[0], content=None),))])
    assert len(text.encode()) < 2 * MEGABYTE


def test_nothing_is_fetched_and_only_our_own_script_may_run():
    text = page([make_trace()])
    outside = re.sub('<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|\beval\(|innerHTML|insertAdjacent|document\.write", outside)
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy and "unsafe" not in policy
    script = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    assert len(script) == len(style) == 1
    for part in (*script, *style):
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy


HOSTILE = ("</script><script>alert(1)</script>", "<!-- <script>", "%SCRIPT% %DATA%", "\u2028\u2029 \ud800 \x00 & ]]>", "' onerror=alert(1) \"")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_leave_the_data(text):
    run = replace(make_trace(), question=text, answer=text, settings={text: [text, float("inf"), np.float32(2)]})
    html = page([run], [text])
    data = data_of(html)["traces"][0]
    assert (data["name"], data["question"], data["answer"]) == (text, text, text)
    assert data["settings"] == {text: [text, None, 2.0]}
    assert html.count("<script") == 2 and html.count("</script>") == 2
    assert script_json(text).isascii() and not set(script_json(text)) & set("<>&")


def test_arrays_arrive_as_the_trace_file_holds_them(tmp_path):
    save_trace(make_trace(), tmp_path / "run.safetensors")
    trace = load_trace(tmp_path / "run.safetensors")
    data = json.loads(script_json(payload(trace, "run")))
    for one, sent in zip(trace.experts, data["experts"], strict=True):
        np.testing.assert_array_equal(decoded(sent["weights"]), one.weights)
        np.testing.assert_array_equal(decoded(sent["query"]), one.query)
        np.testing.assert_array_equal(decoded(sent["polygons"]), one.geometry.polygons)
        np.testing.assert_array_equal(decoded(sent["placed"]), one.geometry.placed)
    np.testing.assert_array_equal(decoded(data["probability"]), trace.routing.probability)
    np.testing.assert_array_equal(decoded(data["norm"]), trace.routing.norm[..., 1:])
    assert [base64.b64decode(token) for token in data["bytes"]] == list(trace.token_bytes)
    assert data["promptLength"] == trace.prompt_length


def test_one_or_two_traces_each_with_a_name():
    one = make_trace()
    with pytest.raises(InputError, match="one trace, or two"):
        page([])
    with pytest.raises(InputError, match="got 3"):
        page([one] * 3)
    with pytest.raises(InputError, match="one name per trace"):
        page([one], ["a", "b"])
    assert len(data_of(page([one, one]))["traces"]) == 2


def test_a_frame_holds_the_whole_page_in_one_attribute():
    trace = make_trace()
    text = frame(trace, height=640)
    assert text == Viewer(trace, height=640)._repr_html_()
    assert text.count("<") == 2 and text.startswith("<iframe ") and text.endswith("></iframe>") and 'height="640"' in text
    assert "allow-scripts" in text and "allow-same-origin" not in text


def test_the_command_writes_the_page_or_says_why_not(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_trace(make_trace(), "run.safetensors")
    assert main(["view", "run.safetensors", "run.safetensors", "-o", "deep/page.html"]) == 0
    assert [one["name"] for one in data_of((tmp_path / "deep/page.html").read_text("utf-8"))["traces"]] == ["run.safetensors"] * 2
    assert main(["view", "run.safetensors"]) == 0 and (tmp_path / "run.html").exists()
    capsys.readouterr()
    assert main(["view", "missing.safetensors"]) == 2
    assert main(["view", *["run.safetensors"] * 3]) == 2
    said = capsys.readouterr().err
    assert "missing.safetensors" in said and "one trace, or two" in said and "Traceback" not in said


def test_writing_leaves_a_whole_file_or_none(tmp_path):
    with pytest.raises(InputError):
        write_page([], tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert write_page([make_trace()], tmp_path / "page.html") == tmp_path / "page.html"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
