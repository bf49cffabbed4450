"""What goes wrong where heads share keys and values."""

from course_lib.exercises.mistake_catalogue import known

attention = known("modern_decoder", "GroupedQueryAttention")

PARENT = "super().__init__(d_model, num_heads, dropout)"
GUARD = "if num_groups < 1 or num_heads % num_groups:"
WIDTH = "width = (num_heads + 2 * num_groups) * head_width(d_model, num_heads)"
WIDE = "self.w_qkv = nn.Linear(d_model, width)"
SIZES = "sizes = (self.num_heads, self.num_groups, self.num_groups)"
WHOLE = "self.w_qkv(x).unflatten(-1, (sum(sizes), d_k)).transpose(1, 2)"
CUT = "q, k, v = heads.split(sizes, dim=1)"
SHARED = "shared = self.num_heads // self.num_groups"
KEYS, VALUES = "k.repeat_interleave(shared, dim=1)", "v.repeat_interleave(shared, dim=1)"
FORWARD = """

    def forward(self, x):
        q, k, v = self.project(x)
        dropped = {}
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped{})
        return self.merge(heads)
"""
DROP, CAUSAL = "self.dropout if self.training else 0.0", ", is_causal=True"

MISTAKES = (
    attention(
        "sets_tiled",
        "heads take the sets in turn, 0, 1, 0, 1, …: repeat_interleave gives 0, 0, 1, 1, and "
        "repeat does not",
        "onnx/onnx #7274, apple/axlearn #842",
        (KEYS, "k.repeat(1, shared, 1, 1)"),
        (VALUES, "v.repeat(1, shared, 1, 1)"),
    ),
    attention(
        "values_tiled",
        "keys are given out by repeat_interleave and values by repeat: a head reads the values of "
        "another set than its keys'",
        "student code",
        (VALUES, "v.repeat(1, shared, 1, 1)"),
    ),
    attention(
        "tokens_repeated",
        "tokens are repeated instead of sets: the axis of the sets is 1, behind the batch",
        "PrimeIntellect-ai/prime-rl #2681, ByteDance-Seed/VeOmni #162",
        (KEYS, "k.repeat_interleave(shared, dim=2)"),
        (VALUES, "v.repeat_interleave(shared, dim=2)"),
    ),
    attention(
        "not_given_to_the_heads",
        "keys and values stay G sets: `project` gives each head its own copy",
        "torch asks for enable_gqa then: meta-pytorch/attention-gym #82",
        (KEYS, "k"),
        (VALUES, "v"),
    ),
    attention(
        "kernel_shares",
        "torch's kernel shares the sets (enable_gqa) and `project` gives G of them: it is to give "
        "one to each head, (B, H, T, d_k)",
        "today's libraries: the copies are spared",
        (KEYS, "k"),
        (f"{VALUES}\n", "v" + FORWARD.format(DROP, ", is_causal=True, enable_gqa=True")),
    ),
    attention(
        "repeated_as_often_as_there_are_sets",
        "each set is repeated G times: it is read by H / G heads",
        "student code",
        (SHARED, "shared = self.num_groups"),
    ),
    attention(
        "groups_taken_for_heads_of_a_group",
        "num_groups is taken for the number of heads in a group: it is the number of sets",
        "student code: the word means either",
        (WIDTH, WIDTH.replace("2 * num_groups", "2 * (num_heads // num_groups)")),
        (SIZES, "sizes = (self.num_heads, *[self.num_heads // self.num_groups] * 2)"),
        (SHARED, "shared = self.num_groups"),
    ),
    attention(
        "as_wide_as_before",
        "w_qkv is as wide as before, 3 · d_model, and only its first sets are used: the cache gets "
        "smaller, the matrix does not",
        "EleutherAI/gpt-neox #1436 tells the widths apart",
        (WIDTH, "width = 3 * d_model"),
        (SIZES, f"{SIZES}\n        H = self.num_heads"),
        (WHOLE, "self.w_qkv(x).unflatten(-1, (3 * H, d_k)).transpose(1, 2)"),
        (
            CUT,
            "q, k, v = heads[:, :H], heads[:, H : H + self.num_groups], heads[:, 2 * H : 2 * H "
            "+ self.num_groups]",
        ),
    ),
    attention(
        "width_never_changed",
        "w_qkv is not replaced: super().__init__ makes one of 3 · d_model, which is too wide",
        "student code",
        (WIDE, "del width"),
    ),
    attention(
        "one_set_too_few_columns",
        "w_qkv has room for H + G heads: keys *and* values need G each",
        "student code",
        (WIDTH, WIDTH.replace("2 * num_groups", "num_groups")),
    ),
    attention(
        "cut_into_equal_thirds",
        "the product is cut into three equal parts: queries have H heads, keys and values G each",
        "vllm-project/vllm #13686, wanshuiyin/ARIS-in-AI-Offer #45",
        (CUT, "q, k, v = heads.chunk(3, dim=1)"),
    ),
    attention(
        "values_before_keys",
        "values are taken before keys: queries, keys, values is the order",
        "student code: q, v, k = …",
        (CUT, "q, v, k = heads.split(sizes, dim=1)"),
    ),
    attention(
        "queries_last",
        "keys and values are taken first: queries, keys, values is the order",
        "student code",
        (CUT, "k, v, q = heads.split(sizes[::-1], dim=1)"),
    ),
    attention(
        "sizes_in_another_order",
        "the sizes are G, G, H and the names are q, k, v: queries have H heads",
        "student code",
        (SIZES, "sizes = (self.num_groups, self.num_groups, self.num_heads)"),
    ),
    attention(
        "cut_group_by_group",
        "each group's queries, key and value stand together: here all queries come first",
        "Falcon's order; deepspeedai/DeepSpeed #8580 tells the two apart",
        (
            CUT,
            "heads = heads.unflatten(1, (self.num_groups, -1))\n"
            "        q, k, v = heads[:, :, :-2].flatten(1, 2), heads[:, :, -2], heads[:, :, -1]",
        ),
    ),
    attention(
        "heads_interleaved",
        "a head gets every (H + 2 · G)-th column: its columns stand side by side",
        "student code: unflatten(-1, (d_k, H + 2 * G))",
        (WHOLE, "self.w_qkv(x).unflatten(-1, (d_k, sum(sizes))).permute(0, 3, 1, 2)"),
    ),
    attention(
        "heads_split_without_transpose",
        "the heads are split by view or reshape without a transpose: tokens get mixed",
        "student code: view(B, H + 2 * G, T, d_k)",
        (WHOLE, "self.w_qkv(x).reshape(len(x), sum(sizes), x.size(1), d_k)"),
    ),
    attention(
        "first_set_for_all",
        "all heads read the first set: each group has its own",
        "multi-query attention, which is right for one group only",
        (KEYS, "k[:, :1].expand_as(q)"),
        (VALUES, "v[:, :1].expand_as(q)"),
    ),
    attention(
        "first_values_for_all",
        "each group has its keys, and all read the first set of values",
        "student code",
        (VALUES, "v[:, :1].expand_as(q)"),
    ),
    attention(
        "sets_averaged",
        "the sets are averaged, and all heads read the mean",
        "the paper's mean of trained heads, which is for converting, taken into the model",
        (KEYS, "k.mean(dim=1, keepdim=True).expand_as(q)"),
        (VALUES, "v.mean(dim=1, keepdim=True).expand_as(q)"),
    ),
    attention(
        "keys_shared_only",
        "keys are shared and every head has values of its own: sets are of both",
        "student code",
        (WIDTH, "width = (2 * num_heads + num_groups) * head_width(d_model, num_heads)"),
        (SIZES, "sizes = (self.num_heads, self.num_groups, self.num_heads)"),
        (VALUES, "v"),
    ),
    attention(
        "queries_shared",
        "queries are shared, too: every head asks for itself",
        "student code",
        (WIDTH, "width = 3 * num_groups * head_width(d_model, num_heads)"),
        (SIZES, "sizes = (self.num_groups, self.num_groups, self.num_groups)"),
        ("return q,", "return q.repeat_interleave(shared, dim=1),"),
    ),
    attention(
        "biases_missing",
        "w_qkv has no bias: it has one, as in CausalSelfAttention",
        "Llama's have none",
        (WIDE, "self.w_qkv = nn.Linear(d_model, width, bias=False)"),
    ),
    attention(
        "three_matrices",
        "there are three matrices: one product, w_qkv, is to make queries, keys and values",
        "most libraries: q_proj, k_proj, v_proj",
        (
            WIDE,
            "d_k = head_width(d_model, num_heads)\n"
            "        self.w_q, self.w_k, self.w_v = (\n"
            "            nn.Linear(d_model, n * d_k) for n in (num_heads, num_groups, num_groups)\n"
            "        )\n        del self.w_qkv, width",
        ),
        ("self.w_qkv.in_features", "self.w_o.in_features"),
        ("self.w_qkv(x)", "torch.cat([self.w_q(x), self.w_k(x), self.w_v(x)], dim=-1)"),
    ),
    attention(
        "uneven_groups_accepted",
        "sets that do not divide the heads are accepted, and the error comes later",
        "fla-org/flash-linear-attention #1029, NVIDIA/Megatron-LM #5755, tenstorrent/polaris #412",
        (GUARD, "if num_groups < 1:"),
    ),
    attention(
        "no_groups_accepted",
        "fewer than one set gets no ValueError: 0 divides nothing, and -2 divides 6",
        "NVIDIA/Megatron-LM #5755: 0 passes its check, too",
        ("num_groups < 1 or ", ""),
    ),
    attention(
        "nothing_refused",
        "no number of sets is refused: uneven ones and those below 1 need a ValueError",
        "student code",
        (GUARD, "if False:"),
    ),
    attention(
        "future_seen",
        "a new `forward` hides no future: is_causal=True is missing",
        "keras-team/keras #23038, facebookresearch/xformers #103",
        (f"{VALUES}\n", VALUES + FORWARD.format(DROP, "")),
    ),
    attention(
        "dropout_always_on",
        "a new `forward` drops in eval mode, too: ask self.training",
        "karpathy/nanoGPT #240",
        (f"{VALUES}\n", VALUES + FORWARD.format("self.dropout", CAUSAL)),
    ),
    attention(
        "dropout_not_handed_on",
        "dropout does not reach super().__init__: the weights are never dropped",
        "student code: an argument with a default, not given",
        (PARENT, "super().__init__(d_model, num_heads)"),
    ),
)
