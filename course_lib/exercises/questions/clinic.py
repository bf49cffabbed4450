"""The bug clinic: the reader runs probes, names the cause, and fixes the code."""

import ast
import textwrap
from functools import cache, cached_property

from course_lib.exercises.checking.contents import look_up
from course_lib.exercises.checking.mistake import course_source
from course_lib.exercises.checking.report import Report, Stage
from course_lib.exercises.questions.clinic_cases import CASES, DECOYS, Case
from course_lib.exercises.questions.clinic_measures import computes_the_same
from course_lib.exercises.questions.clinic_models import PARTS, Line, Patient, fixed, to_probe
from course_lib.exercises.questions.question import find
from course_lib.probes import PROBES, ProbeResult

PROBES_BY_NAME = {run.__name__.replace("_", " "): run for run in PROBES}
TRAINED_ONLY = "initial loss"  # the probe for untrained models


class PatientChart:
    """A case's symptom, and the results of the probes that were run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.patient = Patient(case.mistakes)
        self.asked: dict[str, ProbeResult] = {}

    @cached_property
    def symptom(self) -> str:
        """Measure and describe the symptom."""
        return self.case.measure(self.patient)[0]

    @property
    def score(self) -> int:
        """Return the number of probes that were run."""
        return len(self.asked)

    def probe(self, name: str) -> ProbeResult:
        """Run a probe from ``PROBES_BY_NAME``; running it again does not add to the score.

        Raises:
            ValueError: If there is no such probe; the message lists similar names.
        """
        look_up(name, PROBES_BY_NAME, "probe")
        if name not in self.asked:
            self.asked[name] = try_probe(self.case, self.patient, name)
        return self.asked[name]

    def code(self) -> str:
        """Return the functions that contain the mistake, without their docstrings."""
        texts = fixed(self.case.mistakes).items()
        right = {name: course_source(module, name) for module, name in PARTS}
        return "\n\n".join(_changed(text, right[name]) for name, text in texts)


def try_probe(case: Case, patient: Patient, name: str) -> ProbeResult:
    """Run a probe on a fresh or a trained model, as the case requires."""
    if name == TRAINED_ONLY and not case.fresh:
        return ProbeResult(
            name, True, "this model has already been trained, so its initial loss is unknown"
        )
    model = patient.fresh() if case.fresh else patient.with_good_weights()
    result = PROBES_BY_NAME[name](to_probe(patient.parts, model))
    return result or ProbeResult(name, True, "this probe does not apply here")


def _changed(wrong: str, right: str) -> str:
    """Return, without docstrings, the functions in ``wrong`` that differ from the correct ones."""
    right_functions = {ast.unparse(node) for node in _functions(right)}
    lines = wrong.splitlines()
    shown = []
    for node in _functions(wrong):
        if ast.unparse(node) not in right_functions:
            first = node.body[0]
            body = first.end_lineno if ast.get_docstring(node) else first.lineno - 1
            body_lines = lines[node.lineno - 1 : first.lineno - 1] + lines[body : node.end_lineno]
            shown.append(textwrap.dedent("\n".join(body_lines)))
    return "\n\n".join(shown)


def _functions(text: str) -> list[ast.FunctionDef]:
    """Return the functions and methods in a piece of source code."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


@cache
def clinic(name: str) -> PatientChart:
    """Return the chart for a case; a session keeps one chart for each case.

    Raises:
        ValueError: If there is no such case.
    """
    return PatientChart(find(name, Case))


def causes() -> list[str]:
    """Return the causes of all cases, plus a few that no case has, in sorted order."""
    return sorted([*(case.cause for case in CASES), *DECOYS])


