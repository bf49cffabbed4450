"""What is asked of chapter 09: the model equals its formulas, from ids to logits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
)
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.decoder_layer import by_place
from course_lib.exercises.trials.initialize import EXERCISES as START
from course_lib.exercises.trials.layer_formulas import TORCHS, add_norms
from course_lib.exercises.trials.transformer_formulas import (
    APART,
    D_MODEL,
    FULL,
    ONE,
    OPTIONS,
    SHORT,
    SRC,
    TGT,
    remember,
    score,
)
from course_lib.exercises.trials.transformer_properties import PROMISES
from course_lib.transformer import Transformer, TransformerConfig

TIED = (
    "The parts are src_embedding, tgt_embedding, positions, encoder, decoder and output, which has "
    "no bias. tie_embeddings says who shares: 'all' three are one matrix, 'decoder' target and "
    "output, 'none' nobody."
)


def model_case(label: str, config: TransformerConfig, src: Tensor = SRC, **more: Any) -> Trial:
    """Compare logits, and the gradients of all parameters, with the formulas."""

    def formulas(p: dict[str, Tensor], src: Tensor, tgt: Tensor) -> Tensor:
        """Run the whole model."""
        return score(p, tgt, remember(p, src, config), src, config)

    given = {"src": src, "tgt": FULL}  # padding in the target: in the cases without gradients
    case = module_trial(
        label, Transformer, {"config": config}, given, formulas, ("logits",), **more
    )
    return by_place(case, "config")


def parts_case(label: str, act: Callable, wanted: Callable, config: Any, **more: Any) -> Trial:
    """Compare what a filled model shows with what its numbers say; no gradients."""

    def acts(candidate: Callable) -> Outcome:
        """Build, fill, look."""
        with torch.no_grad():
            return Outcome(act(filled(candidate(config)).eval()))

    def wants() -> Outcome:
        """Compute the same from the numbers."""
        with torch.no_grad():
            return Outcome(wanted(by_name(filled(Transformer(config)))))

    return Trial(label, acts, wants, **more)


def memory() -> Tensor:
    """Make a memory that no encoder made."""
    return normal("memory", *SRC.shape, D_MODEL)


def halves(model: Any) -> dict[str, Tensor]:
    """Encode, and decode with another memory."""
    return {
        "encode(src)": model.encode(SRC),
        "decode(tgt, memory, src)": model.decode(TGT, memory(), SRC),
    }


def halves_wanted(p: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compute both halves apart."""
    return {
        "encode(src)": remember(p, SRC, APART),
        "decode(tgt, memory, src)": score(p, TGT, memory(), SRC, APART),
    }


def maps_wanted(p: dict[str, Tensor]) -> dict[str, Tensor]:
    """Stack the weights of all layers, by place."""
    seen: dict[str, Tensor] = {}
    score(p, TGT, remember(p, SRC, OPTIONS, seen), SRC, OPTIONS, seen)
    places = {"encoder": ("encoder", "self"), "decoder": ("decoder", "self"),
              "cross": ("decoder", "cross")}  # fmt: skip
    return {
        place: torch.stack(
            [w for at, w in seen.items() if at.startswith(side) and f".{kind}" in at]
        )
        for place, (side, kind) in places.items()
    }


def silenced(model: Any) -> dict[str, Tensor]:
    """Drop everything, words and answers; what is left are norms of norms."""
    model.train()
    return {"encode(src)": model.encode(SRC), "logits": model(SRC, TGT)}


def silenced_wanted(p: dict[str, Tensor]) -> dict[str, Tensor]:
    """Normalize zeros, sub-layer after sub-layer."""
    nothing = [torch.zeros_like] * 3
    source, target = torch.zeros(*SRC.shape, D_MODEL), torch.zeros(*TGT.shape, D_MODEL)
    source = add_norms(p, "encoder.layers.0.", source, nothing[:2], norm_first=False)
    target = add_norms(p, "decoder.layers.0.", target, nothing, norm_first=False)
    return {"encode(src)": source, "logits": target @ p["output.weight"].T}


def matrices(label: str, config: TransformerConfig) -> Trial:
    """Compare names, shapes and sharing of all parameters."""
    case = parameters_trial(Transformer, {"config": config}, TIED)
    return by_place(replace(case, label=label), "config")


CASES = (
    model_case("sizes that all differ", APART),
    model_case("one vocabulary, and a source as long as the target", ONE, SHORT, training=True),
    matrices("tie_embeddings='none'", replace(APART, num_decoder_layers=2)),
    matrices("tie_embeddings='decoder'", replace(ONE, tie_embeddings="decoder")),
    matrices("tie_embeddings='all'", ONE),
    model_case("norm_first, gelu, free head widths, and dropout in eval mode", OPTIONS),
    parts_case("encode and decode apart", halves, halves_wanted, APART),
    parts_case(
        "attention_maps", lambda model: model.attention_maps(SRC, TGT), maps_wanted, OPTIONS
    ),
    *PROMISES,
    parts_case(
        "dropout=1.0 while training",
        silenced,
        silenced_wanted,
        replace(APART, dropout=1.0),
        stage="train and eval",
        says="Words with their positions, and all that sub-layers say, are dropped then.",
    ),
)

EXERCISES = (
    *START,
    Exercise(
        "Transformer",
        "transformer",
        45,
        CASES,
        (
            "Six parts, with the names on the map: src_embedding, tgt_embedding, positions, "
            "encoder, decoder, output; and the eight lines of `logits_by_hand`. Keep the config: "
            "`pad_id` and `d_model` are read in every pass.",
            "On each side: look up, times √d_model, then positions, then the stack. Three masks, "
            "made from the ids: the source's padding for the encoder and for cross-attention, "
            "`causal_mask & padding_mask` of the target for the decoder.",
            "To share is to assign the same object: `self.output.weight = "
            "self.tgt_embedding.weight`. For 'all', src_embedding *is* tgt_embedding. Then "
            "`initialize(self)`, last.",
            "`attention_maps` gives `capture_attention` a dict of three lists of layers, and "
            "`lambda: self(src, tgt)`.",
        ),
        TORCHS,
    ),
)
