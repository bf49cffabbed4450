"""What goes wrong in chapter 08."""

from course_lib.exercises.mistake_catalogue import known

layer = known("decoder", "DecoderLayer")
stack = known("decoder", "Decoder")

BACK = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, self_mask, **own)[0])"
ACROSS = (
    "x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask, **source)[0])"
)
ALONE = "return self.add_norm3(x, self.feed_forward).view(shape)  # (B, T, d_model)"
ASK = "self.cross_attn(y, memory, memory, cross_mask, **source)"
ASK_OF_X = ASK.replace("(y", "(x")
CROSS_ATTN = "self.cross_attn = MultiHeadAttention(d_model, num_heads, **heads)"
NORM2, NORM3 = (f"self.add_norm{n} = AddNorm(d_model, dropout, norm_first)" for n in (2, 3))

LAYER_MISTAKES = (
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
        "keys_from_target",
        "cross-attention is called as (x, x, memory): values from the memory, keys from the target",
        "figure 1 read from left to right, V, K, Q; suspected in feinanshan/TDNet #17",
        (ASK, "self.cross_attn(y, y, memory, cross_mask)"),
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
        "attentions_exchanged",
        "cross_attn looks back at the target, and self_attn looks across at the memory",
        "student code, after renaming",
        ("self.self_attn(y, y", "self.other(y, y"),
        ("self.cross_attn(y", "self.self_attn(y"),
        ("self.other(y", "self.cross_attn(y"),
    ),
    layer(
        "norms_shared",
        "one AddNorm serves all three sub-layers: its gains cannot suit three places",
        "student code: self.norm used after every sub-layer",
        (NORM2, "self.add_norm2 = self.add_norm1"),
        (NORM3, "self.add_norm3 = self.add_norm1"),
    ),
    layer(
        "second_norm_used_twice",
        "add_norm2 is used after feed-forward too, and add_norm3 never",
        "lines copied and not changed, in student code",
        ("self.add_norm3(x", "self.add_norm2(x"),
    ),
    layer(
        "first_norm_used_twice",
        "add_norm1 is used after cross-attention too, and add_norm2 never",
        "lines copied and not changed, in student code",
        ("self.add_norm2(x", "self.add_norm1(x"),
    ),
    layer(
        "mask_only_in_training",
        "self_mask is used while training only: in eval mode every word sees the future",
        "facebookresearch/fairmotion #56 moves the mask under `if self.training`",
        ("y, y, y, self_mask", "y, y, y, self_mask if self.training else None"),
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
        "cross_mask_back",
        "self-attention gets cross_mask, made for the source: the future is open",
        "keitakurita/Practical_NLP_in_PyTorch #1 (src_mask in self-attention)",
        ("y, y, y, self_mask", "y, y, y, cross_mask"),
    ),
    layer(
        "masks_inverted",
        "the masks are turned round on their way, as torch.nn wants them: True as blocked",
        "habits from nn.TransformerDecoderLayer, where True means blocked",
        ("y, y, y, self_mask", "y, y, y, None if self_mask is None else ~self_mask"),
        ("memory, cross_mask", "memory, None if cross_mask is None else ~cross_mask"),
    ),
    layer(
        "cross_attention_skipped",
        "cross-attention is left out, or its result is not used",
        "thushv89/manning_tf2_in_action #36",
        (ACROSS, ""),
    ),
    layer(
        "self_attention_skipped",
        "self-attention is left out, or its result is not used",
        "student code: the result gets a name that nobody reads",
        (BACK, ""),
    ),
    layer(
        "feed_forward_skipped",
        "feed-forward is left out: the layer ends after cross-attention",
        "student code: a layer written from the words “two attentions”",
        (ALONE, "return x"),
    ),
    layer(
        "feed_forward_between",
        "feed-forward stands between the two attentions instead of after them",
        "lucidrains/feedback-transformer-pytorch #2",
        (ACROSS, "x = self.add_norm2(x, self.feed_forward)"),
        (ALONE, f"return self.add_norm3(x, lambda y: {ASK}[0])"),
    ),
    layer(
        "cross_before_self",
        "cross-attention comes first and self-attention second",
        "student code: the order of figure 1 read from the top",
        (
            BACK,
            "x = self.add_norm1(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])",
        ),
        (ACROSS, "x = self.add_norm2(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"),
    ),
    layer(
        "query_from_input",
        "cross-attention asks with the layer's input instead of what self-attention made of it",
        "DongjunLee/transformer-tensorflow #3, in its encoder",
        (BACK, f"first = x\n        {BACK}"),
        (
            ACROSS,
            ACROSS.replace("lambda y: self.cross_attn(y", "lambda _: self.cross_attn(first"),
        ),
    ),
    layer(
        "residual_from_input",
        "the residual path around cross-attention starts at the layer's input",
        "wrong residuals here: OpenNMT/OpenNMT-py #1689, georgepar/slp #26",
        (BACK, f"first = x\n        {BACK}\n        answer = {ASK_OF_X}[0]"),
        (ACROSS, "x = self.add_norm2(first, lambda _: answer)"),
    ),
    layer(
        "residual_missing",
        "x is not added to what cross-attention says: only the answer is normalized",
        "student code: attention and norm, without the sum",
        (ACROSS, f"x = self.add_norm2.norm({ASK_OF_X}[0])"),
    ),
    layer(
        "norm_not_read",
        "the functions given to AddNorm ignore their argument: in pre-norm nothing is normalized",
        "student code: `lambda _: self.self_attn(x, x, x)`",
        ("lambda y: self.self_attn(y, y, y", "lambda _: self.self_attn(x, x, x"),
        ("lambda y: self.cross_attn(y", "lambda _: self.cross_attn(x"),
        (
            "self.add_norm3(x, self.feed_forward)",
            "self.add_norm3(x, lambda _: self.feed_forward(x))",
        ),
    ),
    layer(
        "memory_normalized",
        "in pre-norm the memory goes through add_norm2's norm as well; only the queries should",
        "student code, after “normalize what a sub-layer reads”",
        (
            ACROSS,
            "if self.add_norm2.norm_first:\n"
            f"            memory = self.add_norm2.norm(memory)\n        {ACROSS}",
        ),
    ),
    layer(
        "memory_changed",
        "the memory is changed in place, and the next layer reads another one",
        "student code: `memory += …` instead of a new name",
        (
            ACROSS,
            f"memory += self.cross_attn(memory, memory, memory, cross_mask)[0]\n        {ACROSS}",
        ),
    ),
    layer(
        "memory_detached",
        "the memory is detached: the encoder can never learn",
        "student code: `.detach()` or no_grad around the encoder",
        ("memory, memory, cross_mask", "memory.detach(), memory.detach(), cross_mask"),
    ),
    layer(
        "norm_first_lost",
        "norm_first is not handed on to the AddNorms",
        "student code: an argument that is accepted and never used",
        ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, dropout)"),
    ),
    layer(
        "activation_lost",
        "activation is not handed on to FeedForward",
        "student code: an argument that is accepted and never used",
        ("activation_dropout, activation)", "activation_dropout)"),
    ),
    layer(
        "dropout_lost",
        "dropout is not handed on to the AddNorms",
        "student code: an argument that is accepted and never used",
        ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, norm_first=norm_first)"),
    ),
    layer(
        "dropout_inside",
        "dropout is given to the attentions and to FeedForward as well, as in torch.nn",
        "torch.nn.TransformerDecoderLayer; the paper drops what a sub-layer says, only",
        ("dropout=attention_dropout)", "dropout=dropout)"),
        ("activation_dropout, activation)", "dropout, activation)"),
    ),
    layer(
        "inner_dropouts_lost",
        "attention_dropout and activation_dropout are not handed on",
        "student code: an argument that is accepted and never used",
        (", dropout=attention_dropout)", ")"),
        ("d_ff, activation_dropout, activation)", "d_ff, activation=activation)"),
    ),
    layer(
        "head_widths_lost",
        "d_k and d_v are not handed on to the attentions",
        "student code: an argument that is accepted and never used",
        ("dict(d_k=d_k, d_v=d_v, ", "dict("),
    ),
)

