"""What goes wrong in chapter 02."""

from course_lib.exercises.mistake_catalogue import ignored, known

split = known("multi_head", "split_heads")
heads = known("multi_head", "MultiHeadAttention")

Q = "split_heads(self.w_q(query), self.num_heads)"
K = "split_heads(self.w_k(key), self.num_heads)"
V = "split_heads(self.w_v(value), self.num_heads)"
W_Q = "self.w_q = nn.Linear(d_model, num_heads * d_k, bias=bias)"
W_K = "self.w_k = nn.Linear(d_model, num_heads * d_k, bias=bias)"
W_V = "self.w_v = nn.Linear(d_model, num_heads * d_v, bias=bias)"
W_O = "self.w_o = nn.Linear(num_heads * d_v, d_model, bias=bias)"
JOIN = "join_heads(heads)"
OUT = "self.w_o(join_heads(heads)), weights"
DEFAULT_K = "d_k = head_width(d_model, num_heads, d_k)"
ATTENDED = """weights = None
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout_p)
        else:
            heads = attention_output(q, k, v, mask, dropout_p)"""
AXIS = """scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=AXIS)
        heads, weights = weights @ v, weights if need_weights else None"""
DROP = "self.dropout if self.training else 0.0"

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
    heads(
        "scale_d_model",
        "the scores are divided by √d_model instead of √d_k, the width of one head",
        "karpathy/ng-video-lecture #6; aladdinpersson/Machine-Learning-Collection #65",
        (Q, f"{Q} * (self.w_q.out_features / self.num_heads / query.size(-1)) ** 0.5"),
    ),
    heads(
        "scale_missing",
        "the scores of the heads are not divided by √d_k",
        "PAIR-code/tiny-transformers #71",
        (Q, f"{Q} * (self.w_q.out_features / self.num_heads) ** 0.5"),
    ),
    heads(
        "heads_split_without_transpose",
        "the heads are split by view or reshape without a transpose: tokens get mixed",
        "reczoo/FuxiCTR #30; 649453932/Chinese-Text-Classification-Pytorch #10",
        (Q, "self.w_q(query).reshape(len(query), self.num_heads, query.size(1), -1)"),
        (K, "self.w_k(key).reshape(len(key), self.num_heads, key.size(1), -1)"),
        (V, "self.w_v(value).reshape(len(value), self.num_heads, value.size(1), -1)"),
    ),
    heads(
        "heads_joined_without_transpose",
        "the heads are joined by view or reshape without a transpose: every answer is put "
        "together from several words",
        "jsbaan/transformer-from-scratch #6; hackiey/QAnet-pytorch #2",
        (JOIN, "heads.reshape(*query.shape[:-1], -1)"),
    ),
    heads(
        "w_o_missing",
        "there is no W^O: the heads are put side by side and never mixed",
        "Kyubyong/transformer #117; d2l-ai/d2l-en #439",
        (W_O, "pass"),
        (OUT, "join_heads(heads), weights"),
    ),
    heads(
        "w_o_unused",
        "w_o is made and not used",
        "JohnGiorgi/seq2rel #224",
        (OUT, "join_heads(heads), weights"),
    ),
    heads(
        "value_through_w_k",
        "the values go through w_k instead of w_v",
        "stevezheng23/sequence_labeling_tf #81 (projections reused)",
        (V, "split_heads(self.w_k(value), self.num_heads)"),
    ),
    heads(
        "keys_and_values_swapped",
        "keys and values change places on their way into the attention",
        "pbloem/former #2 (values scaled in place of keys)",
        (f"k = {K}", f"v = {K}"),
        (f"v = {V}", f"k = {V}"),
    ),
    heads(
        "value_is_key",
        "the keys are projected a second time in place of the values",
        "snu-comparch/InfiniGen #5; tensorflow/tensorflow #35859",
        (V, "split_heads(self.w_v(key), self.num_heads)"),
    ),
    heads(
        "one_layer_for_three",
        "w_q, w_k and w_v are one and the same layer",
        "stevezheng23/reading_comprehension_tf #284",
        (W_K, "self.w_k = self.w_q"),
        (W_V, "self.w_v = self.w_q"),
    ),
    heads(
        "layers_in_a_list",
        "the layers stand in a plain Python list: nn.Module does not see them, and nothing "
        "there is ever trained or saved",
        "pytorch/pytorch #666, #715, #72580; shenwzh3/RGAT-ABSA #9",
        (W_Q, "self.w = [nn.Linear(d_model, num_heads * d_k, bias=bias)]"),
        (W_K, "self.w.append(nn.Linear(d_model, num_heads * d_k, bias=bias))"),
        (W_V, "self.w.append(nn.Linear(d_model, num_heads * d_v, bias=bias))"),
        (Q, "split_heads(self.w[0](query), self.num_heads)"),
        (K, "split_heads(self.w[1](key), self.num_heads)"),
        (V, "split_heads(self.w[2](value), self.num_heads)"),
        ("check_widths(self, query, key, value)", "pass"),
    ),
    heads(
        "mask_inverted",
        "the mask is turned round on the way: True means may look, here as in torch's function",
        "cnzzx/GeMap #1; InseeFrLab/torchTextClassifiers #92",
        ("check_widths(self, query, key, value)", "mask = mask if mask is None else ~mask"),
    ),
    heads(
        "only_the_output",
        "the output comes back alone: the caller expects two things, output and weights",
        "student code",
        (OUT, "self.w_o(join_heads(heads))"),
    ),
    heads(
        "dropout_always_on",
        "dropout also acts in eval mode: ask self.training",
        "karpathy/nanoGPT #240; wenet-e2e/wenet #2699",
        (DROP, "self.dropout"),
    ),
    heads(
        "softmax_over_heads",
        "softmax runs over the heads (dim=1) instead of the keys",
        "jadore801120/attention-is-all-you-need-pytorch, forks with softmax(dim=1) on four axes",
        (ATTENDED, AXIS.replace("AXIS", "1")),
    ),
    heads(
        "softmax_over_queries",
        "softmax runs over the queries instead of the keys",
        "labmlai/annotated_deep_learning_paper_implementations #146",
        (ATTENDED, AXIS.replace("AXIS", "-2")),
    ),
    heads(
        "query_and_key_swapped",
        "query and key change places: what is asked is matched as if it were offered",
        "student code: forward(key, query, value), called in the paper's order",
        (Q, "split_heads(self.w_q(key), self.num_heads)"),
        (K, "split_heads(self.w_k(query), self.num_heads)"),
    ),
    heads(
        "width_must_divide",
        "d_model has to divide by num_heads even where d_k and d_v are given",
        "the assert of most textbooks, copied where the widths are free",
        (DEFAULT_K, "assert d_model % num_heads == 0\n        " + DEFAULT_K),
    ),
    *ignored(
        heads,
        ("mask", ("check_widths(self, query, key, value)", "mask = None")),
        ("dropout", (DROP, "0.0")),
        (
            "d_k",
            ("head_width(d_model, num_heads, d_k)", "head_width(d_model, num_heads)"),
            ("head_width(d_model, num_heads, d_v)", "head_width(d_model, num_heads)"),
        ),
    ),
)
