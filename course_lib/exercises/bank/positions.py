"""Exercises for chapter 03: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import keeps_still, survivors
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    D_K,
    B,
    T,
    Trial,
    as_trial,
    function_trial,
    module_trial,
    normal,
)
from course_lib.positions import sinusoidal_encoding

MAX_LEN = 9
BUILD = {"d_model": D_K, "max_len": MAX_LEN}
X = {"x": normal("x", B, T, D_K)}


def table(label: str, max_len: int, d_model: int) -> Trial:
    """Compare the table for a given size."""
    return function_trial(label, {"max_len": max_len, "d_model": d_model}, ("table",))


@as_trial(
    "the dtype of the table",
    "The table must have torch's default dtype, because it is added to vectors of that dtype.",
    kind="shape",
)
def kind(candidate: Callable[..., Tensor]) -> dict[str, str]:
    return {"dtype": str(candidate(T, D_K).dtype)}


@as_trial("float64 as torch's default dtype", "The table must have torch's default dtype.", "shape")
def double(candidate: Callable[..., Tensor]) -> dict[str, str]:
    torch.set_default_dtype(torch.float64)  # ``try_out`` restores it
    return {"dtype": str(candidate(T, D_K).dtype)}


@as_trial("the number of parameters", "Training must not change the encoding.", kind="parameters")
def learned(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    module = candidate(**BUILD)
    return {"parameters": sum(p.numel() for p in module.parameters() if p.requires_grad)}


@as_trial(
    "its state_dict", "Do not save the table, because it can be recomputed.", kind="parameters"
)
def saved(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    return {"saved tensors": len(candidate(**BUILD).state_dict())}


@as_trial(
    "a different dtype or device",
    "The table must move with the layer, as a buffer does. A plain attribute keeps its dtype and "
    "device.",
)
def moved(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    layer, x = candidate(**BUILD).eval(), X["x"]
    found = {"dtype after .bfloat16()": str(layer.bfloat16()(x.bfloat16()).dtype)}
    return found | {"device after .to('meta')": str(layer.to("meta")(x.to("meta")).device)}


@as_trial(
    "dropout=0.2 in training",
    "In training, dropout must drop each entry of the sum independently, and divide the remaining "
    "ones by 1 - dropout (§5.4).",
    kind="train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    words = (2 - sinusoidal_encoding(MAX_LEN, D_K)).repeat(4, 1, 1)
    output = candidate(**BUILD, dropout=0.2).train()(words).detach()
    return {"a sum of 2": survivors(output, "sentences", "positions", "features")}


SHAPES = {
    "sizes that differ": (B, T, D_K),
    "as many sentences as tokens": (T, T, D_K),
    "a sentence as long as the table": (B, MAX_LEN, D_K),
    "a single token": (B, 1, D_K),
}
SUM = [module_trial(label, BUILD, {"x": normal("x", *shape)}) for label, shape in SHAPES.items()]


EXERCISES = (
    Exercise(
        "sinusoidal_encoding",
        15,
        core={
            "formula": (
                table("sizes that differ", 5, 4),  # small: rounding errors grow with the angle
                table("as many positions as columns", 4, 4),
                table("ten columns", 4, 10),
                kind,
            )
        },
        formula="In row p, columns 2i and 2i + 1 are the sine and the cosine of p / "
        "10000^(2i/d_model).",
        hints=(
            "Compute one angle for each position and each *pair* of columns. Put the positions in "
            "a column of shape `(max_len, 1)` and one frequency per pair in a row, and let "
            "broadcasting combine them.",
            "`torch.arange(0, d_model, 2)` gives the 2i in the formula. Divide the position by "
            "10000 ** (2i / d_model).",
            "`torch.stack([angle.sin(), angle.cos()], dim=-1)` puts each cosine next to its sine, "
            "and `flatten(1)` joins the pairs into a row. For an odd `d_model`, cut off the last "
            "column.",
        ),
        extras={
            "odd width": (table("an odd d_model", MAX_LEN, 5), table("d_model=1", T, 1)),
            "float64": (table("50,000 positions", 50_000, 10), double),
        },
        rejects=("(0, 4)", "(3, 0)"),
    ),
    Exercise(
        "PositionalEncoding",
        10,
        core={"sum": SUM, "not learned": (learned,)},
        extras={
            "dropout": (dropped, keeps_still(BUILD, X, dropout=0.5)),
            "start": (module_trial("start=3", BUILD, X, options={"start": 3}),),
            "device": (moved,),
            "saved file": (saved,),
        },
        formula="Token t of every sentence gets row start + t of the table, which is added once.",
        hints=(
            "Compute the table once, in `__init__`, and keep it as a *buffer*, which moves with "
            "the layer but is not learned. In what order does `sinusoidal_encoding` take the "
            "two sizes?",
            "Call `self.register_buffer('encoding', table, persistent=False)`. With "
            "`persistent=False`, the table is not saved.",
            "In `forward`, cut the table to the length of the sentence, `x.size(-2)`. Broadcasting "
            "adds the table's rows to every sentence. Apply dropout to the sum.",
        ),
        rejects=(
            "(0, 3)",
            "(4, 3)(torch.ones(1, 5, 4))",
            "(4, 3)(torch.ones(1, 2, 4), start=2)",
            "(4, 3)(torch.ones(1, 2, 1))",
        ),
    ),
)


# known mistakes


POWER = "position / 10000 ** (even / d_model)"
STACKED = "torch.stack([angle.sin(), angle.cos()], dim=-1)"
CUT = "waves.flatten(1)[:, :d_model].to(torch.get_default_dtype())"
SINES_AND_COSINES = "torch.stack([angle.sin(), other.cos()], dim=-1)"
ANGLES = "  # (max_len, ceil(d_model / 2))\n"
FILLED = """waves = torch.zeros(max_len, d_model)
    waves[:, 0::2] = angle.sin()
    waves[:, 1::2] = angle.cos()"""
PLACED = "self.encoding[start:end]"
TOTAL = f"x + {PLACED}"
WHOLE = f"self.dropout({TOTAL})"
TABLE = "sinusoidal_encoding(max_len, d_model)"
BUFFER = f'self.register_buffer("encoding", {TABLE}, persistent=False)'

MISTAKES = {
    "sinusoidal_encoding": {
        "exponent_unpaired: the cosine of a pair uses the exponent of its own column instead of "
        "the sine's, so every column has a different frequency [maxjcohen/transformer #62]": (
            (ANGLES, ANGLES + "    other = position / 10000 ** ((even + 1) / d_model)\n"),
            (STACKED, SINES_AND_COSINES),
        ),
        "exponent_doubled: the column index is doubled, but 2i is already the column of the sine, "
        "and the cosine next to it uses the same exponent [SamLynnEvans/Transformer #7 and #25, "
        "Kyubyong/transformer #38, shenweichen/DeepCTR #379]": (
            (POWER, "position / 10000 ** (2 * even / d_model)"),
            (ANGLES, ANGLES + "    other = position / 10000 ** (2 * (even + 1) / d_model)\n"),
            (STACKED, SINES_AND_COSINES),
        ),
        "exponent_doubled_for_both: the column index is doubled, but `arange(0, d_model, 2)` is "
        "already 2i": (POWER, "position / 10000 ** (2 * even / d_model)"),
        "exponent_halved: the exponent is i / d_model instead of 2i / d_model, so all waves except "
        "the first are too fast": (POWER, "position / 10000 ** (even / 2 / d_model)"),
        "exponent_multiplied: the position is multiplied by 10000^(2i / d_model) instead of "
        "divided by it, so "
        "the waves get faster from pair to pair": (POWER, "position * 10000 ** (even / d_model)"),
        "parentheses_missing: parentheses are missing, so Python reads `10000 ** a / b` as (10000 "
        "** a) / b [zju3dv/LoFTR #41]": (POWER, "position / (10000**even / d_model)"),
        "integer_division: the exponent is 2i // d_model, which is 0 for every pair, so all waves "
        "have the same frequency "
        "[Kyubyong/transformer pull request #81]": (POWER, "position / 10000 ** (even // d_model)"),
        "sine_in_both: both columns of a pair are the sine, but the second is the cosine": (
            STACKED,
            STACKED.replace("cos", "sin"),
        ),
        "cosine_first: the cosine comes before the sine in each pair [Open-Deep-ML/DML-OpenProblem "
        "pull request #595]": (STACKED, "torch.stack([angle.cos(), angle.sin()], dim=-1)"),
        "halves_concatenated: all sines come first and all cosines after them, but each cosine "
        "belongs next to its sine [tensorflow/tensor2tensor #391, allenai/allennlp #2993, "
        "tensorflow/text #1122]": (STACKED, "torch.cat([angle.sin(), angle.cos()], dim=-1)"),
        "positions_from_one: the positions are counted from 1 instead of 0 "
        "[PrimeIntellect-ai/prime-rl "
        "pull request #1545]": ("torch.arange(max_len, ", "torch.arange(1, max_len + 1, "),
        "odd_d_model_fails: the code does not handle an odd d_model, which needs one more column "
        "of sines than of cosines [The Annotated Transformer; codertimo/BERT-pytorch #78, "
        "pytorch/pytorch #173958]": ((f"waves = {STACKED}", FILLED), (CUT, "waves")),
        "float64_kept: the table stays in float64, so everything that it is added to becomes "
        "float64 as well [Kyubyong/transformer #19]": (".to(torch.get_default_dtype())", ""),
        "always_float32: the table is converted to float32 instead of to torch's default dtype, "
        "`torch.get_default_dtype()`": (".to(torch.get_default_dtype())", ".float()"),
        "angles_in_float32: the angles are computed in float32, which is too coarse for thousands "
        "of positions": (", dtype=torch.float64", ""),
        "base_1000: the base of the frequencies is 1,000 instead of 10,000": (
            "10000 **",
            "1000 **",
        ),
    },
    "PositionalEncoding": {
        "cut_by_batch: the table is cut to x.size(0), the number of sentences, instead of the "
        "sentence length [tanjimin/C.Origami #42, "
        "KasperGroesLudvigsen/influenza_transformer #9]": (PLACED, "self.encoding[: x.size(0)]"),
        "added_along_batch: positions are counted along the batch axis, so all tokens of sentence "
        "1 get the row for position 1 [AkiRusProd/numpy-transformer #1, "
        "cmu-l3/anlp-fall2025-code #1, "
        "songyangco/GETNext #2]": (PLACED, "self.encoding[: x.size(0)].unsqueeze(1)"),
        "not_cut: the whole table is added, even if the sentence is shorter [sktime/sktime pull "
        "request #9550]": (PLACED, "self.encoding"),
        "in_place: `x += …` adds in place, which changes the caller's tensor "
        "[thuanz123/enhancing-transformers #11]": (TOTAL, f"x.add_({PLACED})"),
        "dropout_always_on: F.dropout is called without training=self.training, so it is also "
        "active in eval mode [pytorch/pytorch #11999, delip/PyTorchNLPBook #28]": (
            WHOLE,
            f"nn.functional.dropout(x + {PLACED}, self.dropout.p)",
        ),
        "dropout_missing: the argument `dropout` is not used "
        "[jadore801120/attention-is-all-you-need-pytorch #69]": (WHOLE, f"x + {PLACED}"),
        "length_first: the table has the shape (L, 1, d_model), but this course uses (B, L, "
        "d_model) [NeuracoreAI/neuracore pull request #154]": (PLACED, f"{PLACED}.unsqueeze(1)"),
        "words_lost: the rows of the table replace x instead of being added to it "
        "[jiwidi/Behavior-Sequence-Transformer-Pytorch #4]": (TOTAL, f"{PLACED}.expand_as(x)"),
        "table_returned: the rows of the table are returned, and x is not used": (TOTAL, PLACED),
        "concatenated: the rows are concatenated with the vectors, which become twice as wide "
        "[ml-explore/mlx "
        "#321, quanpn90/NMTGMinor #16]": (TOTAL, f"torch.cat([x, {PLACED}.expand_as(x)], dim=-1)"),
        "words_scaled: x is multiplied by √d_model here, but that step belongs with the embedding "
        "(chapter 09) [khirotaka/SAnD "
        "#3, SamLynnEvans/Transformer #10]": (TOTAL, f"x * x.size(-1) ** 0.5 + {PLACED}"),
        "end_without_start: the slice of the table ends at the sentence length, but it should end "
        "at `start` plus the length": ("end = start + x", "end = x"),
        **ignored(("start", (PLACED, "self.encoding[: x.size(-2)]"))),
        "not_a_buffer: the table is a plain attribute, so .to() and .bfloat16() do not convert it "
        "[facebookresearch/fairseq "
        "pull request #5213, lyuwenyu/RT-DETR #677]": (BUFFER, f"self.encoding = {TABLE}"),
        "table_is_learned: the table is an nn.Parameter, so training changes it "
        "[henry9zhr/QANet-pytorch #3, weihaosky/mogents #11, "
        "Project-MONAI/MONAI pull request #7564]": (
            BUFFER,
            f"self.encoding = nn.Parameter({TABLE})",
        ),
        "table_is_saved: the table is saved with the weights, so the file fits only one max_len "
        "[The Annotated Transformer; espnet/espnet pull request #1060]": (", persistent=False", ""),
    },
}


# right answers

ANSWERS = {
    "PositionalEncoding": {
        "by_lookup: the row for each position is looked up, as in an embedding": (
            (PLACED, "F.embedding(torch.arange(start, end, device=x.device), self.encoding)"),
            ("self.dropout", "self.drop"),
        ),
    },
}
