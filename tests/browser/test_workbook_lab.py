"""A learner works in a real JupyterLab; mistakes are named, and a guess precedes its answer."""

from browser_driver import Lab, code_cells
from playwright.sync_api import expect

from course_lib.exercises.workbook.workbook_folder import make_workbook

STUB = "raise NotImplementedError"
RIGHT = "return torch.ones(length, length, dtype=torch.bool, device=device).tril()"
WRONG = f"{RIGHT}.T"


def run_imports(lab: Lab, cells: dict[int, str], before: int):
    """Run the import cells above a cell."""
    for index, source in cells.items():
        if index < before and "import " in source:
            lab.run_cell(index)


def test_a_learner_is_told_which_mistake_was_made_and_then_that_it_is_correct(course, lab: Lab):
    make_workbook(course / "workbook")
    path = "workbook/06_masks.ipynb"
    cells = code_cells(course / path)
    exercise = next(n for n, source in cells.items() if "causal_mask = attempt(" in source)
    lab.open(path, shared=False)
    run_imports(lab, cells, exercise)
    lab.run_cell(exercise)
    lab.expect_output(exercise, "Not attempted yet: causal_mask")
    lab.run_cell(exercise, cells[exercise].replace(STUB, WRONG))
    lab.expect_output(exercise, "This is what you get when")
    lab.expect_output(exercise, "Not yet: causal_mask")
    lab.run_cell(exercise, cells[exercise].replace(STUB, RIGHT))
    lab.expect_output(exercise, "so you can continue: causal_mask")
    last = max(cells)
    lab.run_cell(last)
    lab.expect_output(last, "my_lib/masks.py: 1 of 2 are yours")
    assert "tril()" in (course / "workbook" / "my_lib" / "masks.py").read_text(encoding="utf-8")


def test_a_guess_is_explained_only_after_an_answer_and_both_stay(course, lab: Lab):
    make_workbook(course / "workbook", force=True)
    path = "workbook/00_start_here.ipynb"
    cells = code_cells(course / path)
    question = 'guess("The scores are 2, 1 and 1.'
    asked = next(n for n, source in cells.items() if source.startswith(question))
    lab.open(path, shared=False)
    run_imports(lab, cells, asked)
    lab.run_cell(asked)
    box = lab.cell(asked).locator("input")
    box.press("Enter")
    lab.expect_output(asked, "Please write a guess first")
    expect(lab.cell(asked)).not_to_contain_text("times as large")
    lab.page.keyboard.type("yes, <b>twice</b>")
    lab.page.keyboard.press("Enter")
    for _ in "as it is", "after the cell has run again":
        lab.expect_output(asked, "Your guess: yes, <b>twice</b>")
        lab.expect_output(asked, "times as large")
        expect(lab.cell(asked).locator("mjx-container")).to_be_visible()  # the formula is typeset
        lab.run_cell(asked)
    lab.cell(asked).get_by_role("button", name="Guess again").press("Enter")
    expect(box).to_be_focused()
    expect(lab.cell(asked)).not_to_contain_text("times as large")
