"""What goes wrong in sampling."""

from course_lib.exercises.mistake_catalogue import known

sample = known("decoding", "sample_tokens")

SHARES = "(best[:, :k] / temperature).softmax(dim=-1)"
DRAW = "torch.multinomial(probs * (before < p), 1, generator=generator)"
SORT = "last.sort(dim=-1, descending=True)"

MISTAKES = (
    sample(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        "student code",
        ("[:, :k] / temperature", "[:, :k] * temperature"),
    ),
    sample(
        "temperature_ignored",
        "the temperature is not used",
        "student code",
        ("[:, :k] / temperature", "[:, :k]"),
    ),
    sample(
        "temperature_after_the_softmax",
        "the probabilities are divided by the temperature: the logits are, before the softmax",
        "student code: softmax(logits) / temperature",
        (SHARES, "best[:, :k].softmax(dim=-1) / temperature"),
    ),
    sample(
        "temperature_after_top_p",
        "top_p looks at the shares before the temperature has changed them",
        "samplers that put temperature last, such as llama.cpp's",
        (
            "before = probs.cumsum(dim=-1) - probs",
            "before = best[:, :k].softmax(dim=-1).cumsum(dim=-1) - best[:, :k].softmax(dim=-1)",
        ),
    ),
    sample(
        "top_k_ignored",
        "top_k cuts nothing off",
        "student code",
        ("[:, :k]", ""),
    ),
    sample(
        "top_k_one_too_many",
        "top_k keeps one token more than k",
        "student code: logits < logits_sorted[k]",
        ("[:, :k]", "[:, : k + 1]"),
    ),
    sample(
        "top_p_ignored",
        "top_p cuts nothing off",
        "student code",
        ("probs * (before < p)", "probs"),
    ),
    sample(
        "top_p_drops_the_crossing",
        "top_p drops the token that crosses p, and what is left does not reach it",
        "student code: cumsum > p is removed, without the shift by one",
        ("(before < p)", "((before + probs <= p) | (before == 0))"),
    ),
    sample(
        "top_p_can_keep_nothing",
        "top_p drops the likeliest token, too, where it alone has more than p",
        "student code: the shift by one forgotten; multinomial then fails",
        ("(before < p)", "(before + probs <= p)"),
    ),
    sample(
        "top_p_one_too_many",
        "top_p keeps one token more than is needed to reach p",
        "student code: shifted twice",
        ("(before < p)", "(F.pad(before, (1, -1)) < p)"),
    ),
    sample(
        "shares_not_renewed",
        "top_p looks at the shares among all tokens: after top_k those that are left have all",
        "student code: one softmax at the start for both",
        (SHARES, "(best / temperature).softmax(dim=-1)[:, :k]"),
    ),
    sample(
        "nothing_sorted",
        "top_k and top_p are taken from unsorted tokens: the likeliest must stand first",
        "student code: logits[:, :k]",
        (SORT, "last, torch.arange(last.size(-1)).expand_as(last)"),
        tells=r"arange|^((?!sort|topk).)*$",
    ),
    sample(
        "least_likely_first",
        "the least likely tokens stand first and are kept: sort needs descending=True",
        "torch.sort sorts upwards by default",
        (SORT, "last.sort(dim=-1)"),
    ),
    sample(
        "order_forgotten",
        "the place in the sorted list is returned for the token that stands there",
        "student code: gather forgotten",
        ("order.gather(1, place)", "place"),
    ),
    sample(
        "likeliest_taken",
        "the likeliest token is taken and nothing is drawn",
        "student code: argmax",
        (DRAW, "probs.argmax(dim=-1, keepdim=True)"),
    ),
    sample(
        "drawn_evenly",
        "all tokens that are left are drawn equally often",
        "student code: torch.randint among the k likeliest",
        ("probs * (before < p)", "(probs * (before < p) > 0).float()"),
    ),
    sample(
        "one_draw_for_all",
        "one draw is made for the first row, and every row gets it",
        "code for one sentence, used for a batch",
        (DRAW, f"{DRAW}[:1].expand(len(probs), 1)"),
    ),
    sample(
        "generator_ignored",
        "generator is not handed on: the draws cannot be repeated",
        "student code",
        (", generator=generator", ""),
    ),
    sample(
        "padding_drawn",
        "padding is drawn for rows that go on",
        "asyml/texar #62 asks whether padding may come before the end",
        ('    last[:, pad_id] = float("-inf")\n', ""),
    ),
    sample(
        "ended_rows_go_on",
        "rows that have ended draw on: padding is due there",
        "mistralai/mistral-inference #270, lucidrains/h-transformer-1d #9",
        (".masked_fill(ended, pad_id)", ""),
    ),
    sample(
        "ended_inverted",
        "ended is read the other way round: rows that go on get padding",
        "student code: a mask of rows that are alive, taken for one of rows that are done",
        ("masked_fill(ended,", "masked_fill(~ended,"),
    ),
    sample(
        "first_position",
        "the scores of the first position are read instead of the last",
        "student code: logits[:, 0]",
        ("logits[:, -1]", "logits[:, 0]"),
    ),
    sample(
        "logits_changed_in_place",
        "the scores of padding are overwritten in the caller's logits: logits[:, -1] is no copy",
        "student code: a slice is a view",
        (".clone()", ""),
    ),
)
