"""The numbers in README and docs are those of the records, and a wrong one is found."""

import re

import differences_from_paper
import paper_audit
import pytest
import update_results

from course_lib.tasks.numbers import TranslatorConfig


def test_every_page_says_what_the_records_say(capsys):
    assert update_results.main(["--check"]) == 0, capsys.readouterr().out


def test_every_result_is_shown_somewhere():
    pages = "".join(page.read_text(encoding="utf-8") for page in update_results.PAGES)
    assert set(re.findall(r"<!-- results: (\w+) -->", pages)) == update_results.REGIONS.keys()


def test_a_wrong_number_is_found_and_put_right(tmp_path, capsys):
    page = tmp_path / "page.md"
    right = update_results.rewritten("2.20\n<!-- results: training -->\n<!-- end -->\nafter\n")
    wrong = right.replace(" (", "9 (", 1)  # the first number of the table has a digit more
    page.write_text(wrong, encoding="utf-8")
    assert update_results.main(["--check"], [page]) == 1
    assert "page.md differs" in capsys.readouterr().out and page.read_text() == wrong != right
    assert update_results.main([], [page]) == 0
    assert page.read_text(encoding="utf-8") == right and right.startswith("2.20\n")
    assert update_results.main(["--check"], [page]) == 0


@pytest.mark.parametrize(
    "page",
    ["<!-- results: training -->\n", "<!-- end -->", "<!-- results: speed -->\n<!-- end -->"],
)
def test_a_region_without_end_beginning_or_record_is_refused(page):
    with pytest.raises(ValueError):
        update_results.rewritten(page)


def test_a_ratio_stands_in_its_row_and_column(monkeypatch):
    ratio = {"median": 1.234, "min": 1.0, "max": 2.0}
    row = {"name": "bfloat16", "table": "training step, base", "ratio": ratio}
    monkeypatch.setattr(update_results, "bench", lambda part: {"part": part, "rows": [row]})
    written = update_results.bench_table(
        "training", {"x": "other", "bfloat16": "ours"}, "table", update_results.SIZES
    )
    assert written.splitlines()[0] == "|  | small | base |"
    assert written.splitlines()[2:] == ["| other | – | – |", "| ours | – | 1.23 (1.00 to 2.00) |"]


def test_a_mean_stands_only_where_every_seed_was_trained():
    written = update_results.by_seed({"all": {0: 1.0, 1: 2.0, 2: 6.0}, "one": {1: 2.0}})
    assert written.splitlines()[2:] == [
        "| all | 1.000 | 2.000 | 6.000 | 3.0000 |",
        "| one | – | 2.000 | – | – |",
    ]


def test_number_words_were_measured_as_the_page_says():
    entries = update_results.read_entries(update_results.NUMBERS)
    wanted = [(to, seed) for to in ("de", "fr", "zh") for seed in (0, 1, 2)]
    assert [(entry["to"], entry["seed"]) for entry in entries] == wanted
    steps = TranslatorConfig().steps
    assert all(entry["steps"] == steps and entry["count"] == 1000 for entry in entries)


def test_the_vocabularies_of_a_row_are_those_that_round_to_it():
    for name, (config, millions) in paper_audit.ROWS.items():
        if millions is not None:
            sizes = paper_audit.vocabularies(name)
            others = paper_audit.parameters(name) - config.tgt_vocab_size * config.d_model
            for size in (sizes[0] - 1, sizes[0], sizes[-1], sizes[-1] + 1):
                rounded = (others + size * config.d_model + 500_000) // 1_000_000
                assert (rounded == millions) == (size in sizes)


@pytest.mark.parametrize("name", paper_audit.TRAININGS)
def test_the_papers_own_product_gives_what_table_2_prints(name):
    *_, printed = paper_audit.TRAININGS[name]
    assert f"{paper_audit.training_cost(name)['GPU-seconds']:.1e}" == f"{printed:.1e}"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "1 times `Differs:`, and 0 rows"),
        ([("why", "what", "tests/test_add_norm.py::test_nothing")], "no tests/.*test_nothing"),
        ([("why", "what", "notebooks/04_add_norm.ipynb#0")], "no notebooks/04_add_norm.ipynb#0"),
    ],
)
def test_a_difference_without_a_row_or_a_row_without_evidence_is_refused(monkeypatch, rows, words):
    monkeypatch.setitem(differences_from_paper.LEDGER, "add_norm.LayerNorm", rows)
    with pytest.raises(ValueError, match=words):
        differences_from_paper.ledger()
