"""Exercises of chapter 18: trials, known mistakes and right answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.encoder import Encoder, EncoderLayer
from course_lib.exercises.bank.transformer import APART, WIDE
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import (
    TORCHS,
    embedding_dropout,
    keeps_still,
    loudness,
    reach,
    sees_later,
)
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import (
    Trial,
    by_name,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding, sinusoidal_encoding
from course_lib.transformer import TransformerConfig, check_ids, initialize

TEXT = normal("a text", 40).argsort() + 50  # 40 tokens, 50 … 89, no two alike
READ, PREDICTED = "what is read", "what is to be predicted"

SINES = replace(APART, num_decoder_layers=2, max_len=6)  # pad_id is a token like any other
PRE_NORM = replace(SINES, norm_first=True, activation="gelu")
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])
PARTS = (
    "The parts are embedding, positions, stack (an `Encoder` of num_decoder_layers) and output, "
    "which has no bias and shares the embedding's matrix."
)


def drawn(candidate: Callable, size: int, batch: int, length: int, *more: Any) -> list[Tensor]:
    """Draw windows of a text, and say where in it their tokens stand; far off, for strangers."""
    answer = candidate(TEXT[:size].clone(), batch, length, *more)
    pair = list(answer) if isinstance(answer, tuple | list) else [answer]
    if len(pair) != 2 or not all(isinstance(x, Tensor) for x in pair):
        raise TypeError(f"two tensors should come out, and not {describe(answer)}")
    where = torch.full((100,), -1000)
    where[TEXT] = torch.arange(len(TEXT))
    return [where[x.long().clamp(0, 99)] for x in pair]


@looks(
    "a text of tokens that all differ",
    "A window is a part of the text as it stands there; the target of every position is the token "
    "that follows.",
)
def steps(candidate: Callable) -> dict[str, str]:
    """Measure from token to token, in many windows."""
    read, predicted = drawn(candidate, 12, 300, 4)
    different = {"one token to the next": read.diff(dim=1), "a token to its target":
                 predicted - read}  # fmt: skip
    found = {name: sorted(set(x.flatten().tolist())) for name, x in different.items()}
    return {f"steps from {name}": str(n) if len(n) < 4 else "many" for name, n in found.items()}


@looks(
    "2,000 windows of 4 from a text of 9",
    "Every window that fits is equally likely, whatever the others are: each row draws a start of "
    "its own, from 0 … len(ids) - length - 1.",
)
def starts(candidate: Callable) -> dict[str, str]:
    """Count where in a text of 9 tokens windows of 4 start, in tenths."""
    first = drawn(candidate, 9, 2000, 4)[0][:, 0].clamp(0, 9).tolist()
    found = {f"windows that start at {n}": f"{first.count(n) / 2000:.1f}" for n in range(10)}
    return found | {"different pairs of neighbours": str(len({*zip(first, first[1:])}))}  # noqa: B905


@looks(
    "a text as long as one window",
    "A window takes length + 1 tokens; here that is the whole text.",
    kind="equality",
)
def whole_text(candidate: Callable) -> dict[str, Tensor]:
    """Draw from a text that holds one window."""
    return dict(zip((READ, PREDICTED), drawn(candidate, 5, 2, 4), strict=True))


@looks("generators", "The random numbers come from `generator`, as it stands.")
def generators(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, with another, and twice with one."""
    one = torch.Generator().manual_seed(1)
    first, later = (drawn(candidate, 40, 30, 8, one)[0] for _ in range(2))
    again, other = (
        drawn(candidate, 40, 30, 8, torch.Generator().manual_seed(seed))[0] for seed in (1, 2)
    )
    return {
        "the same generator gives the same windows": first.equal(again),
        "another one gives others": not first.equal(other),
        "a second call gives others": not first.equal(later),
    }


def scored(label: str, config: TransformerConfig, ids: Tensor = IDS, **build: Any) -> Trial:
    """Compare logits, and the gradients of all parameters."""
    return module_trial(label, {"config": config} | build, {"ids": ids}, ("logits",))


