"""What goes wrong with chapter 19's rotation."""

from course_lib.exercises.mistake_catalogue import known

turn = known("modern_decoder", "apply_rope")

LAST = "T, d_k = x.shape[-2:]"
ODD = "if d_k % 2:"
TABLE = "sinusoidal_encoding(start + T, d_k)[start:].to(x)"
SINES = "sine = waves[:, 0::2]  # (T, d_k / 2)\n    cosine = waves[:, 1::2]  # (T, d_k / 2)"
COLUMNS = "even = x[..., 0::2]  # (..., T, d_k / 2)\n    odd = x[..., 1::2]  # (..., T, d_k / 2)"
HALVES = "even, odd = x.chunk(2, dim=-1)"
ONE, OTHER = "even * cosine - odd * sine", "even * sine + odd * cosine"
TURNED = f"turned = [{ONE}, {OTHER}]"
BACK = "torch.stack(turned, dim=-1).flatten(-2)"
TWICE = "waves[:, 0::2].repeat_interleave(2, -1), waves[:, 1::2].repeat_interleave(2, -1)"
AXES = "waves[:, None, 0::2], waves[:, None, 1::2]"


def angles(expression: str) -> tuple[str, str]:
    """Edit the angles; ``place`` counts positions, ``i`` pairs."""
    lines = (
        "place = torch.arange(start, start + T).unsqueeze(1)",
        "i = torch.arange(d_k // 2)",
        f"angle = {expression}",
        "sine, cosine = angle.sin(), angle.cos()",
    )
    return SINES, "\n    ".join(lines)


