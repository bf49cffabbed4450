"""A learner at work: a wrong answer is named, the right one is correct, in a real JupyterLab."""

from browser_driver import Lab, code_cells

from course_lib.exercises.workbook import make_workbook

STUB = "raise NotImplementedError"
RIGHT = "return torch.ones(length, length, dtype=torch.bool, device=device).tril()"
WRONG = f"{RIGHT}.T"


def test_a_learner_is_told_which_mistake_was_made_and_then_that_it_is_correct(course, lab: Lab):
    make_workbook(course / "workbook")
    path = "workbook/06_masks.ipynb"
    cells = code_cells(course / path)
    exercise = next(n for n, source in cells.items() if "causal_mask = attempt(" in source)
    lab.open(path, shared=False)
    lab.run_imports(cells, exercise)
    lab.run_cell(exercise)
    lab.expect_output(exercise, "Not attempted yet: causal_mask")
    lab.run_cell(exercise, cells[exercise].replace(STUB, WRONG))
    lab.expect_output(exercise, "This is what you get when")
    lab.expect_output(exercise, "Not yet: causal_mask")
    lab.screenshot("workbook_wrong")
    lab.run_cell(exercise, cells[exercise].replace(STUB, RIGHT))
    lab.expect_output(exercise, "Correct: causal_mask")
    lab.screenshot("workbook_right")
    last = max(cells)
    lab.run_cell(last)
    lab.expect_output(last, "my_lib/masks.py: 1 of 2 are yours")
    lab.screenshot("workbook_exported")
    assert "tril()" in (course / "workbook" / "my_lib" / "masks.py").read_text(encoding="utf-8")
