"""The bug clinic: each symptom is there, a probe sees it, and what is mended shows neither."""

import ast
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from course_lib.exercises.clinic import (
    CHARTS,
    KIT,
    Chart,
    causes,
    clinic,
    diagnose,
    examine_mend,
    try_probe,
)
from course_lib.exercises.clinic_cases import CASES, DECOYS
from course_lib.exercises.clinic_models import Patient

CHAPTER = Path(__file__).resolve().parents[2] / "notebooks" / "15_bug_clinic.ipynb"

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def new_charts(monkeypatch, tmp_path):
    """Give each test charts of its own, and a folder for what is noted."""
    monkeypatch.chdir(tmp_path)
    for case in CASES:
        monkeypatch.setitem(CHARTS, case.name, Chart(case))


def answers() -> dict[str, dict]:
    """Read the chapter's own answers, by case."""
    found = {}
    for cell in nbformat.read(CHAPTER, as_version=4).cells:
        if cell.cell_type == "code" and "diagnose(" in cell.source:
            body = ast.parse(cell.source).body
            given = {
                node.targets[0].id: ast.literal_eval(node.value)
                for node in body
                if isinstance(node, ast.Assign)
            }
            found[ast.literal_eval(body[-1].value.args[0])] = given
    return found


@every_case
def test_the_symptom_is_there_a_probe_sees_it_and_the_right_model_shows_neither(case):
    ill, right = Patient(case.mistakes), Patient()
    assert case.measure(ill)[1] and not case.measure(right)[1]
    assert not try_probe(case, ill, case.probe).passed
    assert try_probe(case, right, case.probe).passed


@pytest.mark.parametrize("case", CASES[:2], ids=["fresh", "trained"])
def test_no_probe_sounds_an_alarm_for_the_right_model(case):
    assert CASES[0].fresh and not CASES[1].fresh
    alarms = [name for name in KIT if not try_probe(case, Patient(), name).passed]
    assert not alarms


def test_a_case_without_its_bug_would_be_noticed():
    mistake = CASES[0].mistakes[0]
    sound = replace(CASES[0], mistakes=(replace(mistake, edits=()),))
    patient = Patient(sound.mistakes)
    assert not sound.measure(patient)[1]
    assert try_probe(sound, patient, sound.probe).passed


@every_case
def test_the_chapter_mends_each_case_with_one_probe(case):
    given = answers()[case.name]
    probes = given.get("my_probes", [case.probe])
    report = diagnose(case.name, probes, given["my_cause"], given["my_mend"])
    assert report.complete, report
    assert len(probes) == clinic(case.name).score == 1
    assert case.mistakes[0].seen in report.hint


def test_no_name_of_a_case_gives_its_cause_away_and_no_cause_is_used_twice():
    assert len(CASES) >= 10
    assert len(set(causes())) == len(CASES) + len(DECOYS)
    assert {probe for _, probe in DECOYS.values()} <= set(KIT)
    assert not any(case.cause.replace(" ", "_") in case.name for case in CASES)


def test_the_score_counts_each_probe_once_over_all_runs():
    assert clinic("loss_near_zero").score == 0
    for probes in (["context"], ["context", "causality"], "causality"):
        diagnose("loss_near_zero", probes)
    assert clinic("loss_near_zero").score == 2


def test_what_is_not_answered_yet_leads_on_step_by_step():
    first = diagnose("loss_near_zero", ...)
    assert not first.attempted and "the loss ends at" in first.detail
    assert "Choose one or more probes" in first.hint
    second = diagnose("loss_near_zero", ["causality"], ...)
    assert (
        not second.attempted
        and "ALARM  causality" in second.detail
        and "What is wrong?" in second.hint
    )
    third = diagnose("loss_near_zero", ["causality"], "causal missing", ...)
    assert "mask = padding_mask(tgt" in third.detail and "a list of pairs" in third.hint
    assert [stage.held for stage in third.stages] == [True, False] and not third.passed


@pytest.mark.parametrize("cause", ["plain list", "bad luck", 3])
def test_a_wrong_cause_is_answered_and_shows_no_code(cause):
    report = diagnose("loss_near_zero", ["causality"], cause, ("a", "b"))
    assert not report.passed and "def hidden" not in report.detail
    assert "parameters registered" in report.hint or "is not among the causes" in report.hint


def test_nothing_is_told_of_a_probe_that_was_not_asked():
    for probes, said in [("context", "Does it?"), (["context", "causality"], "as it does here")]:
        hint = diagnose("loss_near_zero_again", probes, "causal missing").hint
        assert hint.endswith(said) or said in hint
    assert "it is quiet" in diagnose("loss_near_zero", "determinism", "dropout in eval mode").hint


@pytest.mark.parametrize("blank", [..., None, ""])
def test_what_is_left_blank_is_no_wrong_answer(blank):
    assert not diagnose("loss_near_zero", blank, "causal missing", blank).attempted
    assert not diagnose("loss_near_zero", ["causality"], blank, blank).attempted
    asked = diagnose("loss_near_zero", ["causality"], "causal missing", blank)
    assert asked.attempted and "a list of pairs" in asked.hint
    assert diagnose("loss_near_zero", ["causalty"], blank).attempted, "a wrong name is an answer"


def test_a_probe_that_does_not_exist_costs_nothing():
    report = diagnose("loss_near_zero", ["causalty"])
    assert "no probe 'causalty'" in report.hint and clinic("loss_near_zero").score == 0
    assert "no probe -17.25" in diagnose("loss_near_zero", -17.25, -17.25, -17.25).hint
    with pytest.raises(ValueError, match="did you mean causality"):
        clinic("loss_near_zero").probe("causalty")
    with pytest.raises(ValueError, match="did you mean loss_near_zero"):
        diagnose("loss_near_zer0")


@pytest.mark.parametrize(
    ("mend", "said"),
    [
        (("zzz", "y"), "no 'zzz' in Transformer"),
        (("mask = padding", "mask = = padding"), "SyntaxError"),
        (("tgt, self", "tgt,  self"), "The symptom is still there"),
        (3, "Write a pair (old, new)"),
        ("mask = padding", "Write a pair (old, new)"),
        ([("a", "b"), ("c",)], "Write a pair (old, new)"),
    ],
)
def test_lines_that_mend_nothing_are_answered(mend, said):
    healed, hint = examine_mend(clinic("loss_near_zero"), mend)
    assert not healed and said in hint
