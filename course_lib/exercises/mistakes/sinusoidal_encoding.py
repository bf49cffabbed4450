"""What goes wrong with chapter 03's table of waves."""

from course_lib.exercises.mistake_catalogue import known

table = known("positions", "sinusoidal_encoding")

POSITION = "torch.arange(max_len, dtype=torch.float64)"
POWER = "position / 10000 ** (even / d_model)"
STACKED = "torch.stack([angle.sin(), angle.cos()], dim=-1)"
CUT = "waves.flatten(1)[:, :d_model].to(torch.get_default_dtype())"
SINES_AND_COSINES = "torch.stack([angle.sin(), other.cos()], dim=-1)"
ANGLES = "  # (max_len, ceil(d_model / 2))\n"
FILLED = """waves = torch.zeros(max_len, d_model)
    waves[:, 0::2] = angle.sin()
    waves[:, 1::2] = angle.cos()"""

MISTAKES = (
    table(
        "exponent_unpaired",
        "every column has a frequency of its own: the cosine of a pair takes the exponent of its "
        "own column instead of its sine's",
        "maxjcohen/transformer #62; code in many ports",
        (ANGLES, ANGLES + "    other = position / 10000 ** ((even + 1) / d_model)\n"),
        (STACKED, SINES_AND_COSINES),
    ),
    table(
        "exponent_doubled",
        "the column's number is doubled once more: 2i is the column of the sine already, "
        "and the cosine shares it",
        "SamLynnEvans/Transformer #7 and #25, Kyubyong/transformer #38, DeepCTR #379",
        (POWER, "position / 10000 ** (2 * even / d_model)"),
        (ANGLES, ANGLES + "    other = position / 10000 ** (2 * (even + 1) / d_model)\n"),
        (STACKED, SINES_AND_COSINES),
    ),
    table(
        "exponent_doubled_in_pairs",
        "the exponent is twice too large: what counts 0, 2, 4, … is 2i, and not i",
        "ports of the loop in SamLynnEvans/Transformer, half mended",
        (POWER, "position / 10000 ** (2 * even / d_model)"),
    ),
    table(
        "exponent_halved",
        "the exponent is i / d_model instead of 2i / d_model, so no wave gets slow enough",
        "student code",
        (POWER, "position / 10000 ** (even / 2 / d_model)"),
    ),
    table(
        "exponent_multiplied",
        "the position is multiplied by 10000^(2i / d_model) instead of divided: the waves get "
        "faster from pair to pair",
        "a comment in hkproj/pytorch-transformer that asks for it, issue #2",
        (POWER, "position * 10000 ** (even / d_model)"),
    ),
    table(
        "exponent_without_d_model",
        "the exponent is 2i, not divided by d_model: after the first pair nothing moves",
        "student code",
        (POWER, "position / 10000**even"),
    ),
    table(
        "parentheses_missing",
        "parentheses are missing: `10000 ** a / b` is (10000 ** a) / b",
        "a mistake of the same kind: zju3dv/LoFTR #41",
        (POWER, "position / (10000**even / d_model)"),
    ),
    table(
        "integer_division",
        "2i // d_model is 0 for every pair, so that all waves have the same frequency",
        "Kyubyong/transformer pull request #81",
        (POWER, "position / 10000 ** (even // d_model)"),
    ),
    table(
        "base_1000",
        "the base is 1000 instead of 10000",
        "maxjcohen/transformer #62",
        ("10000 **", "1000 **"),
    ),
    table(
        "cosine_first",
        "the cosine stands before the sine",
        "Open-Deep-ML/DML-OpenProblem pull request #595",
        (STACKED, "torch.stack([angle.cos(), angle.sin()], dim=-1)"),
    ),
    table(
        "halves_concatenated",
        "all sines stand first and all cosines after them, instead of side by side in pairs",
        "tensorflow/tensor2tensor #391, allenai/allennlp #2993, tensorflow/text #1122",
        (STACKED, "torch.cat([angle.sin(), angle.cos()], dim=-1)"),
    ),
    table(
        "halves_concatenated_uncut",
        "all sines stand first and all cosines after them, and an odd width gets a column too many",
        "kimiyoung/transformer-xl #119, tatp22/multidim-positional-encoding #20",
        (STACKED, "torch.cat([angle.sin(), angle.cos()], dim=-1)"),
        ("[:, :d_model]", ""),
    ),
    table(
        "sines_only",
        "both columns of a pair hold the sine",
        "student code",
        (STACKED, "torch.stack([angle.sin(), angle.sin()], dim=-1)"),
    ),
    table(
        "positions_from_one",
        "positions are counted from 1 instead of 0",
        "PrimeIntellect-ai/prime-rl pull request #1545 (found in review)",
        (POSITION, "torch.arange(1, max_len + 1, dtype=torch.float64)"),
    ),
    table(
        "positions_divided",
        "positions are divided by the length of the table, so that the same place has another "
        "code in every table",
        "student code",
        (POSITION, "torch.linspace(0, 1, max_len, dtype=torch.float64)"),
    ),
    table(
        "table_turned",
        "positions and columns have changed places",
        "antoniorv6/SMT pull request #6",
        (CUT, f"{CUT}.T"),
    ),
    table(
        "odd_d_model_fails",
        "an odd d_model is forgotten: it has one cosine less than it has sines",
        "codertimo/BERT-pytorch #78, pytorch/pytorch pull request #173958",
        (f"waves = {STACKED}", FILLED),
        (CUT, "waves"),
    ),
    table(
        "odd_d_model_too_wide",
        "an odd d_model gets one column too many: the last cosine has to be cut off",
        "student code",
        ("[:, :d_model]", ""),
    ),
    table(
        "odd_d_model_column_empty",
        "the last column of an odd d_model stays 0: it has a sine, though no cosine follows",
        "loops over d_model // 2",
        (CUT, "F.pad(waves.flatten(1)[:, : d_model // 2 * 2], (0, d_model % 2)).float()"),
    ),
    table(
        "float64_kept",
        "the table is left in float64, and makes float64 of everything it is added to",
        "ports from NumPy: Kyubyong/transformer #19",
        (".to(torch.get_default_dtype())", ""),
    ),
)
