"""The bug clinic shows each symptom, a probe catches it, and a fixed model passes both."""

import pytest

from course_lib.exercises import diagnose
from course_lib.exercises.questions.clinic import (
    PROBES_BY_NAME,
    causes,
    clinic,
    examine_fix,
)
from course_lib.exercises.questions.clinic_cases import CASES, DECOYS

FIX = ("mask = padding_mask(tgt", "mask = causal_mask(tgt.size(1), tgt.device) & padding_mask(tgt")


@pytest.fixture(autouse=True)
def new_charts(monkeypatch, tmp_path):
    """Give each test new charts, and a folder for the recorded progress."""
    monkeypatch.chdir(tmp_path)
    clinic.cache_clear()


def test_the_name_of_a_case_does_not_reveal_its_cause_and_every_cause_is_used_once():
    assert len(set(causes())) == len(CASES) + len(DECOYS)
    assert {probe for _, probe in DECOYS.values()} <= set(PROBES_BY_NAME)
    assert not any(case.cause.replace(" ", "_") in case.name for case in CASES)


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
    assert clinic("loss_near_zero").score == 1  # a probe counts once


def test_a_wrong_cause_gets_an_answer_without_code():
    report = diagnose("loss_near_zero", ["causality"], "plain list", ("a", "b"))
    assert not report.passed and "def hidden" not in report.detail
    assert "parameters registered" in report.hint


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (("zzz", "y"), "no 'zzz' in Transformer"),
        (("mask = padding", "mask = padding"), "The symptom is still there"),
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
            ("scores.exp()", "scores.clamp(max=5).softmax(dim=-1)"),
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
