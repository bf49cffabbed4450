"""What goes wrong in chapter 18: in attention, the layer, the model, its groups, and sampling."""

from course_lib.exercises.mistake_catalogue import ignored, known

attention = known("gpt", "CausalSelfAttention")
layer = known("gpt", "GPTLayer")
model = known("gpt", "GPT")
decay = known("gpt", "param_groups")
write = known("gpt", "sample")

CUT = "self.w_qkv(x).unflatten(-1, (3, self.num_heads, -1))"
PARTS = "parts.permute(2, 0, 3, 1, 4).unbind()"
JOIN = "heads.transpose(1, 2).flatten(2)"
LOOK = "F.scaled_dot_product_attention(q, k, v, past, dropped, is_causal=cache is None)"
SCORES = "(q @ k.mT / math.sqrt(q.size(-1)))"
FUTURE = "masked_fill(~causal_mask(x.size(1)), -math.inf)"
WIDE = "self.w_qkv = nn.Linear(d_model, 3 * d_model, bias)"
DROP = "self.dropout if self.training else 0.0"

CHECKED = "        head_width(d_model, num_heads)\n"

NORMS = "dropout, norm_first=True, bias=bias)"
THINK = 'FeedForward(d_model, 4 * d_model, activation="gelu", bias=bias)'
RUN = "return self.add_norm2(self.add_norm1(x, attend), self.feed_forward)"

EMBED = "self.positions(self.embedding(ids), **start)"
LAYERS = "nn.ModuleList(GPTLayer(*sizes, bias=c.bias) for _ in range(c.num_layers))"
LOGITS = "self.output(self.norm(x))"
STD = "std=c.init_std / math.sqrt(2 * c.num_layers) ** into_sum"
LOSS = "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"
ALONE = "return logits, None"

LEARNS = "[parameter for parameter in model.parameters() if parameter.requires_grad]"
NAMED = "[pair for pair in model.named_parameters() if pair[1].requires_grad]"
FIRST = '{"params": [p for p in learns if p.dim() >= 2], "weight_decay": weight_decay}'
REST = '{"params": [p for p in learns if p.dim() < 2], "weight_decay": 0.0}'


def by(rule: str) -> tuple[tuple[str, str], ...]:
    """Sort by a rule on n, the name, and p, the parameter."""
    return (
        (LEARNS, NAMED),
        (FIRST, FIRST.replace("[p for p in learns if p.dim() >= 2]",
                              f"[p for n, p in learns if {rule}]")),
        (REST, REST.replace("[p for p in learns if p.dim() < 2]",
                            f"[p for n, p in learns if not ({rule})]")),
    )  # fmt: skip


WINDOW = "ids[:, -limit:]"
FITS = "if cache is not None and ids.size(1) <= limit:"
TOKEN = "sample_tokens(logits[:, -1], **how)"
LOOP = "for _ in range(max_new_tokens):"

