"""The tools save chapters, choose and run tests, and start new chapters."""

import copy
import re
import shutil

import navigation
import nbformat
import new_chapter
import pytest
import quick_tests
import run_tests
import sync
import test_chapters
from nbformat.v4 import new_code_cell, new_notebook, new_output

import notebooks

BAR = {notebooks.WIDGET: {"model_id": "1"}, "text/plain": "  0%|          | 0/450"}
PICTURE = {"text/plain": "A map.", "text/html": "<img>", "image/png": "iVBORw0KGgo="}
EXPLORER = {notebooks.WIDGET: {"model_id": "2"}} | PICTURE


def tidied(*outputs):
    notebook = new_notebook(cells=[new_code_cell("1", outputs=list(outputs))])
    notebooks.tidy(notebook)
    return notebook.cells[0].outputs


def shown(data):
    return new_output("display_data", data=data)


def printed(name, text):
    return new_output("stream", name=name, text=text)


PLAIN = shown({"text/plain": "1"})
STILL = shown({name: PICTURE[name] for name in ("text/plain", "image/png")})
TIDIED = {
    "no progress bar": ([shown(BAR), shown(BAR)], []),
    "an explorer's still picture": ([shown(EXPLORER)], [STILL]),
    "a figure without its HTML": ([shown(PICTURE)], [STILL]),
    "one piece around a bar": (
        [printed("stdout", "a"), shown(BAR), printed("stdout", "b")], [printed("stdout", "ab")]
    ),
    "two streams apart": ([printed("stdout", "a"), printed("stderr", "b")],) * 2,
    "anything else": ([PLAIN], [PLAIN]),
}  # fmt: skip


@pytest.mark.parametrize("name", TIDIED)
def test_saved_outputs_contain_only_what_a_reader_needs(name):
    outputs, kept = TIDIED[name]
    assert tidied(*map(copy.deepcopy, outputs)) == kept


def test_the_setup_of_the_new_shape_is_folded():
    text = (new_chapter.TEMPLATE / "side_trip.md").read_text(encoding="utf-8")
    guard = notebooks.GUARD.search(text)[0]
    hidden = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    for first, folded in ((guard + "\nimport torch", hidden), (guard, {}), ("import torch", {})):
        sources = (first, "#| default_exp masks\n#| export\nimport math", "import json")
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        notebooks.tidy(notebook)
        assert [cell.metadata for cell in notebook.cells] == [folded, folded, {}]


def test_the_source_of_a_guess_and_of_folded_cells_is_hidden():
    hidden = {"jupyter": {"source_hidden": True}, "tags": ["raises-exception", "hide-input"]}
    asked = new_code_cell('guess("Why?")', metadata={"tags": hidden["tags"][:1], "trusted": True})
    shown = new_code_cell("x = guess(1)", metadata={"jupyter": hidden["jupyter"]})
    folded = new_code_cell("import torch", metadata=hidden)
    notebook = new_notebook(cells=[asked, shown, folded])
    notebooks.tidy(notebook)
    assert [cell.metadata for cell in notebook.cells] == [hidden, {}, hidden]


def test_all_parts_run_even_after_failures(monkeypatch, capsys):
    counts = {"one": (3, 0, 1), "two": (1, 2, 0), "three": (5, 0, 0), "beside": (2, 1, 0)}
    found = {name: (each, 0.4, f"told by {name}") for name, each in counts.items()}
    monkeypatch.setattr(run_tests, "run", lambda name, *_, **__: found[name])
    parts = {"one": [], "two": [], "three": []}, [{"beside": []}]
    times, totals, broken = run_tests.run_all(*parts)
    assert (list(times), totals) == ([*counts, "all"], (11, 3, 1))
    assert broken == ["two", "beside"]
    assert run_tests.main(*parts) == 1
    printed = capsys.readouterr().out
    assert "one 0, two 0, three 0, beside 0, all 0" in printed and "told by beside" in printed
    assert "failed (see above): two, beside" in printed
    assert "11 passed, 3 failed, 1 skipped" in printed


def test_a_runner_that_fails_without_a_failed_test_is_red(tmp_path):
    report = tmp_path / "part.xml"
    report.write_text('<a><testsuite tests="9" skipped="2" failures="0" errors="0"/></a>')
    assert run_tests.counted(report, code=0) == (7, 0, 2)
    assert run_tests.counted(report, code=3) == (7, 1, 2)


def test_a_module_selects_its_tests_doctests_exercises_and_chapter():
    parts, beside = quick_tests.select(["course_lib/masks.py"])
    tests = ["course_lib/masks.py", quick_tests.ALWAYS, "tests/test_masks.py"]
    assert parts["tests and doctests"][-3:] == tests
    assert beside["exercises"][-1] == "causal_mask or padding_mask"
    assert beside["chapters"][-1] == "notebooks/06_masks.ipynb"


