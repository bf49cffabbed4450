"""A chapter shows its pictures even without the folder of figures."""

SHOWN = "image => image.complete && image.naturalWidth === 800 && image.alt.length > 20"


def test_a_chapter_shows_its_opening_picture_without_the_folder_of_figures(course, lab):
    assert not (course / "figures").exists()
    lab.open("notebooks/07_encoder.ipynb")
    picture = lab.cell(1).locator(".jp-RenderedMarkdown img")
    picture.scroll_into_view_if_needed()
    lab.page.wait_for_function(SHOWN, arg=picture.element_handle())
