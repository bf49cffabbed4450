"""The built site: every page works without the network and is accessible."""

import json
import re
from html import escape, unescape
from itertools import product
from urllib.parse import unquote, urlsplit

import pytest
from build_site import POLICY, ROOT, SHIPPED, SITE
from explorer_page import served
from figure_asserts import assert_in_no_box
from playwright.sync_api import expect

from notebooks import pages

TRIP = "notebooks/side_trips/13_quantized_weights.html"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PAGES = [
    "index.html",
    "notebooks/00_start_here.html",
    "notebooks/01_attention.html",
    "notebooks/06_masks.html",
    "notebooks/13_kv_cache.html",
    TRIP,
    "api/course_lib.beam_search.html",
    "glossary.html",
]
WIDE = ["docs/results.html", "docs/teaching/chapters.html", "api/course_lib.data.html"]
CHAPTER = "06_masks.ipynb"
EXPLORED = [
    "index.html",
    *(f"notebooks/{n}.html" for n in ("01_attention", "06_masks", "10_tokenization")),
    *(f"notebooks/{n}.html" for n in ("12_decoding", "14_beam_search")),
]
EDITIONS = ["to_fill_in", "worked"]
DECK = "slides/01_attention.html"
COLORFUL = ["index.html", "notebooks/06_masks.html", DECK]
OTHERS = ["docs/teaching/chapters.html", "api/course_lib.data.html", "search.html?q=mask"]
# the formulas are typeset, and every slide shows its whole content
FAULTY_SLIDES = """async () => {
    await document.fonts.ready;
    return Reveal.getSlides().filter((slide, index) => {
        Reveal.slide(index);
        const { width, height } = Reveal.getConfig();
        const empty = slide.children.length === slide.querySelectorAll("h2").length;
        const pictures = [...slide.querySelectorAll("img")].every(i => i.naturalWidth && i.alt);
        const formulas = !/\\\\[([]/.test(slide.innerText);
        const fits = slide.scrollHeight <= height && slide.scrollWidth <= 1.01 * width;
        return empty || !pictures || !formulas || !fits;
    }).map(slide => slide.innerHTML.slice(0, 200));
}"""
CODE_FITS = "[...document.querySelectorAll('pre')].every(e => e.scrollWidth <= e.clientWidth)"
FITS_A_PHONE = """() => [document.documentElement, document.querySelector('.bd-article')]
    .every(element => element.scrollWidth <= 390)"""
DRAWINGS_FIT = """[...document.querySelectorAll('section > p > img[src*="svg"]')]
    .every(drawing => drawing.parentElement.scrollWidth <= 390)"""


@pytest.fixture(scope="module")
def site():
    """Serve the site on this computer, and return its address."""
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built; install npm, then run: make site")

    with served(SITE) as address:
        yield address


@pytest.fixture(scope="module")
def watched_tab(browser, site):
    """Open a tab that all tests share, with a list of what its pages do wrong."""
    context = browser.new_context(base_url=site)
    faults = []

    def ask(request):
        """Keep a request to another host."""
        if not request.url.startswith((site, "data:")):
            faults.append(request.url)

    def read(message):
        """Keep what the browser says about the page's content security policy."""
        if "Content Security Policy" in message.text:
            faults.append(message.text)

    context.on("request", ask)
    context.on("console", read)
    context.on("weberror", lambda error: faults.append(str(error.error)))
    yield context.new_page(), faults
    context.close()


@pytest.fixture
def page(watched_tab):
    """Open pages of the site; check that none contacts another host, breaks the policy or fails."""
    tab, faults = watched_tab
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="light")
    yield tab
    tab.mouse.move(0, 0)
    tab.goto("about:blank")
    found = faults.copy()
    faults.clear()
    assert not found


@pytest.mark.parametrize("name", [*PAGES, *WIDE])
def test_a_page_opens_offline_with_its_pictures_and_formulas(page, name):
    page.goto(name)
    page.wait_for_function("() => [...document.images].every(image => image.complete)")
    assert page.evaluate("[...document.images].every(i => i.naturalWidth && i.alt.length > 3)")
    if page.locator(".math").count():
        page.wait_for_selector("mjx-container", state="attached")  # it may be folded
    assert page.evaluate(CODE_FITS)
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function(FITS_A_PHONE)  # an explorer draws again after the resize
    assert page.evaluate(DRAWINGS_FIT)


