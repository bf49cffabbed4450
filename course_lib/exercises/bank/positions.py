"""Exercises of chapter 03: trials, known mistakes and right answers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    function_trial,
    looks,
    module_trial,
    normal,
)
from course_lib.positions import sinusoidal_encoding

MAX_LEN = 9
BUILD = {"d_model": D_K, "max_len": MAX_LEN}
X = {"x": normal("x", B, T, D_K)}


def table(label: str, max_len: int, d_model: int) -> Trial:
    """Compare a table, number by number."""
    return function_trial(label, {"max_len": max_len, "d_model": d_model}, ("table",))


@looks(
    "a look at the type",
    "The table is added to vectors of torch's default type, and has it too.",
    kind="shape",
)
def kind(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """Return the type of the numbers."""
    return {"the type of the numbers": str(candidate(H, D_K).dtype)}


@looks(
    "a look at what is learned",
    "The waves are computed: training must not change them.",
    kind="parameters",
)
def learned(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    """Count what an optimizer would change."""
    module = candidate(**BUILD)
    return {"learned numbers": sum(p.numel() for p in module.parameters() if p.requires_grad)}


@looks(
    "a look at what is saved",
    "The table can be computed again: no file has to hold it.",
    kind="parameters",
)
def saved(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    """Count what a file of weights would hold."""
    return {"saved tensors": len(candidate(**BUILD).state_dict())}


@looks(
    "a layer that moves",
    "The table must move and change type with the layer: a buffer does, a plain attribute stays "
    "behind.",
)
def moved(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """Change type and device of a layer, and look whether its table follows."""
    layer, x = candidate(**BUILD).eval(), X["x"]
    found = {"type after .bfloat16()": str(layer.bfloat16()(x.bfloat16()).dtype)}
    return found | {"device after .to('meta')": str(layer.to("meta")(x.to("meta")).device)}


@looks(
    "dropout=0.2 in training",
    "Dropout acts on each number of the sum by itself, in training only, and divides the rest by "
    "1 - dropout (§5.4).",
    kind="train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Add words to the table so that every sum is 2, and look what is left of it."""
    words = (2 - sinusoidal_encoding(MAX_LEN, D_K)).repeat(4, 1, 1)
    output = candidate(**BUILD, dropout=0.2).train()(words).detach()
    return {"a sum of 2": survivors(output, "sentences", "positions", "features")}


SHAPES = {
    "sizes that differ": (B, T, D_K),
    "as many sentences as words": (T, T, D_K),
    "a sentence as long as the table": (B, MAX_LEN, D_K),
    "a single word": (B, 1, D_K),
}
SUM = (
    *(module_trial(label, BUILD, {"x": normal("x", *shape)}) for label, shape in SHAPES.items()),
)
DROPOUT = (
    dropped,
    keeps_still(BUILD, X, dropout=0.5),
)
MOVED = (module_trial("start=3", BUILD, X, options={"start": 3}),)


EXERCISES = (
    Exercise(
        "sinusoidal_encoding",
        "positions",
        15,
        core={
            "formula": (
                table("sizes that differ", 5, 4),  # small: large angles differ by rounding
                table("as many positions as columns", 4, 4),
                table("ten columns", 4, 10),
                kind,
            )
        },
        hints=(
            "Make one angle for each position and each *pair* of columns: positions as a column "
            "`(max_len, 1)`, one frequency per pair as a row; broadcasting makes the table.",
            "`torch.arange(0, d_model, 2)` is the 2i of the formula. Divide the position by "
            "10000 ** (2i / d_model).",
            "`torch.stack([angle.sin(), angle.cos()], dim=-1)` puts each cosine beside its sine; "
            "`flatten(1)` lays the pairs out in a row. Cut off a last column that is too many.",
        ),
        extras={
            "odd width": (table("d_model=5, which is odd", MAX_LEN, 5), table("d_model=1", T, 1))
        },
        unnamed=("10000 **", "9000 **"),
    ),
    Exercise(
        "PositionalEncoding",
        "positions",
        10,
        core={"sum": SUM, "not learned": (learned,)},
        extras={"dropout": DROPOUT, "start": MOVED, "device": (moved,), "saved file": (saved,)},
        hints=(
            "Compute the table once, in `__init__`, and keep it as a *buffer*: "
            "it moves with the layer and is not learned. Which sizes come first, the table's or "
            "the layer's?",
            "`self.register_buffer('encoding', table, persistent=False)`; the last word keeps it "
            "out of saved files.",
            "In `forward`, cut the table to the length of the sentence, `x.size(-2)`; broadcasting "
            "adds the rows to every sentence. Dropout comes after the sum.",
        ),
        unnamed=("x + self.encoding", "x + 0.5 * self.encoding"),
    ),
)


# known mistakes

table_mistake = known("positions", "sinusoidal_encoding")
encoding = known("positions", "PositionalEncoding")

