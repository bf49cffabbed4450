"""A learner at work: a wrong answer is named, the right one is correct, in a real JupyterLab."""

import json

import pytest

from course_lib.exercises.workbook import make_workbook

CHAPTER = "06_masks.ipynb"
STUB = "raise NotImplementedError"
RIGHT = "return torch.ones(length, length, dtype=torch.bool, device=device).tril()"
WRONG = "return torch.ones(length, length, dtype=torch.bool, device=device).tril().T"


@pytest.fixture
def workbook(tmp_path):
    """Write a workbook, as ``make workbook`` does."""
    make_workbook(tmp_path / "workbook")
    return tmp_path / "workbook"


def source_cells(folder):
    """Return the sources of a chapter's cells by their places; markdown is left out."""
    cells = json.loads((folder / CHAPTER).read_text(encoding="utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells)
    return {
        place: text
        for (place, text), cell in zip(enumerate(texts), cells, strict=True)
        if cell["cell_type"] == "code"
    }


def test_a_learner_is_told_which_mistake_was_made_and_then_that_it_is_correct(
    workbook, lab, lab_page
):
    cells = source_cells(workbook)
    exercise = next(n for n, text in cells.items() if "causal_mask = attempt(" in text)
    with lab(workbook) as address:
        lab_page.open(address, CHAPTER)
        for place in [n for n, text in cells.items() if n < exercise and "import " in text]:
            lab_page.run(place)
        lab_page.run(exercise)
        lab_page.expect(exercise, "Not attempted yet: causal_mask")
        lab_page.run(exercise, cells[exercise].replace(STUB, WRONG))
        lab_page.expect(exercise, "This is what comes out when")
        lab_page.expect(exercise, "Not yet: causal_mask")
        wrong = lab_page.keep("workbook_wrong")
        lab_page.run(exercise, cells[exercise].replace(STUB, RIGHT))
        lab_page.expect(exercise, "Correct: causal_mask")
        right = lab_page.keep("workbook_right")
        last = max(cells)
        lab_page.run(last)
        lab_page.expect(last, "my_lib/masks.py: 1 of 2 are yours")
        lab_page.keep("workbook_exported")
    assert lab_page.hosts == {"127.0.0.1"}
    assert not lab_page.errors
    assert wrong.read_bytes() != right.read_bytes()
    assert "tril()" in (workbook / "my_lib" / "masks.py").read_text(encoding="utf-8")
