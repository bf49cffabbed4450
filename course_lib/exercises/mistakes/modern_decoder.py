"""What goes wrong in chapter 21."""

from course_lib.exercises.mistake_catalogue import known

norm = known("modern_decoder", "RMSNorm")
gated = known("modern_decoder", "SwiGLU")

SQUARES = "x.square().mean(dim=-1, keepdim=True)"
ROOT = f"({SQUARES} + self.eps).rsqrt()"
CENTRED = "x = x - x.mean(dim=-1, keepdim=True)\n        "

FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"
GATE = "self.gate = nn.Linear(d_model, d_ff, bias=False)"
SILU = "F.silu(self.gate(x))"
INSIDE = f"{SILU} * self.linear1(x)"

MISTAKES = (
    norm(
        "mean_subtracted",
        "the mean is subtracted first: that is LayerNorm; RMSNorm leaves it where it is",
        "chapter 04's habit; what RMSNorm was made to leave out",
        ("return self", f"{CENTRED}return self"),
    ),
    norm(
        "variance_for_mean_square",
        "x.var() is taken: it subtracts the mean before it squares, and divides by d_model - 1",
        "ports that start from LayerNorm and delete one line of two",
        (SQUARES, "x.var(dim=-1, keepdim=True)"),
    ),
    norm(
        "std_for_root_mean_square",
        "x is divided by x.std() + eps: std() subtracts the mean, and eps belongs under the root",
        "the Annotated Transformer's LayerNorm without its mean",
        (f"* {ROOT}", "/ (x.std(dim=-1, keepdim=True) + self.eps)"),
    ),
    norm(
        "sum_for_mean",
        "the squares are added up and not divided by d_model: every vector gets length 1",
        "CASL/Futility #92: a root mean square without its 1/n",
        (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
    ),
    norm(
        "multiplied_by_the_root",
        "x is multiplied by the root: rsqrt() is one over the root already, so divide by sqrt() "
        "or multiply by rsqrt()",
        "mosaicml/llm-foundry #371; asked in hkproj/pytorch-llama #2",
        ("* x * (", "* x / ("),
    ),
    norm(
        "eps_outside_root",
        "eps is added to the root instead of under it",
        "allenai/OLMo #281, EleutherAI/gpt-neox #1342, tile-ai/tilelang #1243",
        (f"* {ROOT}", f"/ ({SQUARES}.sqrt() + self.eps)"),
    ),
    norm(
        "eps_missing",
        "eps is not used: a vector of zeros is divided by 0",
        "tenstorrent/tt-metal #55347",
        (" + self.eps", ""),
    ),
    norm(
        "over_the_sequence",
        "the mean of the squares runs along the sequence (dim=-2) instead of over the features",
        "kyegomez/zeta #180",
        ("dim=-1", "dim=-2"),
    ),
    norm(
        "over_sequence_and_features",
        "one mean is taken over a whole sequence: every vector has its own",
        "bkitano/llama-from-scratch #4",
        ("dim=-1", "dim=(-2, -1)"),
    ),
    norm(
        "one_plus_gain",
        "1 + weight multiplies, and weight starts at 1: the answer is twice too large",
        "Gemma's way, whose weight starts at 0: huggingface/transformers #40449",
        ("self.weight * x", "(1 + self.weight) * x"),
    ),
    gated(
        "gate_and_features_exchanged",
        "SiLU stands on linear1's features, and the gate is multiplied as it is: it is the gate "
        "that goes through SiLU",
        "ml-explore/mlx-lm #767, ooples/AiDotNet.Tensors #46",
        (INSIDE, "F.silu(self.linear1(x)) * self.gate(x)"),
    ),
    gated(
        "silu_of_the_product",
        "SiLU is taken of the product: a parenthesis closes too late",
        "Nijikadesu/breakdown-minimind #3",
        (INSIDE, "F.silu(self.gate(x) * self.linear1(x))"),
    ),
    gated(
        "features_of_the_gate",
        "linear1 reads what the gate gives: both read x",
        "asked in aju22/LLaMA2 #1",
        (
            "nn.Linear(d_model, d_ff, bias=False)\n        self.gate",
            "nn.Linear(d_ff, d_ff, bias=False)\n        self.gate",
        ),
        (INSIDE, "self.linear1(F.silu(self.gate(x)))"),
    ),
    gated(
        "sigmoid_gate",
        "the gate goes through a sigmoid: SiLU is z times its sigmoid",
        "Shazeer (2020) has it, too, as FFN_GLU; F.glu does it",
        ("F.silu", "torch.sigmoid"),
    ),
    gated(
        "relu_gate",
        "the gate goes through ReLU: SwiGLU has SiLU there",
        "Shazeer (2020) has it, too, as FFN_ReGLU",
        ("F.silu", "F.relu"),
    ),
    gated(
        "no_activation",
        "nothing stands on the gate: two projections are multiplied as they are",
        "Shazeer (2020) has it, too, as FFN_Bilinear",
        (SILU, "self.gate(x)"),
    ),
    gated(
        "gate_unused",
        "the gate is made and not used: what is left is a feed-forward with SiLU",
        "google-research/timesfm #493",
        (INSIDE, "F.silu(self.linear1(x))"),
    ),
    gated(
        "biases_on",
        "the layers have biases: here there are none, bias=False",
        "nn.Linear's default; NVIDIA/Megatron-LM #346 met one",
        (", bias=False", ""),
    ),
    gated(
        "two_in_one_matrix",
        "one matrix makes both, twice as wide, and is cut in two: here there are linear1 and gate",
        "fused as in Megatron-LM and Phi-3, whose halves come in this order",
        (FIRST, FIRST.replace("d_ff", "2 * d_ff")),
        (f"        {GATE}\n", ""),
        (
            f"return self.linear2({INSIDE})",
            "gate, features = self.linear1(x).chunk(2, dim=-1)\n"
            "        return self.linear2(F.silu(gate) * features)",
        ),
    ),
    gated(
        "two_thirds_taken_inside",
        "the class shrinks d_ff to two thirds by itself: who builds it has done that",
        "asked in epfLLM/Megatron-LLM #64",
        ("super().__init__()", "super().__init__()\n        d_ff = 2 * d_ff // 3"),
    ),
    gated(
        "projection_down_missing",
        "linear2 is not called: the answer is d_ff wide",
        "bkitano/llama-from-scratch #7 stops there, at equal widths",
        (f"self.linear2({INSIDE})", INSIDE),
    ),
)
