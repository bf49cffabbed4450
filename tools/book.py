"""Write the course as a book: an EPUB, and a PDF for printing (make book).

Both contain the chapters and side trips with their saved outputs. The EPUB has its formulas in
MathML, which screen readers can read; Chromium prints the PDF.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import embed_pictures
from browser_driver import NO_BROWSER, chromium
from build_site import MATHJAX

from notebooks import ROOT, pages

SOURCE, BOOK = ROOT / ".build" / "book", ROOT / "book"
NAME = "transformer_course"
CONF = """
import sys
sys.path.insert(0, {docs!r})
from conf import *
extensions = ["myst_nb", "sphinx.ext.mathjax"]
templates_path = html_static_path = html_css_files = html_js_files = html_extra_path = []
html_theme, html_theme_options, html_search_scorer = "basic", {{}}, ""
exclude_patterns, suppress_warnings = ["figures"], ["myst.header", "myst.xref_missing"]
html_favicon, version, language = "", "1", "en"
epub_show_urls, epub_use_index = "no", False
epub_description = "The Transformer of Attention Is All You Need, built step by step"
"""
LINK = re.compile(r'<link rel="stylesheet"[^>]*/mystnb[^>]*>')  # the EPUB lists no such file
PRINTED = """@page { size: A4; margin: 18mm }
body { font: 10.5pt/1.45 Georgia, serif } h1, h2, h3 { font-family: system-ui, sans-serif }
span[id^="document-"] { display: block; break-before: page }
h1, h2, h3 { break-after: avoid } pre, img, table { break-inside: avoid }
pre { font-size: 8pt; white-space: pre-wrap; background: #f6f6f6; padding: 4pt }
img { max-width: 100% } table { border-collapse: collapse }
td, th { padding: 2pt 6pt; border: 1px solid #bbb }
.headerlink, .related, .sphinxsidebar, .footer { display: none }"""


def lay_out() -> None:
    """Write what Sphinx reads: the chapters, each followed by its side trips, and the drawings."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "figures", SOURCE / "figures", ignore=shutil.ignore_patterns("src"))
    names = []
    for path in sorted(pages(), key=lambda path: (path.stem[:2], len(path.parts), path.stem)):
        name = path.relative_to(ROOT)
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(name.parts) - 1)
        text = embed_pictures.as_files(path.read_text(encoding="utf-8"), f"{up}figures")
        text = text.replace('"hide-input"', '"remove-input"')  # a book's reader runs nothing
        (SOURCE / name).write_text(text, encoding="utf-8")
        names.append(name.with_suffix("").as_posix())
    listed = "\n".join(names)
    title = "# The Transformer, part by part"
    (SOURCE / "index.md").write_text(f"{title}\n\n```{{toctree}}\n{listed}\n```\n", "utf-8")
    (SOURCE / "conf.py").write_text(CONF.format(docs=str(ROOT / "docs")), "utf-8")


def run_sphinx(builder: str) -> Path:
    """Return the folder with what a builder of Sphinx wrote; exit if it fails."""
    written = ROOT / ".build" / builder
    shutil.rmtree(written, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-b", builder]
    subprocess.run([*command, "-d", ROOT / ".build" / "book_trees", SOURCE, written], check=True)
    return written


def write_epub() -> Path:
    """Write the EPUB, with formulas in MathML, which its list of contents has to say."""
    folder = run_sphinx("epub")
    (packed,) = folder.glob("*.epub")
    packed.unlink()
    texts = sorted(folder.rglob("*.xhtml"))
    subprocess.run(["node", ROOT / "tools" / "typeset.cjs", "book", *texts], check=True, cwd=ROOT)
    content = (folder / "content.opf").read_text(encoding="utf-8")
    for path in texts:
        text = LINK.sub("", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        if "<math" in text:
            entry = f'href="{path.relative_to(folder).as_posix()}" media-type'
            content = content.replace(entry, f'properties="mathml" {entry}')
    (folder / "content.opf").write_text(content, encoding="utf-8")
    book = BOOK / f"{NAME}.epub"
    with ZipFile(book, "w", ZIP_DEFLATED) as archive:
        archive.write(folder / "mimetype", "mimetype", ZIP_STORED)
        listed = {*re.findall(r'href="([^"]+)"', content), "META-INF/container.xml"}
        for name in sorted({*listed, "content.opf"}):
            archive.write(folder / name, name)
    return book


def write_pdf() -> Path:
    """Print everything as one page, with an outline; exit if there is no browser."""
    folder = run_sphinx("singlehtml")
    (folder / "_static" / "mathjax").mkdir()
    shutil.copytree(MATHJAX / "output", folder / "_static" / "mathjax" / "output")
    command = ["node", ROOT / "tools" / "typeset.cjs", folder, folder / "index.html"]
    subprocess.run(command, check=True, cwd=ROOT)
    book = BOOK / f"{NAME}.pdf"
    with chromium() as browser:
        if browser is None:
            sys.exit(NO_BROWSER)
        page = browser.new_page()
        page.goto((folder / "index.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.add_style_tag(content=PRINTED)
        page.pdf(path=book, prefer_css_page_size=True, outline=True, tagged=True)
    return book


if __name__ == "__main__":
    BOOK.mkdir(exist_ok=True)
    lay_out()
    for write in (write_epub, write_pdf):
        print(write().relative_to(ROOT))
