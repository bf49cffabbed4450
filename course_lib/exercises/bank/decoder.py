"""Exercises for chapter 08: trials, known mistakes and correct answers."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.bank.encoder import IGNORED, SWAPPED, around
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import TORCH_ATTENTION, dropout_trials, sees_later
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    D_K,
    PASSED_ON,
    B,
    H,
    S,
    T,
    Trial,
    as_trial,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=H * D_K, num_heads=H, d_ff=11)
LAYER_SAYS = (
    "A layer has six parts: self_attn, cross_attn, feed_forward, add_norm1, add_norm2 and "
    "add_norm3."
)
ACROSS_SAYS = "Every target token attends to the memory, except where `cross_mask` is False."


def masks(length: int = T) -> dict[str, Tensor]:
    """Return a causal mask that also hides target padding, and a mask that hides source padding."""
    real = torch.ones(B, 1, 1, length, dtype=torch.bool)
    real[1, ..., -1] = False
    source = torch.ones(B, 1, 1, S, dtype=torch.bool)
    source[0, ..., -2:] = False
    past = torch.ones(length, length).tril().bool()
    return {"self_mask": past & real, "cross_mask": source}


def inputs(length: int = T, masked: bool = True) -> dict[str, Tensor]:
    """Return the target, the memory and, if ``masked`` is True, the masks."""
    x, memory = normal("x", B, length, H * D_K), normal("memory", B, S, H * D_K)
    return {"x": x, "memory": memory} | (masks(length) if masked else {})


def called(label: str, build: Mapping[str, Any], **how: Any) -> Trial:
    """Compare the output and all gradients, with both masks."""
    return module_trial(label, build, inputs(), **how)


@as_trial("later tokens changed", "A later token must not affect the outputs of earlier tokens.")
def leaks(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    module, other = filled(candidate(**SIZES)), inputs()
    other["x"][:, 2:] += 3
    return sees_later(module, 2, tuple(inputs().values()), tuple(other.values()))


@as_trial("hidden memory changed", "Memory that `cross_mask` hides must not affect the output.")
def reads_hidden_memory(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    other, what = inputs(), "hidden memory affects the output"
    other["memory"][0, -2:] += 3
    pair = tuple(inputs().values()), tuple(other.values())
    return sees_later(filled(candidate(**SIZES)), T, *pair, what=what)


EXERCISES = (
    Exercise(
        "DecoderLayer",
        25,
        core={
            "formula": (module_trial("no masks", SIZES, inputs(masked=False)),),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "self_mask": (
                leaks,
                module_trial("self_mask only", SIZES, inputs() | {"cross_mask": None}),
            ),
            "cross_mask": (
                reads_hidden_memory,
                called("both masks", SIZES, says=ACROSS_SAYS),
                module_trial("a target as long as the source", SIZES, inputs(S)),
            ),
        },
        formula="Self-attention is wrapped in add_norm1, cross-attention to the memory in "
        "add_norm2, and feed_forward in add_norm3. Only AddNorm adds x and normalizes.",
        hints=(
            "Build six parts: two `MultiHeadAttention`s, a `FeedForward` and three `AddNorm`s. In "
            "cross-attention, where do the queries come from, and where do the keys and values "
            "come from?",
            "`AddNorm` takes x and a function of one argument. Attention returns a pair, so take "
            "its first element. Two of the three lines are already in your EncoderLayer.",
            "The new line is `x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, "
            "cross_mask)[0])`. Pass `attention_dropout` to both attention sub-layers and "
            "`activation_dropout` to `FeedForward`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "norm_first": (
                called("norm_first=True", SIZES | {"norm_first": True}, says=PASSED_ON),
            ),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}, says=PASSED_ON),
                called("d_k=5 and d_v=7", SIZES | {"d_k": 5, "d_v": 7}, says=PASSED_ON),
            ),
            **dropout_trials(SIZES, inputs(), ("self_attn", "cross_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
    ),
)


# known mistakes


BACK = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, self_mask)[0])"
ACROSS = "x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])"
ASK = "self.cross_attn(y, memory, memory, cross_mask)"
ASK_OF_X = ASK.replace("(y", "(x")
CROSS_ATTN = """self.cross_attn = MultiHeadAttention(
            d_model, num_heads, d_k=d_k, d_v=d_v, dropout=attention_dropout
        )"""
NORM2, NORM3 = (f"self.add_norm{n} = AddNorm(d_model, dropout, norm_first)" for n in (2, 3))
THINK = "return self.add_norm3(x, self.feed_forward)"

MISTAKES = {
    "DecoderLayer": {
        "memory_asks: cross-attention is called with (memory, x, x), so the queries come from the "
        "source": (ASK, "self.cross_attn(memory, y, y, cross_mask)"),
        "values_from_target: cross-attention is called with (x, memory, x), so the values come "
        "from the target": (ASK, "self.cross_attn(y, memory, y, cross_mask)"),
        "cross_reads_target: cross-attention is called with (x, x, x), so no layer reads the "
        "memory "
        "[keitakurita/Practical_NLP_in_PyTorch #1]": (ASK, "self.cross_attn(y, y, y, cross_mask)"),
        "one_attention_object: self-attention and cross-attention are the same object, so they "
        "have the same weights": (CROSS_ATTN, "self.cross_attn = self.self_attn"),
        "self_attn_used_twice: self_attn is called in both places, and cross_attn is created but "
        "never used [maxjcohen/transformer #23]": ("self.cross_attn(y", "self.self_attn(y"),
        "one_norm: all three sub-layers use the same norm, but each needs its own gain and shift": (
            (NORM2, ""),
            (NORM3, ""),
            ("self.add_norm2(", "self.add_norm1("),
            ("self.add_norm3(", "self.add_norm1("),
        ),
        "first_norm_used_three_times: add_norm1 is used for all three sub-layers, and add_norm2 "
        "and add_norm3 are not used": (
            (ACROSS, ACROSS.replace("add_norm2", "add_norm1")),
            (THINK, THINK.replace("add_norm3", "add_norm1")),
        ),
        **{
            f"{used}_replaces_{norm}: {used} is used for two sub-layers, and {norm} is not used": (
                line,
                line.replace(norm, used),
            )
            for line, norm, used in (
                (ACROSS, "add_norm2", "add_norm1"),
                (THINK, "add_norm3", "add_norm1"),
                (THINK, "add_norm3", "add_norm2"),
            )
        },
        "feed_forward_skipped: the layer ends after cross-attention, so feed_forward is not used": (
            THINK,
            "return x",
        ),
        "always_pre_norm: the norm comes before each sub-layer, even in post-norm": (
            "AddNorm(d_model, dropout, norm_first)",
            "AddNorm(d_model, dropout, True)",
        ),
        "self_mask_lost: self_mask is not passed to self-attention, so every token sees the future "
        "[alex-matton/causal-transformer-decoder #1]": ("y, y, y, self_mask", "y, y, y"),
        "cross_mask_lost: cross_mask is not passed to cross-attention, so tokens attend to the "
        "source's padding": ("memory, memory, cross_mask", "memory, memory"),
        "masks_exchanged: the masks are swapped, so self-attention gets cross_mask and "
        "cross-attention gets self_mask": (
            ("memory, memory, cross_mask", "memory, memory, self_mask"),
            ("y, y, y, self_mask", "y, y, y, cross_mask"),
        ),
        "self_mask_across: cross-attention gets self_mask, which hides source tokens at later "
        "positions "
        "[Kamichanw/SeekDeeper #3]": ("memory, memory, cross_mask", "memory, memory, self_mask"),
        "cross_attention_skipped: cross-attention is missing, or its result is not used "
        "[thushv89/manning_tf2_in_action #36]": (ACROSS, ""),
        "cross_before_self: cross-attention comes first and self-attention second": (
            (BACK, ACROSS.replace("add_norm2", "add_norm1")),
            (ACROSS, BACK.replace("add_norm1", "add_norm2")),
        ),
        "residual_from_input: the residual connection around cross-attention adds the layer's "
        "input": (
            (BACK, f"first = x\n        {BACK}\n        answer = {ASK_OF_X}[0]"),
            (ACROSS, "x = self.add_norm2(first, lambda _: answer)"),
        ),
        **ignored(*IGNORED),
        **SWAPPED,
        "lambda_ignores_its_argument: the lambda for cross-attention uses the layer's x instead of "
        "its argument, so with pre-norm, the queries are not normalized": (ASK, ASK_OF_X),
        "lines_exchanged: cross-attention, with its add_norm2, comes before self-attention, with "
        "its add_norm1": (f"{BACK}\n        {ACROSS}", f"{ACROSS}\n        {BACK}"),
        **around(self_attention=BACK, cross_attention=ACROSS, feed_forward=THINK),
        "cross_attention_of_input: the queries of cross-attention come from the layer's input "
        "instead of the output "
        "of add_norm1": ((BACK, f"first = x\n        {BACK}"), (ASK, ASK.replace("(y", "(first"))),
        "self_attention_dropped: cross-attention starts from the layer's input again, so the "
        "output of self-attention is lost": (BACK, BACK.replace("x = ", "found = ", 1)),
        "feed_forward_reads_first_sum: the feed-forward layer gets the output of add_norm1 instead "
        "of that of add_norm2": (
            (ACROSS, f"first = x\n        {ACROSS}"),
            (THINK, "return self.add_norm3(x, lambda _: self.feed_forward(first))"),
        ),
        "feed_forward_first: the feed-forward layer comes before both attention sub-layers": (
            (BACK, "x = self.add_norm1(x, self.feed_forward)"),
            (ACROSS, BACK.replace("add_norm1", "add_norm2")),
            (THINK, ACROSS.replace("x = self.add_norm2", "return self.add_norm3")),
        ),
        "feed_forward_before_cross: the feed-forward layer comes between the two attention "
        "sub-layers instead of coming last": (
            (ACROSS, "x = self.add_norm2(x, self.feed_forward)"),
            (THINK, ACROSS.replace("x = self.add_norm2", "return self.add_norm3")),
        ),
    },
}


# right answers

STEPS = """steps = (
            lambda y: self.self_attn(y, y, y, self_mask, need_weights=True)[0],
            lambda y: self.cross_attn(y, memory, memory, mask=cross_mask)[0],
            self.feed_forward,
        )
        for add_norm, step in zip((self.add_norm1, self.add_norm2, self.add_norm3), steps):
            x = add_norm(x, step)
        return x"""

ANSWERS = {
    "DecoderLayer": {
        "in_a_loop: every sub-layer is a function, and a loop calls the functions": (
            f"{BACK}\n        {ACROSS}\n        {THINK}",
            STEPS,
        ),
    },
}
