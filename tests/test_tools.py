"""The workbench: what is kept of a chapter when it is saved."""

import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

BAR = {chapters.WIDGET: {"model_id": "1"}, "text/plain": "  0%|          | 0/450"}
EXPLORER = {chapters.WIDGET: {"model_id": "2"}, "text/plain": "<X>", "text/html": "<img>"}


def tidied(*outputs):
    """Return what is left of the outputs of a cell."""
    notebook = new_notebook(cells=[new_code_cell("1", outputs=list(outputs))])
    chapters.tidy(notebook)
    return notebook.cells[0].outputs


def shown(data):
    """Make an output out of what a cell displayed."""
    return new_output("display_data", data=data)


def test_no_progress_bar_is_kept():
    assert tidied(shown(BAR), shown(BAR)) == []


def test_of_an_explorer_the_still_picture_is_kept():
    (kept,) = tidied(shown(EXPLORER))
    assert dict(kept.data) == {"text/plain": "<X>", "text/html": "<img>"}


def test_what_is_printed_around_a_bar_becomes_one_piece():
    said = [new_output("stream", name="stdout", text=text) for text in ("a", "b")]
    (kept,) = tidied(said[0], shown(BAR), said[1])
    assert kept.text == "ab"


def test_what_is_printed_on_another_stream_stays_apart():
    said = [new_output("stream", name=name, text=name) for name in ("stdout", "stderr")]
    assert [kept.text for kept in tidied(*said)] == ["stdout", "stderr"]


def test_sources_counts_and_tags_are_kept_and_nothing_of_who_ran_it():
    tags = {"tags": ["raises-exception"]}
    code = new_code_cell("1", metadata=tags | {"scrolled": True}, execution_count=7)
    text = new_markdown_cell("words", metadata={"collapsed": True})
    mine = {"kernelspec": {"display_name": "Mine", "name": "mine"}, "language_info": {"name": "r"}}
    notebook = new_notebook(cells=[code, text], metadata=mine)
    chapters.tidy(notebook)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert notebook.metadata == {"kernelspec": kernel}
    assert (code.metadata, text.metadata) == (tags, {})
    assert (code.source, code.execution_count, text.source) == ("1", 7, "words")


def test_other_outputs_stay_as_they_are():
    plain = shown({"text/plain": "1"})
    assert tidied(plain) == [plain]
