"""Exercises of chapter 24: trials, known mistakes and right answers."""

from collections.abc import Callable, Sequence

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.scalar_checks import calls, number
from course_lib.exercises.trial import D_K, D_V, H, S, T, looks

D_MODEL = H * D_K


@looks(
    "T and S the other way round",
    "A position of the target needs a query and an output, one of the source a key and a value, "
    "and both take as much: T and S can change places.",
)
def exchanged(candidate: Callable) -> dict[str, bool]:
    """Let T and S change places."""
    counts = [number(candidate(D_MODEL, H, *lengths)) for lengths in ((4, 9), (9, 4))]
    return {"T and S can change places": counts[0] == counts[1]}


EXERCISES = (
    Exercise(
        "attention_flops",
        "flops",
        15,
        core={
            "one attention": (
                calls("sizes that differ", {"the count": (D_MODEL, H, T, S)}, number),
                exchanged,
                calls(
                    "several sizes",
                    {
                        "a source shorter than the target": (16, 4, 9, 2),
                        "one head": (12, 1, 3, 4),
                        "one position of the target": (12, 2, 1, 30),
                        "the base model": (512, 8, 25, 25),
                    },
                    number,
                    says="Four projections, the scores and the weighted sum: six products, and "
                    "each takes 2 · a · b · c, for heads that split `d_model`.",
                ),
            )
        },
        hints=(
            "Write down the shapes of all six products of one head first. Which of them have T "
            "rows, and which S?",
            "Queries `(T, d_model) @ (d_model, d_k)` and the output projection `(T, d_v) @ (d_v, "
            "d_model)` go by T, keys and values by S; scores `(T, d_k) @ (d_k, S)` and weighted "
            "sum `(T, S) @ (S, d_v)` by both.",
            "Add the six a · b · c, and multiply the sum by 2 and by `num_heads`. Without widths "
            "of their own, `head_width(d_model, num_heads)` is both.",
        ),
        extras={
            "d_k, d_v": tuple(
                calls(
                    label,
                    {"the count": sizes},
                    number,
                    options=widths,
                    says="Queries and keys are `d_k` wide, values `d_v`, where these are given.",
                )
                for label, sizes, widths in (
                    ("d_k=8, d_v=7", (D_MODEL, H, T, S), dict(d_k=8, d_v=D_V)),
                    ("d_k=8 alone", (D_MODEL, H, T, S), dict(d_k=8)),
                    ("d_v=7 alone", (D_MODEL, H, T, S), dict(d_v=D_V)),
                    ("d_model=10 and three heads", (10, 3, T, S), dict(d_k=D_K, d_v=D_V)),
                )
            )
        },
        unnamed=("return 2 * num_heads", "return 4 * num_heads"),
    ),
)


# known mistakes

attention = known("flops", "attention_flops")

SIX = "(queries + keys + values + mixing + scores + blend)"
SUM = f"2 * num_heads * {SIX}"
FIRST = "queries ="
QUERIES = f"{FIRST} tgt_len * d_model * d_k\n    keys = src_len * d_model * d_k"
VALUES = "values = src_len * d_model * d_v\n    mixing = tgt_len * d_v * d_model"
PAIRS = "scores = tgt_len * src_len * d_k\n    blend = tgt_len * src_len * d_v"


def lost(*products: str) -> Sequence[tuple[str, str]]:
    """Leave products out of an attention's sum."""
    names = SIX[1:-1].split(" + ")
    return ((SIX, f"({' + '.join(name for name in names if name not in products)})"),)


MISTAKES = (
    attention(
        "multiplications_only",
        "the 2 is missing: of every multiplication goes an addition, and both count",
        (SUM, f"num_heads * {SIX}"),
        seen="NVIDIA/Model-Optimizer #387, facebookresearch/fvcore #108, open-mmlab/mmcv #785",
    ),
    attention(
        "scores_and_blend_forgotten",
        "the four projections are counted, and neither scores nor weighted sum, which have no "
        "weights",
        *lost("scores", "blend"),
        seen="MrYxJ/calculate-flops.pytorch #48, autoliuweijie/FastBERT #14",
    ),
    attention(
        "blend_forgotten",
        "one of two products without weights is forgotten: scores, and the weighted sum of values",
        *lost("blend"),
        seen="pytorch/torchtitan #4366, caomaolufei/AIInfraGuide #21",
    ),
    attention(
        "projections_forgotten",
        "scores and weighted sum are counted alone: four projections come on top",
        *lost("queries", "keys", "values", "mixing"),
        seen="counts of kernels, as in Dao-AILab/flash-attention #1525",
    ),
    attention(
        "keys_by_target",
        "keys and values are counted at T positions: they come from the S of the source",
        (QUERIES, "queries, keys = tgt_len * d_model * d_k, tgt_len * d_model * d_k"),
        (VALUES, "values, mixing = tgt_len * d_model * d_v, tgt_len * d_v * d_model"),
    ),
    attention(
        "scores_squared",
        "scores and weighted sum are counted for a square of T · T: it is T rows of S",
        (PAIRS, PAIRS.replace("src_len", "tgt_len")),
        seen="a square in place of T · S, as in facebookresearch/xformers #1402",
    ),
    attention(
        "heads_forgotten",
        "one head is counted, and there are `num_heads`",
        (SUM, f"2 * {SIX}"),
        seen="asked in mosaicml/llm-foundry #909",
    ),
    attention(
        "heads_twice",
        "every head is as wide as the model: the heads split `d_model`",
        (FIRST, f"d_k = d_v = d_model\n    {FIRST}"),
        seen="asked in facebookresearch/fvcore #153: why do more heads not take more?",
    ),
    *ignored(attention, ("d_k", (FIRST, f"d_k = d_model // num_heads\n    {FIRST}"))),
    attention(
        "softmax_counted",
        "softmax is counted, too: matrix products alone are asked for",
        (f"return {SUM}", f"return {SUM} + 5 * num_heads * tgt_len * src_len"),
        seen="zhangzjn/EMO #5, hahnyuan/LLM-Viewer #11",
    ),
)


# right answers


def attention_in_one_formula(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None):
    """Put the factors that all share in front."""
    share = d_model // num_heads
    width = (share if d_k is None else d_k) + (share if d_v is None else d_v)
    return 2 * num_heads * width * (d_model * (tgt_len + src_len) + tgt_len * src_len)


ANSWERS = {"attention_flops": (attention_in_one_formula,)}
