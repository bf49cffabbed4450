"""What goes wrong in chapter 01."""

from course_lib.exercises.mistake_catalogue import ignored, known

attention = known("attention", "scaled_dot_product_attention")

SCALE = "/ math.sqrt(d_k)"
MASKED = 'scores = scores.masked_fill(~mask, float("-inf"))'
ZEROED = """    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a row of only -inf has no softmax
"""
BLEND = "F.dropout(weights, dropout_p) @ value, weights"

MISTAKES = (
    attention(
        "scale_missing",
        "the scores are not divided by √d_k",
        "mlc-ai/mlc-llm #3426 (cosine with the reference 0.86 in place of 1.00)",
        (f" {SCALE}", ""),
    ),
    attention(
        "scale_d_k",
        "the scores are divided by d_k instead of √d_k",
        "delzac/cntkx #10",
        (SCALE, "/ d_k"),
    ),
    attention(
        "scale_d_v",
        "the scores are divided by √d_v instead of √d_k",
        "juho-lee/set_transformer #18",
        (SCALE, "/ math.sqrt(value.size(-1))"),
    ),
    attention(
        "softmax_over_queries",
        "softmax runs over the queries instead of the keys",
        "labmlai/annotated_deep_learning_paper_implementations #146",
        ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
    ),
    attention(
        "softmax_over_heads",
        "softmax runs over the heads (dim=1) instead of the keys",
        "FudanNLP/fastNLP #254 (a fixed dim, right for three axes only)",
        ("scores.softmax(dim=-1)", "scores.softmax(dim=min(1, scores.dim() - 1))"),
    ),
    attention(
        "softmax_missing",
        "the scores blend the values without a softmax",
        "student code, where a line was moved",
        ("scores.softmax(dim=-1)", "scores.clone()"),
    ),
    attention(
        "mask_inverted",
        "the mask is read the other way round: True as blocked",
        "lucidrains/halonet-pytorch #4; InseeFrLab/torchTextClassifiers #92",
        (MASKED, 'scores = scores.masked_fill(mask, float("-inf"))'),
        (ZEROED, "    weights = weights.nan_to_num(0.0)\n"),
    ),
    attention(
        "mask_ignored",
        "the mask is not used at all",
        "models that worked until their first padded batch",
        (MASKED, "pass"),
        (ZEROED, ""),
    ),
    attention(
        "mask_result_dropped",
        "masked_fill is called and its result dropped: it returns a new tensor",
        "huggingface/transformers #35162; facebookresearch/ParlAI #3068",
        (MASKED, 'scores.masked_fill(~mask, float("-inf"))'),
        (ZEROED, ""),
        tells=r"^ *\w+\.masked_fill\(",
    ),
    attention(
        "mask_after_softmax",
        "the mask is applied after the softmax, so the rest no longer adds up to 1",
        "huggingface/pytorch-image-models #2236",
        (MASKED, "pass"),
    ),
    attention(
        "mask_filled_with_zero",
        "blocked scores become 0, by fill or by multiplication: a score like any other, not an "
        "impossible one",
        "allenai/allennlp #105; georg-wolflein/good-features #1; THUwangcy/ReChorus #8 (1e-13)",
        (MASKED, "scores = scores.masked_fill(~mask, 0.0)"),
        (ZEROED, ""),
    ),
    attention(
        "mask_large_negative",
        "blocked scores are set to -1e9: a row with nothing to look at becomes an even blend",
        "EleutherAI/gpt-neox #966 (-10000)",
        ('float("-inf")', "-1e9"),
        (ZEROED, ""),
    ),
    attention(
        "blocked_row_nan",
        "a row of only -inf goes through softmax, and becomes nan",
        "pytorch/pytorch #41508, #25110",
        (ZEROED, ""),
    ),
    attention(
        "key_transposed_by_view",
        "the keys are turned by view or reshape, which cuts the rows anew instead of turning them",
        "student code: view fits every shape",
        ("key.transpose(-2, -1)", "key.reshape(*key.shape[:-2], d_k, -1)"),
    ),
    attention(
        "weights_after_dropout",
        "the weights are returned after dropout",
        "many hand-written layers, which drop in place before they return",
        (BLEND, "(w := F.dropout(weights, dropout_p)) @ value, w"),
    ),
    attention(
        "gradient_cut",
        "the weights are detached: nothing learns where to look",
        "jadore801120/attention-is-all-you-need-pytorch #16 (masking .data)",
        (BLEND, "F.dropout(weights.detach(), dropout_p) @ value, weights"),
    ),
    *ignored(attention, ("dropout_p", (BLEND, "weights @ value, weights"))),
)
