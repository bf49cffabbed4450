"""How Sphinx writes the site; ``make site`` (tools/build_site.py) lays out what it reads."""

import os
from pathlib import Path

REPOSITORY = os.environ.get("COURSE_REPOSITORY", "")  # such as https://github.com/NAME/COURSE

project = "The Transformer, part by part"
author = "The authors of this course"
copyright = "2026, the authors of this course; code: MIT, text and pictures: CC BY 4.0"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
root_doc = "index"
templates_path = ["_templates"]
autosummary_generate = False  # tools/build_site.py writes the pages of the modules
exclude_patterns = ["README.md"]  # the start page includes parts of it
suppress_warnings = ["myst.header"]  # a recap's table may follow a smaller heading

nb_execution_mode = "off"  # the chapters are saved executed, and tested so
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "deflist", "html_image"]
myst_heading_anchors = 3
mathjax_path = "mathjax.js"  # never loaded: tools/typeset.cjs writes the formulas

autodoc_default_options = {"members": True, "undoc-members": True, "ignore-module-all": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "sphinx_book_theme"
html_title = project
html_favicon = "_static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scorer.js")
html_extra_path = ["docs/404.html"]
html_static_path = ["_static"]
html_css_files = ["course.css", "viz/explorer.css"]
html_js_files = ["course.js", ("explorers.js", {"type": "module"})]
html_copy_source = False
html_show_search_summary = False  # search_scorer.js writes excerpts for the results in view
html_theme_options = {
    "navbar_persistent": [],  # the search stands in the side bar
    "use_download_button": False,  # each chapter has links of its own
    "use_fullscreen_button": False,
    "back_to_top_button": False,  # it would cover the sentence of an explorer
    "show_navbar_depth": 1,
    "navigation_depth": 2,  # side trips below their chapter
    "show_toc_level": 2,
    "repository_url": REPOSITORY,
    "path_to_docs": "",
    "repository_branch": "main",
    "use_repository_button": bool(REPOSITORY),
    "launch_buttons": {
        "colab_url": "https://colab.research.google.com" if REPOSITORY else "",
        "binderhub_url": "https://mybinder.org" if REPOSITORY else "",
    },
}
