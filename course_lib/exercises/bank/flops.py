"""Exercises for chapter 26: trials, known mistakes and correct answers."""

from collections.abc import Callable, Sequence

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.scalar_trials import calls, number
from course_lib.exercises.checking.trial import D_K, D_V, H, S, T, Trial, as_trial

D_MODEL = H * D_K
SEVERAL = {
    "a source shorter than the target": (16, 4, 9, 2),
    "one head": (12, 1, 3, 4),
    "a single target position": (12, 2, 1, 30),
    "the base model": (512, 8, 25, 25),
}
SIX_PRODUCTS = (
    "There are six matrix multiplications: four projections, the scores and the weighted average. "
    "The product of an (a, b) and a (b, c) matrix takes 2 · a · b · c operations, and `d_model` is "
    "split among the heads."
)


@as_trial("T and S swapped", "If you swap T and S, the count must stay the same.")
def exchanged(candidate: Callable) -> dict[str, bool]:
    counts = [number(candidate(D_MODEL, H, *lengths)) for lengths in ((4, 9), (9, 4))]
    return {"the count stays the same": counts[0] == counts[1]}


def counted(label: str, sizes: tuple[int, ...] = (D_MODEL, H, T, S), **widths: int) -> Trial:
    """Compare the number of operations for some sizes."""
    says = "Queries and keys have width `d_k`, and values have width `d_v`." if widths else ""
    return calls(label, {"the count": sizes}, number, options=widths, says=says)


EXERCISES = (
    Exercise(
        "attention_flops",
        15,
        core={
            "one layer": (
                counted("sizes that differ"),
                exchanged,
                calls("several sizes", SEVERAL, number, says=SIX_PRODUCTS),
            )
        },
        formula="A product of (n, k) and (k, m) takes 2nkm FLOPs.",
        hints=(
            "First write down the shapes of the six matrix multiplications in one head. Which of "
            "them have T rows, and which have S rows?",
            "The query projection `(T, d_model) @ (d_model, d_k)` and the output projection `(T, "
            "d_v) @ (d_v, d_model)` depend on T, and the key and value projections depend on S. "
            "The scores `(T, d_k) @ (d_k, S)` and the weighted average `(T, S) @ (S, d_v)` depend "
            "on both.",
            "Add up the six products a · b · c, and multiply the sum by 2 and by `num_heads`. If "
            "`d_k` or `d_v` is None, use `head_width(d_model, num_heads)` instead.",
        ),
        extras={
            "d_k, d_v": (
                counted("d_k=8, d_v=7", d_k=8, d_v=D_V),
                counted("d_k=8 alone", d_k=8),
                counted("d_v=7 alone", d_v=D_V),
                counted("d_model=10 and three heads", (10, 3, T, S), d_k=D_K, d_v=D_V),
            )
        },
        rejects=("(0, 2, 3, 4)", "(8, 2, 0, 4)", "(10, 3, 4, 5)"),
    ),
)


# known mistakes


SIX = "(queries + keys + values + mixing + scores + averages)"
SUM = f"2 * num_heads * {SIX}"
FIRST = "queries ="
QUERIES = f"{FIRST} tgt_len * d_model * d_k\n    keys = src_len * d_model * d_k"
VALUES = "values = src_len * d_model * d_v\n    mixing = tgt_len * d_v * d_model"
PAIRS = "scores = tgt_len * src_len * d_k\n    averages = tgt_len * src_len * d_v"


def lost(*products: str) -> Sequence[tuple[str, str]]:
    """Return the edit that omits some of the matrix multiplications from the sum."""
    names = SIX[1:-1].split(" + ")
    return ((SIX, f"({' + '.join(name for name in names if name not in products)})"),)


MISTAKES = {
    "attention_flops": {
        "multiplications_only: the factor of 2 is missing, but every multiplication comes with an "
        "addition [NVIDIA/Model-Optimizer "
        "#387, facebookresearch/fvcore #108, open-mmlab/mmcv #785]": (SUM, f"num_heads * {SIX}"),
        "scores_and_averages_forgotten: only the four projections are counted, not the scores and "
        "the weighted average [MrYxJ/calculate-flops.pytorch #48, "
        "autoliuweijie/FastBERT #14]": lost("scores", "averages"),
        "averages_forgotten: the scores are counted, but the weighted average of the values is not "
        "[pytorch/torchtitan #4366, caomaolufei/AIInfraGuide #21]": lost("averages"),
        "projections_forgotten: only the scores and the weighted average are counted, not the four "
        "projections": lost("queries", "keys", "values", "mixing"),
        "keys_by_target: the projections of keys and values are counted for T positions instead of "
        "the S positions of the source": (
            (QUERIES, "queries, keys = tgt_len * d_model * d_k, tgt_len * d_model * d_k"),
            (VALUES, "values, mixing = tgt_len * d_model * d_v, tgt_len * d_v * d_model"),
        ),
        "keys_alone_by_target: the projection of the keys or of "
        "the values is counted for T positions instead of S": ("keys = src_len", "keys = tgt_len"),
        "output_by_source: the projection of the queries or of the "
        "output is counted for S positions instead of T": ("mixing = tgt_len", "mixing = src_len"),
        "output_forgotten: the output projection is not counted": lost("mixing"),
        "whole_queries: the queries of each head have width d_model, but "
        "the heads share d_model among them": ("tgt_len * d_model * d_k", "tgt_len * d_model**2"),
        "scores_squared: the scores and the weighted average are counted for T · T pairs of "
        "positions instead "
        "of T · S [facebookresearch/xformers #1402]": (PAIRS, PAIRS.replace("src_len", "tgt_len")),
        "heads_forgotten: only one head is counted instead of `num_heads`": (SUM, f"2 * {SIX}"),
        "heads_twice: every head has width d_model, even "
        "though `d_model` is split among the heads": (FIRST, f"d_k = d_v = d_model\n    {FIRST}"),
        "softmax_counted: the softmax is counted in addition to the matrix multiplications "
        "[zhangzjn/EMO #5, hahnyuan/LLM-Viewer #11]": (
            f"return {SUM}",
            f"return {SUM} + 5 * num_heads * tgt_len * src_len",
        ),
    },
}


# right answers

PULLED_OUT = "2 * num_heads * (d_k + d_v) * (d_model * (tgt_len + src_len) + tgt_len * src_len)"

ANSWERS = {
    "attention_flops": {
        "in_one_formula: all common factors are pulled out of the sum": (
            f"{QUERIES}\n    {VALUES}\n    {PAIRS}\n    return {SUM}",
            f"return {PULLED_OUT}",
        ),
    },
}
