"""What goes wrong in sampling."""

from course_lib.exercises.mistake_catalogue import known

sample = known("decoding", "sample_tokens")

PROBS = "(best / temperature).softmax(dim=-1)"
KEPT = "edges - probs < p"
DRAW = "torch.searchsorted(edges, (1 - uniform) * edges[:, -1:])"
TOP = "logits.topk(k)"
EVEN = "edges.diff(dim=-1, prepend=torch.zeros(len(edges), 1)) > 0"

MISTAKES = (
    sample(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        "student code",
        ("best / temperature", "best * temperature"),
    ),
    sample(
        "temperature_ignored",
        "the temperature is not used",
        "student code",
        ("best / temperature", "best"),
    ),
    sample(
        "temperature_after_the_softmax",
        "the probabilities are divided by the temperature: the logits are, before the softmax",
        "student code: softmax(logits) / temperature",
        (PROBS, "best.softmax(dim=-1) / temperature"),
    ),
    sample(
        "temperature_after_top_p",
        "top_p looks at the shares before the temperature has changed them",
        "samplers that put temperature last, such as llama.cpp's",
        (KEPT, "best.softmax(dim=-1).cumsum(dim=-1) - best.softmax(dim=-1) < p"),
    ),
    sample(
        "top_k_ignored",
        "top_k cuts nothing off",
        "student code",
        (TOP, "logits.topk(logits.size(-1))"),
    ),
    sample(
        "top_k_one_too_many",
        "top_k keeps one token more than k",
        "student code: logits < logits_sorted[k]",
        (TOP, "logits.topk(min(k + 1, logits.size(-1)))"),
    ),
    sample(
        "top_p_ignored",
        "top_p cuts nothing off",
        "student code",
        ("if p < 1:", "if p < 0:"),
    ),
    sample(
        "top_p_drops_the_crossing",
        "top_p drops the token that crosses p, and what is left does not reach it",
        "student code: cumsum > p is removed, without the shift by one",
        (KEPT, "(edges <= p) | (edges == probs)"),
    ),
    sample(
        "top_p_one_too_many",
        "top_p keeps one token more than is needed to reach p",
        "student code: shifted twice",
        (KEPT, "F.pad(edges - probs, (1, -1)) < p"),
    ),
    sample(
        "shares_not_renewed",
        "top_p looks at the shares among all tokens: after top_k those that are left have all",
        "student code: one softmax at the start for both",
        (PROBS, "(logits.topk(logits.size(-1))[0] / temperature).softmax(dim=-1)[:, :k]"),
    ),
    sample(
        "nothing_sorted",
        "top_k and top_p are taken from unsorted tokens: the likeliest must stand first",
        "student code: logits[:, :k]",
        (TOP, "(logits[:, :k], torch.arange(k).expand(len(logits), k))"),
        tells=r"arange|^((?!sort|topk).)*$",
    ),
    sample(
        "least_likely_first",
        "the least likely tokens are kept: topk needs largest=True, sort descending=True",
        "torch.sort sorts upwards by default",
        (TOP, "logits.topk(k, largest=False)"),
    ),
    sample(
        "order_forgotten",
        "the place in the sorted list is returned for the token that stands there",
        "student code: gather forgotten",
        ("order.gather(1, drawn)", "drawn"),
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
        ("    uniform = ", f"    edges = ({EVEN}).to(edges).cumsum(dim=-1)\n    uniform = "),
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
)