@looks(
    "a look at who sees whom",
    "A row sees what stands before it, in its order, and never what comes later, in training and "
    "in eval mode.",
)
def who_sees_whom(candidate: Callable) -> dict[str, bool]:
    """Change later tokens, an earlier one, and the order of earlier ones; look who notices."""
    model = filled(candidate(replace(SINES, num_decoder_layers=1)))
    later, earlier, swapped = IDS.clone(), IDS.clone(), IDS[:, [1, 0, 2, 3, 4]]
    later[:, 3:] = (IDS[:, 3:] + 1) % 10
    earlier[:, 0] = (IDS[:, 0] + 1) % 10
    found = sees_later(model, 3, (IDS,), (later,))
    for what, ids in (("an earlier token", earlier), ("the order of earlier tokens", swapped)):
        change = (model(ids) - model(IDS))[:, -1].abs().amax(dim=-1)
        found[f"{what} is seen"] = bool((change > 1e-4).all())
    return found


@looks("a new model", "Every matrix starts as `initialize` says, the tied one as an embedding.")
def new_model(candidate: Callable) -> dict[str, float]:
    """Measure how a new model starts, to a tenth of what is right."""
    named = by_name(candidate(WIDE))
    table = named["embedding.weight"].detach()
    linear = named["stack.layers.0.feed_forward.linear1.weight"].detach()
    return {
        "standard deviation of the embedding": loudness(table),
        "largest weight of a linear layer": reach(linear),
    }


EXERCISES = (
    Exercise(
        "random_windows",
        "decoder_only",
        12,
        core={"windows": (steps, whole_text), "start": (starts,)},
        hints=(
            "How many tokens does a window take out of the text, if `length` are read and each of "
            "them has a successor? Where can the last such window begin?",
            "`torch.randint(end, (batch_size, 1), generator=generator)` draws a column of "
            "positions, 0 … end - 1. Add `torch.arange(length + 1)`: every row counts on from its "
            "own.",
            "A tensor of positions is an index: `ids[starts + torch.arange(length + 1)]`. All "
            "columns but the last are read, all but the first are to be predicted.",
        ),
        extras={"generator": (generators,)},
        unnamed=("window[:, 1:]", "window[:, 1:].flip(1)"),
    ),
    Exercise(
        "DecoderOnly",
        "decoder_only",
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
        hints=(
            "It is chapter 09's `Transformer` without its left half: four parts, embedding, "
            "positions, stack, output. What hides the future, if there is no padding?",
            "`Encoder(c.num_decoder_layers, c.d_model, c.num_heads, c.d_ff, c.dropout, "
            "c.norm_first, c.activation, d_k=c.d_k, d_v=c.d_v)`; then tie "
            "`self.output.weight = self.embedding.weight`, and `initialize(self)` last.",
            "In `forward`: `check_ids`, look up, times √d_model, positions, the stack under "
            "`causal_mask(ids.size(1), ids.device)`, and `self.output`.",
        ),
        shortcuts=TORCHS,
        extras={
            "learned_positions": (
                scored("learned_positions=True", PRE_NORM, learned_positions=True),
            ),
            "d_k, d_v": (scored("d_k=5 and d_v=7", replace(SINES, d_k=5, d_v=7)),),
            "dropout": (
                keeps_still({"config": replace(SINES, dropout=0.5)}, {"ids": IDS}),
                module_trial(
                    "dropout=1.0 in training",
                    {"config": replace(SINES, dropout=1.0)},
                    {"ids": IDS},
                    training=True,
                    kind="train and eval",
                    says="Dropout acts on embeddings with their positions, and on the output of "
                    "every sub-layer.",
                ),
                embedding_dropout(
                    replace(SINES, dropout=0.2), text=lambda model: model(IDS.repeat(8, 1))
                ),
            ),
            "names": (names_trial({"config": SINES}),),
        },
        unnamed=("return self.output(", "return 2 * self.output("),
    ),
)


