"""What is asked of chapter 09."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import TORCHS, loudness, reach, sees_later
from course_lib.exercises.trial import (
    D_K,
    H,
    Trial,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.transformer import TransformerConfig

D_MODEL, PAD, UNTOUCHED = H * D_K, 3, 7.0  # PAD is not 0: nothing may assume it is
APART = TransformerConfig(
    src_vocab_size=13, tgt_vocab_size=10, d_model=D_MODEL, num_heads=H, num_encoder_layers=2,
    num_decoder_layers=1, d_ff=11, dropout=0.0, max_len=9, tie_embeddings="none", pad_id=PAD,
)  # fmt: skip
ONE = replace(APART, src_vocab_size=10, tie_embeddings="all")
OPTIONS = replace(APART, norm_first=True, activation="gelu", d_k=5, d_v=7)
HALF = replace(APART, tie_embeddings="decoder")
WIDE = replace(ONE, src_vocab_size=200, tgt_vocab_size=200, d_model=64, num_heads=4, d_ff=192)
SRC = torch.tensor([[5, 0, 7, 8, 9], [9, 2, 4, PAD, PAD]])
TGT = torch.tensor([[1, 4, 0, 6], [1, 7, 8, PAD]])
FULL = torch.tensor([[1, 4, 0, 6], [1, 7, 8, 2]])  # no padding: an embedding may skip its gradient
SHORT = torch.tensor([[5, 0, 7, 8], [9, 4, PAD, PAD]])  # a source as long as the target
SPREAD = "times √d_model, the standard deviation of"
LARGEST = "as a share of Glorot and Bengio's bound, the largest of"
TIED = (
    "The parts are src_embedding, tgt_embedding, positions, encoder, decoder and output, which has "
    "no bias. tie_embeddings says who shares: 'all' three are one matrix, 'decoder' target and "
    "output, 'none' nobody."
)


def called(label: str, config: TransformerConfig, src: Tensor = SRC) -> Trial:
    """Compare logits, and the gradients of all parameters."""
    return module_trial(label, {"config": config}, {"src": src, "tgt": FULL}, ("logits",))


def shows(label: str, config: TransformerConfig, look: Callable, **more: Any) -> Trial:
    """Look at a model in eval mode, filled with known numbers."""

    @looks(label, **more)
    def act(candidate: Callable) -> dict[str, Any]:
        """Build, fill, look."""
        with torch.no_grad():
            return look(filled(candidate(config)).eval())

    return act


def halves(model: Any) -> dict[str, Tensor]:
    """Encode, and decode with another memory."""
    return {
        "encode(src)": model.encode(SRC),
        "decode(tgt, memory, src)": model.decode(TGT, normal("memory", *SRC.shape, D_MODEL), SRC),
    }


def leaks(model: Any) -> dict[str, bool]:
    """Change the last words of the target, and look whether the first logits notice."""
    later = TGT.clone()
    later[:, 2:] = torch.tensor([[9, 2], [2, 9]])
    return sees_later(model, 2, (SRC, TGT), (SRC, later))


def neighbours(model: Any) -> dict[str, bool]:
    """Read a short source alone, beside a long one, and with more padding."""
    both, alone = model(SRC, TGT), model(SRC[1:, :3], TGT[1:])
    longer = model(F.pad(SRC, (0, 2), value=PAD), TGT)
    return {
        "a long neighbour is heard": not torch.allclose(both[1:], alone, atol=1e-4),
        "more padding is heard": not torch.allclose(both, longer, atol=1e-4),
    }


@looks("a new model", "Every matrix starts as `initialize` says, a shared one as an embedding.")
def start(candidate: Callable) -> dict[str, float]:
    """Measure how new models start, with their matrices apart and shared."""
    apart, tied = (candidate(replace(WIDE, tie_embeddings=tie)) for tie in ("none", "all"))
    return {
        f"{SPREAD} src_embedding": loudness(apart.src_embedding.weight),
        f"{SPREAD} tgt_embedding": loudness(apart.tgt_embedding.weight),
        f"{SPREAD} the shared matrix": loudness(tied.output.weight),
        f"{LARGEST} output": reach(apart.output.weight),
    }


def silenced(model: Any) -> dict[str, Tensor]:
    """Drop everything, words and sub-layers; what is left are norms of norms."""
    model.train()
    return {"encode(src)": model.encode(SRC), "logits": model(SRC, TGT)}


def matrices(label: str, config: TransformerConfig) -> Trial:
    """Compare shapes and sharing of all parameters."""
    return replace(parameters_trial({"config": config}, TIED), label=label)


EXERCISES = (
    Exercise(
        "Transformer",
        "transformer",
        45,
        core={
            "formula": (
                called("sizes that all differ", APART),
                called("one vocabulary, and a source as long as the target", ONE, SHORT),
                shows("encode and decode apart", APART, halves, kind="equality"),
            ),
            "masks": (
                shows(
                    "a later word of the target",
                    APART,
                    leaks,
                    says="A later word must not change what stands before it, in either mode.",
                ),
                shows(
                    "a short source beside a long one",
                    APART,
                    neighbours,
                    says="A sentence is read alike alone and in a batch: its padding has no say.",
                ),
            ),
            "parameters": (
                matrices("matrices apart", APART),
                matrices("one matrix for all", ONE),
                start,
            ),
            "attention_maps": (
                shows(
                    "attention_maps",
                    APART,
                    lambda model: model.attention_maps(SRC, TGT),
                    kind="equality",
                ),
            ),
        },
        hints=(
            "Six parts, with the names on the map: src_embedding, tgt_embedding, positions, "
            "encoder, decoder, output. The seven steps above the config use all of them. Keep "
            "the config: `pad_id` and `d_model` are read in every pass.",
            "On each side: look up, times √d_model, then positions, then the stack. Three masks, "
            "made from the ids: the source's padding for the encoder and for cross-attention, "
            "`causal_mask & padding_mask` of the target for the decoder.",
            "To share is to assign the same object: `self.output.weight = "
            "self.tgt_embedding.weight`. For 'all', src_embedding *is* tgt_embedding. Then "
            "`initialize(self)`, last.",
            "`attention_maps` gives `capture_attention` a dict of three lists of layers, and "
            "`lambda: self(src, tgt)`.",
        ),
        shortcuts=TORCHS,
        extras={
            "tie_embeddings": (matrices("tie_embeddings='decoder'", HALF),),
            "options": (called("norm_first=True, activation='gelu', d_k=5 and d_v=7", OPTIONS),),
            "dropout": (
                called("dropout=0.5 in eval mode", replace(APART, dropout=0.5)),
                shows(
                    "dropout=1.0 in training",
                    replace(APART, dropout=1.0),
                    silenced,
                    kind="train and eval",
                    says="Words with their positions, and all that sub-layers say, are dropped.",
                ),
            ),
            "names": (names_trial({"config": APART}),),
        },
    ),
)