MISTAKES = (
    turn(
        "halves_paired",
        "columns i and i + d_k / 2 are the pairs, as in GPT-NeoX: that works as well, but not with "
        "weights that were trained the other way; here columns 2i and 2i + 1 are",
        "EleutherAI/gpt-neox #834, keras-team/keras-hub #1416, karpathy/nanochat #264",
        (COLUMNS, HALVES),
        (BACK, "torch.cat(turned, dim=-1)"),
    ),
    turn(
        "halves_paired_columns_interleaved",
        "the two halves are the pairs on the way in, and neighbours on the way out",
        "student code: chunk(2), and then stack",
        (COLUMNS, HALVES),
    ),
    turn(
        "turned_columns_in_halves",
        "the pairs are turned well and laid out in two halves: stack, not cat, puts the two of a "
        "pair side by side again",
        "student code: cat of the even and the odd columns",
        (BACK, "torch.cat(turned, dim=-1)"),
    ),
    turn(
        "halves_turned_by_angles_of_pairs",
        "the angles are laid out for neighbours, and halves are turned by them: one of a pair gets "
        "another angle than the other",
        "raiyanyahya/how-to-train-your-gpt #6",
        (SINES, f"sine, cosine = {TWICE}"),
        (COLUMNS, "low, high = x.chunk(2, dim=-1)\n    half = torch.cat([-high, low], dim=-1)"),
        (TURNED, "turned = x * cosine + half * sine"),
        (BACK, "turned"),
    ),
    turn(
        "pairs_turned_by_angles_of_halves",
        "the angles are laid out for halves, and neighbours are turned by them: one of a pair gets "
        "another angle than the other",
        "huggingface/transformers #47328",
        (SINES, "sine, cosine = waves[:, 0::2].repeat(1, 2), waves[:, 1::2].repeat(1, 2)"),
        (COLUMNS, "half = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)"),
        (TURNED, "turned = x * cosine + half * sine"),
        (BACK, "turned"),
    ),
    turn(
        "turned_back",
        "every pair is turned the other way round: that works as well, but here it is "
        "(a · cos - b · sin, a · sin + b · cos)",
        "karpathy/nanochat #489, trymirai/lalamo #268",
        (ONE, "even * cosine + odd * sine"),
        (OTHER, "odd * cosine - even * sine"),
    ),
    turn(
        "first_sign_lost",
        "the minus is missing in the first of the two: that is no rotation",
        "student code",
        (ONE, "even * cosine + odd * sine"),
    ),
    turn(
        "second_sign_turned",
        "there is a minus in the second of the two as well: that is a reflection of some sort, "
        "and no rotation",
        "student code",
        (OTHER, "even * sine - odd * cosine"),
    ),
    turn(
        "sine_and_cosine_exchanged",
        "sine and cosine have changed places: in chapter 03's table the sine stands first",
        "student code",
        (SINES, "cosine, sine = waves[:, 0::2], waves[:, 1::2]"),
    ),
    turn(
        "first_used_for_the_second",
        "the second of a pair is computed from the first one's new value",
        "a rotation elsewhere: DaVikingCode/Citrus-Engine #108",
        (COLUMNS, f"{COLUMNS}\n    even = {ONE}"),
        (TURNED, f"turned = [even, {OTHER}]"),
    ),
    turn(
        "one_column_for_both",
        "both terms of the second formula, or of the first, read the same column",
        "a rotation elsewhere: blurymind/1dollar_gesture_recogniser #5",
        (ONE, "even * cosine - even * sine"),
        (OTHER, "odd * sine + odd * cosine"),
    ),
    turn(
        "start_ignored",
        "`start` is ignored: every call begins at position 0, and a cache would be wrong",
        "lucidrains/rotary-embedding-torch #11, pytorch/executorch #2010",
        (TABLE, "sinusoidal_encoding(T, d_k).to(x)"),
    ),
    turn(
        "table_too_short",
        "the table has T rows and is cut at `start`: it must reach to start + T",
        "student code",
        (TABLE, "sinusoidal_encoding(T, d_k)[start:].to(x)"),
    ),
    turn(
        "rows_from_the_top",
        "the table is long enough, and its first rows are taken instead of those from `start` on",
        "student code: table[:T]",
        (TABLE, "sinusoidal_encoding(start + T, d_k)[:T].to(x)"),
        tells=r"\[ *: *T *\]",
    ),
    turn(
        "all_rows_at_the_start",
        "all rows are turned by the angle of `start`: each has a position of its own",
        "student code, tried with one row only",
        (TABLE, "sinusoidal_encoding(start + T, d_k)[start : start + 1].to(x)"),
    ),
    turn(
        "positions_from_one",
        "positions are counted from 1: the first row is not to be turned at all",
        "student code: arange(1, T + 1)",
        (TABLE, "sinusoidal_encoding(start + T + 1, d_k)[start + 1 :].to(x)"),
    ),
    turn(
        "along_the_heads",
        "positions run along the axis of the heads, the last but two: the tokens of a head are all "
        "turned alike",
        "facebookresearch/xformers #841, mlfoundations/open_lm #4, elixir-nx/emlx #121",
        (LAST, "T, d_k = x.shape[-3], x.shape[-1]"),
        (SINES, f"sine, cosine = {AXES}"),
    ),
    turn(
        "along_the_batch",
        "positions run along the first axis, from sentence to sentence",
        "PaddlePaddle/PaddleFleet #91",
        (LAST, "T, d_k = x.size(0), x.size(-1)"),
        (TABLE, f"{TABLE}\n    waves = waves.view(T, *[1] * (x.dim() - 2), d_k)"),
        (SINES, "sine, cosine = waves[..., 0::2], waves[..., 1::2]"),
    ),
    turn(
        "exponent_halved",
        "the exponent is i / d_k instead of 2i / d_k: no pair gets slow enough",
        "proposed in rasbt/LLMs-from-scratch #410; asked in hkproj/pytorch-llama #3",
        angles("place / 10000 ** (i / d_k)"),
    ),
    turn(
        "exponent_doubled",
        "the exponent is 4i / d_k: what counts 0, 2, 4, … is 2i already",
        "student code: 2 * arange(0, d_k, 2)",
        angles("place / 10000 ** (4 * i / d_k)"),
    ),
    turn(
        "pairs_from_minus_one",
        "the exponent is 2(i - 1) / d_k with i from 0: the paper counts its pairs from 1",
        "bkitano/llama-from-scratch #8",
        angles("place / 10000 ** (2 * (i - 1) / d_k)"),
    ),
    turn(
        "pairs_from_one",
        "the exponent is 2i / d_k with i from 1: the first pair turns by 1 at every step",
        "student code; a formula that counts from 1: stanford-cs336/assignment1-basics #22",
        angles("place / 10000 ** (2 * (i + 1) / d_k)"),
    ),
    turn(
        "exponent_multiplied",
        "the position is multiplied by 10000^(2i / d_k): a minus in the exponent is missing",
        "labmlai/annotated_deep_learning_paper_implementations #313; xlite-dev/LeetCUDA #289",
        angles("place * 10000 ** (2 * i / d_k)"),
    ),
    turn(
        "base_1000",
        "the base is 1000 instead of 10000",
        "a wrong base: Zymrael/vortex #73",
        angles("place / 1000 ** (2 * i / d_k)"),
    ),
    turn(
        "one_angle_for_all_pairs",
        "all pairs are turned by the same angle: each is slower than the one before",
        "student code",
        angles("place + 0 * i"),
    ),
    turn(
        "angle_of_each_column",
        "every column has an angle of its own: the two of a pair share one",
        "student code: arange(d_k) in the exponent",
        angles("place / 10000 ** (torch.arange(d_k) / d_k)"),
        (ONE, "even * cosine[:, 0::2] - odd * sine[:, 0::2]"),
        (OTHER, "even * sine[:, 1::2] + odd * cosine[:, 1::2]"),
    ),
    turn(
        "positions_divided",
        "positions are divided by the number of rows: the angle of a place changes with the length",
        "student code",
        angles("place / T / 10000 ** (2 * i / d_k)"),
    ),
    turn(
        "code_added",
        "the table is added, as in chapter 03: here a pair is turned",
        "chapter 03's way",
        (BACK, "x + waves"),
    ),
    turn(
        "multiplied_by_the_table",
        "x is multiplied by the table, column by column: the two of a pair must mix",
        "student code",
        (BACK, "x * waves"),
    ),
    turn(
        "nothing_turned",
        "x comes back as it was",
        "student code: what is computed is not returned",
        (BACK, "x"),
    ),
    turn(
        "half_of_the_columns",
        "only the first half of the columns is turned: here all are",
        "GPT-J and GPT-NeoX turn a part of them, on purpose",
        (BACK, f"torch.cat([{BACK}[..., : d_k // 2], x[..., d_k // 2 :]], dim=-1)"),
    ),
    turn(
        "in_place",
        "x itself is overwritten: the caller's queries change",
        "student code: x[..., 0::2] = …",
        (f"return {BACK}", "x[..., 0::2], x[..., 1::2] = turned\n    return x"),
    ),
    turn(
        "odd_width_accepted",
        "an odd width gets no ValueError, and fails later with other words",
        "huggingface/transformers #48101, lucidrains/rotary-embedding-torch #45",
        (ODD, "if False:"),
    ),
    turn(
        "odd_column_left_over",
        "the last column of an odd width is passed on as it is: that needs a ValueError",
        "student code",
        (ODD, "if False:"),
        (COLUMNS, "even, odd = x[..., : d_k - d_k % 2][..., 0::2], x[..., 1::2]"),
        (SINES, "sine, cosine = waves[:, : d_k - d_k % 2][:, 0::2], waves[:, 1::2]"),
        (BACK, f"torch.cat([{BACK}, x[..., d_k - d_k % 2 :]], dim=-1)"),
    ),
)
