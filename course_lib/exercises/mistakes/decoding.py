"""What goes wrong in chapter 11."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.beam_step import MISTAKES as BEAMS
from course_lib.exercises.mistakes.greedy_decode import MISTAKES as GREEDY
from course_lib.exercises.mistakes.sampling import MISTAKES as SAMPLING

choose = known("decoding", "argmax_tokens")

COPY = "logits[:, -1].clone()"
NO_PAD = '    last[:, pad_id] = float("-inf")\n'
BEST = "last.argmax(dim=-1).masked_fill(ended, pad_id)"

MISTAKES = (
    choose(
        "padding_chosen",
        "padding is chosen where it has the highest score, in rows that go on",
        "asyml/texar #62 asks whether padding may come before the end",
        (NO_PAD, ""),
    ),
    choose(
        "padding_set_to_zero",
        "padding's score is set to 0, which is the highest where all others are below",
        "student code: 0 for -inf",
        ('float("-inf")', "0.0"),
    ),
    choose(
        "padding_cut_off",
        "the column of padding is cut off, and every id behind it is one too small",
        "student code: logits[..., 1:].argmax(-1)",
        (NO_PAD, ""),
        ("last.argmax", "torch.cat([last[:, :pad_id], last[:, pad_id + 1 :]], dim=-1).argmax"),
    ),
    choose(
        "pad_id_always_zero",
        "padding is taken for id 0, whatever pad_id says",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        ("last[:, pad_id]", "last[:, 0]"),
        ("(ended, pad_id)", "(ended, 0)"),
    ),
    choose(
        "first_position",
        "the scores of the first position are read instead of the last",
        "student code: logits[:, 0]",
        ("logits[:, -1]", "logits[:, 0]"),
    ),
    choose(
        "all_positions",
        "a token is chosen at every position: only the last one is asked for",
        "model(...).argmax(-1) without [:, -1]",
        (COPY, "logits.clone()"),
        ("last[:, pad_id]", "last[..., pad_id]"),
        ("masked_fill(ended,", "masked_fill(ended[:, None],"),
    ),
    choose(
        "argmax_over_the_batch",
        "argmax runs over the batch (dim=0) instead of the vocabulary",
        "student code",
        ("argmax(dim=-1).masked_fill(ended, pad_id)", "argmax(dim=0)"),
    ),
    choose(
        "argmax_of_everything",
        "argmax gets no axis and looks for one place in the whole table",
        "student code: logits.argmax()",
        ("last.argmax(dim=-1)", "last.argmax()"),
    ),
    choose(
        "least_likely",
        "the least likely token is chosen",
        "student code: argmin, or a sort the wrong way round",
        ('float("-inf")', 'float("inf")'),
        ("last.argmax", "last.argmin"),
    ),
    choose(
        "drawn",
        "the token is drawn from the probabilities; greedy takes the likeliest",
        "decoders that sample: torch.multinomial(probs, num_samples=1)",
        ("last.argmax(dim=-1)", "torch.multinomial(last.softmax(dim=-1), 1).squeeze(-1)"),
    ),
    choose(
        "ended_rows_go_on",
        "rows that have ended choose on: padding is due there",
        "mistralai/mistral-inference #270, lucidrains/h-transformer-1d #9",
        (".masked_fill(ended, pad_id)", ""),
    ),
    choose(
        "ended_inverted",
        "ended is read the other way round: rows that go on get padding",
        "student code: a mask of rows that are alive, taken for one of rows that are done",
        ("masked_fill(ended,", "masked_fill(~ended,"),
    ),
    choose(
        "ended_rows_left_out",
        "rows that have ended are left out, so fewer tokens than rows come out",
        "student code: last[~ended]",
        (".masked_fill(ended, pad_id)", "[~ended]"),
    ),
    choose(
        "one_axis_too_many",
        "the tokens come as a column (B, 1): (B,) is asked for",
        "argmax(..., keepdim=True), ready for torch.cat",
        (BEST, "last.argmax(dim=-1).masked_fill(ended, pad_id).unsqueeze(-1)"),
    ),
    choose(
        "logits_changed_in_place",
        "the scores of padding are overwritten in the caller's logits: logits[:, -1] is no copy",
        "student code: a slice is a view",
        (".clone()", ""),
    ),
    *GREEDY,
    *SAMPLING,
    *BEAMS,
)
