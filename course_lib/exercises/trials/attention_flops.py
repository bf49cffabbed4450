"""What is asked of attention_flops: six products, and what heads and lengths do to them."""

from collections.abc import Callable

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import D_K, D_V, H, S, T, value_trial
from course_lib.exercises.trials.flops_reference import attention, counted, counts_case, kind_case

D_MODEL = H * D_K
TRIALS = {  # d_model, num_heads, tgt_len, src_len; options
    "sizes that differ": ((D_MODEL, H, T, S), {}),
    "widths of their own": ((D_MODEL, H, T, S), dict(d_k=8, d_v=D_V)),
    "d_k given alone": ((D_MODEL, H, T, S), dict(d_k=8)),
    "d_v given alone": ((D_MODEL, H, T, S), dict(d_v=D_V)),
    "a source shorter than the target": ((16, 4, 9, 2), {}),
    "one head": ((12, 1, 3, 4), {}),
    "one position on either side": ((12, 2, 1, 1), {}),
    "one position that asks": ((12, 2, 1, 30), {}),
    "the base model": ((512, 8, 25, 25), {}),
}
UNDIVIDED = {"heads that do not divide d_model": ((10, 3, T, S), dict(d_k=D_K, d_v=D_V))}


def exchanged(candidate: Callable) -> dict[str, bool]:
    """Let T and S change places."""
    counts = [counted(candidate(D_MODEL, H, *lengths)) for lengths in ((4, 9), (9, 4))]
    return {"T and S can change places": counts[0] == counts[1]}


def heads(candidate: Callable) -> dict[str, bool]:
    """Share one width out among several numbers of heads."""
    counts = {counted(candidate(12, num_heads, T, S)) for num_heads in (1, 2, 3, 4)}
    return {"1, 2, 3 and 4 heads take the same": len(counts) == 1}


def more_heads(candidate: Callable) -> dict[str, bool]:
    """Take twice the heads, each as wide as before."""
    few, many = (counted(candidate(12, n, T, S, d_k=5, d_v=4)) for n in (2, 4))
    return {"twice the heads take twice as much": 2 * few == many}


def wider(candidate: Callable) -> dict[str, bool]:
    """Widen keys, and values, and look whether that matters."""
    count = {
        name: counted(candidate(D_MODEL, H, T, S, d_k=d_k, d_v=d_v))
        for name, d_k, d_v in (("", 8, 7), ("d_k", 9, 7), ("d_v", 8, 8))
    }
    return {f"a larger {name} takes more": count[name] > count[""] for name in ("d_k", "d_v")}


PROMISES = (
    value_trial(
        "keys and values as wide as given",
        wider,
        dict.fromkeys(("a larger d_k takes more", "a larger d_v takes more"), True),
        says="Queries and keys are `d_k` wide, values `d_v`, where these are given.",
    ),
    value_trial(
        "twice the heads, of the same width",
        more_heads,
        {"twice the heads take twice as much": True},
        says="Every head has its own columns in all four projections, and scores and a blend of "
        "its own.",
    ),
    value_trial(
        "several numbers of heads",
        heads,
        {"1, 2, 3 and 4 heads take the same": True},
        says="More heads are narrower heads: as long as they share `d_model` out, the count stays "
        "the same.",
    ),
    value_trial(
        "T and S the other way round",
        exchanged,
        {"T and S can change places": True},
        says="Who asks needs a query and is mixed at the end, who answers needs a key and a value, "
        "and both take as much: T and S can change places.",
    ),
)

EXERCISES = (
    Exercise(
        "attention_flops",
        "flops",
        15,
        (
            kind_case("sizes that differ", "One number, the count.", D_MODEL, H, T, S),
            *PROMISES,
            counts_case(
                "several sizes",
                TRIALS,
                attention,
                "Four projections, the scores and the blend: six products, and each takes "
                "2 · a · b · c.",
            ),
            counts_case(
                "heads that do not divide d_model",
                UNDIVIDED,
                attention,
                "Where `d_k` and `d_v` are given, `d_model` need not be shared out.",
            ),
        ),
        (
            "Write down the shapes of all six products of one head first. Which of them have T "
            "rows, and which S?",
            "Queries `(T, d_model) @ (d_model, d_k)` and mixing `(T, d_v) @ (d_v, d_model)` go by "
            "T, keys and values by S; scores `(T, d_k) @ (d_k, S)` and blend `(T, S) @ (S, d_v)` "
            "by both.",
            "Add the six a · b · c, and multiply the sum by 2 and by `num_heads`. Without widths "
            "of their own, `head_width(d_model, num_heads)` is both.",
        ),
    ),
)
