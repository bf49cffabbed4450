"""What goes wrong in chapter 21: in table 1's counts, and in an attention's."""

from collections.abc import Sequence

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.forward_flops import MISTAKES as MODEL

layer = known("flops", "layer_operations")
attention = known("flops", "attention_flops")

SELF = "length**2 * d_model,"
RECURRENT = '"recurrent": length * d_model**2'
CONVOLUTION = "kernel_size * length * d_model**2"
LEAST = "min(length, d_model, kernel_size) < 1"
TABLE = (  # the dict that is returned
    "return {\n"
    f'        "self-attention": {SELF}\n'
    f"        {RECURRENT},\n"
    f'        "convolution": {CONVOLUTION},\n'
    "    }"
)

SIDES = "queries + keys + values + mixing"
SIX = f"({SIDES} + scores + blend)"
SUM = f"2 * num_heads * {SIX}"
FIRST = "queries ="
QUERIES = f"{FIRST} tgt_len * d_model * d_k\n    keys = src_len * d_model * d_k"
VALUES = "values = src_len * d_model * d_v\n    mixing = tgt_len * d_v * d_model"
PAIRS = "scores = tgt_len * src_len * d_k\n    blend = tgt_len * src_len * d_v"


def both(sign: str) -> tuple[str, str]:
    """Count the two products of self-attention, and something else beside."""
    return SELF, f"2 * {SELF[:-1]}{sign},"


def added(terms: str) -> tuple[str, str]:
    """Add to an attention's products."""
    return f"return {SUM}", f"return {SUM} + {terms}"


def lost(*products: str) -> Sequence[tuple[str, str]]:
    """Leave products out of an attention's sum."""
    names = SIX[1:-1].split(" + ")
    return ((SIX, f"({' + '.join(name for name in names if name not in products)})"),)


