"""What goes wrong in chapter 04."""

from collections.abc import Sequence

from course_lib.exercises.mistake_catalogue import ignored, known

norm = known("add_norm", "LayerNorm")
add_norm = known("add_norm", "AddNorm")

GAIN, SHIFT = "nn.Parameter(torch.ones(d_model))", "nn.Parameter(torch.zeros(d_model))"
START = f"""        self.weight = {GAIN}
        self.bias = {SHIFT}
"""
CHECK = "        check_width(x, self.weight.numel())\n"
MEAN = "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "(variance + self.eps).sqrt()"


def over(axes: str) -> Sequence[tuple[str, str]]:
    """Edit the axes over which mean and variance are taken."""
    return (MEAN, f"x.mean({axes})"), (VARIANCE, f"centred.square().mean({axes})")


OVER = (
    (
        "the_sequence",
        "along the sentence (dim=1) instead of over the features",
        "jadore801120/attention-is-all-you-need-pytorch #17, OpenNMT/OpenNMT-tf #6",
        "dim=1, keepdim=True",
    ),
    (
        "the_batch",
        "over the sentences of the batch (dim=0)",
        "code for rows (B, features), where dim=0 is batch normalization",
        "dim=0, keepdim=True",
    ),
    ("all_axes", "over the whole batch at once", "mean() and var() without dim", ""),
    (
        "whole_sentences",
        "over a whole sentence: over words and features together",
        "reczoo/FuxiCTR #23, Qualcomm-AI-research/geometric-algebra-transformer #8",
        "dim=(-2, -1), keepdim=True",
    ),
    (
        "each_feature",
        "over all words, for each feature: that is batch normalization",
        "Kyubyong/transformer #40",
        "dim=(0, 1), keepdim=True",
    ),
)
READ = "self.norm(x) if self.norm_first else x"
RUN = f"answer = sublayer({READ})"
SUM = "total = x + self.dropout(answer)"
LAST = "return total if self.norm_first else self.norm(total)"
NORM = "self.norm = nn.LayerNorm(d_model, bias=bias)"

