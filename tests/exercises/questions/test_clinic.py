"""The bug clinic shows each symptom, a probe catches it, and a fixed model passes both."""

import pytest

from course_lib.exercises import diagnose
from course_lib.exercises.questions.clinic import (
    PROBES_BY_NAME,
    causes,
    clinic,
    examine_fix,
    try_probe,
)
from course_lib.exercises.questions.clinic_cases import CASES, DECOYS
from course_lib.exercises.questions.clinic_models import Patient

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


FIX = ("mask = padding_mask(tgt", "mask = causal_mask(tgt.size(1), tgt.device) & padding_mask(tgt")


@pytest.fixture(autouse=True)
def new_charts(monkeypatch, tmp_path):
    """Give each test new charts, and a folder for the recorded progress."""
    monkeypatch.chdir(tmp_path)
    clinic.cache_clear()


@every_case
def test_a_case_has_its_symptom_a_probe_catches_it_and_the_correct_model_is_fine(case):
    ill, right = Patient(case.mistakes), Patient()
    assert case.measure(ill)[1] and not case.measure(right)[1]
    assert not try_probe(case, ill, case.probe).passed
    assert try_probe(case, right, case.probe).passed


@pytest.mark.parametrize("case", [CASES[0], CASES[5]], ids=["fresh", "trained"])
def test_no_probe_raises_an_alarm_on_the_correct_model(case):
    assert CASES[0].fresh and not CASES[5].fresh
    alarms = [name for name in PROBES_BY_NAME if not try_probe(case, Patient(), name).passed]
    assert not alarms


def test_the_name_of_a_case_does_not_reveal_its_cause_and_every_cause_is_used_once():
    assert len(set(causes())) == len(CASES) + len(DECOYS)
    assert {probe for _, probe in DECOYS.values()} <= set(PROBES_BY_NAME)
    assert not any(case.cause.replace(" ", "_") in case.name for case in CASES)


def test_the_score_counts_each_probe_once_over_all_runs():
    assert clinic("loss_near_zero").score == 0
    for probes in (["context"], ["context", "causality"], "causality"):
        diagnose("loss_near_zero", probes)
    assert clinic("loss_near_zero").score == 2


def test_a_case_without_an_answer_states_the_next_step():
    first = diagnose("loss_near_zero", ...)
    assert not first.attempted and "the final loss is" in first.detail
    assert "Choose one or more probes" in first.hint
    second = diagnose("loss_near_zero", ["causality"], ...)
    assert not second.attempted and "What is wrong?" in second.hint
    assert "ALARM  causality" in second.detail
    third = diagnose("loss_near_zero", ["causality"], "causal missing", ...)
    assert third.attempted and "a list of pairs" in third.hint
    assert "mask = padding_mask(tgt" in third.detail
    assert [stage.held for stage in third.stages] == [True, False] and not third.passed
    last = diagnose("loss_near_zero", ["causality"], "causal missing", FIX)
    assert last.complete and CASES[0].mistakes[0].seen in last.detail.splitlines()[-1]
    assert last.hint.startswith("The symptom: the final loss is")


@pytest.mark.parametrize("cause", ["plain list", "bad luck", 3])
def test_a_wrong_cause_gets_an_answer_without_code(cause):
    report = diagnose("loss_near_zero", ["causality"], cause, ("a", "b"))
    assert not report.passed and "def hidden" not in report.detail
    assert "parameters registered" in report.hint or "is not one of the causes" in report.hint


def test_a_probe_that_was_not_chosen_reveals_nothing():
    for probes, said in [("context", "Does it?"), (["context", "causality"], "as it does here")]:
        hint = diagnose("loss_near_zero_again", probes, "causal missing").hint
        assert hint.endswith(said) or said in hint
    assert "it is quiet" in diagnose("loss_near_zero", "determinism", "dropout in eval mode").hint


@pytest.mark.parametrize("blank", [..., None, ""])
def test_an_empty_answer_is_not_a_wrong_answer(blank):
    assert not diagnose("loss_near_zero", blank, "causal missing", blank).attempted
    assert not diagnose("loss_near_zero", ["causality"], blank, blank).attempted
    assert diagnose("loss_near_zero", ["causality"], "causal missing", blank).attempted


def test_a_probe_that_does_not_exist_gets_an_answer_and_does_not_count():
    report = diagnose("loss_near_zero", ["causalty"])
    assert report.attempted and clinic("loss_near_zero").score == 0
    assert "no probe 'causalty'" in report.hint
    assert "no probe -17.25" in diagnose("loss_near_zero", -17.25, -17.25, -17.25).hint


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (("zzz", "y"), "no 'zzz' in Transformer"),
        (("mask = padding", "mask = = padding"), "SyntaxError"),
        (("mask = padding", "mask = padding"), "The symptom is still there"),
        (3, "Write a pair (old, new)"),
        ("mask = padding", "Write a pair (old, new)"),
        ([("a", "b"), ("c",)], "Write a pair (old, new)"),
    ],
)
def test_lines_that_do_not_fix_the_bug_get_an_answer(fix, said):
    cured, hint = examine_fix(clinic("loss_near_zero"), fix)
    assert not cured and said in hint


@pytest.mark.parametrize(
    ("name", "fix", "said"),
    [
        ("another_loss_in_eval_mode", ("if self.training else", "|"), "causality"),
        ("many_answers_to_one_source", ("self.encoding[: x.size(0)].unsqueeze(1)", "0"), "order"),
        (
            "nan_in_half_precision",
            ("scores.exp()", "scores.clamp(max=10).exp()"),
            "different logits",
        ),
    ],
)
def test_a_fix_that_hides_the_symptom_but_breaks_something_else_is_rejected(name, fix, said):
    cured, hint = examine_fix(clinic(name), fix)
    assert not cured and "The symptom is gone" in hint and said in hint


CAUSAL_ALONE = ("padding_mask(tgt, self.config.pad_id)", "causal_mask(tgt.size(1))")
A_THIRD_NORM = [
    ("self.feed_forward =", "self.end = AddNorm(d_model, dropout); self.feed_forward ="),
    ("return self.add_norm1", "return self.end"),
]


@pytest.mark.parametrize(
    ("name", "fix"),
    [("loss_near_zero", CAUSAL_ALONE), ("too_few_parameters", A_THIRD_NORM)],
)
def test_a_fix_in_another_style_is_accepted(name, fix):
    cured, hint = examine_fix(clinic(name), fix)
    assert cured, hint
