"""What goes wrong with chapter 19's norm."""

from course_lib.exercises.mistake_catalogue import known

norm = known("modern_decoder", "RMSNorm")

START = "self.weight = nn.Parameter(torch.ones(d_model))"
SQUARES = "x.square().mean(dim=-1, keepdim=True)"
ROOT = f"({SQUARES} + self.eps).rsqrt()"
ALL = f"return self.weight * x * {ROOT}"
SHIFT = f"{START}\n        self.bias = nn.Parameter(torch.zeros(d_model))"
CENTRED = "x = x - x.mean(dim=-1, keepdim=True)\n        "

MISTAKES = (
    norm(
        "mean_subtracted",
        "the mean is subtracted first: that is LayerNorm; RMSNorm leaves it where it is",
        "chapter 04's habit; what RMSNorm was made to leave out",
        ("return self", f"{CENTRED}return self"),
    ),
    norm(
        "variance_for_mean_square",
        "x is divided by its standard deviation: var() takes the mean off before it squares",
        "ports that start from LayerNorm and delete one line of two",
        (SQUARES, "x.var(dim=-1, correction=0, keepdim=True)"),
    ),
    norm(
        "unbiased_variance",
        "x.var() is taken: it takes the mean off, and divides by d_model - 1",
        "ports that start from LayerNorm and delete one line of two",
        (SQUARES, "x.var(dim=-1, keepdim=True)"),
    ),
    norm(
        "std_plus_eps",
        "x is divided by x.std() + eps: std() takes the mean off, and eps belongs under the root",
        "student code",
        (f"* {ROOT}", "/ (x.std(dim=-1, keepdim=True) + self.eps)"),
    ),
    norm(
        "root_of_std",
        "the root is taken of x.std(), which is a root already, and of another quantity",
        "stanford-cs336/assignment1-basics #93",
        (ROOT, "(x.std(dim=-1, keepdim=True) + self.eps).rsqrt()"),
    ),
    norm(
        "sum_for_mean",
        "the squares are added up and not divided by d_model: every vector gets length 1",
        "CASL/Futility #92: a root mean square without its 1/n",
        (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
    ),
    norm(
        "root_missing",
        "x is divided by the mean square, not by its root",
        "student code",
        (".rsqrt()", ".reciprocal()"),
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
        "eps_ignored",
        "the argument eps is ignored, and a number that stands in the code is used instead",
        "apache/tvm #15856, PaddlePaddle/FastDeploy #2804",
        ("+ self.eps", "+ 1e-5"),
    ),
    norm(
        "mean_squared",
        "the mean is squared: first the squares, then their mean",
        "student code: x.mean(…) ** 2",
        (SQUARES, "x.mean(dim=-1, keepdim=True).square()"),
    ),
    norm(
        "mean_of_sizes",
        "x is divided by the mean of its absolute values: no square is taken, and no root",
        "student code",
        (ROOT, "(x.abs().mean(dim=-1, keepdim=True) + self.eps).reciprocal()"),
    ),
    norm(
        "over_the_sequence",
        "the mean of the squares runs along the sentence (dim=-2) instead of over the features",
        "kyegomez/zeta #180",
        ("dim=-1", "dim=-2"),
    ),
    norm(
        "over_sentence_and_features",
        "one mean is taken over a whole sentence: every vector has its own",
        "bkitano/llama-from-scratch #4",
        ("dim=-1", "dim=(-2, -1)"),
    ),
    norm(
        "over_all_axes",
        "one mean is taken over the whole batch: every vector has its own",
        "student code: x.square().mean()",
        ("mean(dim=-1, keepdim=True)", "mean()"),
    ),
    norm(
        "over_the_batch",
        "the mean of the squares is taken over the sentences of the batch (dim=0)",
        "student code",
        ("dim=-1", "dim=0"),
    ),
    norm(
        "keepdim_missing",
        "keepdim=True is missing: the means have lost their axis, and meet the wrong one",
        "student code",
        (", keepdim=True", ""),
    ),
    norm(
        "gain_unused",
        "the gains are made and not multiplied with",
        "student code",
        ("self.weight * x", "x"),
    ),
    norm(
        "gain_added",
        "the gains are added: they multiply",
        "student code",
        ("self.weight * x", "self.weight + x"),
    ),
    norm(
        "one_plus_gain",
        "1 + weight multiplies, and weight starts at 1: the answer is twice too large",
        "Gemma's way, whose weight starts at 0: huggingface/transformers #40449",
        ("self.weight * x", "(1 + self.weight) * x"),
    ),
    norm(
        "gain_from_zero",
        "weight starts at 0, and 1 + weight multiplies, as in Gemma: here weight is the gain",
        "linkedin/Liger-Kernel #74, llmmanorg/llmman #151: the two ways mixed up",
        ("torch.ones", "torch.zeros"),
        ("self.weight * x", "(1 + self.weight) * x"),
    ),
    norm(
        "gain_starts_at_zero",
        "the gains start at 0: everything that passes a fresh norm is 0",
        "student code",
        ("torch.ones", "torch.zeros"),
    ),
    norm(
        "one_gain_for_all",
        "there is one gain for all features: each feature has its own",
        "student code",
        ("torch.ones(d_model)", "torch.ones(1)"),
    ),
    norm(
        "gain_not_learned",
        "the gains are a plain tensor: only an nn.Parameter is learned",
        "student code",
        ("nn.Parameter(torch.ones(d_model))", "torch.ones(d_model)"),
    ),
    norm(
        "shift_added",
        "a shift is learned, too: RMSNorm has gains and nothing else",
        "the optional bias discussed in patrick-kidger/equinox #545",
        (START, SHIFT),
        (ALL, f"{ALL} + self.bias"),
    ),
    norm(
        "layer_norm",
        "the mean is taken off and a shift added: that is LayerNorm, whole",
        "the class of chapter 04 under another name",
        (START, SHIFT),
        (ALL, f"{CENTRED}{ALL} + self.bias"),
    ),
    norm(
        "root_detached",
        "the root is computed without gradient: it depends on x as well",
        "student code: with torch.no_grad()",
        (".rsqrt()", ".rsqrt().detach()"),
    ),
    norm(
        "in_place",
        "x itself is scaled (x *= …): the sum outside needs it as it was",
        "student code",
        (ALL, f"x *= {ROOT}\n        return self.weight * x"),
    ),
)
