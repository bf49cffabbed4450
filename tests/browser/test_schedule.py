"""The attention and schedule explorers send the reader's choices to Python in a notebook."""

import pytest
from browser_driver import Lab, write_notebook

from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.schedule_explorer import ScheduleExplorer, recorded_runs

HIGHEST = 640  # px: an explorer must fit on a screen in JupyterLab


@pytest.mark.parametrize(
    ("kind", "trait", "first"),
    [(AttentionExplorer, "x", "2.0"), (ScheduleExplorer, "warmup_steps", "50")],
    ids=["attention", "schedule"],
)
def test_in_a_notebook_pointer_and_keys_reach_python(
    kind, trait, first, course, lab: Lab, read_until
):
    name = kind.__name__
    show = f"from {kind.__module__} import {name}\nexplorer = {name}()\nexplorer"
    write_notebook(course / f"{name}.ipynb", show, f"print(explorer.{trait})")
    lab.open(f"{name}.ipynb")
    usual = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 1280, "height": 800})
    lab.run_cell(0)
    cell = lab.cell(0)
    handle = cell.locator(".handle")
    handle.focus()
    assert cell.locator(".explorer").bounding_box()["height"] <= HIGHEST
    lab.page.set_viewport_size(usual)

    read_until(1, first.__eq__)
    handle.press("ArrowLeft")
    by_key = read_until(1, first.__ne__)
    handle.hover()  # waits until JupyterLab has scrolled to the cell and the handle has stopped
    box = handle.locator("circle").first.bounding_box()
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] - 20, box["y"] + box["height"] / 2)
    lab.page.mouse.up()
    read_until(1, lambda value: value not in (first, by_key))
    if kind is ScheduleExplorer:  # exactly one button for each recorded warm-up
        runs = recorded_runs()
        buttons = cell.get_by_role("group", name="a recorded warm-up").get_by_role("button")
        assert buttons.all_inner_texts() == [str(run["warmup_steps"]) for run in runs]
        for button, run in zip(buttons.all(), runs, strict=True):
            button.click()
            read_until(1, button.inner_text().__eq__)
            steps = run["every"] * len(run["losses"][0])
            assert f"after {steps} steps" in cell.locator(".said").inner_text()
