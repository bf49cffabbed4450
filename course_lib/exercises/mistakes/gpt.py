"""What goes wrong in chapter 19: in attention, the layer, the model, its groups, and sampling."""

from course_lib.exercises.mistake_catalogue import known

attention = known("gpt", "CausalSelfAttention")

CUT = "self.w_qkv(x).unflatten(-1, (3, self.num_heads, -1))"
PARTS = "parts.permute(2, 0, 3, 1, 4).unbind()"
JOIN = "join_heads(heads)"
LOOK = "F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)"
SCORES = "(q @ k.mT / math.sqrt(q.size(-1)))"
SQUARE = "torch.ones(x.size(1), x.size(1), dtype=torch.bool)"
FUTURE = f"masked_fill({SQUARE}.triu(1), -math.inf)"
WIDE = "self.w_qkv = nn.Linear(d_model, 3 * d_model, bias)"
DROP = "self.dropout if self.training else 0.0"


MISTAKES = (
    attention(
        "future_seen",
        "nothing hides the future: is_causal=True is missing",
        "keras-team/keras #23038, facebookresearch/xformers #103, paiml/entrenar #310",
        (", is_causal=True", ""),
    ),
    attention(
        "causal_transposed",
        "the triangle is the wrong one: each token sees itself and what comes later",
        "karpathy/nanoGPT #170 asks which triangle it is",
        ("dropout_p=dropout_p, is_causal=True", f"{SQUARE}.triu(), dropout_p"),
    ),
    attention(
        "zeros_hide_nothing",
        "hidden scores are set to 0, and the softmax gives them a weight: -inf is right",
        "hyunwoongko/transformer #10: nearly 0 for -inf; karpathy/minGPT #75: a number too small",
        (LOOK, f"F.dropout({SCORES}.tril().softmax(dim=-1), dropout_p) @ v"),
    ),
    attention(
        "masked_after_the_softmax",
        "the future is hidden after the softmax, and what is left does not add up to 1",
        "lucidrains/memory-compressed-attention #2 asks which comes first",
        (LOOK, f"F.dropout({SCORES}.softmax(dim=-1).tril(), dropout_p) @ v"),
    ),
    attention(
        "softmax_over_the_queries",
        "the softmax runs over the queries: the weights of the *keys* add up to 1, dim=-1",
        "labmlai/annotated_deep_learning_paper_implementations #146; FudanNLP/fastNLP #254",
        (LOOK, f"F.dropout({SCORES}.{FUTURE}.softmax(dim=-2), dropout_p) @ v"),
    ),
    attention(
        "keys_first",
        "the first third of the product is taken for the keys: queries, keys, values is the order",
        "student code: k, q, v = …, the order of karpathy/ng-video-lecture",
        (f"return {PARTS}", f"k, q, v = {PARTS}\n        return q, k, v"),
    ),
    attention(
        "cut_into_heads_first",
        "the product is cut into heads first, and each head into its three: here it is the other "
        "way round",
        "GPT-NeoX's and Bloom's order: vllm-project/vllm #53114, sgl-project/sglang #40127",
        (CUT, "self.w_qkv(x).unflatten(-1, (self.num_heads, 3, -1))"),
        (PARTS, "parts.permute(3, 0, 2, 1, 4).unbind()"),
    ),
    attention(
        "heads_joined_without_transpose",
        "the heads are joined by view or reshape without a transpose: every output is put "
        "together from several tokens",
        "ajhalthor/Transformer-Neural-Network #4, jsbaan/transformer-from-scratch #6",
        (JOIN, "heads.reshape(len(heads), heads.size(2), -1)"),
    ),
    attention(
        "scale_d_model",
        "the scores are divided by √d_model instead of √d_k, the width of one head",
        "karpathy/ng-video-lecture #6; FareedKhan-dev/train-llm-from-scratch #3",
        ("is_causal=True", "is_causal=True, scale=x.size(-1) ** -0.5"),
    ),
    attention(
        "w_o_unused",
        "w_o is made and not used: the heads are never mixed",
        "JohnGiorgi/seq2rel #224",
        (f"self.w_o({JOIN})", JOIN),
    ),
    attention(
        "three_matrices",
        "there are three matrices, w_q, w_k and w_v: one product is to make all three",
        "chapter 02's attention, and karpathy/ng-video-lecture",
        (WIDE, "self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))"),
        ("self.w_qkv(x)", "torch.cat([self.w_q(x), self.w_k(x), self.w_v(x)], dim=-1)"),
    ),
    attention(
        "dropout_always_on",
        "dropout also acts in eval mode: ask self.training",
        "karpathy/nanoGPT #240",
        (DROP, "self.dropout"),
    ),
    attention(
        "output_dropped_too",
        "dropout acts on the output, too: in a layer AddNorm does that",
        "nanoGPT's resid_dropout stands inside of its attention",
        (f"self.w_o({JOIN})", f"F.dropout(self.w_o({JOIN}), dropout_p)"),
    ),
    attention(
        "mask_not_assigned",
        "what `masked_fill` returns is not kept: it leaves the scores as they were, and the future "
        "is seen",
        "student code: scores.masked_fill(…) for scores = …, or for masked_fill_",
        (
            f"heads = {LOOK}",
            f"scores = {SCORES}\n        scores.{FUTURE}\n"
            "        heads = F.dropout(scores.softmax(dim=-1), dropout_p) @ v",
        ),
        tells=r"^\s*\w+\.masked_fill\(",
    ),
)
