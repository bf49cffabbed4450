"""Build the site from docs/ and the outputs that are saved in the chapters (make site).

Nothing is executed or downloaded. Sphinx builds site/ from .build/site, which has the
layout of the repository, and also contains docs/_site, the glossary and a page for each module.
"""

import html
import json
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import embed_pictures
import glossary
import slides
from translator_file import TRANSLATOR, write_translator

from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.checking.public_issues import course_repository, report_link
from course_lib.exercises.workbook.notebook_builder import (
    SIDE_TRIPS,
    Chapter,
    Edition,
    notebooks_in,
)
from course_lib.support.atomic_write import write_whole
from course_lib.viz.explorer_base import FOLDER
from course_lib.viz.heads_explorer import HeadsExplorer
from course_lib.viz.plots import image_tag

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / ".build" / "site"
SITE = ROOT / "site"
MATHJAX = ROOT / "node_modules" / "mathjax" / "es5"
REVEAL = ROOT / "node_modules" / "reveal.js" / "dist"
SHIPPED = {
    MATHJAX: ["output/chtml/fonts"],
    REVEAL: ["reset.css", "reveal.css", "reveal.js"],
}
POLICY = (  # a page runs its own scripts, and asks no other host for anything
    "default-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'"
)
EXPLORER = "<!-- the explorer of the heads -->"  # on the home page
DOWNLOADS = """

Download this notebook: <a href="{0}downloads/to_fill_in/{1}" download>to fill in</a>,
or <a href="{0}downloads/worked/{1}" download>completed, with every answer</a>."""
BELOW = """

```{{toctree}}
:hidden:

{0}
```"""


