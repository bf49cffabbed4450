"""Exercises for chapter 09: trials, known mistakes and correct answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import (
    MODES,
    TORCH_ATTENTION,
    embedding_dropout,
    glorot_ratio,
    loudness,
    sees_later,
)
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    D_K,
    PASSED_ON,
    H,
    Trial,
    as_trial,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.transformer import TransformerConfig

D_MODEL, PAD = H * D_K, 3  # PAD is not 0, because no code may assume that it is 0
APART = TransformerConfig(
    src_vocab_size=13, tgt_vocab_size=10, d_model=D_MODEL, num_heads=H, num_encoder_layers=2,
    num_decoder_layers=1, d_ff=11, dropout=0.0, max_len=9, tie_embeddings="none", pad_id=PAD,
)  # fmt: skip
ONE = replace(APART, src_vocab_size=10, tie_embeddings="all")
OPTIONS = replace(APART, norm_first=True, activation="gelu", d_k=5, d_v=7)
ALL_OPTIONS = "norm_first=True, activation='gelu', d_k=5 and d_v=7"
HALF = replace(APART, tie_embeddings="decoder")
WIDE = replace(ONE, src_vocab_size=200, tgt_vocab_size=200, d_model=64, num_heads=4, d_ff=192)
SRC = torch.tensor([[5, 0, 7, 8, 9], [9, 2, 4, PAD, PAD]])
TGT = torch.tensor([[1, 4, 0, 6], [1, 7, 8, PAD]])
FULL = torch.tensor([[1, 4, 0, 6], [1, 7, 8, 2]])  # no padding, because it may have no gradient
SHORT = torch.tensor([[5, 0, 7, 8], [9, 4, PAD, PAD]])  # a source as long as the target
SPREAD = "√d_model times the standard deviation of"
LATER = "A later token must not affect the logits of earlier ones in either mode."
PADDED = "A sentence must get the same logits alone and in a batch, with any amount of padding."
DROPPED = "Apply dropout to the sums of embeddings and positions, and to all sub-layer outputs."
TIED = (
    "The parts are src_embedding, tgt_embedding, positions, encoder, decoder and output, which "
    "has no bias. With tie_embeddings='all', both embeddings and the output share one matrix. "
    "With 'decoder', only the target embedding and the output share one. With 'none', no matrix "
    "is shared."
)


def called(label: str, config: TransformerConfig, src: Tensor = SRC, says: str = "") -> Trial:
    """Compare the logits and the gradients of all parameters."""
    return module_trial(
        label, {"config": config}, {"src": src, "tgt": FULL}, ("logits",), says=says
    )


def shows(
    label: str, look: Callable, says: str = "", kind: str = "property", dropout: float = 0.0
) -> Trial:
    """Inspect a model with known parameters in eval mode."""

    @as_trial(label, says, kind)
    def measure(candidate: Callable) -> dict[str, Any]:
        with torch.no_grad():
            return look(filled(candidate(replace(APART, dropout=dropout))).eval())

    return measure


def halves(model: Any) -> dict[str, Tensor]:
    """Encode a source, and decode a target with an unrelated memory."""
    return {
        "encode(src)": model.encode(SRC),
        "decode(tgt, memory, src)": model.decode(TGT, normal("memory", *SRC.shape, D_MODEL), SRC),
    }


def leaks(model: Any) -> dict[str, bool]:
    """Change the last tokens of the target, and compare the first logits."""
    later = TGT.clone()
    later[:, 2:] = torch.tensor([[9, 2], [2, 9]])
    return sees_later(model, 2, (SRC, TGT), (SRC, later))


def padding_effect(model: Any) -> dict[str, bool]:
    """Compare the logits for a short source alone, next to a long one, and with more padding."""
    found = {}
    for mode, training in MODES.items():
        model.train(training)
        both, alone = model(SRC, TGT), model(SRC[1:, :3], TGT[1:])
        longer = model(F.pad(SRC, (0, 2), value=PAD), TGT)
        same = torch.allclose(both[1:], alone, atol=1e-4)
        found[f"a longer sentence in the batch changes the logits {mode}"] = not same
        same = torch.allclose(both, longer, atol=1e-4)
        found[f"more padding changes the logits {mode}"] = not same
    return found


@as_trial("a new model", "Call `initialize`, which treats a shared matrix as an embedding.")
def start(candidate: Callable) -> dict[str, float]:
    apart, tied = (candidate(replace(WIDE, tie_embeddings=tie)) for tie in ("none", "all"))
    return {
        f"{SPREAD} src_embedding": loudness(apart.src_embedding.weight),
        f"{SPREAD} tgt_embedding": loudness(apart.tgt_embedding.weight),
        f"{SPREAD} the shared matrix": loudness(tied.output.weight),
        "largest entry of output, divided by Glorot and Bengio's bound": glorot_ratio(
            apart.output.weight
        ),
    }


def silenced(model: Any) -> dict[str, Tensor]:
    """Drop all embeddings and all sub-layer outputs."""
    model.train()
    return {"encode(src)": model.encode(SRC), "logits": model(SRC, TGT)}


def matrices(label: str, config: TransformerConfig) -> Trial:
    """Check the shapes of all parameters, and which of them are shared."""
    return replace(parameters_trial({"config": config}, TIED), label=label)


EXERCISES = (
    Exercise(
        "Transformer",
        45,
        core={
            "formula": (
                called("sizes that all differ", APART),
                called("one shared vocabulary and a source as long as the target", ONE, SHORT),
                shows("encode and decode separately", halves, kind="equality"),
            ),
            "masks": (
                shows("later target tokens changed", leaks, LATER),
                shows("a short source next to a long one", padding_effect, PADDED),
            ),
            "parameters": (
                matrices("separate matrices", APART),
                matrices("one shared matrix", ONE),
                start,
            ),
            "attention_maps": (
                shows("attention_maps", lambda m: m.attention_maps(SRC, TGT), kind="equality"),
            ),
        },
        formula="Multiply the embeddings by √d_model and add positions. The encoder reads the "
        "source. The decoder reads the target and the memory, and `output` turns its "
        "vectors into logits.",
        hints=(
            "Build six parts: src_embedding, tgt_embedding, positions, encoder, decoder and "
            "output. The seven steps earlier in the chapter use all of them. Store the config, "
            "because every forward pass needs `pad_id` and `d_model`.",
            "On each side, look up the embeddings, multiply by √d_model, add the positions, and "
            "call the stack. Build the masks from the ids: the source's padding mask for the "
            "encoder and for cross-attention, and `causal_mask & padding_mask` of the target for "
            "the decoder.",
            "To share a matrix, assign the same object: `self.output.weight = "
            "self.tgt_embedding.weight`. For 'all', src_embedding *is* tgt_embedding. Call "
            "`initialize(self)` at the end.",
            "In `attention_maps`, call `capture_attention` with a dict of three lists of layers "
            "and with `lambda: self(src, tgt)`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "tie_embeddings": (matrices("tie_embeddings='decoder'", HALF),),
            "options": (called(ALL_OPTIONS, OPTIONS, says=PASSED_ON),),
            "dropout": (
                called("dropout=0.5 in eval mode", replace(APART, dropout=0.5)),
                shows("dropout=1.0 in training", silenced, DROPPED, "train and eval", 1.0),
                embedding_dropout(
                    replace(APART, dropout=0.2),
                    source=lambda model: model.encode(SRC.repeat(8, 1)),
                    target=lambda model: model.decode(
                        TGT.repeat(8, 1), normal("memory", 16, 5, D_MODEL), SRC.repeat(8, 1)
                    ),
                ),
            ),
            "names": (names_trial({"config": APART}),),
        },
    ),
)


# known mistakes


SCALE = " * math.sqrt(self.config.d_model)"
SOURCE, TARGET = "self.src_embedding(src)", "self.tgt_embedding(tgt)"
PLACED = "self.positions(vectors)"
PAST = "causal_mask(tgt.size(1), tgt.device)"
PAST_LINE = f"        past = {PAST}  # (T, T)\n"
OWN = "padding_mask(tgt, self.config.pad_id)"
SELF = f"past & {OWN}"
CROSS = "cross_mask = padding_mask(src, self.config.pad_id)"
ENCODED = "self.encoder(self.positions(vectors), padding_mask(src, self.config.pad_id))"
LOGITS = "return self.output(self.hidden(tgt, memory, src))"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"


MISTAKES = {
    "Transformer": {
        "scale_missing: neither the source's nor the target's vectors are multiplied by √d_model": (
            SCALE,
            "",
        ),
        **{
            f"scale_missing_{side}: the {other}'s vectors are multiplied by √d_model, but the "
            f"{side}'s are not": (lookup + SCALE, lookup)
            for side, other, lookup in (("source", "target", SOURCE), ("target", "source", TARGET))
        },
        "scale_divided: the vectors are divided by √d_model instead of multiplied by it": (
            SCALE,
            SCALE.replace("*", "/"),
        ),
        "scale_d_model: the vectors are multiplied by d_model instead of √d_model": (
            "math.sqrt(self.config.d_model)",
            "self.config.d_model",
        ),
        "positions_missing: the positional encoding is built but never added "
        "[Lightning-AI/pytorch-lightning #20099]": (PLACED, "vectors"),
        **{
            f"positions_missing_{side}: "
            f"no positions are added to the {side}, so the order of its tokens is lost": (
                f"self.{stack}({PLACED}",
                f"self.{stack}(vectors",
            )
            for side, stack in (("source", "encoder"), ("target", "decoder"))
        },
        "positions_before_scaling: the positions are added before the multiplication by √d_model, "
        "so they are scaled as well": (
            (SOURCE + SCALE, f"self.positions({SOURCE}){SCALE}"),
            (TARGET + SCALE, f"self.positions({TARGET}){SCALE}"),
            (PLACED, "vectors"),
        ),
        **{
            f"positions_before_scaling_{side}: "
            f"the {side}'s positions are added before the multiplication by √d_model": (
                (words + SCALE, f"self.positions({words}){SCALE}"),
                (f"self.{stack}({PLACED}", f"self.{stack}(vectors"),
            )
            for side, stack, words in (("source", "encoder", SOURCE), ("target", "decoder", TARGET))
        },
        "encoder_is_causal: the encoder gets a causal mask as well, but a token of the source may "
        "look at later ones": (ENCODED, f"{ENCODED[:-1]} & causal_mask(src.size(1)))"),
        "encoder_layers_in_decoder: the decoder gets `num_encoder_layers` layers instead of "
        "`num_decoder_layers`": ("Decoder(c.num_decoder", "Decoder(c.num_encoder"),
        "target_through_source_embedding: src_embedding is also used for the target's ids": (
            TARGET,
            "self.src_embedding(tgt)",
        ),
        "causal_missing: the decoder gets no causal mask, so every position sees the token that it "
        "must predict [alex-matton/causal-transformer-decoder "
        "#1; huggingface/transformers #48745]": ((PAST_LINE, ""), (SELF, OWN)),
        "causal_one_ahead: the causal mask is off by one, so every position sees the token that it "
        "must predict": (PAST, "torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril(1)"),
        "causal_inverted: the causal mask is inverted, as torch.nn expects, but here True means "
        "*may look* [hkproj/pytorch-transformer #19]": (PAST, f"~{PAST}"),
        "cross_mask_from_target: cross-attention gets the target's padding mask instead of the "
        "source's [keras-team/keras-io #1046; fchollet/deep-learning-with-python-notebooks #209]": (
            CROSS,
            "cross_mask = padding_mask(tgt, self.config.pad_id)",
        ),
        "cross_mask_missing: cross-attention gets no mask, so the decoder attends to the source's "
        "padding": (CROSS, "cross_mask = None"),
        "encoder_unmasked: the encoder gets no mask, so its tokens attend to padding "
        "[longzw1997/Open-GroundingDino #115]": (ENCODED, f"self.encoder({PLACED})"),
        "target_padding_missing: the decoder's self-attention gets the causal mask but not the "
        "target's padding "
        "mask [minqukanq/transformer-pytorch #1; facebookresearch/fairseq #537]": (SELF, "past"),
        "masks_joined_by_or: the causal mask and the padding mask are combined with `|`, so a "
        "token is visible if either mask allows it; use `&`": (SELF, f"past | {OWN}"),
        "padding_inverted: the padding masks are inverted, as torch.nn expects, but here True "
        "means *may look*": ("padding_mask(", "~padding_mask("),
        "pad_id_zero: the padding id is always 0, and config.pad_id is ignored [INK-USC/MHGRN #8; "
        "wzhouad/RE_improved_baseline #3]": ("self.config.pad_id", "0"),
        "softmax_inside: the model ends with a softmax, and the loss applies a second one "
        "[bowang-lab/Transformer-GCN-QA "
        "#32; bkitano/llama-from-scratch #5]": (LOGITS, f"{LOGITS}.softmax(dim=-1)"),
        "log_softmax_inside: the model ends with a log_softmax, but it must return logits": (
            LOGITS,
            f"{LOGITS}.log_softmax(dim=-1)",
        ),
        "output_not_tied: the output layer has its own matrix instead of sharing the embedding's": (
            'c.tie_embeddings != "none"',
            "False",
        ),
        "output_bias: the output layer has a bias": (", bias=False", ""),
        "initialize_missing: `initialize` is not called, so the initial embeddings are √d_model "
        "times too large [pytorch/translate #220]": ("\n        initialize(self)\n", "\n"),
        "dropout_always_on: F.dropout is called without training=self.training, so it is also "
        "active in "
        "eval mode [pytorch/pytorch #26338]": (PLACED, f"F.dropout({PLACED}, self.config.dropout)"),
        **ignored(
            ("norm_first", (SIZES, SIZES.replace("c.norm_first", "False"))),
            ("activation", (SIZES, SIZES.replace(", c.activation", ""))),
        ),
    },
}


# right answers

UPPER = "torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)"

ANSWERS = {
    "Transformer": {
        "without_helpers: the masks are spelled out, and the output owns the shared matrix": (
            ("_vocab_size, c.d_model)", "_vocab_size, c.d_model, padding_idx=c.pad_id)"),
            (
                "self.output.weight = self.tgt_embedding.weight",
                "self.tgt_embedding.weight = self.output.weight",
            ),
            (SCALE, ".mul(self.config.d_model**0.5)"),
            (PAST, f"~{UPPER}"),
            (OWN, "(tgt != self.config.pad_id)[:, None, None]"),
            ("padding_mask(src, self.config.pad_id)", "(src != self.config.pad_id)[:, None, None]"),
            ("hidden(", "read_target("),
        ),
    },
}