# known mistakes

windows = known("decoder_only", "random_windows")
model = known("decoder_only", "DecoderOnly")

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

MISTAKES = (
    windows(
        "targets_not_shifted",
        "what is to be predicted is what is read: move it on by one token",
        (PAIR, "return window[:, :-1], window[:, :-1]"),
        seen="songlab-cal/tape #32 asks; a model that copies has zero loss at once",
    ),
    windows(
        "shifted_by_two",
        "the targets stand two tokens further on: one is right",
        (WINDOW, "ids[starts + torch.arange(length + 2)]"),
        ("len(ids) - length,", "max(1, len(ids) - length - 1),"),
        (PAIR, "return window[:, :-2], window[:, 2:]"),
        seen="huggingface/transformers #47394: shifted here, and once more in the loss",
    ),
    windows(
        "shifted_the_wrong_way",
        "the two have changed places: the later tokens are read, the earlier ones predicted",
        (PAIR, "return window[:, 1:], window[:, :-1]"),
    ),
    windows(
        "next_window_predicted",
        "the targets are the window that follows: at each position the next *token* is to be "
        "predicted",
        (WINDOW, "ids[starts + torch.arange(2 * length)]"),
        ("len(ids) - length,", "max(1, len(ids) + 1 - 2 * length),"),
        (PAIR, "return window[:, :length], window[:, length:]"),
        seen="pytorch/text #207 shows such targets",
    ),
    windows(
        "last_window_never_drawn",
        "the last window that fits is never drawn: randint leaves its upper end out already",
        ("len(ids) - length,", "len(ids) - length - 1,"),
        seen="karpathy/ng-video-lecture #56 proposes it; karpathy/minGPT #31 takes it back",
    ),
    windows(
        "past_the_end",
        "some windows start so late that they do not fit: length + 1 tokens are needed",
        ("len(ids) - length,", "len(ids) - length + 1,"),
        seen="spro/char-rnn.pytorch #7",
    ),
    windows(
        "side_by_side",
        "windows start at multiples of length only: they may start anywhere",
        (STARTS, f"length * {STARTS.replace('len(ids) - length', '(len(ids) - 1) // length')}"),
        seen="ShusenTang/Dive-into-DL-PyTorch #160 asks why so few are drawn",
    ),
    windows(
        "one_start_for_all",
        "all windows start at one position: each row needs a start of its own",
        ("(batch_size, 1)", "(1, 1)"),
        (PAIR, "window = window.expand(batch_size, -1)\n    " + PAIR),
    ),
    *ignored(windows, ("generator", (", generator=generator)", ")"))),
    model(
        "future_seen",
        "no causal mask is handed on: every row sees the token that it should predict",
        (STACK, f"self.stack({PLACED})"),
        seen="keras-team/keras #23038; huggingface/transformers #48745",
    ),
    model(
        "future_seen_in_eval",
        "the causal mask is used in training only",
        (STACK, f"self.stack({PLACED}, past if self.training else None)"),
        seen="facebookresearch/fairmotion #56 moves the mask under `if self.training`",
    ),
    model(
        "future_seen_in_training",
        "the causal mask is used in eval mode only: in training each row sees its answer",
        (STACK, f"self.stack({PLACED}, None if self.training else past)"),
    ),
    model(
        "sees_only_itself",
        "a row sees its own token and nothing else: of the triangle only the diagonal is left",
        (PAST, f"{PAST}.triu()"),
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: a row sees the next token, its own answer",
        (PAST, f"past = {SQUARE}.tril(1)"),
        seen="reported in RVC-Boss/GPT-SoVITS #965",
    ),
    model(
        "positions_missing",
        "positions are never added: a layer reads the earlier tokens as a bag, without order",
        (PLACED, "vectors"),
        seen="Lightning-AI/pytorch-lightning #20099",
    ),
    *ignored(
        model,
        (
            "learned_positions",
            (
                "LearnedPositionalEmbedding if learned_positions else PositionalEncoding",
                "PositionalEncoding",
            ),
        ),
    ),
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model",
        (f" * {ROOT}", ""),
        seen="asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
    ),
    model(
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        ("        self.output.weight = self.embedding.weight\n", ""),
        seen="karpathy/nanoGPT #21 ties them later",
    ),
    model(
        "softmax_inside",
        "a softmax stands at the end of the model, and the loss will take a second one",
        (OUT, f"{OUT}.softmax(dim=-1)"),
        seen="bkitano/llama-from-scratch #5",
    ),
    model(
        "initialize_missing",
        "the matrices start as torch leaves them: embeddings far too large, at N(0, 1)",
        ("\n        initialize(self)\n", "\n"),
    ),
    *ignored(model, ("norm_first", (SIZES, SIZES.replace(", c.norm_first, c.activation", "")))),
)


