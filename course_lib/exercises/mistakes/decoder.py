"""What goes wrong in chapter 08."""

from course_lib.exercises.mistake_catalogue import ignored, known

layer = known("decoder", "DecoderLayer")

BACK = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"
ACROSS = "x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])"
ASK = "self.cross_attn(y, memory, memory, cross_mask)"
ASK_OF_X = ASK.replace("(y", "(x")
CROSS_ATTN = "self.cross_attn = MultiHeadAttention(d_model, num_heads, **heads)"
NORM2, NORM3 = (f"self.add_norm{n} = AddNorm(d_model, dropout, norm_first)" for n in (2, 3))


MISTAKES = (
    layer(
        "memory_asks",
        "cross-attention is called as (memory, x, x): the source asks and the target answers",
        "described so in humza909/LLM_Survey #2 and datawhalechina/happy-llm #5",
        (ASK, "self.cross_attn(memory, y, y, cross_mask)"),
    ),
    layer(
        "values_from_target",
        "cross-attention is called as (x, memory, x): keys from the memory, values from the target",
        "figure 1 read from left to right, V, K, Q; suspected in feinanshan/TDNet #17",
        (ASK, "self.cross_attn(y, memory, y, cross_mask)"),
    ),
    layer(
        "cross_reads_target",
        "cross-attention reads the target, (x, x, x), and nobody reads the memory",
        "keitakurita/Practical_NLP_in_PyTorch #1",
        (ASK, "self.cross_attn(y, y, y, cross_mask)"),
    ),
    layer(
        "one_attention_object",
        "self-attention and cross-attention are the same object: two questions, one set of weights",
        "lucidrains/feedback-transformer-pytorch #2 discusses shared projections",
        (CROSS_ATTN, "self.cross_attn = self.self_attn"),
    ),
    layer(
        "self_attn_used_twice",
        "self_attn is called in both places, and cross_attn is built but never used",
        "maxjcohen/transformer #23",
        ("self.cross_attn(y", "self.self_attn(y"),
    ),
    layer(
        "one_norm",
        "there is one norm for all three sub-layers: each needs a gain and a shift of its own",
        "one self.norm for every sub-layer, as in hand-written post-norm layers",
        (NORM2, ""),
        (NORM3, ""),
        ("self.add_norm2(", "self.add_norm1("),
        ("self.add_norm3(", "self.add_norm1("),
    ),
    layer(
        "always_pre_norm",
        "the norm comes before each sub-layer, though the paper's order is asked for",
        "The Annotated Transformer, and GPT-2 after it",
        ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, dropout, True)"),
    ),
    layer(
        "self_mask_lost",
        "self_mask is not handed on: every word sees the future",
        "alex-matton/causal-transformer-decoder #1",
        ("y, y, y, self_mask", "y, y, y"),
    ),
    layer(
        "cross_mask_lost",
        "cross_mask is not handed on: the source's padding is read as if it were words",
        "the early nn.Transformer had no argument for it: pytorch/pytorch #22588",
        ("memory, memory, cross_mask", "memory, memory"),
    ),
    layer(
        "masks_exchanged",
        "the two masks are exchanged: cross_mask in self-attention, self_mask in cross-attention",
        "hkproj/pytorch-transformer #27 stumbles over two orders of arguments",
        ("memory, memory, cross_mask", "memory, memory, self_mask"),
        ("y, y, y, self_mask", "y, y, y, cross_mask"),
    ),
    layer(
        "self_mask_across",
        "cross-attention gets self_mask: it hides what is right of the diagonal of the source",
        "Kamichanw/SeekDeeper #3",
        ("memory, memory, cross_mask", "memory, memory, self_mask"),
    ),
    layer(
        "cross_attention_skipped",
        "cross-attention is left out, or its result is not used",
        "thushv89/manning_tf2_in_action #36",
        (ACROSS, ""),
    ),
    layer(
        "cross_before_self",
        "cross-attention comes first and self-attention second",
        "figure 1 read from the top, or from its caption",
        (
            BACK,
            "x = self.add_norm1(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])",
        ),
        (ACROSS, "x = self.add_norm2(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"),
    ),
    layer(
        "residual_from_input",
        "the residual path around cross-attention starts at the layer's input",
        "wrong residuals here: OpenNMT/OpenNMT-py #1689, georgepar/slp #26",
        (BACK, f"first = x\n        {BACK}\n        answer = {ASK_OF_X}[0]"),
        (ACROSS, "x = self.add_norm2(first, lambda _: answer)"),
    ),
    *ignored(
        layer,
        ("norm_first", ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, dropout)")),
        ("activation", ("activation_dropout, activation)", "activation_dropout)")),
        ("d_k", ("dict(d_k=d_k, ", "dict(")),
        (
            "dropout",
            ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, norm_first=norm_first)"),
        ),
        ("attention_dropout", (", dropout=attention_dropout)", ")")),
        (
            "activation_dropout",
            ("d_ff, activation_dropout, activation)", "d_ff, activation=activation)"),
        ),
    ),
)
