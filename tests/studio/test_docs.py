"""Notebooks as pages: executed in a clean kernel, failures named in one sentence, and nothing fetched when they open."""

import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import sync_playwright

from studio.docs.__main__ import main
from studio.docs.execute import NotebookFailed, execute
from studio.docs.page import FETCHED, neighbours, page

FIGURE = "import os\nfrom studio.figures import notice\n\nnotice('Nothing <b> here', 'An empty $figure$')"


def written(folder, name, *cells):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=list(cells), metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}), path)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of two notebooks and an index, built."""
    folder = tmp_path_factory.mktemp("docs")
    written(folder / "in", "index", new_markdown_cell("# Index\n\n[one](1_one.ipynb)"))
    written(folder / "in", "1_one", new_markdown_cell("# First <story>"), new_code_cell(FIGURE), new_code_cell("print(sorted(os.listdir()))"))
    assert main(["--notebooks", str(folder / "in"), "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_a_page_and_its_notebook_hold_the_outputs_and_a_still_picture(built):
    text = (built / "1_one.html").read_text()
    assert "<title>First &lt;story&gt;</title>" in text and 'src="data:image/png;base64,' in text and "Nothing &lt;b&gt; here" in text
    assert '<a href="1_one.html">one</a>' in (built / "index.html").read_text()
    figure, listing = (cell.outputs[0] for cell in nbformat.read(built / "1_one.ipynb", 4).cells if cell.cell_type == "code")
    assert {"image/png", "application/vnd.plotly.v1+json"} <= figure.data.keys()
    assert listing.text == "[]\n", "a notebook starts in an empty folder"


def test_pages_open_offline_and_figures_come_alive(built):
    asked, errors = [], []
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        shown = browser.new_context(offline=True).new_page()
        shown.set_default_timeout(120_000)
        shown.on("request", lambda request: asked.append(request.url))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.goto((built / "1_one.html").as_uri())
        shown.wait_for_selector(".plot.drawn .js-plotly-plot")
        assert shown.locator(".plot .still").is_hidden()
        browser.close()
    assert errors == [] and asked and all(url.startswith(("file:", "data:", "blob:")) for url in asked)


@pytest.mark.parametrize(
    ("source", "seconds", "words"),
    [
        ("1 + 1\nassert 1 == 2, 'the sum is wrong'", 300, "in cell 2 (`1 + 1`): AssertionError: the sum is wrong"),
        ("import warnings; warnings.warn('old name')", 300, "wrote to stderr in cell 2"),
        ("import time; time.sleep(600)", 3, "was not through after 3 seconds, in cell 2"),
    ],
)
def test_a_failure_is_one_sentence_with_notebook_and_cell(source, seconds, words):
    notebook = new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell(source), new_code_cell("print('after')")])
    with pytest.raises(NotebookFailed) as caught:
        execute(notebook, "3_three", seconds)
    assert words in str(caught.value) and "'3_three'" in str(caught.value) and "\n" not in str(caught.value)


def test_the_command_goes_on_after_a_failure_and_names_it(tmp_path, capfd):
    written(tmp_path / "in", "1_bad", new_code_cell("1 / 0"))
    written(tmp_path / "in", "2_good", new_markdown_cell("# Good"))
    assert main(["--notebooks", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 1
    said = capfd.readouterr()
    assert "Notebook '1_bad' failed in cell 1 (`1 / 0`): ZeroDivisionError" in said.err and "Traceback" not in said.err
    assert (tmp_path / "out" / "2_good.html").exists() and not (tmp_path / "out" / "1_bad.html").exists()


def test_wrong_requests_are_answered_in_words(tmp_path, capfd):
    assert main(["--notebooks", str(tmp_path)]) == 2 and "There are no notebooks" in capfd.readouterr().err
    written(tmp_path, "1_one", new_markdown_cell("# One"))
    assert main(["9", "--notebooks", str(tmp_path), "--out", str(tmp_path / "out")]) == 2 and "starts with '9'" in capfd.readouterr().err


@pytest.mark.parametrize("mark", ['<img src="http://a.example/x.png">', "<script src='//cdn.example/x.js'>", '<link rel="a" href="https://a.example">'])
def test_a_page_that_would_fetch_is_noticed(mark):
    assert FETCHED.search(mark) and not FETCHED.search('<a href="https://example.org">a link is fetched by its reader</a>')
    assert FETCHED.search(page(new_notebook(cells=[new_markdown_cell(mark)]), "one", ["one"]))


def test_neighbours_lead_along_the_row_and_back_to_the_index():
    names = ["index", "1_one", "2_two", "3_three"]
    assert neighbours("index", names) == ""
    assert "1 one" in neighbours("2_two", names) and "3 three" in neighbours("2_two", names) and 'href="index.html"' in neighbours("2_two", names)
    assert neighbours("1_one", names).count("<a ") == neighbours("3_three", names).count("<a ") == 2
