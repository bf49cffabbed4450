"""Exercises of chapter 09: trials, known mistakes and right answers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.decoder import Decoder
from course_lib.encoder import Encoder
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import (
    TORCHS,
    embedding_dropout,
    loudness,
    reach,
    sees_later,
)
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
from course_lib.masks import causal_mask
from course_lib.positions import PositionalEncoding
from course_lib.transformer import TransformerConfig, capture_attention, initialize

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
        unnamed=("math.sqrt(self.config.d_model)", "2.0"),
    ),
)


# known mistakes

model = known("transformer", "Transformer")


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


WORDS = (
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model on either side",
        (SCALE, ""),
        seen="asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
    ),
    *(
        model(
            f"scale_missing_{side}",
            f"the {side}'s vectors are not multiplied by √d_model, the other side's are",
            (lookup + SCALE, lookup),
        )
        for side, lookup in (("source", SOURCE), ("target", TARGET))
    ),
    model(
        "scale_d_model",
        "the vectors are multiplied by d_model instead of its root, √d_model",
        ("math.sqrt(self.config.d_model)", "self.config.d_model"),
    ),
    model(
        "positions_missing",
        "positions are built and never added, on either side",
        (PLACED, "vectors"),
        seen="Lightning-AI/pytorch-lightning #20099",
    ),
    *(
        model(
            f"positions_missing_{side}",
            f"the {side} gets no positions: it is read as a bag of words",
            (f"self.{stack}({PLACED}", f"self.{stack}(vectors"),
        )
        for side, stack in (("source", "encoder"), ("target", "decoder"))
    ),
    model(
        "positions_before_scaling",
        "the positions are added before the multiplication by √d_model, and grow with the words",
        (SOURCE + SCALE, f"self.positions({SOURCE}){SCALE}"),
        (TARGET + SCALE, f"self.positions({TARGET}){SCALE}"),
        (PLACED, "vectors"),
    ),
    *(
        model(
            f"positions_before_scaling_{side}",
            f"the {side}'s positions are added before the multiplication by √d_model",
            (words + SCALE, f"self.positions({words}){SCALE}"),
            (f"self.{stack}({PLACED}", f"self.{stack}(vectors"),
        )
        for side, stack, words in (("source", "encoder", SOURCE), ("target", "decoder", TARGET))
    ),
    model(
        "target_through_source_embedding",
        "the target's ids are looked up in the source's embedding",
        (TARGET, "self.src_embedding(tgt)"),
        seen="IpsumDominum/Pytorch-Simple-Transformer #1: one embedding for two languages",
    ),
)

MASKS = (
    model(
        "causal_missing",
        "the decoder gets no causal mask: every position sees the word it must predict",
        (PAST_LINE, ""),
        (SELF, OWN),
        seen="alex-matton/causal-transformer-decoder #1; huggingface/transformers #48745",
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: every position sees the next word, its own answer",
        (PAST, "torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril(1)"),
        seen="reported in RVC-Boss/GPT-SoVITS #965",
    ),
    model(
        "causal_inverted",
        "the causal mask is turned round, as torch.nn wants it: True as blocked",
        (PAST, f"~{PAST}"),
        seen="hkproj/pytorch-transformer #19",
    ),
    model(
        "cross_mask_from_target",
        "the padding of the target is used for the source, in cross-attention",
        (CROSS, "cross_mask = padding_mask(tgt, self.config.pad_id)"),
        seen="keras-team/keras-io #1046; fchollet/deep-learning-with-python-notebooks #209",
    ),
    model(
        "cross_mask_missing",
        "cross-attention gets no mask: the source's padding is read as if it were words",
        (CROSS, "cross_mask = None"),
        seen="the early nn.Transformer had no argument for it: pytorch/pytorch #22588",
    ),
    model(
        "encoder_unmasked",
        "the encoder gets no mask: its words read padding",
        (ENCODED, f"self.encoder({PLACED})"),
        seen="longzw1997/Open-GroundingDino #115; facebookresearch/fairseq #1339 (made, not used)",
    ),
    model(
        "target_padding_missing",
        "the decoder's self-attention gets the causal mask alone, without the target's padding",
        (SELF, "past"),
        seen="minqukanq/transformer-pytorch #1; facebookresearch/fairseq #537",
    ),
    model(
        "padding_inverted",
        "the padding masks are turned round: True where there is padding, as torch.nn wants it",
        ("padding_mask(", "~padding_mask("),
        seen="expected so in jadore801120/attention-is-all-you-need-pytorch #148",
    ),
    model(
        "pad_id_zero",
        "padding is taken to be id 0, whatever config.pad_id says",
        ("self.config.pad_id", "0"),
        seen="INK-USC/MHGRN #8; wzhouad/RE_improved_baseline #3",
    ),
)

PARTS = (
    model(
        "softmax_inside",
        "a softmax stands at the end of the model, and the loss will take a second one",
        (LOGITS, f"{LOGITS}.softmax(dim=-1)"),
        seen="bowang-lab/Transformer-GCN-QA #32; bkitano/llama-from-scratch #5",
    ),
    model(
        "log_softmax_inside",
        "a log_softmax stands at the end of the model; it was asked for logits",
        (LOGITS, f"{LOGITS}.log_softmax(dim=-1)"),
    ),
    model(
        "output_not_tied",
        "the output never shares the embedding's matrix; a copy of its numbers is not sharing",
        ('c.tie_embeddings != "none"', "False"),
        seen="meta-llama/llama #138 asks; `.data.copy_` in place of an assignment",
    ),
    model("output_bias", "the output adds a bias", (", bias=False", "")),
    model(
        "initialize_missing",
        "`initialize` is not called: the embeddings start as torch leaves them, √d_model too loud",
        ("\n        initialize(self)\n", "\n"),
        seen="mended in pytorch/translate #220",
    ),
    model(
        "dropout_always_on",
        "F.dropout drops in eval mode as well: unless told, it takes training=True",
        (PLACED, f"F.dropout({PLACED}, self.config.dropout)"),
        seen="pytorch/pytorch #26338: no `training=self.training`",
    ),
    *ignored(
        model,
        ("norm_first", (SIZES, SIZES.replace("c.norm_first", "False"))),
        ("activation", (SIZES, SIZES.replace(", c.activation", ""))),
    ),
)

MISTAKES = (*WORDS, *MASKS, *PARTS)


# right answers


class ModelInSmallSteps(nn.Module):
    """Give every step a method: embedding, masks, maps."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        options = dict(
            num_heads=config.num_heads, d_ff=config.d_ff, dropout=config.dropout,
            norm_first=config.norm_first, activation=config.activation,
            d_k=config.d_k, d_v=config.d_v,
        )  # fmt: skip
        pad = dict(padding_idx=config.pad_id)
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model, **pad)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model, **pad)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        self.encoder = Encoder(config.num_encoder_layers, config.d_model, **options)
        self.decoder = Decoder(config.num_decoder_layers, config.d_model, **options)
        self.positions = PositionalEncoding(
            config.d_model, max_len=config.max_len, dropout=config.dropout
        )
        if config.tie_embeddings == "all":
            self.src_embedding = self.tgt_embedding
        if config.tie_embeddings in ("all", "decoder"):
            self.tgt_embedding.weight = self.output.weight
        initialize(self)

    def embed(self, ids: Tensor, table: nn.Embedding) -> Tensor:
        """Look up, scale, place."""
        return self.positions(table(ids).mul(self.config.d_model**0.5))

    def words(self, ids: Tensor) -> Tensor:
        """Say where there are words."""
        return (ids != self.config.pad_id).unsqueeze(1).unsqueeze(2)

    def encode(self, src):
        """Make the memory."""
        return self.encoder(self.embed(src, self.src_embedding), self.words(src))

    def decode(self, tgt, memory, src):
        """Score the next tokens."""
        length = tgt.shape[1]
        future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        mask = self.words(tgt).logical_and(~future)
        decoded = self.decoder(
            self.embed(tgt, self.tgt_embedding), memory, self_mask=mask, cross_mask=self.words(src)
        )
        return self.output(decoded)

    def forward(self, src, tgt):
        """Do both."""
        memory = self.encode(src)
        return self.decode(tgt, memory, src)

    def attention_maps(self, src, tgt):
        """Record three kinds."""
        places = {"encoder": [], "decoder": [], "cross": []}
        for layer in self.encoder.layers:
            places["encoder"].append(layer.self_attn)
        for layer in self.decoder.layers:
            places["decoder"].append(layer.self_attn)
            places["cross"].append(layer.cross_attn)
        return capture_attention(places, lambda: self.forward(src, tgt))


