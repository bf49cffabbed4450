"""Chapter 09 in other words."""

import math

import torch
from torch import Tensor, nn

from course_lib.decoder import Decoder
from course_lib.encoder import Encoder
from course_lib.masks import causal_mask
from course_lib.positions import PositionalEncoding
from course_lib.transformer import capture_attention, initialize


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