POSITION = "torch.arange(max_len, dtype=torch.float64)"
POWER = "position / 10000 ** (even / d_model)"
STACKED = "torch.stack([angle.sin(), angle.cos()], dim=-1)"
CUT = "waves.flatten(1)[:, :d_model].to(torch.get_default_dtype())"
SINES_AND_COSINES = "torch.stack([angle.sin(), other.cos()], dim=-1)"
ANGLES = "  # (max_len, ceil(d_model / 2))\n"
FILLED = """waves = torch.zeros(max_len, d_model)
    waves[:, 0::2] = angle.sin()
    waves[:, 1::2] = angle.cos()"""

WAVES = (
    table_mistake(
        "exponent_unpaired",
        "every column has a frequency of its own: the cosine of a pair takes the exponent of its "
        "own column instead of its sine's",
        (ANGLES, ANGLES + "    other = position / 10000 ** ((even + 1) / d_model)\n"),
        (STACKED, SINES_AND_COSINES),
        seen="maxjcohen/transformer #62; code in many ports",
    ),
    table_mistake(
        "exponent_doubled",
        "the column's number is doubled once more: 2i is the column of the sine already, "
        "and the cosine shares it",
        (POWER, "position / 10000 ** (2 * even / d_model)"),
        (ANGLES, ANGLES + "    other = position / 10000 ** (2 * (even + 1) / d_model)\n"),
        (STACKED, SINES_AND_COSINES),
        seen="SamLynnEvans/Transformer #7 and #25, Kyubyong/transformer #38, DeepCTR #379",
    ),
    table_mistake(
        "exponent_doubled_for_both",
        "the column's number is doubled once more: `arange(0, d_model, 2)` is 2i already",
        (POWER, "position / 10000 ** (2 * even / d_model)"),
    ),
    table_mistake(
        "exponent_halved",
        "the exponent is i / d_model instead of 2i / d_model, so no wave gets slow enough",
        (POWER, "position / 10000 ** (even / 2 / d_model)"),
    ),
    table_mistake(
        "exponent_multiplied",
        "the position is multiplied by 10000^(2i / d_model) instead of divided: the waves get "
        "faster from pair to pair",
        (POWER, "position * 10000 ** (even / d_model)"),
        seen="a comment in hkproj/pytorch-transformer that asks for it, issue #2",
    ),
    table_mistake(
        "parentheses_missing",
        "parentheses are missing: `10000 ** a / b` is (10000 ** a) / b",
        (POWER, "position / (10000**even / d_model)"),
        seen="Python's order of operations; of the same kind: zju3dv/LoFTR #41",
    ),
    table_mistake(
        "integer_division",
        "2i // d_model is 0 for every pair, so that all waves have the same frequency",
        (POWER, "position / 10000 ** (even // d_model)"),
        seen="Kyubyong/transformer pull request #81",
    ),
    table_mistake(
        "cosine_first",
        "the cosine stands before the sine",
        (STACKED, "torch.stack([angle.cos(), angle.sin()], dim=-1)"),
        seen="Open-Deep-ML/DML-OpenProblem pull request #595",
    ),
    table_mistake(
        "halves_concatenated",
        "all sines stand first and all cosines after them, instead of side by side in pairs",
        (STACKED, "torch.cat([angle.sin(), angle.cos()], dim=-1)"),
        seen="tensorflow/tensor2tensor #391, allenai/allennlp #2993, tensorflow/text #1122",
    ),
    table_mistake(
        "positions_from_one",
        "positions are counted from 1 instead of 0",
        (POSITION, "torch.arange(1, max_len + 1, dtype=torch.float64)"),
        seen="PrimeIntellect-ai/prime-rl pull request #1545 (found in review)",
    ),
    table_mistake(
        "odd_d_model_fails",
        "an odd d_model is forgotten: it has one cosine less than it has sines",
        (f"waves = {STACKED}", FILLED),
        (CUT, "waves"),
        seen="The Annotated Transformer; codertimo/BERT-pytorch #78, pytorch/pytorch #173958",
    ),
    table_mistake(
        "float64_kept",
        "the table is left in float64, and makes float64 of everything it is added to",
        (".to(torch.get_default_dtype())", ""),
        seen="ports from NumPy: Kyubyong/transformer #19",
    ),
    table_mistake(
        "base_1000",
        "the base of the frequencies is 1,000 instead of 10,000",
        ("10000 **", "1000 **"),
    ),
)

PLACED = "self.encoding[start:end]"
TOTAL = f"x + {PLACED}"
WHOLE = f"self.dropout({TOTAL})"

