"""What goes wrong in chapter 19's attention that turns."""

from course_lib.exercises.mistake_catalogue import known

attention = known("modern_decoder", "RotaryAttention")

TAKEN = "q, k, v = super().project(x)"
GIVEN = "return apply_rope(q), apply_rope(k), v"
WHOLE = """q, k = (z.transpose(1, 2).flatten(2) for z in (q, k))
        q, k = (apply_rope(z).unflatten(2, (self.num_heads, -1)).transpose(1, 2) for z in (q, k))
        return q, k, v"""
FORWARD = """

    def forward(self, x):
        q, k, v = {}
        dropped = {}
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped{})
        return self.merge({})
"""
DROP, CAUSAL = "self.dropout if self.training else 0.0", ", is_causal=True"
PROJECT, HEADS = "self.project(x)", "heads"
MIRROR = "unflatten(-1, (-1, 2)).flip(-1).flatten(-2)"

MISTAKES = (
    attention(
        "values_turned",
        "values are turned as well: what a token says must not depend on where it stands",
        "asked in mistralai/mistral-inference #147",
        (GIVEN, "return apply_rope(q), apply_rope(k), apply_rope(v)"),
    ),
    attention(
        "queries_only",
        "only queries are turned: a score then depends on the query's place, not on the distance",
        "student code",
        (GIVEN, "return apply_rope(q), k, v"),
    ),
    attention(
        "keys_only",
        "only keys are turned: a score then depends on the key's place, not on the distance",
        "student code",
        (GIVEN, "return q, apply_rope(k), v"),
    ),
    attention(
        "nothing_turned",
        "what `apply_rope` gives is not used: it changes nothing in place",
        "student code: apply_rope(q), on a line of its own",
        (GIVEN, "apply_rope(q), apply_rope(k)\n        return q, k, v"),
    ),
    attention(
        "input_turned",
        "x is turned before it is projected: values turn with it, and queries and keys mix it",
        "student code: positions at the bottom, as before",
        (TAKEN, "q, k, v = super().project(apply_rope(x))"),
        (GIVEN, "return q, k, v"),
    ),
    attention(
        "turned_before_the_heads",
        "queries and keys are turned before they are cut into heads: the pairs of the later heads "
        "get the slow angles only",
        "asked in kingoflolz/mesh-transformer-jax #260",
        (GIVEN, WHOLE),
    ),
    attention(
        "along_the_heads",
        "`apply_rope` is given (B, T, H, d_k): then positions count heads, and tokens do not turn",
        "mlfoundations/open_lm #4, rasbt/LLMs-from-scratch #411, vukrosic/leo-optimizer #2",
        (
            GIVEN,
            "q, k = (apply_rope(z.transpose(1, 2)).transpose(1, 2) for z in (q, k))\n"
            "        return q, k, v",
        ),
    ),
    attention(
        "keys_turned_the_other_way",
        "keys are turned the other way round: the sum of the places counts, not the distance",
        "student code: the minus of the distance, taken into the keys",
        (GIVEN, f"return apply_rope(q), apply_rope(k.{MIRROR}).{MIRROR}, v"),
    ),
    attention(
        "queries_and_keys_exchanged",
        "queries and keys have changed places",
        "student code",
        (GIVEN, "return apply_rope(k), apply_rope(q), v"),
    ),
    attention(
        "keys_one_further",
        "keys are turned by one place more than queries: a token is not at distance 0 of itself",
        "student code",
        (GIVEN, "return apply_rope(q), apply_rope(k, 1), v"),
    ),
    attention(
        "start_is_the_length",
        "positions start behind the text, at start=T: here the first token stands at 0",
        "student code: the length of a cache, added too early",
        (GIVEN, "return apply_rope(q, x.size(1)), apply_rope(k, x.size(1)), v"),
    ),
    attention(
        "codes_added",
        "chapter 03's codes are added to queries and keys: they are to be turned",
        "chapter 03's way",
        (
            GIVEN,
            "code = sinusoidal_encoding(q.size(-2), q.size(-1)).to(q)\n"
            "        return q + code, k + code, v",
        ),
    ),
    attention(
        "turned_twice",
        "queries and keys are turned in `project` and again in `forward`",
        "twice on the same values: labmlai/annotated_deep_learning_paper_implementations #251",
        (GIVEN, GIVEN + FORWARD.format(PROJECT, DROP, CAUSAL, HEADS)),
        (
            "F.scaled_dot_product_attention(q, k",
            "F.scaled_dot_product_attention(apply_rope(q), apply_rope(k)",
        ),
    ),
    attention(
        "turned_in_forward",
        "`forward` turns, and `project` does not: a cache asks `project`",
        "student code; most libraries turn in forward",
        (GIVEN, "return q, k, v" + FORWARD.format(PROJECT, DROP, CAUSAL, HEADS)),
        (
            "F.scaled_dot_product_attention(q, k",
            "F.scaled_dot_product_attention(apply_rope(q), apply_rope(k)",
        ),
    ),
    attention(
        "future_seen",
        "a new `forward` hides no future: is_causal=True is missing",
        "keras-team/keras #23038, facebookresearch/xformers #103",
        (GIVEN, GIVEN + FORWARD.format(PROJECT, DROP, "", HEADS)),
    ),
    attention(
        "dropout_always_on",
        "a new `forward` drops in eval mode, too: ask self.training",
        "karpathy/nanoGPT #240",
        (GIVEN, GIVEN + FORWARD.format(PROJECT, "self.dropout", CAUSAL, HEADS)),
    ),
    attention(
        "dropout_missing",
        "a new `forward` has no dropout",
        "student code",
        (GIVEN, GIVEN + FORWARD.format(PROJECT, "0.0", CAUSAL, HEADS)),
    ),
    attention(
        "answer_turned_back",
        "the answer of the heads is turned back: it is made of values, which never turned",
        "student code",
        (
            GIVEN,
            GIVEN + FORWARD.format(PROJECT, DROP, CAUSAL, f"apply_rope(heads.{MIRROR}).{MIRROR}"),
        ),
    ),
)
