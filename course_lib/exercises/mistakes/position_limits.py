"""What goes wrong with chapter 03's guard."""

from course_lib.exercises.mistake_catalogue import known

guard = known("positions", "check_fits")

MISTAKES = (
    guard(
        "length_not_compared",
        "a sequence longer than the table passes",
        "code without a guard: SamLynnEvans/Transformer #8",
        ("if x.size(-2) > max_len:", "if False:"),
        ("x.dim() < 2 or ", ""),
    ),
    guard(
        "width_not_compared",
        "vectors of another width pass",
        "dvgodoy/PyTorchStepByStep #63",
        ("if x.dim() < 2 or x.size(-1) != d_model:", "if False:"),
    ),
    guard(
        "full_length_refused",
        "a sequence exactly as long as the table is refused: `>=` where `>` is meant",
        "student code",
        ("x.size(-2) > max_len", "x.size(-2) >= max_len"),
    ),
    guard(
        "shorter_refused",
        "a sequence shorter than the table is refused: max_len is a limit, not the length",
        "student code",
        ("x.size(-2) > max_len", "x.size(-2) != max_len"),
    ),
    guard(
        "one_too_many_accepted",
        "one vector more than the table has rows passes",
        "student code",
        ("x.size(-2) > max_len", "x.size(-2) > max_len + 1"),
    ),
    guard(
        "batch_counted",
        "the sentences of the batch are counted (axis 0) instead of the words of a sentence",
        "code for tensors with the length first",
        ("x.size(-2)", "x.size(0)"),
    ),
    guard(
        "axis_counted_from_left",
        "the length is taken from axis 1, counted from the left: without a batch that is the width",
        "student code",
        ("x.size(-2)", "x.size(1)"),
    ),
    guard(
        "single_vector_unguarded",
        "a single vector is asked for its length: it has one axis only",
        "student code",
        ("x.dim() < 2 or ", ""),
    ),
    guard(
        "asserted",
        "`assert` stands where `raise ValueError` is asked for; python -O drops every assert",
        "gc-os-ai/pyaptamer pull request #668",
        ("if x.dim() < 2 or x.size(-1) != d_model:", "assert x.size(-1) == d_model\n    if False:"),
        ("if x.size(-2) > max_len:", "assert x.size(-2) <= max_len\n    if False:"),
    ),
    guard(
        "numbers_missing",
        "the message does not say which numbers do not fit",
        "deepset-ai/FARM pull request #784",
        ('f"expected vectors of width d_model={d_model}, got {tuple(x.shape)}"', '"wrong width"'),
        (
            """f"a sequence of {x.size(-2)} tokens does not fit max_len={max_len}; "
            "cut it, or build the model with a larger max_len\"""",
            '"sequence too long"',
        ),
    ),
    guard(
        "error_returned",
        "the error is made and not raised, or the verdict is returned as a value",
        "student code",
        ("raise ValueError", "return ValueError"),
    ),
)
