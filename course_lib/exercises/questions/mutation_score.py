"""Score a learner's test by the mistakes that it finds and by its false alarms."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import torch

from course_lib.exercises.checking.call_tracer import codes_of
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.error_messages import explain
from course_lib.exercises.checking.exercise import (
    INPUT_CHECKS,
    exercises,
    find_exercise,
    known_mistakes,
    right_ways,
)
from course_lib.exercises.checking.mistake import course_definition
from course_lib.exercises.checking.outcomes import Outcome, alike, leaves
from course_lib.exercises.checking.report import Report
from course_lib.exercises.checking.signatures import adapt
from course_lib.exercises.questions.tested_definitions import MISTAKES, RIGHT_WAYS

MOST = 5  # at most this many of the mistakes that a test does not find are named


@dataclass(frozen=True)
class TestQuestion:
    """Write a test for an exercise, or for a definition in ``tested_definitions``.

    The test has to find the mistakes whose short names are in ``must``; ``sizes`` says which inputs
    reveal them.
    """

    name: str
    chapter: int
    exercise: str
    must: tuple[str, ...]
    sizes: str = "choose other ones, for example sizes that all differ"
    minutes: int = 10
    kind: str = "write the test"

    __test__ = False  # tells pytest that this is not a test

    def right(self) -> Sequence[Callable]:
        """Return correct and complete answers in several styles."""
        if self.exercise in exercises():
            return whole_answers(self.exercise)
        module = next(m.module for m in MISTAKES if m.exercise == self.exercise)
        others = [way.implementation for way in RIGHT_WAYS if way.exercise == self.exercise]
        return [course_definition(module, self.exercise), *others]

    def wrong(self) -> Mapping[str, tuple[str, Callable]]:
        """Map the short name of each mistake to a sentence and a wrong answer."""
        known = known_mistakes(self.exercise) if self.exercise in exercises() else []
        mistakes = [*known, *(m for m in MISTAKES if m.exercise == self.exercise)]
        return {m.name: (m.sentence, m.implementation) for m in mistakes}


@cache
def whole_answers(name: str) -> tuple[Callable, ...]:
    """Return the correct answers to an exercise that pass the extras, except for input checks."""
    exercise = find_exercise(name)
    answers = [way.implementation for way in right_ways(name)]
    reports = {answer: examine(name, answer).stages for answer in answers}
    whole = [
        answer
        for answer, stages in reports.items()
        if all(stage.held or stage.name == INPUT_CHECKS for stage in stages)
    ]
    return (exercise.definition, *(adapt(answer, exercise.definition) for answer in whole))


def judge_test(question: TestQuestion, test: object) -> Report:
    """Run a learner's test on correct and wrong answers, without ever raising an exception."""
    if not callable(test):
        hint = "Write a function that takes one candidate."
        return Report(question.name, False, hint=hint, attempted=False)
    right = [outcome(test, candidate) for candidate in question.right()]
    alarm = next(filter(None, (error for error, _ in right)), None)
    if isinstance(alarm, NotImplementedError):
        hint = "Replace `raise NotImplementedError` with your test."
        return Report(question.name, False, hint=hint, attempted=False)
    if alarm is not None:
        return _false_alarm(question.name, test, alarm)
    wrong = question.wrong()
    outcomes = {name: outcome(test, candidate) for name, (_, candidate) in wrong.items()}
    caught = {name for name, (error, _) in outcomes.items() if error is not None}
    shown = {name for name, (_, seen) in outcomes.items() if not alike(seen, right[0][1])}
    missed = [name for name in question.must if name not in caught]
    if missed:
        hint = f"Your test passes even though {wrong[missed[0]][0]}."
        if shown and missed[0] not in shown:
            hint += f" Your inputs hide this: {question.sizes}."
        if not caught:
            hint += " A test must raise an exception, as `assert` does; what it returns is ignored."
        count = f"{len(caught)} of the {len(caught | shown)} mistakes"
        detail = f"So far, it catches {count} that its inputs can reveal."
        return Report(question.name, False, "too_content", hint, "property", detail)
    beyond = [name for name in wrong if name in shown - caught]
    return Report(question.name, True, detail=_praise(len(caught) - len(question.must), beyond))


def _praise(others: int, beyond: Sequence[str]) -> str:
    """Say that a test caught what it must, how many other mistakes, and which are left."""
    done = "Your test catches every required mistake"
    if not beyond:
        return f"{done}, and every other one that its inputs can reveal." if others else f"{done}."
    total = others + len(beyond)
    others_too = f", and {others} of {total} others that its inputs can reveal" * (others > 0)
    names = ", ".join(name.replace("_", " ") for name in beyond[:MOST])
    more = f" and {len(beyond) - MOST} more" if len(beyond) > MOST else ""
    return f"{done}{others_too}. You can go on.\nOther tests are for: {names}{more}"