def test_a_malformed_address_raises_no_error(page):
    for name in ("index.html", "search.html"):
        page.goto(f"{name}?q=%FF")
    page.wait_for_load_state("networkidle")


def test_every_page_has_the_policy_and_no_formula_that_needs_a_script(site):
    assert POLICY.startswith("default-src 'self' ")
    assert not re.sub(r"[a-z]+-(src|uri|action)|'(self|none|unsafe-inline)'|data:|[ ;]", "", POLICY)
    pages = [path for path in SITE.rglob("*.html") if "_static" not in path.parts]
    assert len(pages) > 100
    for path in pages:
        meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY, False)}">'
        before, policy, page = path.read_text(encoding="utf-8").partition(meta)
        assert policy and "<script" not in before and "<link" not in before, path
        assert not re.search(r'class="math[^>]*>\s*\\[([]', page) and "mathjax.js" not in page, path


@pytest.mark.parametrize(("theme", "width"), [("dark", 1280), ("light", 390)])
@pytest.mark.parametrize("name", EXPLORED)
def test_an_explorer_runs_without_a_kernel_on_wide_and_narrow_screens(page, name, theme, width):
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(name)
    explorer = page.locator(".explorer")
    explorer.locator("svg").first.wait_for()
    before = explorer.inner_html()
    explorer.locator(".handle").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert explorer.inner_html() != before
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    explorer.locator("svg").first.evaluate("picture => picture.scrollIntoView()")
    said = explorer.locator(".said").bounding_box()
    assert said["y"] + said["height"] <= 800, "the sentence is not in view next to the picture"


def test_a_report_a_plot_and_a_figure_stand_in_no_box_on_pages_and_slides(page):
    page.emulate_media(color_scheme="dark")
    page.goto("notebooks/06_masks.html")
    plot = ".cell_output img"
    for part in ('.cell_output [role="status"]', plot, 'section > p > img[src*="svg"]'):
        assert_in_no_box(page.locator(part).first)
    page.goto("slides/06_masks.html")
    page.wait_for_function("() => window.Reveal?.isReady()")
    for part in ('section > img[src^="data:"]', 'section > img[src*="svg"]'):
        show = "img => Reveal.slide(Reveal.getSlides().indexOf(img.closest('section')))"
        page.locator(part).first.evaluate(show)
        page.wait_for_timeout(1000)  # the slide has moved
        assert_in_no_box(page.locator(part).first)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 800)])
def test_the_first_screen_of_the_home_page_is_a_translation_that_a_button_breaks(
    page, width, height
):
    page.set_viewport_size({"width": width, "height": height})
    with page.expect_response("**/translator.safetensors"):  # nobody has touched the page
        page.goto("index.html")
    expect(page.get_by_text("The translation is right")).to_be_visible()
    field, large = (
        page.get_by_role("textbox", name="a number"),
        page.locator(".explorer svg").nth(1),
    )
    button = page.get_by_role("button", name="Break it")
    for part in (page.locator("article h1"), field, button, large):
        box = part.bounding_box()
        assert box["y"] >= 0 and box["x"] + box["width"] <= width
        assert box["y"] + (308 if part is large else box["height"]) <= height
    said = page.locator(".explorer .said").bounding_box()
    assert width > 390 or large.bounding_box()["y"] + 308 <= said["y"], "the map is under it"
    assert large.bounding_box()["width"] > 300
    assert page.locator(".bd-sidebar-secondary").count() == 0
    field.fill("345")
    button.click()
    expect(page.get_by_text("The translation is wrong")).to_be_visible()
    assert page.locator(".explorer .future").count() > 0


def test_the_home_page_links_to_chapter_0(page, browser, site):
    page.goto("index.html")
    page.get_by_role("link", name="Read chapter 0").click()
    assert page.locator("article h1").inner_text().startswith("0 · Start here")
    plain = browser.new_context(java_script_enabled=False).new_page()
    for name in EXPLORED:
        plain.goto(f"{site}/{name}")
        assert len(plain.locator("[data-explorer] img").get_attribute("alt")) > 30
    plain.context.close()


def test_the_downloads_of_a_chapter_match_their_names(site):
    for path in pages():
        place = path.relative_to(ROOT / "notebooks")
        html = SITE / "notebooks" / place.with_suffix(".html")
        links = re.findall(r'href="([^"]+)" download', html.read_text(encoding="utf-8"))
        fill, worked = (SITE / "downloads" / edition / place for edition in EDITIONS)
        assert [(html.parent / link).resolve() for link in links] == [fill, worked]
        assert worked.read_bytes() == path.read_bytes()
        cells = json.loads(fill.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells)
        assert "from my_lib" not in str(cells)  # a single downloaded chapter has no my_lib
    assert "raise NotImplementedError" in (SITE / "downloads" / EDITIONS[0] / CHAPTER).read_text()


