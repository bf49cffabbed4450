"""Write slides for each chapter and side trip of the built site into site/slides/ (make site).

A deck contains the chapter's question and opening picture, then the formulas, figures and guesses
of each section with the answers to the guesses, and the recap. Everything is taken from the
chapter's page.
"""

import json
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urljoin

from lxml import html
from lxml.html import HtmlElement

from course_lib.exercises.workbook.notebook_builder import SIDE_TRIPS

# solutions, and the link symbols next to headings
LEFT_OUT = ".//details[not(ancestor::div[@class='guess'])] | .//a[@class='headerlink']"
SHOWN = (
    ".//div[contains(@class, 'math') or @class='guess'] | .//img"
    " | .//p[contains(., 'Guess')][not(ancestor::div[@class='guess'])]"
)
SUMMARY, TABLE = "*[following-sibling::*//table][not(self::h2)]", ".//table"  # in a recap
DECK = Template(Path(__file__).with_name("slide_deck.html").read_text(encoding="utf-8"))


def list_decks(page: Path, chapters: list[Path]) -> None:
    """On a page of the site, add a link to each chapter's deck."""
    with page.open("a", encoding="utf-8") as file:
        for path in chapters:
            first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"][0]
            title = escape(first.removeprefix("# ").strip())
            file.write(f'\n- <a href="slides/{path.stem}.html">{title}</a>')


def write_decks(site: Path) -> None:
    """Write a deck for every chapter on the site."""
    (site / "slides").mkdir()
    for path in [*site.glob("notebooks/*.html"), *site.glob(f"notebooks/{SIDE_TRIPS}/*.html")]:
        chapter, name = html.parse(path).find(".//article/section"), path.relative_to(site)
        (site / "slides" / path.name).write_text(deck(chapter, name.as_posix()), encoding="utf-8")


def deck(chapter: HtmlElement, name: str) -> str:
    """Return the deck of the page with this name; this changes ``chapter``."""
    for part in chapter.xpath(LEFT_OUT):
        part.drop_tree()
    chapter.rewrite_links(lambda link: link if ":" in link else f"..{urljoin(f'/{name}', link)}")
    title = chapter.find("h1").text_content()
    back = f'<p><a href="../{name}">Open the chapter</a></p>'
    question, picture = chapter.find("p/strong"), chapter.find(".//img")  # the first of each
    texts = [f"<h1>{escape(title)}</h1><p>{markup(question)}</p>{back}"]
    texts += [] if picture is None else [markup(picture)]
    for section in chapter.findall("section"):
        heading = section.find("h2").text_content()
        above = f"<h2>{escape(heading)}</h2>"
        if heading == "Recap":
            texts += [above + markup(*section.xpath(part)) for part in (SUMMARY, TABLE)]
            break
        if heading != "Exercises":
            texts += [above + text for part in section.xpath(SHOWN) for text in turned(part)]
    slides = "\n".join(f"<section>{text}</section>" for text in texts)
    return DECK.substitute(title=escape(title), slides=slides)


def turned(part: HtmlElement) -> list[str]:
    """Return the HTML of a part's slides; the answer to a guess gets a slide after the guess."""
    answers = part.xpath("details")
    for answer in answers:
        answer.getparent().remove(answer)
    return [markup(part), *(f"<h3>Answer</h3>{markup(*each[1:])}" for each in answers)]


def markup(*parts: HtmlElement) -> str:
    """Return the HTML of elements."""
    return "".join(html.tostring(part, encoding="unicode", with_tail=False) for part in parts)
