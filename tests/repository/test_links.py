"""All links work, every chapter links to its neighbors, and every citation is a link."""

import json
import re
import shutil
from pathlib import Path
from posixpath import normpath
from urllib.parse import urlsplit

import build_site
import navigation
import pytest

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.public_issues import with_links
from course_lib.exercises.workbook.notebook_builder import source_of
from course_lib.exercises.workbook.workbook_folder import workbook_files

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS, NOTEBOOKS = navigation.chapters(), navigation.pages()
PAGES = [
    ROOT / p
    for pattern in ("*.md", "docs/*.md", "docs/teaching/*.md", "figures/*.md")
    for p in sorted(ROOT.glob(pattern))
]
HOSTS = {  # the hosts of external links; open a new address before you add its host
    "aclanthology.org",
    "arxiv.org",
    "cdn.openai.com",
    "d2l.ai",
    "doi.org",
    "github.com",
    "huggingface.co",
    "karpathy.github.io",
    "kazemnejad.com",
    "nlp.seas.harvard.edu",
    "proceedings.mlr.press",
    "pytorch.org",
    "timodenk.com",
    "transformer-circuits.pub",
    "unsloth.ai",
    "www.deeplearningbook.org",
    "www.jstor.org",
    "www.lesswrong.com",
    "www.manning.com",
    "www.youtube.com",
}
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.M | re.S)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
NAMES = r"([A-Z]\w+)(?: and (?:others|[A-Z]\w+)|(?:, [A-Z]\w+)+ and [A-Z]\w+| et al\.)?"
CITATION = re.compile(
    rf"({NAMES}\s\((?:19|20)\d\d|\({NAMES},?\s(?:19|20)\d\d\)|([A-Z]\w+)\s(?:and\sothers|et\sal\.))"
    r"(?!(?:\s\(\d{4})?\)?[,:;]?\s⟦⟧)"
)
ISSUE = re.compile(r"\w #\d+\b")
REPOSITORY = "https://github.com/NAME/COURSE"
every_text = pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.stem)


def cells(path: Path) -> list[str]:
    """Return the texts of a chapter, or the text of a page, without code."""
    text = path.read_text(encoding="utf-8")
    return prose(text) if path.suffix == ".ipynb" else [CODE.sub("", text)]


def prose(notebook: str | bytes) -> list[str]:
    """Return the texts of a notebook, without code."""
    found = json.loads(notebook)["cells"]
    return [CODE.sub("", source_of(c)) for c in found if c["cell_type"] == "markdown"]


def targets(texts: list[str]) -> set[str]:
    """Return the addresses of all links and pictures."""
    return {link[2] or link[3] for text in texts for link in LINK.finditer(text)}


def anchors(texts: list[str]) -> set[str]:
    """Return the anchors of a page's headings, in the form of GitHub and the site."""
    headings = re.findall(r"^#+ (.+)$", "\n".join(texts), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(path: Path, links: set[str]) -> list[str]:
    """Return a file's links to files and headings that do not exist."""
    found = []
    for link in links:
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(cells(target))):
            found.append(link)
    return found


def foreign(links: set[str]) -> list[str]:
    """Return the external links that are not https, or whose host is not on our list."""
    parts = {link: urlsplit(link) for link in links}
    away = {link: part for link, part in parts.items() if part.scheme or part.netloc}
    return [link for link, p in away.items() if p.scheme != "https" or p.hostname not in HOSTS]


def unlinked(texts: list[str]) -> list[str]:
    """Return the citations without a link in their own text or in an earlier one."""
    found, linked = [], set()
    for text in texts:
        links = [link for link in LINK.finditer(text) if (link[2] or "").startswith("https:")]
        linked |= {name for link in links for name in re.findall(r"\w+", link[1])}
        rest = LINK.sub(lambda m: "⟦⟧" if (m[2] or "").startswith("https:") else "", text)
        for cited in CITATION.finditer(rest):
            if not linked & set(filter(None, cited.groups()[1:])):
                found.append(cited[0])
        found += ISSUE.findall(rest)
        for paragraph in re.findall(r"^\*Further reading\.\*(.+?)(?:\n\n|\Z)", rest, re.M | re.S):
            found += re.findall(r"\*[A-Z][^*]+\*", paragraph)
            found += [] if "⟦⟧" in paragraph else [paragraph]
    return found


@every_text
def test_every_link_leads_to_an_existing_file_and_heading_or_to_a_known_host(path):
    links = targets(cells(path))
    assert not dead(path, {link for link in links if not urlsplit(link).scheme})
    assert not foreign(links)


@every_text
def test_every_cited_paper_and_issue_is_linked(path):
    assert not unlinked(cells(path))


def test_every_issue_that_a_report_cites_is_linked():
    cited = {mistake.seen for name in exercises() for mistake in known_mistakes(name)}
    assert not [seen for seen in cited if ISSUE.search(LINK.sub("", with_links(seen)))]


def test_every_chapter_links_to_its_neighbors_in_its_box_and_at_its_end():
    assert navigation.write(check=True) == [], "run: make sync"


@pytest.mark.parametrize("place", range(len(CHAPTERS) - 1), ids=lambda n: CHAPTERS[n].stem)
def test_the_recap_links_to_the_next_chapter(place):
    texts = cells(CHAPTERS[place])
    recap = next(n for n, text in enumerate(texts) if text.startswith("## Recap"))
    following = CHAPTERS[place + 1].name
    ends_with = "\n".join(texts[recap : recap + 3])
    assert f"]({following})" in ends_with, f"link to {following} in the recap, after *Next:*"


@pytest.mark.parametrize("solutions", [True, False])
def test_no_link_of_a_workbook_is_dead(solutions, monkeypatch):
    monkeypatch.delenv("COURSE_REPOSITORY", raising=False)
    files = workbook_files(solutions)
    for name, content in files.items():
        if name.endswith(".ipynb"):
            inside = {link for link in targets(prose(content)) if not urlsplit(link).scheme}
            found = {normpath(f"{name}/../{link}") for link in inside}
            assert found <= files.keys(), name
            last = source_of(json.loads(content)["cells"][-1])
            (path,) = (path for path in NOTEBOOKS if path.as_posix().endswith(f"notebooks/{name}"))
            assert last == cells(path)[-1]


def test_readers_can_report_a_mistake_if_the_course_has_a_repository(tmp_path, monkeypatch):
    assert "issues/new" not in "".join(path.read_text(encoding="utf-8") for path in NOTEBOOKS)
    monkeypatch.setenv("COURSE_REPOSITORY", f"{REPOSITORY}/")
    monkeypatch.setattr(build_site, "SOURCE", tmp_path)
    (tmp_path / "notebooks").mkdir()
    copy = Path(shutil.copy(CHAPTERS[3], tmp_path / "notebooks"))
    build_site.add_links([copy])
    made = workbook_files(True)[copy.name]
    end = f" · [Report a mistake]({REPOSITORY}/issues/new?title=Chapter%2003%3A%20)"
    assert prose(copy.read_text(encoding="utf-8"))[-1].endswith(f"→{end}")
    assert prose(made)[-1].endswith(f"→{end}")