ADDED = (
    encoding(
        "cut_by_batch",
        "the table is cut to x.size(0), the number of sentences, instead of their length",
        (PLACED, "self.encoding[: x.size(0)]"),
        seen="tanjimin/C.Origami #42, KasperGroesLudvigsen/influenza_transformer #9",
    ),
    encoding(
        "added_along_batch",
        "rows are counted along the batch: all words of sentence 1 get the row of position 1",
        (PLACED, "self.encoding[: x.size(0)].unsqueeze(1)"),
        seen="AkiRusProd/numpy-transformer #1, cmu-l3/anlp-fall2025-code #1, songyangco/GETNext #2",
    ),
    encoding(
        "not_cut",
        "the whole table is added, also to a sentence that is shorter",
        (PLACED, "self.encoding"),
        seen="sktime/sktime pull request #9550 (found in review)",
    ),
    encoding(
        "in_place",
        "`x += …` adds in place, and changes the words of whoever called",
        (TOTAL, f"x.add_({PLACED})"),
        seen="thuanz123/enhancing-transformers #11",
    ),
    encoding(
        "dropout_always_on",
        "dropout is on in eval mode too: F.dropout does not know the mode, unless told so",
        (WHOLE, f"nn.functional.dropout(x + {PLACED}, self.dropout.p)"),
        seen="pytorch/pytorch #11999, delip/PyTorchNLPBook #28",
    ),
    encoding(
        "dropout_missing",
        "the argument dropout is not used",
        (WHOLE, f"x + {PLACED}"),
        seen="jadore801120/attention-is-all-you-need-pytorch #69",
    ),
    encoding(
        "length_first",
        "the table has the shape (L, 1, d_model), for tensors with the length first; "
        "ours are (B, L, d_model)",
        (PLACED, f"{PLACED}.unsqueeze(1)"),
        seen="NeuracoreAI/neuracore pull request #154; copies of PyTorch's old tutorial",
    ),
    encoding(
        "words_lost",
        "the rows are returned without the words: they replace x instead of being added",
        (TOTAL, f"{PLACED}.expand_as(x)"),
        seen="jiwidi/Behavior-Sequence-Transformer-Pytorch #4",
    ),
    encoding(
        "concatenated",
        "the rows are set beside the words, so that the vectors get twice as wide",
        (TOTAL, f"torch.cat([x, {PLACED}.expand_as(x)], dim=-1)"),
        seen="ml-explore/mlx #321, quanpn90/NMTGMinor #16",
    ),
    encoding(
        "words_scaled",
        "the words are multiplied by √d_model here; that is the embedding's part (chapter 09)",
        (TOTAL, f"x * x.size(-1) ** 0.5 + {PLACED}"),
        seen="khirotaka/SAnD #3, SamLynnEvans/Transformer #10",
    ),
    *ignored(encoding, ("start", (PLACED, "self.encoding[: x.size(-2)]"))),
)


TABLE = "sinusoidal_encoding(max_len, d_model)"
BUFFER = f'self.register_buffer("encoding", {TABLE}, persistent=False)'

MISTAKES = (
    *WAVES,
    *ADDED,
    encoding(
        "not_a_buffer",
        "the table is a plain attribute: .to() and .bfloat16() leave it behind",
        (BUFFER, f"self.encoding = {TABLE}"),
        seen="facebookresearch/fairseq pull request #5213, lyuwenyu/RT-DETR #677; d2l",
    ),
    encoding(
        "table_is_learned",
        "the table is an nn.Parameter, so that training changes the waves",
        (BUFFER, f"self.encoding = nn.Parameter({TABLE})"),
        seen="henry9zhr/QANet-pytorch #3, weihaosky/mogents #11, MONAI pull request #7564",
    ),
    encoding(
        "table_is_saved",
        "the table is saved with the weights: such a file fits one max_len only",
        (", persistent=False", ""),
        seen="The Annotated Transformer; espnet/espnet pull request #1060",
    ),
)


# right answers


def encoding_in_slices(max_len: int, d_model: int) -> Tensor:
    """Fill the even columns, then the odd ones, as the Annotated Transformer does."""
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def encoding_by_shifted_sines(max_len, d_model):
    """A cosine is a sine, a quarter of a turn ahead."""
    column = torch.arange(d_model)
    frequency = torch.pow(10000.0, -(column - column % 2) / d_model)
    return torch.sin(
        torch.outer(torch.arange(max_len).float(), frequency) + column % 2 * math.pi / 2
    )


class EncodingByLookup(nn.Module):
    """Look every place up."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=dropout)
        self.register_buffer("encoding", sinusoidal_encoding(max_len, d_model), False)

    def forward(self, words: Tensor, start: int = 0) -> Tensor:
        """Add one row after another."""
        places = torch.arange(start, start + words.size(1), device=words.device)
        return self.drop(F.embedding(places, self.encoding).expand_as(words).add(words))


class EncodingWithBatchAxis(nn.Module):
    """Take the Annotated Transformer's arguments, in its order; the table is saved."""

    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer("pe", encoding_in_slices(max_len, d_model).unsqueeze(0))

    def forward(self, x):
        """Add the first rows."""
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))


class EncodingOfD2l(nn.Module):
    """Keep the table as a plain attribute, and move it in ``forward``."""

    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = encoding_in_slices(max_len, num_hiddens)[None]

    def forward(self, X):
        """Add the first rows."""
        return self.dropout(X + self.P[:, : X.shape[1], :].to(X.device))


ANSWERS = {
    "sinusoidal_encoding": (encoding_by_shifted_sines, encoding_in_slices),
    "PositionalEncoding": (EncodingByLookup, EncodingWithBatchAxis, EncodingOfD2l),
}
