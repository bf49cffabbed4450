"""What goes wrong in chapter 02 around the attention: cutting heads, sharing out widths."""

from course_lib.exercises.mistake_catalogue import known

split = known("multi_head", "split_heads")
width = known("multi_head", "head_width")
guard = known("multi_head", "check_widths")

MISTAKES = (
    split(
        "cut_without_transpose",
        "view or reshape puts the heads in front of the tokens: that mixes the tokens",
        "hyunwoongko/transformer #15 (asked), reczoo/FuxiCTR #30",
        ("x.unflatten(-1, (num_heads, -1))", "x.reshape(*x.shape[:-2], num_heads, x.size(-2), -1)"),
        ("x.transpose(-3, -2)", "x"),
    ),
    split(
        "heads_left_behind",
        "the heads stay behind the tokens: exchange the two axes",
        "harvardnlp/annotated-transformer #118 (asked)",
        ("x.transpose(-3, -2)", "x"),
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
        ("x.transpose(-3, -2)", "x.transpose(-3, -2).transpose(-2, -1)"),
    ),
    width(
        "remainder_lost",
        "// throws the remainder away without a word",
        "code that leaves the message to a later view",
        ("width is None and d_model % num_heads", "False"),
    ),
    width(
        "width_not_taken",
        "the width that is given is not looked at",
        "student code",
        ("return width or d_model // num_heads", "return d_model // num_heads"),
        ("width is None and d_model % num_heads", "d_model % num_heads"),
    ),
    width(
        "zero_accepted",
        "sizes below 1 pass",
        "code that leaves the message to the division",
        ("if min(d_model, num_heads, 1 if width is None else width) < 1:", "if num_heads == 0:"),
    ),
    guard(
        "only_the_query_checked",
        "only the query's width is compared",
        "guards written for self-attention",
        ('{"query": query, "key": key, "value": value}', '{"query": query}'),
    ),
    guard(
        "all_compared_with_the_query",
        "all three are compared with the width of the query: kdim and vdim may differ",
        "guards written for self-attention",
        ('f"w_{name[0]}"', '"w_q"'),
    ),
)