MISTAKES = (
    layer(
        "powers_swapped",
        "the squares have changed places: self-attention goes by n² · d, a recurrent layer by "
        "n · d²",
        "MiniMax-AI/MiniMax-01 #26: n · d² written for softmax attention",
        (SELF, "length * d_model**2,"),
        (RECURRENT, '"recurrent": length**2 * d_model'),
    ),
    layer(
        "width_forgotten",
        "self-attention is n²: that counts the pairs, and each takes d multiplications",
        "harvard-edge/cs249r_book #1150",
        (SELF, "length**2,"),
    ),
    layer(
        "both_products",
        "scores and blend are counted both, 2 · n² · d: the table has the power without the factor",
        "formulas of whole attentions, as in zhangzjn/EMO #5",
        both(""),
    ),
    layer(
        "projections_added",
        "the four projections are counted, too: the table leaves 4 · n · d² out",
        "formulas of whole attentions, as in zhangzjn/EMO #5",
        both(" + 4 * length * d_model**2"),
    ),
    layer(
        "one_step_only",
        "a recurrent layer is counted for one position, d²; it takes a step for each of n",
        "asked in bzhangGo/transformer-aan #6: one step, or all",
        (RECURRENT, '"recurrent": d_model**2'),
    ),
    layer(
        "additions_too",
        "additions are counted as well, which doubles all three: the table counts multiplications",
        "the factor 2 of FLOPs, as in open-mmlab/mmcv #785",
        (SELF, f"2 * {SELF}"),
        (RECURRENT, '"recurrent": 2 * length * d_model**2'),
        (CONVOLUTION, f"2 * {CONVOLUTION}"),
    ),
    layer(
        "kernel_forgotten",
        "the convolution is counted as if it saw one position: it has a matrix for each of k",
        "student code",
        (CONVOLUTION, "length * d_model**2"),
    ),
    layer(
        "kernel_of_three",
        "the kernel always sees 3: `kernel_size` is not looked at",
        "student code",
        (CONVOLUTION, "3 * length * d_model**2"),
    ),
    layer(
        "kernel_squared",
        "the kernel is squared: that is for images, where it has two sides; a text has one",
        "formulas of layers for images, as in Lyken17/pytorch-OpCounter #15",
        (CONVOLUTION, "kernel_size**2 * length * d_model**2"),
    ),
    layer(
        "channels_apart",
        "the convolution takes k · n · d: that lets no feature hear another, as separable ones do",
        "the first half of a separable convolution, §4's k · n · d + n · d²",
        (CONVOLUTION, "kernel_size * length * d_model"),
    ),
    layer(
        "longest_path",
        "the convolution is counted once for each of n / k layers: the table counts one layer",
        "table 1's columns mixed up",
        (CONVOLUTION, f"-(-length // kernel_size) * {CONVOLUTION}"),
    ),
    layer(
        "steps_in_a_row",
        "sequential operations come out: that is the table's next column",
        "table 1's columns mixed up",
        (SELF, "1,"),
        (RECURRENT, '"recurrent": length'),
        (CONVOLUTION, "1"),
    ),
    layer(
        "names_for_variables",
        "the names have underscores: they are to be the table's",
        "student code: dict(self_attention=…)",
        ('"self-attention"', '"self_attention"'),
    ),
    layer(
        "without_names",
        "three numbers come out, and nobody knows which is which: return a dict",
        "student code",
        (TABLE, f"return {SELF} length * d_model**2, {CONVOLUTION}"),
    ),
    layer(
        "zero_accepted",
        "sizes below 1 pass, and lead to counts of 0 or below",
        "code that leaves the message to a later division",
        (LEAST, "False"),
    ),
    layer(
        "only_the_length_checked",
        "only the length is looked at: widths and kernels count from 1 as well",
        "student code",
        (LEAST, "length < 1"),
    ),
    attention(
        "multiplications_only",
        "the 2 is missing: of every multiplication goes an addition, and both count",
        "NVIDIA/Model-Optimizer #387, facebookresearch/fvcore #108, open-mmlab/mmcv #785",
        (SUM, f"num_heads * {SIX}"),
    ),
    attention(
        "scores_and_blend_forgotten",
        "the four projections are counted, and neither scores nor blend, which have no weights",
        "MrYxJ/calculate-flops.pytorch #48, autoliuweijie/FastBERT #14",
        *lost("scores", "blend"),
    ),
    attention(
        "blend_forgotten",
        "one of two products without weights is forgotten: scores, and the blend of values",
        "pytorch/torchtitan #4366, caomaolufei/AIInfraGuide #21",
        *lost("blend"),
    ),
    attention(
        "projections_forgotten",
        "scores and blend are counted alone: four projections come on top",
        "counts of kernels, as in Dao-AILab/flash-attention #1525",
        *lost("queries", "keys", "values", "mixing"),
    ),
    attention(
        "mixing_forgotten",
        "three projections are counted: the fourth, w_o, mixes the heads",
        "student code: queries, keys and values",
        *lost("mixing"),
    ),
    attention(
        "asking_side_forgotten",
        "keys and values are counted and the two projections of the asking side are not",
        "AMD-AGI/Hyperloom #1115",
        *lost("queries", "mixing"),
    ),
    attention(
        "keys_by_target",
        "keys and values are counted at T positions: they come from the S that answer",
        "counts written for self-attention, 4 · T · d²",
        (QUERIES, "queries, keys = tgt_len * d_model * d_k, tgt_len * d_model * d_k"),
        (VALUES, "values, mixing = tgt_len * d_model * d_v, tgt_len * d_v * d_model"),
    ),
    attention(
        "queries_by_source",
        "all projections are counted at S positions: queries and mixing are due at the T that ask",
        "counts written for self-attention, 4 · S · d²",
        (QUERIES, "queries, keys = src_len * d_model * d_k, src_len * d_model * d_k"),
        (VALUES, "values, mixing = src_len * d_model * d_v, src_len * d_v * d_model"),
    ),
    attention(
        "scores_squared",
        "scores and blend are counted for a square of T · T: it is T rows of S",
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
        "every head is as wide as the model: the heads share `d_model` out",
        "asked in facebookresearch/fvcore #153: why do more heads not take more?",
        (FIRST, f"d_k = d_v = d_model\n    {FIRST}"),
    ),
    attention(
        "scores_as_wide_as_the_model",
        "each head's scores and blend are counted d_model wide: a head has d_k and d_v",
        "student code: H · T · S · d_model",
        (PAIRS, "scores = blend = tgt_len * src_len * d_model"),
    ),
    attention(
        "own_widths_ignored",
        "`d_k` and `d_v` are not looked at: heads may be wider than d_model / num_heads",
        "pytorch/torchtitan #1920, NVIDIA-NeMo/RL #2736, allenai/open-instruct #1096",
        (FIRST, f"d_k = d_v = d_model // num_heads\n    {FIRST}"),
    ),
    attention(
        "values_as_wide_as_keys",
        "values are taken to be as wide as keys: they have a width of their own, `d_v`",
        "pytorch/pytorch #196461",
        (FIRST, f"d_v = d_k\n    {FIRST}"),
    ),
    attention(
        "softmax_counted",
        "softmax is counted, too: matrix products alone are asked for",
        "zhangzjn/EMO #5, hahnyuan/LLM-Viewer #11",
        added("5 * num_heads * tgt_len * src_len"),
    ),
    attention(
        "biases_counted",
        "the biases are counted, too: matrix products alone are asked for",
        "asked for in sovrasov/flops-counter.pytorch #60, Lyken17/pytorch-OpCounter #53",
        added("num_heads * (d_k * (tgt_len + src_len) + d_v * src_len) + tgt_len * d_model"),
    ),
    attention(
        "half_for_the_future",
        "half the scores are taken off for a causal mask: the product computes them, masked or not",
        "AI-Hypercomputer/maxtext #2031 counts so, and says so",
        ("scores + blend)", "scores / 2 + blend / 2)"),
    ),
    attention(
        "way_back_counted",
        "three times as much comes out: that is forward and backward together",
        "formulas for a step of training, 6 in place of 2",
        (SUM, f"3 * {SUM}"),
    ),
    *MODEL,
)
