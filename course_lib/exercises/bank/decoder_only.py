"""Exercises for chapter 18: trials, known mistakes and correct answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.bank.transformer import APART, WIDE
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import (
    TORCH_ATTENTION,
    embedding_dropout,
    glorot_ratio,
    keeps_still,
    loudness,
    sees_later,
)
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.outcomes import describe
from course_lib.exercises.checking.trial import (
    PASSED_ON,
    Trial,
    as_trial,
    by_name,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.transformer import TransformerConfig

TEXT = normal("a text", 40).argsort() + 50  # the 40 tokens 50 … 89 in random order

SINES = replace(
    APART, num_encoder_layers=3, num_decoder_layers=2, max_len=6
)  # pad_id is a token like any other
PRE_NORM = replace(SINES, norm_first=True, activation="gelu")
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])
PARTS = (
    "The parts are embedding, positions, stack (an `Encoder` with num_decoder_layers layers) and "
    "output, which has no bias and is tied to the embedding."
)


def drawn(candidate: Callable, size: int, batch: int, length: int, *more: Any) -> list[Tensor]:
    """Sample windows from a text; return the position of each token (-1000 if it has none)."""
    answer = candidate(TEXT[:size].clone(), batch, length, *more)
    pair = list(answer) if isinstance(answer, tuple | list) else [answer]
    if len(pair) != 2 or any(not isinstance(x, Tensor) or x.is_floating_point() for x in pair):
        raise TypeError(f"return two tensors of ids instead of {describe(answer)}")
    where = torch.full((100,), -1000)
    where[TEXT] = torch.arange(len(TEXT))
    return [where[x.long().clamp(0, 99)] for x in pair]


@as_trial("different tokens", "A window is a part of the text. Each target is the next token.")
def steps(candidate: Callable) -> dict[str, str]:
    read, predicted = drawn(candidate, 12, 300, 4)
    distances = {"one token to the next": read.diff(dim=1), "a token to its target":
                 predicted - read}  # fmt: skip
    found = {name: sorted(set(x.flatten().tolist())) for name, x in distances.items()}
    return {f"steps from {name}": str(n) if len(n) < 4 else "many" for name, n in found.items()}


@as_trial(
    "a text of 9 tokens", "Draw a separate start for each row from 0 … len(ids) - length - 1."
)
def starts(candidate: Callable) -> dict[str, str]:
    first = drawn(candidate, 9, 2000, 4)[0][:, 0].clamp(0, 9).tolist()
    found = {f"windows that start at {n}": f"{first.count(n) / 2000:.1f}" for n in range(10)}
    return found | {"different pairs of neighbors": str(len({*zip(first, first[1:])}))}  # noqa: B905


@as_trial(
    "a text of one window",
    "A window needs length + 1 tokens, which here make up the whole text.",
    "equality",
)
def whole_text(candidate: Callable) -> dict[str, Tensor]:
    return dict(zip(("inputs", "targets"), drawn(candidate, 5, 2, 4), strict=True))


@as_trial("generators", "Draw all random numbers from `generator`, and do not seed it again.")
def generators(candidate: Callable) -> dict[str, bool]:
    one = torch.Generator().manual_seed(1)
    first, later = (drawn(candidate, 40, 30, 8, one)[0] for _ in range(2))
    again, other = (
        drawn(candidate, 40, 30, 8, torch.Generator().manual_seed(seed))[0] for seed in (1, 2)
    )
    return {
        "the same seed gives the same windows": first.equal(again),
        "a different seed gives different windows": not first.equal(other),
        "a second call gives different windows": not first.equal(later),
    }


def scored(label: str, config: TransformerConfig, ids: Tensor = IDS, **build: Any) -> Trial:
    """Compare the logits, and the gradients of all parameters."""
    return module_trial(label, {"config": config} | build, {"ids": ids}, ("logits",))


@as_trial(
    "changed tokens",
    "A token attends to earlier tokens, whose order matters, but never to later ones.",
)
def who_sees_whom(candidate: Callable) -> dict[str, bool]:
    model = filled(candidate(replace(SINES, num_decoder_layers=1)))
    later, earlier, swapped = IDS.clone(), IDS.clone(), IDS[:, [1, 0, 2, 3, 4]]
    later[:, 3:] = (IDS[:, 3:] + 1) % 10
    earlier[:, 0] = (IDS[:, 0] + 1) % 10
    found = sees_later(model, 3, (IDS,), (later,))
    for what, ids in (("an earlier token", earlier), ("the order of earlier tokens", swapped)):
        change = (model(ids) - model(IDS))[:, -1].abs().amax(dim=-1)
        found[f"{what} is seen"] = bool((change > 1e-4).all())
    return found


@as_trial("a new model", "`initialize` sets every matrix, and treats the tied one as an embedding.")
def new_model(candidate: Callable) -> dict[str, float]:
    named = by_name(candidate(WIDE))
    table = named["embedding.weight"].detach()
    linear = named["stack.layers.0.feed_forward.linear1.weight"].detach()
    return {
        "standard deviation of the embedding": loudness(table),
        "largest weight of a linear layer": glorot_ratio(linear),
    }


EXERCISES = (
    Exercise(
        "random_windows",
        12,
        core={"windows": (steps, whole_text), "start": (starts,)},
        hints=(
            "How many tokens does a window need if the model reads `length` tokens and predicts "
            "the token after each of them? Where can the last window start?",
            "`torch.randint(end, (batch_size, 1), generator=generator)` draws a column of "
            "positions from 0 … end - 1. Add `torch.arange(length + 1)` to get all positions.",
            "Index with a tensor: `ids[starts + torch.arange(length + 1)]`. The model reads all "
            "columns but the last, and predicts all columns but the first.",
        ),
        extras={"generator": (generators,)},
        rejects=("(torch.arange(9), 0, 3)", "(torch.arange(9), 2, 0)", "(torch.arange(9), 2, 9)"),
    ),
    Exercise(
        "DecoderOnly",
        20,
        core={
            "parameters": (parameters_trial({"config": SINES}, PARTS),),
            "logits": (
                who_sees_whom,
                scored("sines and post-norm", SINES),
                scored("one token", SINES, IDS[:, :1]),
                scored("max_len tokens", SINES, torch.cat([IDS, IDS[:, :1]], dim=1)),
            ),
            "norm_first": (
                parameters_trial({"config": PRE_NORM}, PARTS),
                scored("norm_first and gelu in the config", PRE_NORM),
            ),
            "initialization": (new_model,),
        },
        formula="Multiply the embeddings by √d_model and add positions. The stack reads them "
        "with a causal mask, and `output` turns its vectors into logits.",
        hints=(
            "The model is chapter 09's `Transformer` without the encoder: embedding, positions, "
            "stack and output. Which mask do you need if there is no padding?",
            "`Encoder(c.num_decoder_layers, c.d_model, c.num_heads, c.d_ff, c.dropout, "
            "c.norm_first, c.activation, d_k=c.d_k, d_v=c.d_v)` is the stack. Then write "
            "`self.output.weight = self.embedding.weight`, and call `initialize(self)` last.",
            "In `forward`, call `check_ids`, look up the embeddings, multiply by √d_model, add the "
            "positions, and call the stack with `causal_mask(ids.size(1), ids.device)` and "
            "`self.output`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "learned_positions": (scored("learned positions", PRE_NORM, learned_positions=True),),
            "d_k, d_v": (
                replace(scored("d_k=5 and d_v=7", replace(SINES, d_k=5, d_v=7)), says=PASSED_ON),
            ),
            "dropout": (
                keeps_still({"config": replace(SINES, dropout=0.5)}, {"ids": IDS}),
                module_trial(
                    "dropout=1.0 in training",
                    {"config": replace(SINES, dropout=1.0)},
                    {"ids": IDS},
                    training=True,
                    kind="train and eval",
                    says="Dropout is applied to the sum of the embeddings and the positions, and "
                    "to the output of every sub-layer.",
                ),
                embedding_dropout(
                    replace(SINES, dropout=0.2), text=lambda model: model(IDS.repeat(8, 1))
                ),
            ),
            "names": (names_trial({"config": SINES}),),
        },
        rejects=("(SINES)(torch.tensor([[99]]))", "(SINES)(torch.zeros(1, 99).long())"),
    ),
)


# known mistakes


STARTS = "torch.randint(len(ids) - length, (batch_size, 1), generator=generator)"
WINDOW = "ids[starts + torch.arange(length + 1)]"
PAIR = "return window[:, :-1], window[:, 1:]"

PAST = "past = causal_mask(ids.size(1), ids.device)"
ROOT = "math.sqrt(self.config.d_model)"
PLACED = "self.positions(vectors)"
STACK = f"self.stack({PLACED}, past)"
OUT = f"return self.output({STACK})"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"
SQUARE = "torch.ones(ids.size(1), ids.size(1), dtype=torch.bool)"

MISTAKES = {
    "random_windows": {
        "targets_not_shifted: the targets are not shifted, so the model must predict the tokens "
        "that it reads": (PAIR, "return window[:, :-1], window[:, :-1]"),
        "shifted_by_two: the targets are shifted by two tokens instead of one "
        "[huggingface/transformers #47394]": (
            (WINDOW, "ids[starts + torch.arange(length + 2)]"),
            ("len(ids) - length,", "max(1, len(ids) - length - 1),"),
            (PAIR, "return window[:, :-2], window[:, 2:]"),
        ),
        "shifted_the_wrong_way: inputs and targets are swapped, so the model predicts the previous "
        "token": (PAIR, "return window[:, 1:], window[:, :-1]"),
        "last_window_never_drawn: the last window is never drawn, because randint already excludes "
        "its upper bound [karpathy/minGPT #31]": ("len(ids) - length,", "len(ids) - length - 1,"),
        "past_the_end: some windows start too late, because a window needs length + 1 tokens "
        "[spro/char-rnn.pytorch #7]": ("len(ids) - length,", "len(ids) - length + 1,"),
        "side_by_side: windows start only at multiples of length, but a window may start at any "
        "position [ShusenTang/Dive-into-DL-PyTorch #160]": (
            STARTS,
            f"length * {STARTS.replace('len(ids) - length', '(len(ids) - 1) // length')}",
        ),
        "one_start_for_all: all windows start at the same position, but each row needs its own "
        "start": (
            ("(batch_size, 1)", "(1, 1)"),
            (PAIR, "window = window.expand(batch_size, -1)\n    " + PAIR),
        ),
    },
    "DecoderOnly": {
        "future_seen: the stack gets no causal mask, so a token attends to the token that it has "
        "to predict [keras-team/keras "
        "#23038; huggingface/transformers #48745]": (STACK, f"self.stack({PLACED})"),
        "future_seen_in_eval: the causal mask is used in training mode only "
        "[facebookresearch/fairmotion "
        "#56]": (STACK, f"self.stack({PLACED}, past if self.training else None)"),
        "future_seen_in_training: the causal mask is used in eval mode only, so in training a "
        "token "
        "attends to its target": (STACK, f"self.stack({PLACED}, None if self.training else past)"),
        "sees_only_itself: only the diagonal of the causal mask is left, so a token attends only "
        "to itself": (PAST, f"{PAST}.triu()"),
        "causal_one_ahead: the causal mask is off by one, so a token attends to the token that it "
        "must predict [RVC-Boss/GPT-SoVITS #965]": (PAST, f"past = {SQUARE}.tril(1)"),
        "positions_missing: positions are never added, so the order of the earlier tokens is lost "
        "[Lightning-AI/pytorch-lightning #20099]": (PLACED, "vectors"),
        "scale_missing: the vectors are not multiplied by √d_model": (f" * {ROOT}", ""),
        "output_not_tied: the output is not tied to the embedding (a copy of its values would be a "
        "second matrix) "
        "[karpathy/nanoGPT #21]": ("        self.output.weight = self.embedding.weight\n", ""),
        "padding_hidden: tokens equal to pad_id are hidden, but this model has no padding": (
            PAST,
            f"{PAST} & (ids != self.config.pad_id)[:, None, None]",
        ),
        "positions_scaled: the positions are multiplied by √d_model, too, "
        "but only the embeddings should be": ((f" * {ROOT}", ""), (PLACED, f"{PLACED} * {ROOT}")),
        "softmax_inside: the model ends with a softmax, and the loss applies a second one "
        "[bkitano/llama-from-scratch #5]": (OUT, f"{OUT}.softmax(dim=-1)"),
        "initialize_missing: the matrices keep torch's initial values, but N(0, 1) is far too "
        "large for embeddings": ("\n        initialize(self)\n", "\n"),
        **ignored(("norm_first", (SIZES, SIZES.replace(", c.norm_first, c.activation", "")))),
    },
}


# right answers

TABLE = "        self.embedding = nn.Embedding(c.tgt_vocab_size, c.d_model)\n"

ANSWERS = {
    "DecoderOnly": {
        "tied_to_the_output: the output owns the shared matrix, and positions are compared": (
            (TABLE, ""),
            (
                "        self.output.weight = self.embedding.weight\n",
                f"{TABLE}        self.embedding.weight = self.output.weight\n",
            ),
            (f" * {ROOT}", ".mul(self.config.d_model**0.5)"),
            (PAST, "at = torch.arange(ids.size(1))\n        past = at.view(-1, 1) >= at"),
        ),
    },
}
