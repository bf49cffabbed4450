"""Exercises of chapter 08: trials, known mistakes and right answers."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.exercises.bank.add_norm import SublayerConnection
from course_lib.exercises.bank.encoder import WITHOUT_SUM
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import TORCHS, dropout_trials, sees_later
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    S,
    T,
    Trial,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention

SIZES = dict(d_model=H * D_K, num_heads=H, d_ff=11)
LAYER_SAYS = (
    "A layer owns two attentions, self_attn and cross_attn, a feed_forward, and three AddNorms: "
    "add_norm1, add_norm2, add_norm3."
)


def masks(length: int = T) -> dict[str, Tensor]:
    """Make a causal mask and paddings: the target's within the first, the source's apart."""
    real = torch.ones(B, 1, 1, length, dtype=torch.bool)
    real[1, ..., -1] = False
    source = torch.ones(B, 1, 1, S, dtype=torch.bool)
    source[0, ..., -2:] = False
    past = torch.ones(length, length).tril().bool()
    return {"self_mask": past & real, "cross_mask": source}


def inputs(length: int = T, masked: bool = True) -> dict[str, Tensor]:
    """Make vectors of the target, the memory, and masks if there are any."""
    x, memory = normal("x", B, length, H * D_K), normal("memory", B, S, H * D_K)
    return {"x": x, "memory": memory} | (masks(length) if masked else {})


def called(label: str, build: Mapping[str, Any], **how: Any) -> Trial:
    """Compare the output and all gradients, with both masks."""
    return module_trial(label, build, inputs(), **how)


@looks("a later word", "A later word must not change what stands before it.")
def leaks(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change the last words, and look whether the first answers change."""
    module, other = filled(candidate(**SIZES)), inputs()
    other["x"][:, 2:] += 3
    return sees_later(module, 2, tuple(inputs().values()), tuple(other.values()))