MISTAKES = (
    attention(
        "future_seen",
        "nothing hides the future: is_causal=True is missing",
        "keras-team/keras #23038, facebookresearch/xformers #103, paiml/entrenar #310",
        (", is_causal=cache is None", ""),
    ),
    attention(
        "causal_transposed",
        "the triangle is the wrong one: each token sees itself and what comes later",
        "karpathy/nanoGPT #170 asks which triangle it is",
        ("past, dropped, is_causal=cache is None", "causal_mask(x.size(1)).T, dropped"),
    ),
    attention(
        "zeros_hide_nothing",
        "hidden scores are set to 0, and the softmax gives them a weight: -inf is right",
        "hyunwoongko/transformer #10: nearly 0 for -inf; karpathy/minGPT #75: a number too small",
        (LOOK, f"F.dropout({SCORES}.tril().softmax(dim=-1), dropped) @ v"),
    ),
    attention(
        "masked_after_the_softmax",
        "the future is hidden after the softmax, and what is left does not add up to 1",
        "lucidrains/memory-compressed-attention #2 asks which comes first",
        (LOOK, f"F.dropout({SCORES}.softmax(dim=-1).tril(), dropped) @ v"),
    ),
    attention(
        "softmax_over_the_queries",
        "the softmax runs over the queries: the weights of the *keys* add up to 1, dim=-1",
        "labmlai/annotated_deep_learning_paper_implementations #146; FudanNLP/fastNLP #254",
        (LOOK, f"F.dropout({SCORES}.{FUTURE}.softmax(dim=-2), dropped) @ v"),
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
        "heads_split_without_transpose",
        "the heads are split by view or reshape without a transpose: tokens get mixed",
        "student code: view(B, H, T, d_k) of a product (B, T, d_model)",
        (
            PARTS,
            "tuple(p.reshape(len(x), self.num_heads, x.size(1), -1) for p in "
            "parts.flatten(3).unbind(2))",
        ),
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
        ("is_causal=cache is None", "is_causal=True, scale=x.size(-1) ** -0.5"),
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
        ("return self.merge(heads)", "return F.dropout(self.merge(heads), dropped)"),
    ),
    attention(
        "uneven_heads_accepted",
        "heads that do not divide the width are accepted, and the error comes later",
        "student code: // without a check",
        ("head_width(d_model, num_heads)", "pass"),
    ),
    attention(
        "mask_not_assigned",
        "what `masked_fill` returns is not kept: it leaves the scores as they were, and the future "
        "is seen",
        "student code: scores.masked_fill(…) for scores = …, or for masked_fill_",
        (
            f"heads = {LOOK}",
            f"scores = {SCORES}\n        scores.{FUTURE}\n"
            "        heads = F.dropout(scores.softmax(dim=-1), dropped) @ v",
        ),
        tells=r"^\s*\w+\.masked_fill\(",
    ),
    attention(
        "asserted",
        "heads that do not divide the width stop at an `assert`: a ValueError is asked for, as "
        "asserts are skipped under `python -O`",
        "minGPT and nanoGPT: assert config.n_embd % config.n_head == 0",
        (CHECKED, "        assert d_model % num_heads == 0\n"),
    ),
    *ignored(
        attention,
        ("dropout", (DROP, "0.0")),
        ("cache", ("if cache is not None:", "if False:"), ("cache is None", "True")),
    ),
    layer(
        "post_norm",
        "the sums are normalized, as in the paper: GPT-2 normalizes what a sub-layer reads",
        "karpathy/minGPT #52, karpathy/nanoGPT #278",
        (NORMS, "dropout)"),
    ),
    layer(
        "relu",
        "the features go through ReLU: GPT has GELU",
        "PaddlePaddle/PaddleNLP #1048, OpenNMT/OpenNMT-py #1971",
        (', activation="gelu"', ""),
    ),
    layer(
        "side_by_side",
        "both sub-layers read x: the second should read what the first has made of it",
        "GPT-J is built so: huggingface/transformers #18695; shown in karpathy/nanoGPT #278",
        (
            RUN,
            "return self.add_norm1(x, self.self_attn) + self.add_norm2(x, self.feed_forward) - x",
        ),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before attention",
        "allenai/allennlp #3334",
        (RUN, "return self.add_norm2(self.add_norm1(x, self.feed_forward), self.self_attn)"),
    ),
    layer(
        "dropout_inside_the_features",
        "the features are dropped as well: inside the feed-forward GPT-2 drops nothing",
        "ports from nn.TransformerEncoderLayer, which has a dropout there",
        (THINK, THINK.replace("4 * d_model", "4 * d_model, dropout")),
    ),
    layer(
        "dropout_of_weights_missing",
        "dropout does not reach the attention",
        "student code: an argument with a default, not given",
        ("num_heads, dropout, bias", "num_heads, bias"),
    ),
    layer(
        "dropout_of_outputs_missing",
        "dropout does not reach the AddNorms",
        "student code: an argument with a default, not given",
        (NORMS, "norm_first=True, bias=bias)"),
    ),
    *ignored(layer, ("cache", ("if cache is not None:", "if False:"))),
    model(
        "scale_kept",
        "the vectors are multiplied by √d_model, as the paper's: they start as small as positions",
        "ports from the paper's model",
        ("self.embedding(ids)", "self.embedding(ids) * math.sqrt(c.d_model)"),
    ),
    model(
        "positions_missing",
        "positions are never added",
        "Lightning-AI/pytorch-lightning #20099",
        (EMBED, "self.embedding(ids)"),
    ),
    model(
        "last_norm_unused",
        "the last norm is left out: in pre-norm nothing else normalizes the sum",
        "brightmart/albert_zh #41; added in NVIDIA-NeMo/Speech #2197",
        (LOGITS, "self.output(x)"),
    ),
    model(
        "softmax_inside",
        "a softmax stands before the logits come out, and the loss takes a second one",
        "bkitano/llama-from-scratch #5",
        (LOGITS, f"{LOGITS}.softmax(dim=-1)"),
    ),
    model(
        "last_row_alone",
        "without targets only the last row of logits comes out: all rows are asked for",
        "nanoGPT's forward does so, to save work while sampling",
        (ALONE, "return logits[:, [-1]], None"),
    ),
    model(
        "shifted_again",
        "the loss shifts the targets once more: random_windows has shifted them already",
        "huggingface/transformers #47394, #46898; explained in #44642",
        (LOSS, "F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())"),
    ),
    model(
        "loss_summed",
        "the loss is the sum over all tokens: the mean is asked for",
        "huggingface/transformers #818 asks which of the two it is",
        ("targets.flatten())", "targets.flatten(), reduction='sum')"),
    ),
    model(
        "id_zero_left_out",
        "targets of id 0 count for nothing, as if they were padding: all ids are text",
        "lucidrains/parti-pytorch #8, nyu-mll/jiant #925",
        ("targets.flatten())", "targets.flatten(), ignore_index=0)"),
    ),
    model(
        "ids_not_checked",
        "the ids are not checked: torch's own error comes, from further down, or none",
        "nanoGPT checks the length only",
        ('check_ids(ids, c.vocab_size, c.max_len, "input")', "pass"),
    ),
    model(
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        "karpathy/nanoGPT #21",
        ("        self.output.weight = self.embedding.weight\n", ""),
    ),
    model(
        "one_layer_repeated",
        "one layer is run again and again: each needs parameters of its own",
        "student code: [layer] * num_layers",
        (LAYERS, "nn.ModuleList([GPTLayer(*sizes, bias=c.bias)] * c.num_layers)"),
    ),
    model(
        "layers_in_a_list",
        "the layers stand in a plain Python list: nn.Module does not see them, and nothing "
        "there is ever trained or saved",
        "pytorch/pytorch #666, #715; maruya24/pytorch_robotics_transformer #3",
        (LAYERS, "[GPTLayer(*sizes, bias=c.bias) for _ in range(c.num_layers)]"),
    ),
    model(
        "not_divided",
        "w_o and linear2 start as large as the others: they write into the residual stream, so "
        "divide by √(2N)",
        "huggingface/transformers #47458, stanford-crfm/mistral #30",
        (STD, "std=c.init_std"),
    ),
    model(
        "divided_by_root_n",
        "w_o and linear2 are divided by √N: each layer adds twice, so there are 2N additions",
        "GPT-2's own words leave it open: karpathy/minGPT #134, affjljoo3581/GPT2 #10",
        (STD, "std=c.init_std / math.sqrt(c.num_layers) ** into_sum"),
    ),
    model(
        "torchs_own_start",
        "the matrices start as torch leaves them: the embedding at N(0, 1), fifty times too large",
        "pytorch/pytorch #3121: hours lost over the N(0, 1) of nn.Embedding",
        ("if parameter.dim() == 2:", "if False:"),
    ),
    *ignored(
        model,
        ("bias", ("bias=c.bias", "bias=True")),
        (
            "cache",
            ('{"start": cache.length}', "{}"),
            ('[{"cache": x} for x in cache.layers]', "[{}] * len(self.layers)"),
        ),
    ),
    decay(
        "everything_decays",
        "everything decays: gains belong at 1, and biases need not be small",
        "Lightning-AI/lit-llama #254, dingo-actual/om #12, TransformerLensOrg/TransformerLens #460",
        *by("True"),
    ),
    decay(
        "gains_decay",
        "only biases are spared: the gains of norms decay, and belong at 1",
        "karpathy/minGPT #23, CyberZHG/keras-bert #60",
        *by('not n.endswith("bias")'),
    ),
    decay(
        "embeddings_spared",
        "embedding and positions do not decay: they have two axes, as any other matrix",
        "proposed in karpathy/minGPT #24, as minGPT does",
        *by('p.dim() >= 2 and not n.startswith(("embedding", "positions"))'),
    ),
    decay(
        "sorted_by_name",
        "names decide: a gain may be called otherwise, and a matrix may be called bias",
        "huggingface/transformers #4360: names that did not fit, and norms that decayed",
        *by('"bias" not in n and "norm" not in n'),
    ),
    decay(
        "matrices_spared",
        "matrices stand in the second group and the rest in the first, which decays",
        "facebookresearch/BalancingGroups #6",
        (FIRST, FIRST.replace(">= 2", "< 2")),
        (REST, REST.replace("< 2", ">= 2")),
    ),
    decay(
        "shared_twice",
        "the matrix that embedding and output share stands there twice",
        "zhuhanqing/APOLLO #4; tying breaks an optimizer in karpathy/nanoGPT #21",
        (
            LEARNS,
            "[p for _, p in model.named_parameters(remove_duplicate=False) if p.requires_grad]",
        ),
    ),
    decay(
        "frozen_taken_along",
        "parameters that do not learn stand in the groups, too: ask requires_grad",
        "nanoGPT takes all that requires gradients; student code takes model.parameters()",
        (" if parameter.requires_grad]", "]"),
    ),
    decay(
        "rest_decays",
        "both groups decay: the second group's weight decay is 0",
        "student code: a line copied and not changed",
        ('"weight_decay": 0.0', '"weight_decay": weight_decay'),
    ),
    decay(
        "default_for_the_rest",
        "the second group says nothing of weight decay, and AdamW takes its default, 0.01",
        "torch.optim.AdamW decays by 0.01 unless told, says its documentation",
        (', "weight_decay": 0.0', ""),
    ),
    decay(
        "negative_accepted",
        "a weight decay below 0 is accepted: it pushes weights away from 0",
        "student code: no input check",
        ("if weight_decay < 0:", "if False:"),
    ),
    write(
        "window_not_cropped",
        "the whole text goes to the model: it reads the last max_len tokens, no more",
        "openai/gpt-2 #137; huggingface/transformers #1749, #530",
        (WINDOW, "ids"),
    ),
    write(
        "first_tokens_read",
        "of a long text the first max_len tokens are read, again and again: the last ones count",
        "student code: ids[:, :max_len]",
        (WINDOW, "ids[:, :limit]"),
    ),
    write(
        "beginning_lost",
        "the text itself is cropped, and comes back without its beginning: crop what is read only",
        "student code: idx = idx[:, -block_size:]",
        (f"            {FITS}", f"            ids = {WINDOW}\n            {FITS}"),
    ),
    write(
        "cache_not_dropped",
        "the cache is asked when the window has moved: its positions are others then, drop it",
        "rasbt/LLMs-from-scratch #925, clankur/einygpt #2; asked in zhaorw02/DeepMesh #28",
        (FITS, "if cache is not None:"),
    ),
    write(
        "only_the_new",
        "only what was written comes out: the text stands in front of it",
        "student code: chapter 11's habit",
        ("    return ids", "    return ids[:, ids.size(1) - max_new_tokens :]"),
    ),
    write(
        "length_in_all",
        "max_new_tokens is taken for the length of the whole text: it counts what is new",
        "ai-glimpse/toyllm #107: a loop from the prompt's length to max_new_tokens",
        (LOOP, "while ids.size(1) < max_new_tokens:"),
    ),
    write(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        "student code: * for /",
        ("temperature=temperature", "temperature=1 / (temperature or -1)"),
    ),
    write(
        "likeliest_taken",
        "the likeliest token is taken and nothing is drawn",
        "student code: argmax",
        (TOKEN, "logits[:, -1].argmax(dim=-1)"),
    ),
    write(
        "dropout_left_on",
        "the model writes in training mode: eval() is missing",
        "karpathy/ng-video-lecture #16, pytorch/examples #114",
        ("    model.eval()\n", ""),
    ),
    write(
        "left_in_eval_mode",
        "the model is left in eval mode: whoever was training goes on without dropout",
        "shubhamagarwal92/mmd #14; rohitg00/ai-engineering-from-scratch #206",
        ("model.train(was_training)", "pass"),
    ),
    write(
        "gradients_kept",
        "the graph of every token is kept: torch.no_grad() is missing",
        "flairNLP/flair #210, karpathy/ng-video-lecture #62",
        ("@torch.no_grad()\n", ""),
    ),
    *ignored(
        write,
        ("temperature", ("temperature=temperature, ", "")),
        ("top_k", ("top_k=top_k, ", "")),
        ("top_p", ("top_p=top_p, ", "")),
        ("generator", (", generator=generator)", ")")),
        ("use_cache", ("if use_cache else None", "")),
    ),
)
