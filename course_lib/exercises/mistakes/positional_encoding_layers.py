"""What goes wrong when rows are added to words, computed or learned: chapter 03's two layers."""

from collections.abc import Callable

from course_lib.exercises.mistake_catalogue import Mistake

PLACED = "ROWS[start:end]"  # ROWS stands for self.encoding or self.weight
TOTAL = f"x + {PLACED}"
WHOLE = f"self.dropout({TOTAL})"

IN_EITHER = (
    (
        "cut_by_batch",
        "the table is cut to x.size(0), the number of sentences, instead of their length",
        "tanjimin/C.Origami #42, KasperGroesLudvigsen/influenza_transformer #9",
        PLACED,
        "ROWS[: x.size(0)]",
    ),
    (
        "added_along_batch",
        "rows are counted along the batch: all words of sentence 1 get the row of position 1",
        "AkiRusProd/numpy-transformer #1, cmu-l3/anlp-fall2025-code #1, songyangco/GETNext #2",
        PLACED,
        "ROWS[: x.size(0)].unsqueeze(1)",
    ),
    (
        "length_first",
        "the table has the shape (L, 1, d_model), for tensors with the length first; "
        "ours are (B, L, d_model)",
        "NeuracoreAI/neuracore pull request #154; copies of PyTorch's old tutorial",
        PLACED,
        f"{PLACED}.unsqueeze(1)",
    ),
    (
        "not_cut",
        "the whole table is added, also to a sentence that is shorter",
        "sktime/sktime pull request #9550 (found in review)",
        PLACED,
        "ROWS",
    ),
    (
        "colon_missing",
        "a colon is missing: `[n]` is row n alone, and every word gets it; `[:n]` is n rows",
        "DiffPoseTalk/DiffPoseTalk #20",
        PLACED,
        "ROWS[x.size(-2)]",
    ),
    (
        "words_lost",
        "the rows are returned without the words: they replace x instead of being added",
        "jiwidi/Behavior-Sequence-Transformer-Pytorch #4",
        TOTAL,
        PLACED,
    ),
    (
        "multiplied",
        "words and rows are multiplied instead of added",
        "student code",
        TOTAL,
        f"x * {PLACED}",
    ),
    (
        "concatenated",
        "the rows are set beside the words, so that the vectors get twice as wide",
        "ml-explore/mlx #321, quanpn90/NMTGMinor #16",
        TOTAL,
        f"torch.cat([x, {PLACED}.expand_as(x)], dim=-1)",
    ),
    (
        "words_scaled",
        "the words are multiplied by √d_model here; that is the embedding's part (chapter 09)",
        "khirotaka/SAnD #3, SamLynnEvans/Transformer #10",
        TOTAL,
        f"x * x.size(-1) ** 0.5 + {PLACED}",
    ),
    (
        "in_place",
        "`x += …` adds in place, and changes the words of whoever called",
        "thuanz123/enhancing-transformers #11",
        TOTAL,
        f"x.add_({PLACED})",
    ),
    (
        "dropout_always_on",
        "dropout is on in eval mode too: F.dropout does not know the mode, unless told so",
        "pytorch/pytorch #11999, delip/PyTorchNLPBook #28",
        WHOLE,
        f"nn.functional.dropout(x + {PLACED}, self.dropout.p)",
    ),
    (
        "dropout_on_rows",
        "dropout acts on the rows only, not on the sum",
        "EleutherAI/gpt-neo, as told in rasbt/LLMs-from-scratch pull request #50",
        WHOLE,
        f"x + self.dropout({PLACED})",
    ),
    (
        "dropout_on_words",
        "dropout acts on the words only, before the rows are added",
        "student code",
        WHOLE,
        f"self.dropout(x) + {PLACED}",
    ),
    (
        "dropout_missing",
        "the argument dropout is not used",
        "jadore801120/attention-is-all-you-need-pytorch #69",
        WHOLE,
        f"x + {PLACED}",
    ),
)


def in_either(layer: Callable[..., Mistake], rows: str) -> tuple[Mistake, ...]:
    """List these mistakes for one of the layers.

    Args:
        layer: Makes its mistakes.
        rows: What it calls its rows.
    """
    return tuple(
        layer(name, sentence, seen, (old.replace("ROWS", rows), new.replace("ROWS", rows)))
        for name, sentence, seen, old, new in IN_EITHER
    )
