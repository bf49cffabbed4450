"""What goes wrong in chapter 24: in table 1's counts, an attention's, and a model's."""

from collections.abc import Sequence

from course_lib.exercises.mistake_catalogue import ignored, known

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
        "NVIDIA/Model-Optimizer #387, facebookresearch/fvcore #108, open-mmlab/mmcv #785",
        (SUM, f"num_heads * {SIX}"),
    ),
    attention(
        "scores_and_blend_forgotten",
        "the four projections are counted, and neither scores nor weighted sum, which have no "
        "weights",
        "MrYxJ/calculate-flops.pytorch #48, autoliuweijie/FastBERT #14",
        *lost("scores", "blend"),
    ),
    attention(
        "blend_forgotten",
        "one of two products without weights is forgotten: scores, and the weighted sum of values",
        "pytorch/torchtitan #4366, caomaolufei/AIInfraGuide #21",
        *lost("blend"),
    ),
    attention(
        "projections_forgotten",
        "scores and weighted sum are counted alone: four projections come on top",
        "counts of kernels, as in Dao-AILab/flash-attention #1525",
        *lost("queries", "keys", "values", "mixing"),
    ),
    attention(
        "keys_by_target",
        "keys and values are counted at T positions: they come from the S of the source",
        "counts written for self-attention, 4 · T · d²",
        (QUERIES, "queries, keys = tgt_len * d_model * d_k, tgt_len * d_model * d_k"),
        (VALUES, "values, mixing = tgt_len * d_model * d_v, tgt_len * d_v * d_model"),
    ),
    attention(
        "scores_squared",
        "scores and weighted sum are counted for a square of T · T: it is T rows of S",
        "a square in place of T · S, as in facebookresearch/xformers #1402",
        (PAIRS, PAIRS.replace("src_len", "tgt_len")),
    ),
    attention(
        "heads_forgotten",
        "one head is counted, and there are `num_heads`",
        "asked in mosaicml/llm-foundry #909",
        (SUM, f"2 * {SIX}"),
    ),
    attention(
        "heads_twice",
        "every head is as wide as the model: the heads split `d_model`",
        "asked in facebookresearch/fvcore #153: why do more heads not take more?",
        (FIRST, f"d_k = d_v = d_model\n    {FIRST}"),
    ),
    *ignored(attention, ("d_k", (FIRST, f"d_k = d_model // num_heads\n    {FIRST}"))),
    attention(
        "softmax_counted",
        "softmax is counted, too: matrix products alone are asked for",
        "zhangzjn/EMO #5, hahnyuan/LLM-Viewer #11",
        (f"return {SUM}", f"return {SUM} + 5 * num_heads * tgt_len * src_len"),
    ),
)
