"""A chapter shows its pictures even without the folder of figures, and in both themes."""

from figure_asserts import assert_in_no_box

SHOWN = "image => image.complete && image.naturalWidth === 675 && image.alt.length > 20"


def test_a_chapter_shows_its_opening_picture_without_the_folder_of_figures(course, lab):
    assert not (course / "figures").exists()
    lab.open("notebooks/07_encoder.ipynb")
    picture = lab.cell(0).locator(".jp-RenderedMarkdown img")
    picture.scroll_into_view_if_needed()
    lab.page.wait_for_function(SHOWN, arg=picture.element_handle())


def test_in_the_dark_theme_a_report_and_a_plot_stand_in_no_box(lab):
    change = "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })"
    lab.page.evaluate(change, "JupyterLab Dark")
    try:
        lab.open("notebooks/06_masks.ipynb")
        outputs = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output")
        report = outputs.filter(has_text="Correct: padding_mask").first
        for part in (report, outputs.locator("img").first):
            part.scroll_into_view_if_needed()
            lab.page.wait_for_timeout(300)  # the notebook scrolls
            assert_in_no_box(part, dark=True)
    finally:
        lab.page.evaluate(change, "JupyterLab Light")