def _false_alarm(name: str, test: object, alarm: BaseException) -> Report:
    """Report a test that raises an error on a correct answer."""
    hint = "A false alarm: your test itself raises an error on a correct answer."
    if isinstance(alarm, AssertionError):
        hint = f"A false alarm: your test fails on a correct answer.{_tolerance(test)}"
    return Report(name, False, "false_alarm", hint, "equality", "\n".join(explain(alarm)))


def _tolerance(test: object) -> str:
    """Say how a test can compare numbers, if that may be why it rejects a correct answer."""
    codes = codes_of(test)
    numbers = [x for code in codes for _, x in leaves(code.co_consts) if isinstance(x, float)]
    if any(x == round(x, 3) and x != round(1024 * x) / 1024 for x in numbers):
        return " If its numbers are rounded, write `assert_close(…, rtol=0, atol=0.01)`."
    compares = any("assert_close" in code.co_names for code in codes)
    return "" if compares else " Try `assert_close`."


def outcome(test: Callable, candidate: Callable) -> tuple[BaseException | None, Outcome]:
    """Run a test with a fixed seed; return what it raised, and what the candidate returned."""
    returned: list[Any] = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        try:
            test(_recorded(candidate, returned))
        except (Exception, SystemExit) as error:  # any exception means that the test failed
            return error, Outcome({"returned": returned})
    return None, Outcome({"returned": returned})


def _recorded(candidate: Any, returned: list[Any]) -> Any:
    """Wrap a function or class to record what it returns, and the shapes of its parameters."""
    if inspect.isclass(candidate):
        members = {}
        for name, method in inspect.getmembers(candidate, inspect.isfunction):
            if not method.__module__.startswith("torch"):
                members[name] = _recorded(method, returned)
        return type(candidate.__name__, (candidate,), members)

    @wraps(candidate)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the candidate, and record what it returns."""
        result = candidate(*args, **kwargs)
        parameters = getattr(args[0], "named_parameters", dict) if args else dict
        shapes = [(name, x.shape) for name, x in parameters()] if result is None else []
        returned.append([result, shapes])
        return result

    return call


TESTS = (
    TestQuestion("test_of_shares", 0, "softmax", ("over_columns",)),
    TestQuestion(
        "test_of_attention", 1, "scaled_dot_product_attention", ("scale_d_v",), "make d_v ≠ d_k"
    ),
    TestQuestion(
        "test_of_joined_heads", 2, "MultiHeadAttention", ("heads_joined_without_transpose",)
    ),
    TestQuestion(
        "test_of_places",
        3,
        "PositionalEncoding",
        ("added_along_batch", "one_row_for_all", "rows_shifted_by_sentence"),
        "use several sentences of several words",
    ),
    TestQuestion("test_of_the_norm", 4, "LayerNorm", ("unbiased_variance",)),
    TestQuestion("test_of_apartness", 5, "FeedForward", ("features_centered_over_tokens",)),
    TestQuestion(
        "test_of_the_past", 6, "causal_mask", ("causal_sees_next", "causal_without_itself")
    ),
    TestQuestion(
        "test_of_different_layers",
        7,
        "Encoder",
        ("one_layer_repeated", "layers_copied", "plain_list"),
        "build several layers, and compare their weights with each other",
    ),
    TestQuestion(
        "test_of_listening",
        8,
        "DecoderLayer",
        ("cross_reads_target", "cross_attention_skipped", "cross_mask_lost"),
        "change the memory, and pass a `cross_mask` that hides some of it",
    ),
    TestQuestion(
        "test_of_padding",
        9,
        "Transformer",
        ("pad_id_zero", "encoder_unmasked", "cross_mask_missing"),
    ),
    TestQuestion(
        "test_of_the_loss",
        11,
        "label_smoothed_cross_entropy",
        ("padding_in_the_denominator", "padding_counted"),
    ),
    TestQuestion(
        "test_of_the_end", 12, "greedy_decode", ("prompt_returned", "rows_go_on_after_their_end")
    ),
    TestQuestion(
        "test_of_the_cache",
        13,
        "AttentionCache",
        ("values_stay", "keys_stay", "nothing_reordered"),
    ),
    TestQuestion(
        "test_of_the_batches", 17, "batch_by_tokens", ("padding_not_counted", "last_batch_lost")
    ),
    TestQuestion(
        "test_of_the_decoder",
        18,
        "DecoderOnly",
        (
            "future_seen",
            "future_seen_in_eval",
            "future_seen_in_training",
            "positions_missing",
            "sees_only_itself",
        ),
    ),
    TestQuestion(
        "test_of_the_rotation",
        21,
        "rotate",
        ("code_added", "twice_as_long", "sign_lost", "start_ignored", "unrotated", "squared"),
    ),
    TestQuestion(
        "test_of_the_counts",
        26,
        "attention_flops",
        (
            "keys_by_target",
            "scores_squared",
            "scores_and_averages_forgotten",
            "averages_forgotten",
            "projections_forgotten",
            "heads_forgotten",
        ),
    ),
)
