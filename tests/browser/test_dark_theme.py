"""In JupyterLab's dark theme, reports and plots are as readable as on the site."""

from figure_asserts import assert_in_no_box


def test_a_report_and_a_plot_stand_in_no_box(lab):
    change = "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })"
    lab.page.evaluate(change, "JupyterLab Dark")
    try:
        lab.open("notebooks/06_masks.ipynb")
        outputs = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output")
        report = outputs.filter(has_text="Correct: padding_mask").first
        for part in (report, outputs.locator("img").first):
            part.scroll_into_view_if_needed()
            lab.page.wait_for_timeout(300)  # the notebook scrolls
            assert_in_no_box(part)
    finally:
        lab.page.evaluate(change, "JupyterLab Light")
