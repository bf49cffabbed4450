"""What goes wrong in chapter 02 when vectors are split into heads."""

from course_lib.exercises.mistake_catalogue import known

split = known("multi_head", "split_heads")

MISTAKES = (
    split(
        "cut_without_transpose",
        "view or reshape puts the heads in front of the tokens: that mixes the tokens",
        "hyunwoongko/transformer #15 (asked), reczoo/FuxiCTR #30",
        ("x.unflatten(-1, (num_heads, -1))", "x.reshape(*x.shape[:-2], num_heads, x.size(-2), -1)"),
        (".transpose(-3, -2)", ""),
    ),
    split(
        "heads_left_behind",
        "the heads stay behind the tokens: exchange the two axes",
        "harvardnlp/annotated-transformer #118 (asked)",
        (".transpose(-3, -2)", ""),
    ),
    split(
        "heads_interleaved",
        "every head takes each num_heads-th column instead of its own block of columns",
        "ports between libraries that order the columns differently",
        ("x.unflatten(-1, (num_heads, -1))", "x.unflatten(-1, (-1, num_heads)).transpose(-1, -2)"),
    ),
    split(
        "width_and_tokens_swapped",
        "tokens and width are exchanged instead of tokens and heads",
        "student code: transpose(-1, -2) for transpose(1, 2)",
        (".transpose(-3, -2)", ".transpose(-3, -2).transpose(-2, -1)"),
    ),
)