EXERCISES = (
    Exercise(
        "DecoderLayer",
        "decoder",
        25,
        core={
            "formula": (module_trial("no masks", SIZES, inputs(masked=False)),),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "self_mask": (
                leaks,
                module_trial("self_mask alone", SIZES, inputs() | {"cross_mask": None}),
            ),
            "cross_mask": (
                called(
                    "both masks",
                    SIZES,
                    says="Every position of the target reads the memory, but not what `cross_mask` "
                    "hides.",
                ),
                module_trial("a target as long as the source", SIZES, inputs(S)),
            ),
        },
        hints=(
            "Six parts: two `MultiHeadAttention`s, a `FeedForward`, three `AddNorm`s. Who asks in "
            "cross-attention, and who answers?",
            "`AddNorm` is called with x and a function of one argument; an attention returns two "
            "things, and the sum needs the first. Look at your EncoderLayer: two of the three "
            "lines are there.",
            "The new line is "
            "`x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])`. "
            "The two dropouts at the end of the signature go into the attentions and into "
            "`FeedForward`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (called("norm_first=True", SIZES | {"norm_first": True}),),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}),
                called("d_k=5 and d_v=7", SIZES | {"d_k": 5, "d_v": 7}),
            ),
            **dropout_trials(SIZES, inputs(), ("self_attn", "cross_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
        unnamed=("return self.add_norm3(x,", "return 2 * self.add_norm3(x,"),
    ),
)


# known mistakes

layer = known("decoder", "DecoderLayer")

BACK = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"
ACROSS = "x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])"
ASK = "self.cross_attn(y, memory, memory, cross_mask)"
ASK_OF_X = ASK.replace("(y", "(x")
CROSS_ATTN = "self.cross_attn = MultiHeadAttention(d_model, num_heads, **heads)"
NORM2, NORM3 = (f"self.add_norm{n} = AddNorm(d_model, dropout, norm_first)" for n in (2, 3))
THINK = "return self.add_norm3(x, self.feed_forward)"


def without_sum(line: str) -> tuple[str, str]:
    """Return the edit by which the input of a sub-layer is not added to its output."""
    alone = re.sub(r"(self\.add_norm\d)\(", r"alone(\1, ", line)
    return line, f"{WITHOUT_SUM}\n        {alone}"


MISTAKES = (
    layer(
        "memory_asks",
        "cross-attention is called as (memory, x, x): the source asks and the target answers",
        (ASK, "self.cross_attn(memory, y, y, cross_mask)"),
        seen="described so in humza909/LLM_Survey #2 and datawhalechina/happy-llm #5",
    ),
    layer(
        "values_from_target",
        "cross-attention is called as (x, memory, x): keys from the memory, values from the target",
        (ASK, "self.cross_attn(y, memory, y, cross_mask)"),
        seen="figure 1 read from left to right, V, K, Q; suspected in feinanshan/TDNet #17",
    ),
    layer(
        "cross_reads_target",
        "cross-attention reads the target, (x, x, x), and nobody reads the memory",
        (ASK, "self.cross_attn(y, y, y, cross_mask)"),
        seen="keitakurita/Practical_NLP_in_PyTorch #1",
    ),
    layer(
        "one_attention_object",
        "self-attention and cross-attention are the same object: two questions, one set of weights",
        (CROSS_ATTN, "self.cross_attn = self.self_attn"),
        seen="lucidrains/feedback-transformer-pytorch #2 discusses shared projections",
    ),
    layer(
        "self_attn_used_twice",
        "self_attn is called in both places, and cross_attn is built but never used",
        ("self.cross_attn(y", "self.self_attn(y"),
        seen="maxjcohen/transformer #23",
    ),
    layer(
        "one_norm",
        "there is one norm for all three sub-layers: each needs a gain and a shift of its own",
        (NORM2, ""),
        (NORM3, ""),
        ("self.add_norm2(", "self.add_norm1("),
        ("self.add_norm3(", "self.add_norm1("),
    ),
    layer(
        "always_pre_norm",
        "the norm comes before each sub-layer, though the paper's order is asked for",
        ("AddNorm(d_model, dropout, norm_first)", "AddNorm(d_model, dropout, True)"),
    ),
    layer(
        "self_mask_lost",
        "self_mask is not handed on: every word sees the future",
        ("y, y, y, self_mask", "y, y, y"),
        seen="alex-matton/causal-transformer-decoder #1",
    ),
    layer(
        "cross_mask_lost",
        "cross_mask is not handed on: the source's padding is read as if it were words",
        ("memory, memory, cross_mask", "memory, memory"),
        seen="the early nn.Transformer had no argument for it: pytorch/pytorch #22588",
    ),
    layer(
        "masks_exchanged",
        "the two masks are exchanged: cross_mask in self-attention, self_mask in cross-attention",
        ("memory, memory, cross_mask", "memory, memory, self_mask"),
        ("y, y, y, self_mask", "y, y, y, cross_mask"),
        seen="hkproj/pytorch-transformer #27 stumbles over two orders of arguments",
    ),
    layer(
        "self_mask_across",
        "cross-attention gets self_mask: it hides what is right of the diagonal of the source",
        ("memory, memory, cross_mask", "memory, memory, self_mask"),
        seen="Kamichanw/SeekDeeper #3",
    ),
    layer(
        "cross_attention_skipped",
        "cross-attention is left out, or its result is not used",
        (ACROSS, ""),
        seen="thushv89/manning_tf2_in_action #36",
    ),
    layer(
        "cross_before_self",
        "cross-attention comes first and self-attention second",
        (
            BACK,
            "x = self.add_norm1(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])",
        ),
        (ACROSS, "x = self.add_norm2(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"),
    ),
    layer(
        "residual_from_input",
        "the residual path around cross-attention starts at the layer's input",
        (BACK, f"first = x\n        {BACK}\n        answer = {ASK_OF_X}[0]"),
        (ACROSS, "x = self.add_norm2(first, lambda _: answer)"),
        seen="wrong residuals here: OpenNMT/OpenNMT-py #1689, georgepar/slp #26",
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
    *(
        layer(
            f"residual_missing_{place}",
            f"the input of {said} is not added to its output, so this residual path is missing",
            without_sum(line),
        )
        for place, said, line in (
            ("self_attention", "self-attention", BACK),
            ("cross_attention", "cross-attention", ACROSS),
            ("feed_forward", "the feed-forward part", THINK),
        )
    ),
    layer(
        "residual_missing",
        "no sub-layer's input is added to its output, so the residual paths are missing",
        *map(without_sum, (BACK, ACROSS, THINK)),
    ),
    layer(
        "cross_attention_of_input",
        "the queries of cross-attention come from the layer's input instead of what add_norm1 "
        "returned",
        (BACK, f"first = x\n        {BACK}"),
        (ASK, ASK.replace("(y", "(first")),
    ),
    layer(
        "self_attention_dropped",
        "cross-attention starts from the layer's input again, so the output of self-attention "
        "is lost",
        (BACK, BACK.replace("x = ", "found = ", 1)),
    ),
    layer(
        "feed_forward_reads_first_sum",
        "the feed-forward part reads what add_norm1 returned instead of what add_norm2 returned",
        (ACROSS, f"first = x\n        {ACROSS}"),
        (THINK, "return self.add_norm3(x, lambda _: self.feed_forward(first))"),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before both attentions",
        (
            BACK,
            f"x = self.add_norm1(x, self.feed_forward)\n        {BACK}".replace(
                "add_norm1(x, lambda", "add_norm2(x, lambda"
            ),
        ),
        (ACROSS, ""),
        (THINK, ACROSS.replace("x = self.add_norm2", "return self.add_norm3")),
    ),
    layer(
        "feed_forward_before_cross",
        "the feed-forward part comes between the two attentions instead of last",
        (ACROSS, "x = self.add_norm2(x, self.feed_forward)"),
        (THINK, ACROSS.replace("x = self.add_norm2", "return self.add_norm3")),
    ),
)


# right answers


class LayerWithNamedSteps(nn.Module):
    """Write every sub-layer as a method, and give AddNorm the method."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", *,
        d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        for place in ("self_attn", "cross_attn"):
            part = MultiHeadAttention(
                d_model, num_heads, d_k=d_k, d_v=d_v, dropout=attention_dropout
            )
            self.add_module(place, part)
        for number in (1, 2, 3):
            setattr(self, f"add_norm{number}", AddNorm(d_model, dropout, norm_first))
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout, activation)

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Keep what the steps need, and run them in their order."""

        def back(queries: Tensor) -> Tensor:
            """Look back."""
            answer, _ = self.self_attn(queries, queries, queries, self_mask, need_weights=True)
            return answer

        def across(queries: Tensor) -> Tensor:
            """Look across."""
            answer, _ = self.cross_attn(queries, memory, memory, mask=cross_mask)
            return answer

        steps = (back, across, self.feed_forward)
        add_norms = (self.add_norm1, self.add_norm2, self.add_norm3)
        for add_norm, step in zip(add_norms, steps, strict=True):
            x = add_norm(x, step)
        return x


class LayerOfTheAnnotatedTransformer(nn.Module):
    """Take its names, and its order of the masks: the source's first."""

    def __init__(self, size, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(size, h)
        self.src_attn = MultiHeadAttention(size, h)
        self.feed_forward = FeedForward(size, d_ff)
        self.sublayer = nn.ModuleList([SublayerConnection(size, dropout) for _ in range(3)])

    def forward(self, x, memory, src_mask, tgt_mask):
        """Follow figure 1."""
        m = memory
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask)[0])
        x = self.sublayer[1](x, lambda x: self.src_attn(x, m, m, src_mask)[0])
        return self.sublayer[2](x, self.feed_forward)


class TransformerDecoderBlock(nn.Module):
    """Take d2l's arguments and attribute names."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention1 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm1 = SublayerConnection(num_hiddens, dropout)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm2 = SublayerConnection(num_hiddens, dropout)
        self.ffn = nn.Module()
        self.ffn.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.ffn.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)
        self.addnorm3 = SublayerConnection(num_hiddens, dropout)

    def forward(self, X, enc_outputs, dec_mask=None, enc_mask=None):
        """Name what every step makes."""
        Y = self.addnorm1(X, lambda X: self.attention1(X, X, X, dec_mask)[0])
        Z = self.addnorm2(Y, lambda Y: self.attention2(Y, enc_outputs, enc_outputs, enc_mask)[0])
        return self.addnorm3(Z, lambda Z: self.ffn.dense2(F.relu(self.ffn.dense1(Z))))


ANSWERS = {
    "DecoderLayer": (LayerWithNamedSteps, LayerOfTheAnnotatedTransformer, TransformerDecoderBlock)
}
