"""What is asked of forward_flops: every layer, every product, and what costs nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import D_K, H, S, T, value_trial
from course_lib.exercises.trials.flops_reference import (
    counted,
    counts_case,
    kind_case,
    model,
    written,
)
from course_lib.transformer import TransformerConfig

TINY = TransformerConfig(
    src_vocab_size=13,
    tgt_vocab_size=10,
    d_model=H * D_K,
    num_heads=H,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_ff=11,
    max_len=9,
    tie_embeddings="none",
)
TRIALS = {
    name: ((replace(TINY, **changes), *lengths), {})
    for name, changes, lengths in (
        ("sizes that differ", {}, (S, T)),
        ("a long source", {}, (40, 3)),
        ("a long target", {}, (3, 40)),
        ("widths of their own", dict(d_k=8, d_v=7), (S, T)),
        ("one layer on either side", dict(num_encoder_layers=1, num_decoder_layers=1), (S, T)),
        ("more layers in the encoder", dict(num_encoder_layers=5, num_decoder_layers=1), (S, T)),
        ("a wide feed-forward", dict(d_ff=90), (S, T)),
        ("one token on either side", {}, (1, 1)),
    )
}
BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)


def more(
    candidate: Callable, name: str, config: TransformerConfig = TINY, lengths: tuple = (S, T)
) -> Any:
    """Count what one more of something costs."""
    larger = replace(config, **{name: getattr(config, name) + 1})
    return counted(candidate(larger, *lengths)) - counted(candidate(config, *lengths))


def lookups(candidate: Callable) -> dict[str, Any]:
    """Let the source's vocabulary grow."""
    return {"the source's vocabulary matters": more(candidate, "src_vocab_size") != 0}


def shared(candidate: Callable) -> dict[str, bool]:
    """Share the embeddings' matrix with the output, and not."""
    ways = (replace(TINY, src_vocab_size=10, tie_embeddings=w) for w in ("all", "decoder", "none"))
    return {"sharing matters": len({counted(candidate(way, S, T)) for way in ways}) > 1}


def layers(candidate: Callable) -> dict[str, bool]:
    """Look which lengths one more layer of either kind goes by."""
    said = {}
    for side in ("encoder", "decoder"):
        cost = {n: more(candidate, f"num_{side}_layers", lengths=n) for n in ((5, 4), (9, 4))}
        said[f"the source matters to a layer of the {side}"] = len(set(cost.values())) == 2
        cost = {n: more(candidate, f"num_{side}_layers", lengths=n) for n in ((5, 4), (5, 9))}
        said[f"the target matters to a layer of the {side}"] = len(set(cost.values())) == 2
    return said


def widths(candidate: Callable) -> dict[str, bool]:
    """Give heads widths of their own."""
    own = replace(TINY, d_k=8, d_v=7)
    return {
        f"a larger {name} takes more": more(candidate, name, own) > 0 for name in ("d_k", "d_v")
    }


PARTS = (
    value_trial(
        "one more feature in every feed-forward",
        lambda candidate: {"what it costs": written(more(candidate, "d_ff"))},
        {"what it costs": written(more(model, "d_ff"))},
        stage="equality",
        says="A feature costs 2 · d_model on its way in and as much on its way out, at each "
        "position of each layer: S in the encoder, T in the decoder.",
    ),
    value_trial(
        "one more piece in the target's vocabulary",
        lambda candidate: {"what it costs": written(more(candidate, "tgt_vocab_size"))},
        {"what it costs": written(more(model, "tgt_vocab_size"))},
        stage="equality",
        says="The output layer is a product, too: of T vectors with `tgt_vocab_size` columns.",
    ),
    value_trial(
        "one more layer in the encoder",
        lambda candidate: {"what it costs": written(more(candidate, "num_encoder_layers"))},
        {"what it costs": written(more(model, "num_encoder_layers"))},
        stage="equality",
        says="An encoder layer is an attention from S to S, and a feed-forward at S positions.",
    ),
    value_trial(
        "one more layer in the decoder",
        lambda candidate: {"what it costs": written(more(candidate, "num_decoder_layers"))},
        {"what it costs": written(more(model, "num_decoder_layers"))},
        stage="equality",
        says="A decoder layer is an attention from T to T, one from T to S, and a feed-forward at "
        "T positions.",
    ),
)

EXERCISES = (
    Exercise(
        "forward_flops",
        "flops",
        15,
        (
            kind_case("sizes that differ", "One number, the count.", TINY, S, T),
            value_trial(
                "another vocabulary of the source",
                lookups,
                {"the source's vocabulary matters": False},
                says="An embedding is looked up, not multiplied: the source's vocabulary costs "
                "nothing.",
            ),
            value_trial(
                "embeddings that are shared",
                shared,
                {"sharing matters": False},
                says="Sharing a matrix saves memory, not arithmetic: the output multiplies either "
                "way.",
            ),
            value_trial(
                "one more layer, with texts of several lengths",
                layers,
                {
                    f"the {text} matters to a layer of the {side}": (side, text)
                    != ("encoder", "target")
                    for side in ("encoder", "decoder")
                    for text in ("source", "target")
                },
                says="An encoder layer sees the source alone, a decoder layer both texts.",
            ),
            value_trial(
                "keys and values as wide as given",
                widths,
                dict.fromkeys(("a larger d_k takes more", "a larger d_v takes more"), True),
                says="The configuration may have `d_k` and `d_v` of its own: hand them on.",
            ),
            *PARTS,
            counts_case(
                "several models",
                TRIALS,
                model,
                "All layers of the encoder, all of the decoder, and the output layer.",
            ),
            counts_case(
                "the base model",
                {"the base model": ((BASE, 25, 25), {})},
                model,
                "All layers of the encoder, all of the decoder, and the output layer.",
            ),
        ),
        (
            "Go through figure 1 from the bottom, and ask of each box: is there a product in it, "
            "and at how many positions? `attention_flops` counts three of the boxes.",
            "A feed-forward takes 2 · d_model · d_ff twice, at each position; the output layer "
            "2 · d_model · tgt_vocab_size, at each position of the target.",
            "Count one encoder layer and one decoder layer, multiply each by how many there are, "
            "and hand `d_k=config.d_k, d_v=config.d_v` on to each attention.",
        ),
    ),
)