@pytest.mark.parametrize(
    ("file", "executed", "left"),
    [
        ("course_lib/exercises/bank/masks.py", ["06_masks"], ["00_start_here", "07_encoder"]),
        ("notebooks/06_masks.ipynb", [], ["06_masks"]),
    ],
)
def test_a_chapter_is_executed_if_its_inputs_changed(file, executed, left):
    assert all(sync.reason(f"notebooks/{name}.ipynb", {file}) for name in executed)
    assert not any(sync.reason(f"notebooks/{name}.ipynb", {file}) for name in left)


def follows_the_rules(path):
    """Assert that a new chapter or side trip, which is not executed yet, has the right shape."""
    test_chapters.test_the_first_code_cell_says_how_to_install_the_course(path)
    test_chapters.test_the_opening_shows_the_puzzle_before_one_line_of_logistics(path)
    test_chapters.test_code_cells_are_short_with_text_between_them(path)
    test_chapters.test_a_chapter_says_nothing_about_the_machine_it_ran_on(path)
    test_chapters.test_a_chapter_is_quiet_reproducible_and_strict(path)
    test_chapters.test_an_export_cell_contains_exactly_one_definition(path)
    test_chapters.test_a_page_proves_nothing_and_doubts_in_one_box(path)


def test_a_new_chapter_follows_the_rules_and_is_in_every_list(tmp_path):
    for page in (*new_chapter.LISTS, *new_chapter.FILES):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
    for page in (*new_chapter.LISTS, "pyproject.toml"):
        shutil.copy(notebooks.ROOT / page, tmp_path / page)
    for name in ("26_unit_vectors", "10_small_steps"):
        new_chapter.write(name, tmp_path)
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        follows_the_rules(path)
    for page, (entry, _) in new_chapter.LISTS.items():
        numbers = [found[1] for found in re.finditer(entry, (tmp_path / page).read_text(), re.M)]
        assert numbers == sorted(numbers) and {"10", "26"} <= set(numbers)
    assert [path.stem for path in notebooks.export(tmp_path)] == ["small_steps", "unit_vectors"]


def test_a_side_trip_is_written_linked_and_exported_into_its_chapters_module(tmp_path):
    root = tmp_path / "course"
    (root / "course_lib").mkdir(parents=True)
    shutil.copy(notebooks.ROOT / "pyproject.toml", root)
    (root / "notebooks").mkdir()
    for name in ("00_start_here", "06_masks", "07_encoder"):
        shutil.copy(notebooks.ROOT / "notebooks" / f"{name}.ipynb", root / "notebooks")
    for name in ("99_more", "06_Masks", "06"):
        with pytest.raises(ValueError, match="must be a chapter's number"):
            new_chapter.write_side_trip(name, root)
    path = root / new_chapter.write_side_trip("06_many_masks", root)
    with pytest.raises(ValueError, match="already exists"):
        new_chapter.write_side_trip("06_many_masks", root)
    follows_the_rules(path)
    assert [page.name[3] for page in notebooks.pages(root)] == ["s", "m", "m", "e"]
    assert notebooks.pages(root)[2] == path

    def lines():
        """Return the lines of side trips in the three chapters."""
        navigation.write(root)
        texts = [path.read_text(encoding="utf-8") for path in notebooks.chapters(root)]
        return [re.findall(r'"(\*\*Side trips.*)\\n"', text) for text in texts]

    link = "Does the question fit on one line?](side_trips/06_many_masks.ipynb)"
    assert lines() == [[], [f"**Side trips:** [{link}"], []]
    assert "← back to [06 · Masks](../06_masks.ipynb) · [Contents]" in path.read_text()
    before = {p.name: p.read_text() for p in notebooks.export(root)}
    trip = nbformat.read(path, as_version=4)
    trip.cells.insert(-1, new_code_cell("#| export masks\ndef added():\n    return 1"))
    nbformat.write(trip, path)
    after = {p.name: p.read_text() for p in notebooks.export(root)}
    assert list(after) == list(before) == ["masks.py", "encoder.py"]
    assert after["encoder.py"] == before["encoder.py"]
    header, body = before["masks.py"].split("]\n", 1)
    exported, rest = after["masks.py"].split("]\n", 1)
    assert rest == f"{body}\n\ndef added():\n    return 1\n" and "added" not in header
    assert eval(exported.partition("__all__ = ")[2] + "]")[-1] == "added"
    path.unlink()
    assert lines() == [[], [], []]


def test_files_are_rewritten_only_if_they_change_and_not_by_a_check(tmp_path):
    old, same = tmp_path / "old.md", tmp_path / "same.md"
    old.write_text("a", encoding="utf-8")
    same.write_text("b", encoding="utf-8")
    for check, left in ((True, "a"), (False, "b")):
        assert notebooks.rewrite([old, same], lambda path, text: "b", check) == ["old.md"]
        assert old.read_text(encoding="utf-8") == left
