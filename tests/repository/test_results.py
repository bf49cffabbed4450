"""The numbers in README and docs agree with the records."""

import ast
import re

import paper_audit
import pytest
import update_results

from course_lib.tasks.numbers import TranslatorConfig
from notebooks import ROOT


def test_every_page_agrees_with_the_records():
    assert update_results.write(check=True) == [], "run: make results"


def test_every_result_is_shown_somewhere():
    pages = "".join(page.read_text(encoding="utf-8") for page in update_results.PAGES)
    assert set(re.findall(r"<!-- results: (\w+) -->", pages)) == update_results.REGIONS.keys()
    assert pages.count("<!-- results: ") == pages.count("<!-- end -->")


def test_number_words_were_measured_as_described_on_the_page():
    entries = update_results.read_entries(update_results.NUMBERS)
    wanted = [(to, seed) for to in ("de", "fr", "zh") for seed in (0, 1, 2)]
    assert [(entry["to"], entry["seed"]) for entry in entries] == wanted
    steps = TranslatorConfig().steps
    assert all(entry["steps"] == steps and entry["count"] == 1000 for entry in entries)


@pytest.mark.parametrize("name", paper_audit.TRAININGS)
def test_the_papers_own_product_gives_the_numbers_in_table_2(name):
    *_, printed = paper_audit.TRAININGS[name]
    assert f"{paper_audit.training_cost(name)['GPU-seconds']:.1e}" == f"{printed:.1e}"


def test_a_model_on_paper_has_as_many_parameters_as_the_published_one():
    assert paper_audit.parameter_count(paper_audit.LLAMA_2_7B) == 6_738_415_616


def places_that_differ():
    """List the modules and definitions whose docstrings mark a departure from the paper."""
    for path in (ROOT / "course_lib").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(ROOT / "course_lib").with_suffix("").parts)
        if "Differs:" in (ast.get_docstring(tree) or ""):
            yield module
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                if "Differs:" in (ast.get_docstring(node) or ""):
                    yield f"{module}.{node.name}"


def test_every_difference_from_the_paper_is_explained_and_its_evidence_exists():
    page = (ROOT / "docs" / "differences_from_paper.md").read_text(encoding="utf-8")
    assert [place for place in places_that_differ() if f"`{place}`" not in page] == []
    for file, test, cell in re.findall(r"`([\w/]+\.(?:py|ipynb))(?:::(\w+)|#(\w+))?`", page):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text or f'"id": "{cell}"' in text or not test + cell, (file, test)
