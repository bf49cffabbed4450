"""What goes wrong in GPT itself: paths, parts, the start and the loss."""

from course_lib.exercises.mistake_catalogue import known

model = known("gpt", "GPT")

EMBED = "self.positions(self.embedding(ids), **start)"
LEARNED = "self.positions = LearnedPositionalEmbedding(c.d_model, c.max_len, c.dropout)"
LAYERS = "nn.ModuleList(GPTLayer(*sizes, bias=c.bias) for _ in range(c.num_layers))"
LOGITS = "self.output(self.norm(x))"
STD = "std=c.init_std / math.sqrt(2 * c.num_layers) ** into_sum"
LOSS = "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"
ALONE = "return logits, None"

PATHS = (
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
        "sines",
        "positions are sines and cosines: GPT learns them",
        "ports from the paper's model",
        (
            LEARNED,
            "from course_lib.positions import PositionalEncoding\n\n        "
            + LEARNED.replace("LearnedPositionalEmbedding", "PositionalEncoding"),
        ),
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
        "logits_alone",
        "without targets one thing is returned: the caller expects two, logits and None",
        "student code",
        (ALONE, "return logits"),
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
        "loss_of_a_window",
        "the loss is summed over the tokens of a window: the mean over all tokens is asked for",
        "awni/speech #18, thunlp/TensorFlow-Summarization #1: divided by the batch size",
        (LOSS, f"{LOSS} * ids.size(1)"),
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
        "student code",
        ('check_ids(ids, c.vocab_size, c.max_len, "input")', "pass"),
    ),
    model(
        "targets_not_checked",
        "targets of another shape are accepted, if there are as many",
        "student code: view(-1) fits everything",
        ("if targets is not None and targets.shape != ids.shape:", "if False:"),
    ),
)

PARTS = (
    model(
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        "karpathy/nanoGPT #21",
        ("        self.output.weight = self.embedding.weight\n", ""),
    ),
    model(
        "output_bias",
        "the output adds a bias",
        "nn.Linear's default, in student code",
        (", bias=False)", ")"),
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
        "bias_ignored",
        "config.bias is not looked at",
        "student code",
        ("bias=c.bias", "bias=True"),
    ),
    model(
        "bias_of_norm_left",
        "with bias=False the last norm keeps its bias: all are to go",
        "nn.LayerNorm could not do without for long: karpathy/nanoGPT #454",
        ("nn.LayerNorm(c.d_model, bias=c.bias)", "nn.LayerNorm(c.d_model)"),
    ),
    model(
        "dropout_of_tokens_missing",
        "dropout does not reach the tokens with their positions",
        "student code: an argument with a default, not given",
        (LEARNED, LEARNED.replace(", c.dropout", "")),
    ),
    model(
        "dropout_of_layers_missing",
        "dropout does not reach the layers",
        "student code: an argument with a default, not given",
        ("c.num_heads, c.dropout)", "c.num_heads)"),
    ),
)

START = (
    model(
        "not_divided",
        "w_o and linear2 start as loud as the others: they write into the sum, divide by √(2N)",
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
        "divided_by_2n",
        "w_o and linear2 are divided by 2N: variances add up, so the deviation takes the root",
        "student code: the root forgotten",
        (STD, "std=c.init_std / (2 * c.num_layers) ** into_sum"),
    ),
    model(
        "all_divided",
        "all matrices are divided by √(2N): only those whose answer goes into the sum are",
        "student code",
        (STD, "std=c.init_std / math.sqrt(2 * c.num_layers)"),
    ),
    model(
        "linear2_not_divided",
        "w_o is divided by √(2N) and linear2 is not: both write into the sum",
        "student code: one of two places forgotten",
        ('name.endswith(("w_o.weight", "linear2.weight"))', 'name.endswith("w_o.weight")'),
    ),
    model(
        "variance_for_deviation",
        "0.02 is taken for the variance: it is the standard deviation",
        "student code: N(0, 0.02), as papers write both",
        (STD, STD.replace("c.init_std", "math.sqrt(c.init_std)")),
    ),
    model(
        "torchs_own_start",
        "the matrices start as torch leaves them: the embedding with 1, fifty times too loud",
        "pytorch/pytorch #3121: hours lost over the N(0, 1) of nn.Embedding",
        ("if parameter.dim() == 2:", "if False:"),
    ),
    model(
        "biases_left_as_they_are",
        "the biases start as torch leaves them: at 0 is asked for",
        "student code: torch draws the biases of nn.Linear, too",
        ('elif name.endswith("bias"):', "elif False:"),
    ),
    model(
        "gains_at_zero",
        "the gains of the norms are set to 0 with the biases: all logits are 0, and stay alike",
        "student code: else: zeros_",
        ('elif name.endswith("bias"):', "else:"),
    ),
)

MISTAKES = (*PATHS, *PARTS, *START)
