"""What goes wrong with chapter 19's feed-forward."""

from course_lib.exercises.mistake_catalogue import known

layer = known("modern_decoder", "SwiGLU")

FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"
GATE = "self.gate = nn.Linear(d_model, d_ff, bias=False)"
LAST = "self.linear2 = nn.Linear(d_ff, d_model, bias=False)"
SILU = "F.silu(self.gate(x))"
INSIDE = f"{SILU} * self.linear1(x)"

MISTAKES = (
    layer(
        "gate_and_features_exchanged",
        "SiLU stands on linear1's features, and the gate is multiplied as it is: it is the gate "
        "that goes through SiLU",
        "ml-explore/mlx-lm #767, ooples/AiDotNet.Tensors #46",
        (INSIDE, "F.silu(self.linear1(x)) * self.gate(x)"),
    ),
    layer(
        "silu_of_the_product",
        "SiLU is taken of the product: a parenthesis closes too late",
        "Nijikadesu/breakdown-minimind #3",
        (INSIDE, "F.silu(self.gate(x) * self.linear1(x))"),
    ),
    layer(
        "features_of_the_gate",
        "linear1 reads what the gate gives: both read x",
        "asked in aju22/LLaMA2 #1",
        (
            "nn.Linear(d_model, d_ff, bias=False)\n        self.gate",
            "nn.Linear(d_ff, d_ff, bias=False)\n        self.gate",
        ),
        (INSIDE, "self.linear1(F.silu(self.gate(x)))"),
    ),
    layer(
        "sigmoid_gate",
        "the gate goes through a sigmoid: SiLU is z times its sigmoid",
        "Shazeer (2020) has it, too, as FFN_GLU; F.glu does it",
        ("F.silu", "torch.sigmoid"),
    ),
    layer(
        "relu_gate",
        "the gate goes through ReLU: SwiGLU has SiLU there",
        "Shazeer (2020) has it, too, as FFN_ReGLU",
        ("F.silu", "F.relu"),
    ),
    layer(
        "gelu_gate",
        "the gate goes through GELU: SwiGLU has SiLU there",
        "Shazeer (2020) has it, too, as FFN_GEGLU",
        ("F.silu", "F.gelu"),
    ),
    layer(
        "tanh_gate",
        "the gate goes through tanh: SwiGLU has SiLU there",
        "student code",
        ("F.silu", "torch.tanh"),
    ),
    layer(
        "no_activation",
        "nothing stands on the gate: two products are multiplied as they are",
        "Shazeer (2020) has it, too, as FFN_Bilinear",
        (SILU, "self.gate(x)"),
    ),
    layer(
        "silu_twice",
        "SiLU stands on both: the features are multiplied as they are",
        "student code",
        ("* self.linear1(x)", "* F.silu(self.linear1(x))"),
    ),
    layer(
        "sum_for_product",
        "gate and features are added: a gate multiplies",
        "student code",
        (") * self", ") + self"),
    ),
    layer(
        "one_added_to_the_features",
        "1 is added to the features before the gate multiplies",
        "a variant that was taken for the plain one: triton-lang/triton #8460",
        ("self.linear1(x))", "(self.linear1(x) + 1))"),
    ),
    layer(
        "gate_unused",
        "the gate is made and not used: what is left is a feed-forward with SiLU",
        "google-research/timesfm #493",
        (INSIDE, "F.silu(self.linear1(x))"),
    ),
    layer(
        "features_unused",
        "linear1 is made and not used: only the gate comes through",
        "student code",
        (INSIDE, SILU),
    ),
    layer(
        "one_matrix_for_both",
        "gate and features come from one matrix: x · SiLU(x) of the same numbers",
        "student code",
        (SILU, "F.silu(self.linear1(x))"),
    ),
    layer(
        "gate_shares_linear1",
        "gate is linear1: the two must be two matrices",
        "student code",
        (GATE, "self.gate = self.linear1"),
    ),
    layer(
        "biases_on",
        "the layers have biases: here there are none, bias=False",
        "nn.Linear's default; NVIDIA/Megatron-LM #346 met one",
        (", bias=False", ""),
    ),
    layer(
        "bias_of_the_last",
        "linear2 has a bias: here none of the three has",
        "nn.Linear's default, changed in two places of three",
        (LAST, LAST.replace(", bias=False", "")),
    ),
    layer(
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
    layer(
        "two_thirds_taken_inside",
        "the class shrinks d_ff to two thirds by itself: who builds it has done that",
        "asked in epfLLM/Megatron-LLM #64",
        ("super().__init__()", "super().__init__()\n        d_ff = 2 * d_ff // 3"),
    ),
    layer(
        "way_down_missing",
        "linear2 is not called: the answer is d_ff wide",
        "bkitano/llama-from-scratch #7 stops there, at equal widths",
        (f"self.linear2({INSIDE})", INSIDE),
    ),
    layer(
        "activation_last",
        "SiLU stands on the answer of linear2 as well",
        "student code",
        (f"self.linear2({INSIDE})", f"F.silu(self.linear2({INSIDE}))"),
    ),
    layer(
        "x_added",
        "x is added to the answer: AddNorm does that, around it",
        "student code",
        (f"return self.linear2({INSIDE})", f"return x + self.linear2({INSIDE})"),
    ),
    layer(
        "softmax_gate",
        "the gates of a vector share 1 among them, by a softmax: each is open or shut by itself",
        "student code: mixed up with a router's gate",
        (SILU, "self.gate(x).softmax(dim=-1)"),
    ),
)
