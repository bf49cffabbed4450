"""What goes wrong in chapter 04."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes import layer_norm

add_norm = known("add_norm", "AddNorm")

READ = "self.norm(x) if self.norm_first else x"
RUN = f"answer = sublayer({READ})"
SUM = "total = x + self.dropout(answer)"
LAST = "return total if self.norm_first else self.norm(total)"
NORM = "self.norm = nn.LayerNorm(d_model, bias=bias)"

MISTAKES = (
    *layer_norm.MISTAKES,
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
        "residual_after_norm_in_both",
        "x is normed first, in both kinds, and the normed x goes around the sub-layer",
        "lbcb-sci/RiNALMo #9",
        (RUN, "x = self.norm(x)\n        answer = sublayer(x)"),
        (LAST, "return total"),
    ),
    add_norm(
        "norm_before_sum",
        'norm_first is taken for "norm before the sum"; the norm belongs before the sub-layer',
        "student code",
        (READ, "x"),
        (SUM, "total = x + self.dropout(self.norm(answer) if self.norm_first else answer)"),
    ),
    add_norm(
        "sum_inside_sublayer",
        "in pre-norm the sum is made too early: the sub-layer reads norm(x) + x",
        "probml/pml-book #709",
        (READ, "self.norm(x) + x if self.norm_first else x"),
        (SUM, "total = self.dropout(answer) if self.norm_first else x + self.dropout(answer)"),
    ),
    add_norm(
        "post_norm_missing",
        "the norm is missing in post-norm: the sum is returned as it is",
        "agentdr1/LA_MIL #3",
        (LAST, "return total"),
    ),
    add_norm(
        "pre_norm_missing",
        "the norm is missing in pre-norm: the sub-layer reads x as it is",
        "student code",
        (READ, "x"),
    ),
    add_norm(
        "norm_unused",
        "the norm is made and never used",
        "agentdr1/LA_MIL #3",
        (READ, "x"),
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
        "norm_first_swapped",
        "norm_first means the opposite of its name",
        "student code",
        ("self.norm_first = norm_first", "self.norm_first = not norm_first"),
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
        "dropout_on_input",
        "dropout acts on what the sub-layer reads, not on what it answers",
        "the change asked for in OpenNMT/OpenNMT-tf #207",
        (RUN, f"answer = sublayer(self.dropout({READ}))"),
        (SUM, "total = x + answer"),
    ),
    add_norm(
        "dropout_on_path",
        "dropout acts on x, which goes around the sub-layer, and not on the answer",
        "student code",
        (SUM, "total = self.dropout(x) + answer"),
    ),
    add_norm(
        "dropout_missing",
        "the argument dropout is not used",
        "neulab/xnmt pull request #544, lucidrains/x-transformers #318",
        (SUM, "total = x + answer"),
    ),
    add_norm(
        "sublayer_called_twice",
        "the sub-layer is called twice: its answer belongs into a variable",
        "student code",
        (SUM, f"total = x + self.dropout(sublayer({READ}))"),
    ),
    add_norm(
        "norm_over_sequence",
        "the norm acts along the sentence: its last axis has to be the features",
        "jadore801120/attention-is-all-you-need-pytorch #17",
        ("self.norm(x)", "self.norm(x.transpose(1, 2)).transpose(1, 2)"),
        ("self.norm(total)", "self.norm(total.transpose(1, 2)).transpose(1, 2)"),
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
        "norm_without_gain",
        "the norm has no gain and no shift: elementwise_affine=False",
        "student code",
        (NORM, "self.norm = nn.LayerNorm(d_model, elementwise_affine=False)"),
    ),
    add_norm(
        "in_place",
        "`x += …` adds in place, and changes the vectors of whoever called",
        "microsoft/unilm pull request #999, iMED-Lab/ER-Net pull request #3",
        (SUM, "total = x.add_(self.dropout(answer))"),
    ),
    add_norm(
        "answer_detached",
        "the answer is detached, or computed under no_grad: the sub-layer never learns",
        "student code",
        ("self.dropout(answer)", "self.dropout(answer.detach())"),
    ),
)
