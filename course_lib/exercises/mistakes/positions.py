"""What goes wrong in chapter 03."""

from course_lib.exercises.mistake_catalogue import ignored, known

table = known("positions", "sinusoidal_encoding")
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
        "exponent_doubled_for_both",
        "the column's number is doubled once more: `arange(0, d_model, 2)` is 2i already",
        "student code: the paper's 2i beside an arange in steps of 2",
        (POWER, "position / 10000 ** (2 * even / d_model)"),
    ),
    table(
        "exponent_halved",
        "the exponent is i / d_model instead of 2i / d_model, so no wave gets slow enough",
        "arange(d_model // 2) taken for 2i",
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
        "parentheses_missing",
        "parentheses are missing: `10000 ** a / b` is (10000 ** a) / b",
        "Python's order of operations; of the same kind: zju3dv/LoFTR #41",
        (POWER, "position / (10000**even / d_model)"),
    ),
    table(
        "integer_division",
        "2i // d_model is 0 for every pair, so that all waves have the same frequency",
        "Kyubyong/transformer pull request #81",
        (POWER, "position / 10000 ** (even // d_model)"),
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
        "positions_from_one",
        "positions are counted from 1 instead of 0",
        "PrimeIntellect-ai/prime-rl pull request #1545 (found in review)",
        (POSITION, "torch.arange(1, max_len + 1, dtype=torch.float64)"),
    ),
    table(
        "odd_d_model_fails",
        "an odd d_model is forgotten: it has one cosine less than it has sines",
        "The Annotated Transformer; codertimo/BERT-pytorch #78, pytorch/pytorch #173958",
        (f"waves = {STACKED}", FILLED),
        (CUT, "waves"),
    ),
    table(
        "float64_kept",
        "the table is left in float64, and makes float64 of everything it is added to",
        "ports from NumPy: Kyubyong/transformer #19",
        (".to(torch.get_default_dtype())", ""),
    ),
)

PLACED = "self.encoding[start:end]"
TOTAL = f"x + {PLACED}"
WHOLE = f"self.dropout({TOTAL})"

ADDED = (
    encoding(
        "cut_by_batch",
        "the table is cut to x.size(0), the number of sentences, instead of their length",
        "tanjimin/C.Origami #42, KasperGroesLudvigsen/influenza_transformer #9",
        (PLACED, "self.encoding[: x.size(0)]"),
    ),
    encoding(
        "added_along_batch",
        "rows are counted along the batch: all words of sentence 1 get the row of position 1",
        "AkiRusProd/numpy-transformer #1, cmu-l3/anlp-fall2025-code #1, songyangco/GETNext #2",
        (PLACED, "self.encoding[: x.size(0)].unsqueeze(1)"),
    ),
    encoding(
        "not_cut",
        "the whole table is added, also to a sentence that is shorter",
        "sktime/sktime pull request #9550 (found in review)",
        (PLACED, "self.encoding"),
    ),
    encoding(
        "in_place",
        "`x += …` adds in place, and changes the words of whoever called",
        "thuanz123/enhancing-transformers #11",
        (TOTAL, f"x.add_({PLACED})"),
    ),
    encoding(
        "dropout_always_on",
        "dropout is on in eval mode too: F.dropout does not know the mode, unless told so",
        "pytorch/pytorch #11999, delip/PyTorchNLPBook #28",
        (WHOLE, f"nn.functional.dropout(x + {PLACED}, self.dropout.p)"),
    ),
    encoding(
        "dropout_missing",
        "the argument dropout is not used",
        "jadore801120/attention-is-all-you-need-pytorch #69",
        (WHOLE, f"x + {PLACED}"),
    ),
    encoding(
        "length_first",
        "the table has the shape (L, 1, d_model), for tensors with the length first; "
        "ours are (B, L, d_model)",
        "NeuracoreAI/neuracore pull request #154; copies of PyTorch's old tutorial",
        (PLACED, f"{PLACED}.unsqueeze(1)"),
    ),
    encoding(
        "words_lost",
        "the rows are returned without the words: they replace x instead of being added",
        "jiwidi/Behavior-Sequence-Transformer-Pytorch #4",
        (TOTAL, f"{PLACED}.expand_as(x)"),
    ),
    encoding(
        "concatenated",
        "the rows are set beside the words, so that the vectors get twice as wide",
        "ml-explore/mlx #321, quanpn90/NMTGMinor #16",
        (TOTAL, f"torch.cat([x, {PLACED}.expand_as(x)], dim=-1)"),
    ),
    encoding(
        "words_scaled",
        "the words are multiplied by √d_model here; that is the embedding's part (chapter 09)",
        "khirotaka/SAnD #3, SamLynnEvans/Transformer #10",
        (TOTAL, f"x * x.size(-1) ** 0.5 + {PLACED}"),
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
        "facebookresearch/fairseq pull request #5213, lyuwenyu/RT-DETR #677; d2l",
        (BUFFER, f"self.encoding = {TABLE}"),
    ),
    encoding(
        "table_is_learned",
        "the table is an nn.Parameter, so that training changes the waves",
        "henry9zhr/QANet-pytorch #3, weihaosky/mogents #11, MONAI pull request #7564",
        (BUFFER, f"self.encoding = nn.Parameter({TABLE})"),
    ),
    encoding(
        "table_is_saved",
        "the table is saved with the weights: such a file fits one max_len only",
        "The Annotated Transformer; espnet/espnet pull request #1060",
        (", persistent=False", ""),
    ),
)