LAYER = "DecoderLayer(*sizes, d_k=d_k, d_v=d_v, **rates)"
LAYERS = f"layers = [{LAYER} for _ in range(num_layers)]"
LOOP = "x = layer(x, memory, self_mask, cross_mask, **kept)  # (B, T, d_model)"
LAST = "return x if self.norm is None else self.norm(x)"
CHOICE = "nn.LayerNorm(d_model) if norm_first else None"

STACK_MISTAKES = (
    stack(
        "plain_list",
        "the layers stay in a plain Python list: no optimizer finds their parameters",
        "maruya24/pytorch_robotics_transformer #3; LiamMaclean216/Pytorch-Transfomer #7",
        ("nn.ModuleList(layers)", "layers"),
    ),
    stack(
        "one_layer_repeated",
        "one layer stands N times in the list: all share one set of weights",
        "IDEA-Research/DAB-DETR #17; espnet/espnet #1278",
        (LAYERS, f"layers = [{LAYER}] * num_layers"),
    ),
    stack(
        "one_layer_too_few",
        "the stack holds one layer fewer than num_layers",
        "off by one, in student code",
        ("range(num_layers)", "range(num_layers - 1)"),
    ),
    stack(
        "every_layer_reads_input",
        "every layer reads the stack's input, and only the last layer's answer counts",
        "17385/TreeBERT #5; Atcold/NYU-DLSP20 #270; simon-ging/coot-videotext #5",
        ("x = layer(x, memory", "y = layer(x, memory"),
        (LAST, "return y if self.norm is None else self.norm(y)"),
    ),
    stack(
        "first_layer_only",
        "the answer of the first layer is returned, from inside the loop",
        "tonyzhaozh/act #10 takes the first layer's output",
        (LOOP, f"{LOOP}\n            break"),
    ),
    stack(
        "result_dropped",
        "layer(…) is called and its result is not kept: x stays as it came",
        "student code: `layer(x, memory)` without `x =`",
        ("x = layer(x, memory", "layer(x, memory"),
    ),
    stack(
        "order_reversed",
        "the layers run from the last to the first",
        "student code: reversed(self.layers), or pop()",
        ("zip(self.layers,", "zip(reversed(self.layers),"),
    ),
    stack(
        "memory_replaced",
        "the memory is replaced by x after the first layer; every layer reads the encoder's",
        "student code: one name for what goes round in the loop",
        ("x = layer(x, memory", "x = memory = layer(x, memory"),
    ),
    stack(
        "masks_for_first_layer_only",
        "only the first layer gets the masks",
        "student code: the mask set to None after its first use",
        (LOOP, f"{LOOP}\n            self_mask = cross_mask = None"),
    ),
    stack(
        "self_mask_lost",
        "self_mask is not handed on to the layers: every word sees the future",
        "alex-matton/causal-transformer-decoder #1",
        ("memory, self_mask, cross_mask, **kept)", "memory, None, cross_mask)"),
    ),
    stack(
        "cross_mask_lost",
        "cross_mask is not handed on to the layers: the source's padding is read as words",
        "the early nn.Transformer had no argument for it: pytorch/pytorch #22588",
        ("memory, self_mask, cross_mask, **kept)", "memory, self_mask)"),
    ),
    stack(
        "masks_exchanged",
        "the layers get the two masks in the wrong order",
        "hkproj/pytorch-transformer #27 stumbles over two orders of arguments",
        ("memory, self_mask, cross_mask, **kept)", "memory, cross_mask, self_mask)"),
    ),
    stack(
        "memory_asks",
        "the layers get memory and x in the wrong order",
        "hkproj/pytorch-transformer #27 stumbles over two orders of arguments",
        ("x = layer(x, memory,", "x = layer(memory, x,"),
    ),
    stack(
        "last_norm_missing",
        "in pre-norm the stack has no LayerNorm at its end, and its sums grow unchecked",
        "PaddlePaddle/PaddleNLP #571; NVIDIA-NeMo/Speech #2197",
        (CHOICE, "None"),
    ),
    stack(
        "last_norm_unused",
        "the final norm is built and not called",
        "student code: `return x` after the loop",
        (LAST, "return x"),
    ),
    stack(
        "last_norm_always",
        "the final norm stands in post-norm, too: the vectors are normalized twice",
        "torch.nn.Transformer does so (pytorch/pytorch #24930, #50086)",
        (CHOICE, "nn.LayerNorm(d_model)"),
    ),
    stack(
        "last_norm_exchanged",
        "the final norm stands in post-norm and is missing in pre-norm: the choice is turned round",
        "student code",
        (CHOICE, "None if norm_first else nn.LayerNorm(d_model)"),
    ),
    stack(
        "norm_after_every_layer",
        "the final norm is called after every layer instead of once",
        "student code: the last line indented into the loop",
        (LOOP, f"{LOOP}\n            x = x if self.norm is None else self.norm(x)"),
        (LAST, "return x"),
    ),
    stack(
        "options_lost",
        "d_k, d_v and the two further dropouts do not reach the layers",
        "student code",
        (LAYER, "DecoderLayer(*sizes)"),
    ),
    stack(
        "memory_detached",
        "the memory is detached: the encoder can never learn",
        "student code: `.detach()` or no_grad around the encoder",
        ("x = layer(x, memory,", "x = layer(x, memory.detach(),"),
    ),
)

MISTAKES = LAYER_MISTAKES + STACK_MISTAKES