def test_the_search_works_offline_and_lists_chapters_first(page):
    page.goto("search.html?q=KV+cache")
    page.wait_for_selector("ul.search li .context")
    page.wait_for_selector(".search-summary:has-text('Search finished')")
    assert page.locator("ul.search li a").first.inner_text() == "13 · The KV cache"
    kinds = page.locator("ul.search li a").evaluate_all("all => all.map(a => a.href.split('/')[3])")
    chapters = kinds.count("notebooks")
    assert len(kinds) > chapters > 5 and kinds[:chapters] == ["notebooks"] * chapters
    assert "cache" in page.locator("ul.search .context").first.inner_text().lower()


def test_a_side_trip_is_below_its_chapter_and_its_setup_is_folded(page):
    page.goto("notebooks/13_kv_cache.html")
    link = page.locator(".bd-sidebar-primary li.current li a")
    assert link.all_text_contents() == [
        "Side trip: how many bits does a key need?",
        "Side trip: how few bits does a weight need?",
        "Side trip: can a model that’s nearly always wrong save time?",
    ]
    page.get_by_role("link", name="How few bits does a weight need?", exact=True).click()
    page.wait_for_url(f"**/{TRIP}")
    assert "Side trip" in page.locator("article h1").inner_text()
    assert page.locator(".bd-sidebar-primary li.current li.current").count() == 1
    setup = page.get_by_text("import course_lib", exact=False).first
    expect(setup).to_be_hidden()
    page.get_by_role("link", name="13 · The KV cache").last.click()
    page.wait_for_url("**/notebooks/13_kv_cache.html")


def test_every_chapter_has_slides_that_fit_into_the_window(page):
    decks = {path.name for path in SITE.glob("slides/*.html")}
    assert decks == {f"{path.stem}.html" for path in pages()}
    for deck in sorted(decks)[::4]:
        page.goto(f"slides/{deck}")
        page.wait_for_function("() => window.Reveal?.isReady()")
        page.wait_for_function("() => [...document.images].every(image => image.complete)")
        assert (deck, page.evaluate(FAULTY_SLIDES)) == (deck, [])


def test_the_answers_of_a_quiz_are_folded_until_a_key_opens_them(page):
    page.goto("docs/teaching/chapters.html")
    answer = page.get_by_text("1/4 and 3/4.")
    assert page.locator("article li details:not([open])").count() > 90
    page.locator("article li summary").first.focus()
    for shown in (True, False):
        page.keyboard.press("Enter")
        assert answer.is_visible() == shown


@pytest.mark.parametrize(
    ("name", "theme"),
    [*product([*COLORFUL, *OTHERS], ["dark"]), *product(COLORFUL, ["light"])],
)
def test_axe_finds_no_serious_accessibility_problem(page, name, theme):
    page.emulate_media(color_scheme=theme)
    page.goto(name)
    page.wait_for_load_state("networkidle")  # explorers run, and a search has results
    page.add_script_tag(path=AXE)
    faults = page.evaluate("axe.run().then(result => result.violations)")
    serious = [fault for fault in faults if fault["impact"] != "minor"]
    assert not [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in serious]


def test_no_link_inside_the_site_is_broken(site):
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in SITE.rglob("*.html")
        if "_static" not in path.parts
    }
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//") or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = names.get(target, set()) | {""}
            if not target.exists() or (target in names and parts.fragment not in anchors):
                broken.append((path.name, link))
    assert not broken


def test_no_address_that_a_chapter_cites_is_lost(site):
    for path in pages():
        html = SITE / path.relative_to(ROOT).with_suffix(".html")
        page = unescape(html.read_text(encoding="utf-8"))
        cited = re.findall(r"\]\((https://[^)\s]+)\)", path.read_text(encoding="utf-8"))
        assert [address for address in cited if f'href="{address}"' not in page] == [], path.name


def test_the_licenses_of_other_peoples_scripts_are_on_the_site(site):
    for package in (folder.parent for folder in SHIPPED):
        shipped = SITE / "_static" / package.name / "LICENSE"
        assert shipped.read_bytes() == (package / "LICENSE").read_bytes()
