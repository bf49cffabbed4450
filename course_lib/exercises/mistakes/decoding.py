"""What goes wrong in chapter 11."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.beam_step import MISTAKES as BEAMS
from course_lib.exercises.mistakes.generation_mode import MISTAKES as FRAME
from course_lib.exercises.mistakes.greedy import MISTAKES as GREEDY
from course_lib.exercises.mistakes.rereader import MISTAKES as REREADER
from course_lib.exercises.mistakes.sampling import MISTAKES as SAMPLING

choose = known("decoding", "argmax_tokens")
guard = known("decoding", "check_special_ids")

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
    guard(
        "equal_ids_accepted",
        "ids that are one and the same pass",
        "pad_token = eos_token, as many tokenizers have it",
        ("len(set(ids)) < 3 or ", ""),
    ),
    guard(
        "range_not_checked",
        "ids that are no tokens pass",
        "student code",
        (" or not all(token in range(vocab_size) for token in ids)", ""),
    ),
    guard(
        "one_too_many",
        "the id vocab_size passes: the last token is vocab_size - 1",
        "student code: <= vocab_size",
        ("in range(vocab_size) for", "in range(vocab_size + 1) for"),
    ),
    guard(
        "negative_ids_accepted",
        "ids below 0 pass",
        "student code: only the upper end is checked",
        ("token in range(vocab_size) for", "token < vocab_size for"),
    ),
    guard(
        "zero_refused",
        "the id 0 is refused, and it is a token like any other",
        "truth of an id: huggingface/transformers #47286",
        ("token in range(vocab_size) for", "token in range(1, vocab_size) for"),
    ),
    guard(
        "only_bos_and_eos_compared",
        "bos and eos are compared with each other, and not with pad",
        "student code",
        ("len(set(ids)) < 3", "bos_id == eos_id"),
    ),
    guard(
        "nothing_refused",
        "nothing is refused at all",
        "student code: a message printed, no raise",
        ("if len(set(ids)) < 3", "if False and len(set(ids)) < 3"),
        (" or not all(token in range(vocab_size) for token in ids)", ""),
    ),
    guard(
        "all_three_must_be_equal",
        "only three equal ids are refused: bos_id == eos_id == pad_id asks for all of them at once",
        "student code: a chained comparison",
        ("len(set(ids)) < 3", "bos_id == eos_id == pad_id"),
        (" or not all(token in range(vocab_size) for token in ids)", ""),
    ),
    guard(
        "both_must_be_wrong",
        "only ids that are equal *and* out of range are refused: `and` stands for `or`",
        "student code",
        ("< 3 or not", "< 3 and not"),
    ),
    guard(
        "assert_in_place_of_raise",
        "an assert refuses: it raises AssertionError, and python -O leaves it out",
        "student code",
        ("raise ValueError(", "assert False, ("),
    ),
    guard(
        "verdict_returned",
        "the verdict is returned as True or False: nothing is raised",
        "student code",
        ("    if len(set", "    return not (len(set"),
        ("for token in ids):", "for token in ids))\n    if True:"),
    ),
    *REREADER,
    *FRAME,
    *GREEDY,
    *SAMPLING,
    *BEAMS,
)