def lay_out() -> None:
    """Copy everything that Sphinx reads into one folder; exit if an npm package is missing."""
    for folder in SHIPPED:
        if not folder.is_dir():
            sys.exit(f"{folder} is missing; run: npm ci")
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE / "docs", ignore=shutil.ignore_patterns("conf.py", "_*"))
    shutil.copytree(ROOT / "docs" / "_site", SOURCE, dirs_exist_ok=True)
    for name in ("_static", "_templates"):
        shutil.copytree(ROOT / "docs" / name, SOURCE / name)
    (SOURCE / "_static" / "viz").mkdir()
    for part in [FOLDER / "explorer.css", *FOLDER.glob("*.js")]:
        shutil.copy2(part, SOURCE / "_static" / "viz")
    shutil.copytree(ROOT / "figures", SOURCE / "figures", ignore=shutil.ignore_patterns("src"))
    shutil.copytree(ROOT / "notebooks", SOURCE / "notebooks")
    pages = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "LICENSE-TEXT")
    for name in (*pages, "docs/conf.py"):
        shutil.copy2(ROOT / name, SOURCE)
    for folder, parts in SHIPPED.items():
        home = SOURCE / "_static" / folder.parent.name
        for part in parts:
            (home / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (folder / part).is_dir() else shutil.copy2
            copy(folder / part, home / part)
        shutil.copy2(folder.parent / "LICENSE", home)
    chapters = notebooks_in(SOURCE / "notebooks")
    for path in chapters:  # the site has each drawing once, as SVG
        text = for_site(path.read_text(encoding="utf-8"), f"{up_from(path)}figures")
        path.write_text(text, encoding="utf-8")
    slides.list_decks(SOURCE / "slides.md", chapters)
    add_links(chapters)
    (SOURCE / "glossary.md").write_text(glossary.page(chapters), encoding="utf-8")
    write_modules()
    write_translator(SOURCE / "_static" / "viz" / TRANSLATOR)
    home, heads = SOURCE / "index.md", as_html(*HeadsExplorer()._repr_mimebundle_())
    home.write_text(home.read_text(encoding="utf-8").replace(EXPLORER, heads), encoding="utf-8")


def up_from(path: Path) -> str:
    """Return the way from the page of a chapter or side trip up to the root of the site."""
    return "../" * (len(path.relative_to(SOURCE).parts) - 1)


def for_site(text: str, figures: str) -> str:
    """Return a chapter for the site: drawings as files, pictures with alt text, live explorers."""
    notebook = json.loads(embed_pictures.as_files(text, figures))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("metadata", {}):
                output["data"]["text/html"] = as_html(output["data"], output["metadata"])
    return json.dumps(notebook)


def as_html(data: dict[str, Any], metadata: dict[str, Any]) -> str:
    """Return the HTML of an output that contains a picture, such as an explorer's still."""
    page = image_tag("".join(data["image/png"]).strip(), **metadata["image/png"])
    explorer = metadata.get("explorer", {})
    if explorer.get("module") == HeadsExplorer.module:
        explorer["state"] = HeadsExplorer().state()  # from the site's translator
    return explorer_element(**explorer, still=page) if explorer else page


def explorer_element(module: str, state: dict[str, Any], still: str = "") -> str:
    """Return an element that shows a still until explorers.js replaces it with the explorer."""
    state_text = html.escape(json.dumps(state))
    return f'<div data-explorer="{module}" data-state="{state_text}">{still}</div>'


def add_links(chapters: list[Path]) -> None:
    """Add links to each page: downloads, the side trips (for the side bar), a report of a mistake.

    Reports go to the repository that COURSE_REPOSITORY names, if it is set.
    """
    repository = course_repository()
    for path in chapters:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        name = path.relative_to(SOURCE / "notebooks").as_posix()
        notebook["cells"][0]["source"].append(DOWNLOADS.format(up_from(path), name))
        notebook["cells"][-1]["source"].append(report_link(path.name, repository))
        trips = [trip.stem for trip in path.parent.glob(f"{SIDE_TRIPS}/{name[:2]}_*.ipynb")]
        if trips:
            listed = "\n".join(f"{SIDE_TRIPS}/{trip}" for trip in sorted(trips))
            notebook["cells"][-1]["source"].append(BELOW.format(listed))
        path.write_text(json.dumps(notebook), encoding="utf-8")


def write_downloads() -> None:
    """Write each chapter once completed and once with blanks; both run with only the course."""
    worked, learner = SITE / "downloads" / "worked", SITE / "downloads" / "to_fill_in"
    shutil.copytree(ROOT / "notebooks", worked, ignore=shutil.ignore_patterns(".*"))
    tasks = {name: find_exercise(name) for name in exercises()}
    edition = Edition(tasks, frozenset(), repository=course_repository())
    for path in notebooks_in(worked):
        text = json.dumps(edition.notebook(Chapter.read(path)), ensure_ascii=False)
        write_whole(learner / path.relative_to(worked), text)


def add_policy() -> None:
    """Add the content security policy to every page, before everything that it governs."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    for path in SITE.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        path.write_text(page.replace("<head>", f"<head>\n{meta}", 1), encoding="utf-8")


def typeset() -> None:
    """Typeset the formulas of all pages, so that no browser has to."""
    command = ["node", ROOT / "tools" / "typeset.cjs", SITE]
    subprocess.run([*command, *SITE.rglob("*.html")], check=True, cwd=ROOT)


def write_modules() -> None:
    """Write a page for each top-level module, and for each subpackage with all its modules."""
    for module in iter_modules([ROOT / "course_lib"], "course_lib."):
        folder = ROOT.joinpath(*module.name.split("."))  # if it is a package
        parts = [p.name for p in iter_modules([folder], f"{module.name}.") if not p.ispkg]
        lines = [module.name, "=" * len(module.name)]
        if parts:
            lines += ["", ".. autosummary::", "", *(f"   {part}" for part in parts)]
        for name in (module.name, *parts):
            lines += ["", f".. automodule:: {name}"]
        (SOURCE / "api" / f"{module.name}.rst").write_text("\n".join(lines), encoding="utf-8")


def build() -> int:
    """Build the site, and return the exit code of Sphinx; warnings count as errors."""
    lay_out()
    written = ROOT / ".build" / "html"  # myst-nb creates a folder next to it
    shutil.rmtree(written, ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-j", "auto", "-d", ROOT / ".build" / "doctrees"]
    code = subprocess.call([sys.executable, "-m", "sphinx", *options, SOURCE, written])
    if written.exists():
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.move(written, SITE)
        for unused in {*SITE.glob("_static/scripts/fontawesome*"), *SITE.rglob("*.map")}:
            unused.unlink()
        typeset()
        slides.write_decks(SITE)
        write_downloads()
        add_policy()
    return code


if __name__ == "__main__":
    sys.exit(build())
