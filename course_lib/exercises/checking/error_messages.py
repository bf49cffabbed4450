"""Explain the exceptions in an attempt, and list the global variables that it reads."""

import dis
import linecache
import re
import traceback
from types import FrameType

from torch import Tensor

from course_lib.exercises.checking.call_tracer import codes_of
from course_lib.exercises.checking.outcomes import describe
from course_lib.exercises.checking.signatures import MissingOption

ADVICE = {  # torch's or Python's message, which may be followed by the line, and its usual cause
    r"'tuple' object has no attribute|not tuple$|unsupported operand.*'tuple'": "A pair was "
    "passed where one tensor is needed, because attention returns (output, weights)",
    r"'float' object is not callable": "Your code calls a probability as if it were a layer. "
    "Pass it to F.dropout",
    r"object is not callable": "A function is needed here, for example lambda x: …",
    r"not (function|method)$|'Tensor' and '(function|method)'|'(function|method)' and 'Tensor'": (
        "You receive the sub-layer itself, not its output, so call it: sublayer(x)"
    ),
    r"must be Tensor, not (ReLU|GELU)|Boolean value of Tensor.*ReLU": "ACTIVATIONS[…] is a class. "
    "Add () to create an instance",
    r"before Module.__init__": "Call super().__init__() first",
    r"(mat1 and mat2|size mismatch|batch2)[^\n]*\n[^\n]*@": "In A @ B, each row of A meets each "
    "column of B. If the vectors of B are its rows, as keys are, write A @ B.mT",
    r"view size is not compatible": "After a transpose, use reshape or flatten instead of view",
}


def explain(error: BaseException) -> tuple[str, str]:
    """Describe an exception, and show the line that raised it, along with the tensors' shapes."""
    if isinstance(error, NotImplementedError):
        frame = list(traceback.walk_tb(error.__traceback__))[-1][0]
        return f"{frame.f_code.co_qualname} is not written yet.", ""
    if isinstance(error, MissingOption):
        return str(error), ""
    message = str(error).partition("\n")[0]
    sentence = ": ".join(filter(None, [type(error).__name__, message.rstrip(".")]))
    place = learners_frame(error)
    if place is None:
        if isinstance(error, AttributeError) and error.name:
            sentence = f"There is no attribute `{error.name}`. The docstring lists the right names."
        return sentence, ""
    frame, number = place
    line = linecache.getline(frame.f_code.co_filename, number).strip()
    shown = f"{message}\n{line}"
    advice = next((a for pattern, a in ADVICE.items() if re.search(pattern, shown, re.M)), "")
    tensors = {n: x for n, x in frame.f_locals.items() if isinstance(x, Tensor)}
    shapes = ", ".join(f"{n} {tuple(x.shape)}" for n, x in tensors.items())
    lines = [f"line: {line}"] * bool(line) + [f"shapes: {shapes}"] * bool(shapes)
    return f"{sentence}. {advice}".rstrip(". ") + ".", "\n".join(lines)


def wrote_above(error: NotImplementedError) -> bool:
    """Return whether there is code above the ``raise`` in the learner's function."""
    last = list(traceback.walk_tb(error.__traceback__))[-1]
    code = last[0].f_code
    lines = {line for _, _, line in code.co_lines() if line and line > code.co_firstlineno}
    return any(line < last[1] for line in lines)


def learners_frame(error: BaseException) -> tuple[FrameType, int] | None:
    """Find a traceback's deepest frame that belongs to neither torch nor the course."""
    frames = [
        (frame, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not frame.f_globals.get("__name__", "").startswith(("torch", "course_lib.exercises"))
        or frame.f_code.co_filename.startswith("<")
    ]
    own = [f for f in frames if not f[0].f_globals.get("__name__", "").startswith("course_lib")]
    deepest = (own or frames)[-1:]
    return deepest[0] if deepest else None


def from_outside(candidate: object) -> str:
    """List the notebook's global variables with numbers or tensors that an attempt reads."""
    names = {
        one.argval
        for code in codes_of(candidate)
        for one in dis.get_instructions(code)
        if one.opname == "LOAD_GLOBAL"
    }
    outer = getattr(candidate, "__globals__", None) or getattr(
        getattr(candidate, "__init__", None), "__globals__", {}
    )
    values = {n: outer[n] for n in sorted(names) if isinstance(outer.get(n), int | float | Tensor)}
    described = [f"{n} ({describe(value)})" for n, value in values.items() if not n.isupper()]
    return f"Your code reads the notebook's variables: {', '.join(described)}" if described else ""


def text_of(candidate: object) -> str:
    """Return the text of the cell or file that contains an attempt, or "" if there is none."""
    codes = codes_of(candidate)
    return "".join(linecache.getlines(next(iter(codes)).co_filename)) if codes else ""
