"""What goes wrong in chapter 21: in table 1's counts, an attention's, and a model's."""

from collections.abc import Sequence

from course_lib.exercises.mistake_catalogue import ignored, known

layer = known("flops", "layer_operations")
attention = known("flops", "attention_flops")
model = known("flops", "forward_flops")

SELF = "length**2 * d_model,"
RECURRENT = '"recurrent": length * d_model**2'
CONVOLUTION = "kernel_size * length * d_model**2"
LEAST = "min(length, d_model, kernel_size) < 1"
SIX = "(queries + keys + values + mixing + scores + blend)"
SUM = f"2 * num_heads * {SIX}"
FIRST = "queries ="
QUERIES = f"{FIRST} tgt_len * d_model * d_k\n    keys = src_len * d_model * d_k"
VALUES = "values = src_len * d_model * d_v\n    mixing = tgt_len * d_v * d_model"
PAIRS = "scores = tgt_len * src_len * d_k\n    blend = tgt_len * src_len * d_v"

FEATURES = "2 * 2 * config.d_model * config.d_ff"
CROSS = "attention(tgt_len, src_len)"
OUTPUT = "2 * tgt_len * config.d_model * config.tgt_vocab_size"
TOTAL = "config.num_encoder_layers * encoder + config.num_decoder_layers * decoder + output"
TABLES = "2 * config.d_model * (src_len * config.src_vocab_size + tgt_len * config.tgt_vocab_size)"


def both(sign: str) -> tuple[str, str]:
    """Count the two products of self-attention, and something else beside."""
    return SELF, f"2 * {SELF[:-1]}{sign},"


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
        "scores and weighted sum are counted both, 2 · n² · d: the table has the power without the "
        "factor",
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
    *ignored(layer, ("kernel_size", (CONVOLUTION, "3 * length * d_model**2"))),
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
        "zero_accepted",
        "sizes below 1 pass, and lead to counts of 0 or below",
        "code that leaves the message to a later division",
        (LEAST, "False"),
    ),
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
        "mixing_forgotten",
        "three projections are counted: the fourth, w_o, mixes the heads",
        "student code: queries, keys and values",
        *lost("mixing"),
    ),
    attention(
        "keys_by_target",
        "keys and values are counted at T positions: they come from the S of the source",
        "counts written for self-attention, 4 · T · d²",
        (QUERIES, "queries, keys = tgt_len * d_model * d_k, tgt_len * d_model * d_k"),
        (VALUES, "values, mixing = tgt_len * d_model * d_v, tgt_len * d_v * d_model"),
    ),
    attention(
        "queries_by_source",
        "all projections are counted at S positions: queries and outputs are due at the T of the "
        "target",
        "counts written for self-attention, 4 · S · d²",
        (QUERIES, "queries, keys = src_len * d_model * d_k, src_len * d_model * d_k"),
        (VALUES, "values, mixing = src_len * d_model * d_v, src_len * d_v * d_model"),
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
    *ignored(
        attention,
        ("d_k", (FIRST, f"d_k = d_model // num_heads\n    {FIRST}")),
        ("d_v", (FIRST, f"d_v = d_model // num_heads\n    {FIRST}")),
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
        (f"return {SUM}", f"return {SUM} + 5 * num_heads * tgt_len * src_len"),
    ),
    model(
        "output_forgotten",
        "the output layer is forgotten: it multiplies T vectors by the whole vocabulary",
        "pytorch/torchtitan #274",
        (" + output", ""),
    ),
    model(
        "embeddings_counted",
        "looking up an embedding is counted as a product",
        "huggingface/trl #6708, tenstorrent/tt-metal #50114, ByteDance-Seed/VeOmni #703",
        (TOTAL, f"{TOTAL} + {TABLES}"),
    ),
    model(
        "free_where_shared",
        "the output layer costs nothing where its matrix is shared: it multiplies all the same",
        "huggingface/trl #6731",
        ("+ output", '+ output * (config.tie_embeddings == "none")'),
    ),
    model(
        "last_position_only",
        "the output layer is counted at one position: all T are scored",
        "how a model that writes is counted: vllm-project/vllm #33045",
        (OUTPUT, OUTPUT.replace("tgt_len * ", "")),
    ),
    model(
        "encoder_layers_in_both",
        "the decoder is taken to have as many layers as the encoder",
        "conversions: microsoft/onnxruntime #17072, huggingface/transformers #16934",
        ("config.num_decoder_layers", "config.num_encoder_layers"),
    ),
    model(
        "cross_attention_forgotten",
        "the decoder's attention to the source is forgotten",
        "formulas of decoder-only models",
        (f"{CROSS} + ", ""),
    ),
    model(
        "cross_attention_as_self",
        "the decoder's second attention is counted over the target again: keys are the source's",
        "student code: two attentions of (T, T)",
        (CROSS, "attention(tgt_len, tgt_len)"),
    ),
    model(
        "one_matrix_of_two",
        "one of the feed-forward's two matrices is forgotten",
        "student code: d_model · d_ff once; of three, one in allenai/open-instruct #1096",
        (FEATURES, "2 * config.d_model * config.d_ff"),
    ),
    model(
        "three_matrices",
        "the feed-forward is counted with three matrices: that is chapter 19's, with a gate",
        "right for layers with a gate: bigscience-workshop/Megatron-DeepSpeed #283",
        (FEATURES, "2 * 3 * config.d_model * config.d_ff"),
    ),
    model(
        "four_times_as_wide",
        "the feed-forward is taken to widen by 4: `d_ff` says how wide it is",
        "formulas that take a factor of 4 for granted, as in NVIDIA/Megatron-LM #995",
        ("config.d_ff", "4 * config.d_model"),
    ),
    model(
        "own_widths_ignored",
        "`d_k` and `d_v` of the configuration are not handed on",
        "NVIDIA-NeMo/Automodel #3091",
        ("d_k=config.d_k, d_v=config.d_v", "d_k=None, d_v=None"),
    ),
    model(
        "multiplications_only",
        "half of it comes out: a multiplication and its addition are two operations",
        "open-mmlab/mmpose #1190, alibaba/lightweight-neural-architecture-search #7",
        (f"return {TOTAL}", f"return ({TOTAL}) // 2"),
    ),
    model(
        "backward_counted",
        "three times as much comes out: that is forward and backward together",
        "6 · parameters in place of 2; EleutherAI/cookbook #2 asks for the forward pass alone",
        (f"return {TOTAL}", f"return 3 * ({TOTAL})"),
    ),
)