class Embeddings(nn.Module):
    """Look up and scale, as The Annotated Transformer names it."""

    def __init__(self, d_model: int, vocab: int) -> None:
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x):
        """Scale what is found."""
        return self.lut(x) * math.sqrt(self.d_model)


class AnnotatedModel(nn.Module):
    """Build the core under The Annotated Transformer's names; options are not looked at."""

    def __init__(self, cfg):
        super().__init__()
        self.config, sizes = cfg, (cfg.d_model, cfg.num_heads, cfg.d_ff)
        place = PositionalEncoding(cfg.d_model, cfg.max_len)
        self.encoder = Encoder(cfg.num_encoder_layers, *sizes)
        self.decoder = Decoder(cfg.num_decoder_layers, *sizes)
        self.src_embed = nn.Sequential(Embeddings(cfg.d_model, cfg.src_vocab_size), place)
        self.tgt_embed = nn.Sequential(Embeddings(cfg.d_model, cfg.tgt_vocab_size), place)
        self.generator = nn.Linear(cfg.d_model, cfg.tgt_vocab_size, bias=False)
        if cfg.tie_embeddings == "all":
            self.src_embed[0].lut.weight = self.tgt_embed[0].lut.weight = self.generator.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for lut in (self.src_embed[0].lut, self.tgt_embed[0].lut):
            nn.init.normal_(lut.weight, std=cfg.d_model**-0.5)

    def encode(self, src):
        """Encode what is embedded and placed."""
        return self.encoder(self.src_embed(src), (src != self.config.pad_id)[:, None, None, :])

    def decode(self, tgt, memory, src):
        """Decode, and generate."""
        tgt_mask = (tgt != self.config.pad_id)[:, None, None, :]
        tgt_mask = tgt_mask & causal_mask(tgt.size(-1)).type_as(tgt_mask.data)
        src_mask = (src != self.config.pad_id)[:, None, None, :]
        return self.generator(self.decoder(self.tgt_embed(tgt), memory, tgt_mask, src_mask))

    def forward(self, src, tgt):
        """Take in and process masked sequences."""
        return self.decode(tgt, self.encode(src), src)

    def attention_maps(self, src, tgt):
        """Name the parts to watch."""
        layers = self.decoder.layers
        places = {
            "encoder": [layer.self_attn for layer in self.encoder.layers],
            "decoder": [layer.self_attn for layer in layers],
            "cross": [layer.cross_attn for layer in layers],
        }
        return capture_attention(places, lambda: self(src, tgt))


ANSWERS = {"Transformer": (ModelInSmallSteps, AnnotatedModel)}
