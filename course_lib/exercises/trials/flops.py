"""What is asked of chapter 21: counts of operations, of table 1, an attention and a model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import D_K, D_V, H, S, T, value_trial
from course_lib.exercises.value_trials import calls, number, refusals
from course_lib.transformer import TransformerConfig

D_MODEL = H * D_K
TINY = TransformerConfig(
    src_vocab_size=13, tgt_vocab_size=10, d_model=D_MODEL, num_heads=H, num_encoder_layers=2,
    num_decoder_layers=3, d_ff=11, max_len=9, tie_embeddings="none",
)  # fmt: skip
BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)


def by_kind(answer: Any, *_: Any) -> dict[str, int | float]:
    """Read the three counts.

    Raises:
        TypeError: If no dict came out.
    """
    if not isinstance(answer, Mapping):
        raise TypeError(f"a dict of three counts should come out, and not {describe(answer)}")
    return {str(name): number(count) for name, count in answer.items()}


def more_heads(candidate: Callable) -> dict[str, bool]:
    """Split one width among several numbers of heads."""
    counts = {number(candidate(12, num_heads, T, S)) for num_heads in (1, 2, 3, 4)}
    return {"1, 2, 3 and 4 heads take the same": len(counts) == 1}


def exchanged(candidate: Callable) -> dict[str, bool]:
    """Let T and S change places."""
    counts = [number(candidate(D_MODEL, H, *lengths)) for lengths in ((4, 9), (9, 4))]
    return {"T and S can change places": counts[0] == counts[1]}


def one_more(candidate: Callable, name: str) -> dict[str, int | float]:
    """Count what one more of something costs."""
    larger = replace(TINY, **{name: getattr(TINY, name) + 1})
    return {"what it costs": number(candidate(larger, S, T)) - number(candidate(TINY, S, T))}


ONE_MORE = (
    (
        "word in the source's vocabulary",
        "src_vocab_size",
        "An embedding is looked up, not multiplied: the source's vocabulary costs nothing.",
    ),
    (
        "word in the target's vocabulary",
        "tgt_vocab_size",
        "The output layer is a product of T vectors with `tgt_vocab_size` columns.",
    ),
    (
        "feature in every feed-forward",
        "d_ff",
        "A feature costs 2 · d_model on its way in and as much on its way out, at S positions of "
        "each encoder layer and T of each decoder layer.",
    ),
    (
        "layer in the encoder",
        "num_encoder_layers",
        "An encoder layer is an attention from S to S, and a feed-forward at S positions.",
    ),
    (
        "layer in the decoder",
        "num_decoder_layers",
        "A decoder layer is an attention from T to T, one from T to S, and a feed-forward at T "
        "positions.",
    ),
)

EXERCISES = (
    Exercise(
        "layer_operations",
        "flops",
        8,
        core={
            "table 1": (
                calls(
                    "texts of several sizes",
                    {
                        "a text of 7, 5 wide": (7, 5),
                        "a text of 6, 10 wide": (6, 10),
                        "one position": (1, 6),
                        "a long text": (70_000, 512),
                    },
                    by_kind,
                    says="Table 1: n² · d, n · d² and k · n · d², under the table's names; k is 3.",
                ),
            ),
        },
        hints=(
            "Look at table 1's first column, and let n be `length`, d `d_model` and k "
            "`kernel_size`. Of n positions, how many pairs are there?",
            "A pair takes d multiplications, a matrix d². How many of each does a layer use?",
            '`{"self-attention": length**2 * d_model, …}`; before it, an input check: '
            "`min(…) < 1`.",
        ),
        extras={
            "kernel_size": (
                calls(
                    "kernel_size=2",
                    {"a text of 7, 5 wide": (7, 5), "a text of 1": (1, 3)},
                    by_kind,
                    options=dict(kernel_size=2),
                    says="A convolution has a matrix for each of the neighbours it sees; the two "
                    "others have no kernel.",
                ),
            ),
            "sizes below 1": (
                refusals(
                    "sizes below 1",
                    {"a text of 0": (0, 4), "vectors of width 0": (4, 0), "length -2": (-2, 4)},
                    "All three count from 1; below it, a ValueError is due.",
                ),
                refusals(
                    "kernel_size=0",
                    {"a kernel that sees nothing": (4, 4)},
                    "All three count from 1; below it, a ValueError is due.",
                    kernel_size=0,
                ),
            ),
        },
    ),
    Exercise(
        "attention_flops",
        "flops",
        15,
        core={
            "one attention": (
                calls("sizes that differ", {"the count": (D_MODEL, H, T, S)}, number),
                value_trial(
                    "T and S the other way round",
                    exchanged,
                    says="A position of the target needs a query and an output, one of the source "
                    "a key and a value, and both take as much: T and S can change places.",
                ),
                calls(
                    "several sizes",
                    {
                        "a source shorter than the target": (16, 4, 9, 2),
                        "one head": (12, 1, 3, 4),
                        "one position of the target": (12, 2, 1, 30),
                        "the base model": (512, 8, 25, 25),
                    },
                    number,
                    says="Four projections, the scores and the weighted sum: six products, and "
                    "each takes 2 · a · b · c.",
                ),
            ),
            "heads": (
                value_trial(
                    "several numbers of heads",
                    more_heads,
                    says="More heads are narrower heads: as long as they split `d_model`, the "
                    "count stays the same.",
                ),
            ),
        },
        hints=(
            "Write down the shapes of all six products of one head first. Which of them have T "
            "rows, and which S?",
            "Queries `(T, d_model) @ (d_model, d_k)` and the output projection `(T, d_v) @ (d_v, "
            "d_model)` go by T, keys and values by S; scores `(T, d_k) @ (d_k, S)` and weighted "
            "sum `(T, S) @ (S, d_v)` by both.",
            "Add the six a · b · c, and multiply the sum by 2 and by `num_heads`. Without widths "
            "of their own, `head_width(d_model, num_heads)` is both.",
        ),
        extras={
            "d_k, d_v": tuple(
                calls(
                    label,
                    {"the count": sizes},
                    number,
                    options=widths,
                    says="Queries and keys are `d_k` wide, values `d_v`, where these are given.",
                )
                for label, sizes, widths in (
                    ("d_k=8, d_v=7", (D_MODEL, H, T, S), dict(d_k=8, d_v=D_V)),
                    ("d_k=8 alone", (D_MODEL, H, T, S), dict(d_k=8)),
                    ("d_v=7 alone", (D_MODEL, H, T, S), dict(d_v=D_V)),
                    ("d_model=10 and three heads", (10, 3, T, S), dict(d_k=D_K, d_v=D_V)),
                )
            ),
        },
    ),
    Exercise(
        "forward_flops",
        "flops",
        15,
        core={
            "one model": (
                calls("sizes that differ", {"the count": (TINY, S, T)}, number),
                *(
                    value_trial(
                        f"one more {what}",
                        lambda candidate, name=name: one_more(candidate, name),
                        says=says,
                    )
                    for what, name, says in ONE_MORE
                ),
            ),
            "several models": (
                calls(
                    "several models",
                    {
                        "a long source": (TINY, 40, 3),
                        "a long target": (TINY, 3, 40),
                        "one matrix for all": (
                            replace(TINY, src_vocab_size=10, tie_embeddings="all"),
                            S,
                            T,
                        ),
                        "the base model": (BASE, 25, 25),
                    },
                    number,
                    says="All layers of the encoder, all of the decoder, and the output layer; "
                    "sharing a matrix saves memory, not arithmetic.",
                ),
            ),
        },
        hints=(
            "Go through figure 1 from the bottom, and ask of each box: is there a product in it, "
            "and at how many positions? `attention_flops` counts three of the boxes.",
            "A feed-forward takes 2 · d_model · d_ff twice, at each position; the output layer "
            "2 · d_model · tgt_vocab_size, at each position of the target.",
            "Count one encoder layer and one decoder layer, multiply each by how many there are, "
            "and hand `d_k=config.d_k, d_v=config.d_v` on to each attention.",
        ),
        extras={
            "d_k, d_v": (
                calls(
                    "d_k=8, d_v=7",
                    {"the count": (replace(TINY, d_k=8, d_v=7), S, T)},
                    number,
                    says="The configuration may have `d_k` and `d_v` of its own: hand them on.",
                ),
            ),
        },
    ),
)
