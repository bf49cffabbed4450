"""What goes wrong with chapter 04's norm."""

from collections.abc import Sequence

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes import layer_norm_affine
from course_lib.exercises.mistakes.layer_norm_affine import START

norm = known("add_norm", "LayerNorm")

MEAN = "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "(variance + self.eps).sqrt()"
RUNNING = f"""{START}        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))
"""
LEARNED_FROM_THE_BATCH = """rows = x.reshape(-1, x.size(-1))
        centre, variance = self.running_mean, self.running_var
        if self.training:
            centre, variance = rows.mean(dim=0), rows.var(dim=0, correction=0)
            self.running_mean = 0.9 * self.running_mean + 0.1 * centre.detach()
            self.running_var = 0.9 * self.running_var + 0.1 * variance.detach()
        centred = x - centre
"""


def over(axes: str) -> Sequence[tuple[str, str]]:
    """Edit the axes over which mean and variance are taken."""
    return (MEAN, f"x.mean({axes})"), (VARIANCE, f"centred.square().mean({axes})")


MISTAKES = (
    *layer_norm_affine.MISTAKES,
    norm(
        "unbiased_variance",
        "the squares are divided by d_model - 1: that is what var() does, unless told correction=0",
        "allenai/allennlp pull request #953, FluxML/Flux.jl #529",
        (VARIANCE, "x.var(dim=-1, keepdim=True)"),
    ),
    norm(
        "unbiased_std_plus_eps",
        "std() divides by d_model - 1, and eps is added to the root instead of under it",
        "harvardnlp/annotated-transformer #119 and #122, hyunwoongko/transformer #7",
        (ROOT, "(x.std(dim=-1, keepdim=True) + self.eps)"),
    ),
    norm(
        "eps_outside_root",
        "eps is added to the root instead of under it",
        "hkproj/pytorch-transformer pull request #31, callummcdougall/ARENA_3.0 #228",
        (ROOT, "(variance.sqrt() + self.eps)"),
    ),
    norm(
        "eps_missing",
        "eps is not used: equal numbers have variance 0, and 0 / 0 is nan",
        "torchcvnn/torchcvnn #32, deeplearning4j #8241",
        (ROOT, "variance.sqrt()"),
    ),
    norm(
        "eps_missing_unbiased",
        "eps is not used, and std() divides by d_model - 1",
        "student code",
        (ROOT, "x.std(dim=-1, keepdim=True)"),
    ),
    norm(
        "eps_ignored",
        "the argument eps is ignored, and 1e-5 used instead",
        "student code",
        ("variance + self.eps", "variance + 1e-5"),
    ),
    norm(
        "root_missing",
        "the centred vector is divided by the variance, not by its root",
        "student code",
        (ROOT, "(variance + self.eps)"),
    ),
    norm(
        "squared_instead_of_root",
        "the variance is squared where its root is needed: `** 2` for `** 0.5`",
        "131250208/TPlinker-joint-extraction #37",
        (ROOT, "(variance + self.eps) ** 2"),
    ),
    norm(
        "root_of_std",
        "the root is taken twice: std() is a root already",
        "the correction proposed first in hyunwoongko/transformer #7",
        (ROOT, "(x.std(dim=-1, keepdim=True) + self.eps).sqrt()"),
    ),
    norm(
        "mean_as_std",
        "x.mean() is called a second time where the spread should be computed",
        "hand-written norms on GitHub: `std = x.mean(dim=-1, keepdim=True)`",
        (ROOT, f"({MEAN} + self.eps)"),
    ),
    norm(
        "over_the_sequence",
        "mean and variance are taken along the sentence (dim=1) instead of over the features",
        "jadore801120/attention-is-all-you-need-pytorch #17, OpenNMT/OpenNMT-tf #6",
        *over("dim=1, keepdim=True"),
    ),
    norm(
        "over_the_batch",
        "mean and variance are taken over the sentences of the batch (dim=0)",
        "student code",
        *over("dim=0, keepdim=True"),
    ),
    norm(
        "over_all_axes",
        "one mean and one variance are taken over the whole batch",
        "student code",
        *over(""),
    ),
    norm(
        "over_whole_sentences",
        "mean and variance are taken over a whole sentence: over words and features together",
        "reczoo/FuxiCTR #23, Qualcomm-AI-research/geometric-algebra-transformer #8",
        *over("dim=(-2, -1), keepdim=True"),
    ),
    norm(
        "over_each_feature",
        "mean and variance are taken over all words, for each feature: that is batch normalization",
        "Kyubyong/transformer #40",
        *over("dim=(0, 1), keepdim=True"),
    ),
    norm(
        "running_statistics",
        "mean and variance come from the batch, and in eval mode from what training left: "
        "that is batch normalization",
        "lucidrains/segformer-pytorch #7 (another norm than the paper's)",
        (START, RUNNING),
        (f"centred = x - {MEAN}  # (..., d_model)\n", LEARNED_FROM_THE_BATCH),
        (f"        variance = {VARIANCE}  # (..., 1), biased\n", ""),
    ),
    norm(
        "axis_counted_from_left",
        "the features are called axis 2, counted from the left; from the right they are always -1",
        "student code",
        *over("dim=2, keepdim=True"),
    ),
    norm(
        "keepdim_missing",
        "keepdim=True is missing: without the last axis the means meet the wrong numbers",
        "a comment on jadore801120/attention-is-all-you-need-pytorch #17",
        *over("dim=-1"),
    ),
    norm(
        "mean_not_subtracted",
        "x is divided by its spread, and the mean never taken away",
        "student code",
        ("self.weight * centred", "self.weight * x"),
    ),
    norm(
        "root_mean_square",
        "the mean is not taken away, neither above nor below the line: that is RMSNorm",
        "models after LLaMA",
        (f"centred = x - {MEAN}", "centred = x"),
    ),
    norm(
        "not_divided",
        "the mean is taken away, and nothing divided",
        "student code",
        (f" / {ROOT}", ""),
    ),
    norm(
        "statistics_detached",
        "mean and variance are detached: the numbers are right, the gradients are not",
        "student code",
        (MEAN, f"{MEAN}.detach()"),
        (ROOT, f"{ROOT}.detach()"),
    ),
    norm(
        "in_place",
        "`x -= …` changes the vectors of whoever called",
        "student code",
        (f"centred = x - {MEAN}", f"centred = x.sub_({MEAN})"),
    ),
)