def judge_diagnosis(name: str, probes: object, cause: object, fix: object) -> Report:
    """Report on a case as far as the learner has solved it: symptom, probes, cause, fix."""
    chart = clinic(name)
    wanted = probes if isinstance(probes, list | tuple | set) else [probes]
    wanted = [probe for probe in wanted if not _is_blank(probe)]
    unknown = [probe for probe in wanted if probe not in list(PROBES_BY_NAME)]
    results = [chart.probe(str(probe)) for probe in wanted if probe in list(PROBES_BY_NAME)]
    seen = [f"{'quiet' if one.passed else 'ALARM'}  {one.name}: {one.hint}" for one in results]
    right = bool(results) and cause == chart.case.cause
    cured = False
    if unknown:
        hint = f"There is no probe {unknown[0]!r}; choose from {', '.join(PROBES_BY_NAME)}."
    elif not wanted:
        hint = f"Choose one or more probes: {', '.join(PROBES_BY_NAME)}."
    elif _is_blank(cause):
        hint = f"What is wrong? Choose one of: {', '.join(causes())}."
    elif not right:
        hint = _another(chart, cause)
    elif _is_blank(fix):
        seen += ["", chart.code()]
        why = chart.case.mistakes[0].sentence
        hint = f"Yes: {why}. Now fix it with a pair (old, new), or a list of pairs."
    else:
        cured, hint = examine_fix(chart, fix)
    attempted = bool(unknown) or (bool(results) and not _is_blank(cause))
    detail = _detail(chart, seen, cured)
    fixed = Stage("fixed", True, cured, not (cured or _is_blank(fix)))
    stages = (Stage("cause", True, right, not right), fixed)
    return Report(name, cured, hint=hint, detail=detail, attempted=attempted, stages=stages)


def _detail(chart: PatientChart, probed: list[str], cured: bool) -> str:
    """List the symptom (a cure's hint has it), the probes, and where the mistake was seen."""
    symptom = [] if cured else [f"symptom: {chart.symptom}"]
    score = [f"probes used: {chart.score}"] if chart.score else []
    places = chart.case.mistakes[0].seen if cured else ""
    return "\n".join([*symptom, *probed, *score, *([f"seen in: {places}"] if places else [])])


def _is_blank(answer: object) -> bool:
    """Return whether an answer is still missing."""
    return answer is ... or answer is None or answer == ""


def _another(chart: PatientChart, cause: object) -> str:
    """Explain why a cause is wrong, and name the probe that would reveal it."""
    others = {case.cause: (case.mistakes[0].sentence, case.probe) for case in CASES} | DECOYS
    if not isinstance(cause, str) or cause not in others:
        return f"{cause!r} is not one of the causes: {', '.join(causes())}."
    sentence, probe = others[cause]
    meaning = f"{cause!r} would mean that {sentence}. Then the probe {probe!r}"
    if probe not in chart.asked:
        return f"{meaning} would raise an alarm. Does it?"
    if chart.asked[probe].passed:
        return f"{meaning} would raise an alarm, but it is quiet. Which probe does raise one?"
    return f"{meaning} raises an alarm, as it does here, but other causes fit as well. Try another."


def side_effect(case: Case, patient: Patient) -> str:
    """Describe what else is wrong with a model whose symptom is gone, or return ""."""
    try:
        if computes_the_same(patient):
            return ""
        known = not case.fresh
    except RuntimeError:  # a fix may add parameters with new names
        known = False
    for name in PROBES_BY_NAME:
        result = try_probe(case, patient, name)
        if not result.passed:
            return f"{name} raises an alarm: {result.hint}"
    return "with the healthy model's weights, your model computes different logits" if known else ""


def examine_fix(chart: PatientChart, fix: object) -> tuple[bool, str]:
    """Apply a fix; return whether the model is now healthy, and a sentence that explains why."""
    lines: list[Line] = []
    pairs = [fix]
    if isinstance(fix, list | tuple) and not any(isinstance(x, str) for x in fix):
        pairs = list(fix)
    for pair in pairs:
        match pair:
            case (str(old), str(new)):
                lines.append((old, new))
            case _:
                return False, f"Write a pair (old, new), or a list of such pairs, not {fix!r:.60}."
    case = chart.case
    try:
        patient = Patient(case.mistakes, lines)
        sentence, ill = case.measure(patient)
        result = try_probe(case, patient, case.probe)
        other = "" if ill or not result.passed else side_effect(case, patient)
    except Exception as error:
        return False, f"The model does not run with these lines: {type(error).__name__}: {error}"
    if ill:
        return False, f"The symptom is still there: {sentence}."
    if not result.passed:
        return False, f"The symptom is gone, but {result.name} raises an alarm: {result.hint}."
    if other:
        return False, f"The symptom is gone, but {other}."
    cause = case.mistakes[0].sentence
    return True, f"The symptom: {chart.symptom}. The cause: {cause}. Now {sentence}."