# right answers


def windows_by_slices(ids, batch_size, length, generator=None):
    """Cut slices in a loop, and stack them."""
    starts = torch.randint(0, len(ids) - length, (batch_size,), generator=generator).tolist()
    x = torch.stack([ids[start : start + length] for start in starts])
    y = torch.stack([ids[start + 1 : start + 1 + length] for start in starts])
    return x, y


def get_batch(data, batch_size, block_size):
    """Hold the core, as nanoGPT does: one random offset a row, two slices."""
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class DecoderOfSteps(nn.Module):
    """Give embedding and scoring methods of their own; share the matrix from the output's side."""

    def __init__(self, config, learned_positions=False):
        super().__init__()
        self.config = config
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.embedding.weight = self.output.weight
        how = dict(max_len=config.max_len, dropout=config.dropout)
        if learned_positions:
            self.positions = LearnedPositionalEmbedding(config.d_model, **how)
        else:
            self.positions = PositionalEncoding(config.d_model, **how)
        self.stack = Encoder(
            config.num_decoder_layers, config.d_model,
            num_heads=config.num_heads, d_ff=config.d_ff, dropout=config.dropout,
            norm_first=config.norm_first, activation=config.activation,
            d_k=config.d_k, d_v=config.d_v,
        )  # fmt: skip
        initialize(self)

    def embed(self, ids: Tensor) -> Tensor:
        """Look up, scale, place."""
        check_ids(ids, self.config.tgt_vocab_size, self.config.max_len, "text")
        return self.positions(self.embedding(ids).mul(self.config.d_model**0.5))

    def forward(self, ids):
        """Compare positions to learn what is past."""
        position = torch.arange(ids.shape[-1], device=ids.device)
        return self.output(self.stack(self.embed(ids), mask=position.view(-1, 1) >= position))


class DecoderOfTextbook(nn.Module):
    """Hold the core under other names, with a list of layers."""

    def __init__(self, cfg):
        super().__init__()
        self.config = cfg
        self.tok_emb = nn.Embedding(cfg.tgt_vocab_size, cfg.d_model)
        self.blocks = nn.ModuleList(
            EncoderLayer(
                cfg.d_model, cfg.num_heads, cfg.d_ff, norm_first=cfg.norm_first,
                activation=cfg.activation,
            )
            for _ in range(cfg.num_decoder_layers)
        )  # fmt: skip
        self.final_norm = nn.LayerNorm(cfg.d_model) if cfg.norm_first else nn.Identity()
        self.head = nn.Linear(cfg.d_model, cfg.tgt_vocab_size, bias=False)
        self.head.weight = self.tok_emb.weight
        initialize(self)

    def forward(self, idx):
        """Embed, run the blocks, score."""
        _, T = idx.shape
        x = self.tok_emb(idx) * self.config.d_model**0.5
        x = x + sinusoidal_encoding(T, self.config.d_model)
        mask = torch.tril(torch.ones(T, T, device=idx.device)).bool()
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.final_norm(x))


ANSWERS = {
    "random_windows": (windows_by_slices, get_batch),
    "DecoderOnly": (DecoderOfSteps, DecoderOfTextbook),
}