MISTAKES = (
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
        "root_missing",
        "the centred vector is divided by the variance, not by its root",
        "the formula typed with σ² for σ",
        (ROOT, "(variance + self.eps)"),
    ),
    *(
        norm(f"over_{name}", f"mean and variance are taken {words}", seen, *over(axes))
        for name, words, seen, axes in OVER
    ),
    norm(
        "keepdim_missing",
        "keepdim=True is missing: without the last axis the means meet the wrong numbers",
        "a comment on jadore801120/attention-is-all-you-need-pytorch #17",
        *over("dim=-1"),
    ),
    norm(
        "root_mean_square",
        "the mean is not taken away, neither above nor below the line: that is RMSNorm",
        "models after LLaMA",
        (f"centred = x - {MEAN}", "centred = x"),
    ),
    *ignored(norm, ("eps", ("variance + self.eps", "variance + 1e-5"))),
    norm(
        "scalar_gain_and_shift",
        "gain and shift are single numbers, shared by all features",
        "AChiranth/SmallFormer, IoTDataAtelier/mtsa and many others on GitHub",
        (GAIN, "nn.Parameter(torch.ones(1))"),
        (SHIFT, "nn.Parameter(torch.zeros(1))"),
        (CHECK, ""),
    ),
    norm(
        "no_gain_and_shift",
        "gain and shift are missing: the norm cannot choose its scale",
        "the norm of Ba et al. before its gain and bias, equation (3)",
        (START, ""),
        (CHECK, ""),
        ("self.weight * centred", "centred"),
        (" + self.bias", ""),
    ),
    norm(
        "not_registered",
        "gain and shift are plain tensors: the optimizer does not see them, and they are not saved",
        "tensors that __init__ makes without nn.Parameter",
        (GAIN, "torch.ones(d_model)"),
        (SHIFT, "torch.zeros(d_model)"),
        tells=r"=\s*torch\.(ones|zeros)\(",
    ),
    add_norm(
        "residual_missing",
        "x is not added: what the sub-layer says replaces x",
        "kyegomez/BitNet #32 (the other half is lost there)",
        (SUM, "total = self.dropout(answer)"),
    ),
    add_norm(
        "norm_on_answer",
        "in post-norm the norm acts on the answer alone, before x is added",
        "harvardnlp/annotated-transformer #110, google-research/tuning_playbook #50",
        (SUM, "total = x + self.dropout(answer if self.norm_first else self.norm(answer))"),
        (LAST, "return total"),
    ),
    add_norm(
        "norm_on_path",
        "in post-norm the norm acts on x, before the answer is added, and not on the sum",
        "SHI-Labs/Compact-Transformers #25",
        (SUM, "total = (x if self.norm_first else self.norm(x)) + self.dropout(answer)"),
        (LAST, "return total"),
    ),
    add_norm(
        "residual_after_norm",
        "in pre-norm the normed x goes around the sub-layer: the path is not free any more",
        "pytorch/pytorch #61165, tracel-ai/burn #1056, faster-trajectory-transformer #3",
        (RUN, "x = self.norm(x) if self.norm_first else x\n        answer = sublayer(x)"),
    ),
    add_norm(
        "post_norm_missing",
        "the norm is missing in post-norm: the sum is returned as it is",
        "agentdr1/LA_MIL #3",
        (LAST, "return total"),
    ),
    add_norm(
        "always_post_norm",
        "norm_first is ignored: the norm always comes last",
        "k2-fsa/snowfall pull request #184 (an argument that is not passed on)",
        (READ, "x"),
        (LAST, "return self.norm(total)"),
    ),
    add_norm(
        "always_pre_norm",
        "norm_first is ignored: the norm always comes first, also where the paper's order is asked",
        "harvardnlp/annotated-transformer #1, #13, #92 and #100; hkproj/pytorch-transformer #14",
        (READ, "self.norm(x)"),
        (LAST, "return total"),
    ),
    add_norm(
        "normed_twice",
        "pre-norm norms twice: before the sub-layer, and the sum again",
        "k2-fsa/snowfall pull request #184",
        (LAST, "return self.norm(total)"),
    ),
    add_norm(
        "dropout_always_on",
        "dropout is on in eval mode too: F.dropout does not know the mode, unless told so",
        "pytorch/pytorch #11999, delip/PyTorchNLPBook #28",
        ("self.dropout(answer)", "nn.functional.dropout(answer, self.dropout.p)"),
    ),
    add_norm(
        "dropout_on_sum",
        "dropout acts on the sum, and puts holes into the path around the sub-layer",
        "codertimo/BERT-pytorch #85, soobinseo/Transformer-TTS #11",
        (SUM, "total = self.dropout(x + answer)"),
    ),
    add_norm(
        "dropout_last",
        "dropout acts on the result, after everything else",
        "hyunwoongko/transformer #8, FGiuliari/Trajectory-Transformer #22",
        (SUM, "total = x + answer"),
        (LAST, "return self.dropout(total if self.norm_first else self.norm(total))"),
    ),
    add_norm(
        "dropout_missing",
        "the argument dropout is not used",
        "neulab/xnmt pull request #544, lucidrains/x-transformers #318",
        (SUM, "total = x + answer"),
    ),
    add_norm(
        "batch_norm",
        "the norm is an nn.BatchNorm1d: it mixes the words of a batch, and saves their averages",
        "DeepRec-AI/DeepRec #810 (asked about there)",
        (NORM, "self.norm = nn.BatchNorm1d(d_model)"),
        ("self.norm(x)", "self.norm(x.transpose(1, 2)).transpose(1, 2)"),
        ("self.norm(total)", "self.norm(total.transpose(1, 2)).transpose(1, 2)"),
    ),
    add_norm(
        "in_place",
        "`x += …` adds in place, and changes the vectors of whoever called",
        "microsoft/unilm pull request #999, iMED-Lab/ER-Net pull request #3",
        (SUM, "total = x.add_(self.dropout(answer))"),
    ),
)
