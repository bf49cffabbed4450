"""Later cells run an answer that has the course's signature and names, and no other."""

import pytest

from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise
from course_lib.exercises.checking.mistake import course_source, define
from course_lib.exercises.library.later_cells import WEIGHTS, lacking

FEED_FORWARD = "FeedForward(d_model, d_ff, dropout=0.0, activation='relu', *, bias=True)"
LAYERS = """        self.linear1 = nn.Linear(d_model, d_ff, bias)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(d_ff, d_model, bias)
"""
TEXTBOOK = {  # formulas that are not written for float16
    "LayerNorm": ("at_least_float32(x)", "x"),
    "scaled_dot_product_attention": (
        "(query / math.sqrt(d_k)) @ key.mT",
        "query @ key.mT / math.sqrt(d_k)",
    ),
}
LACKING = (  # an exercise, what it lacks, and the edits that take it away
    ("causal_mask", "", ("| None = None)", "| None = None, more=0)")),
    ("causal_mask", "the signature `causal_mask(length, device=None)`", ("length", "size")),
    ("causal_mask", "the open extras (device)", (", device=device", "")),
    ("FeedForward", "", ("super()", "super(FeedForward, self)")),
    ("FeedForward", "the attribute `linear2`", ("self.linear2", "self.last")),
    ("FeedForward", f"the signature `{FEED_FORWARD}` and the open extras (defaults)",
     ("float = 0.0", "float = 0.1")),
    ("FeedForward", "the signature `forward(x)`", ("self, x: Tensor)", "self, y)"),
     ("check_width(", "x = y\n        check_width(")),
    ("FeedForward", WEIGHTS, (LAYERS, "".join(LAYERS.splitlines(True)[::-1]))),
    ("AttentionCache", "the attribute `spare`", ("spare", "room")),
    *((name, "", edit) for name, edit in TEXTBOOK.items()),  # its sums are right in float32
)  # fmt: skip


@pytest.mark.parametrize("name, lacks, edits", [(n, lacks, edits) for n, lacks, *edits in LACKING])
def test_an_answer_that_passed_is_said_to_lack_what_it_lacks(name, lacks, edits):
    module = find_exercise(name).module
    source = course_source(module, name)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    answer = define(source, module, name, f"<{name}: {lacks}, {edits}>")
    report = examine(name, answer)
    assert report.passed and lacking(report, answer) == lacks
    assert ("half precision" in report.missed) == ((old, new) == TEXTBOOK.get(name))
