"""Chapter 09 in other words: the whole model; the small exercises stand apart."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.decoder import Decoder
from course_lib.encoder import Encoder
from course_lib.exercises.solutions.initialize import ANSWERS as START
from course_lib.masks import causal_mask, padding_mask
from course_lib.positions import PositionalEncoding, sinusoidal_encoding
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


class ModelOfProducts(nn.Module):
    """Look up by one-hot products, share by registering, and score with F.linear."""

    def __init__(self, config):
        super().__init__()
        c, self.config = config, config
        order = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)
        self.encoder = Encoder(c.num_encoder_layers, *order, d_k=c.d_k, d_v=c.d_v)
        self.decoder = Decoder(c.num_decoder_layers, *order, d_k=c.d_k, d_v=c.d_v)
        self.positions = PositionalEncoding(c.d_model, c.max_len, c.dropout)
        tables = {"all": 1, "decoder": 2, "none": 3}[c.tie_embeddings]
        self.output = nn.Linear(c.d_model, c.tgt_vocab_size, False)
        self.tgt_embedding = nn.Embedding(c.tgt_vocab_size, c.d_model)
        self.src_embedding = nn.Embedding(c.src_vocab_size, c.d_model)
        for place in ("tgt_embedding", "src_embedding")[: 3 - tables]:
            getattr(self, place).weight = self.output.weight
        for module in self.modules():
            if type(module) is nn.Linear and module is not self.output:
                nn.init.xavier_uniform_(module.weight)
        nn.init.xavier_uniform_(self.output.weight)
        for table in (self.src_embedding, self.tgt_embedding):
            nn.init.normal_(table.weight, 0.0, 1 / math.sqrt(c.d_model))

    def place(self, ids: Tensor, matrix: Tensor) -> Tensor:
        """Multiply one-hot rows with the matrix."""
        hot = F.one_hot(ids.long(), matrix.size(0)).to(matrix.dtype)
        return self.positions(math.sqrt(self.config.d_model) * hot @ matrix)

    def encode(self, src):
        """Make the memory."""
        placed = self.place(src, self.src_embedding.weight)
        return self.encoder(placed, padding_mask(src, self.config.pad_id))

    def decode(self, tgt, memory, src):
        """Score the next tokens."""
        own, other = (padding_mask(ids, self.config.pad_id) for ids in (tgt, src))
        mask = causal_mask(tgt.size(-1)) * own
        placed = self.place(tgt, self.tgt_embedding.weight)
        return F.linear(self.decoder(placed, memory, mask, other), self.output.weight)

    def forward(self, source, target):
        """Do both."""
        return self.decode(target, self.encode(source), source)

    def attention_maps(self, src, tgt):
        """Hang hooks by name."""
        found, handles = {"encoder": [], "decoder": [], "cross": []}, []
        for name, module in self.named_modules():
            if name.endswith("_attn"):
                place = "cross" if name.endswith("cross_attn") else name.split(".")[0]
                handles += [
                    module.register_forward_pre_hook(
                        lambda m, a, k: (a, {**k, "need_weights": True}), with_kwargs=True
                    ),
                    module.register_forward_hook(
                        lambda m, a, output, kept=found[place]: kept.append(output[1])
                    ),
                ]
        try:
            self(src, tgt)
        finally:
            for handle in handles:
                handle.remove()
        return {place: torch.stack(weights) for place, weights in found.items()}


class ModelLayerByLayer(nn.Module):
    """Run the layers by hand, masks made by comparing places, waves from the function."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        sizes = [config.d_model, config.num_heads, config.d_ff]
        how = [config.dropout, config.norm_first, config.activation]
        self.encoder = Encoder(
            config.num_encoder_layers, *sizes, *how, d_v=config.d_v, d_k=config.d_k
        )
        self.decoder = Decoder(
            config.num_decoder_layers, *sizes, *how, d_v=config.d_v, d_k=config.d_k
        )
        self.positions = nn.Dropout(config.dropout)
        table = sinusoidal_encoding(config.max_len, config.d_model)
        self.register_buffer("table", table, persistent=False)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        if config.tie_embeddings != "none":
            self.output.weight = self.tgt_embedding.weight
        if config.tie_embeddings == "all":
            self.src_embedding.weight = self.tgt_embedding.weight
        self.apply(self.begin)
        for embedding in (self.tgt_embedding, self.src_embedding):
            self.begin(embedding)

    @staticmethod
    def begin(module: nn.Module) -> None:
        """Start one part."""
        if isinstance(module, nn.Embedding):
            module.weight.data.normal_(0, module.weight.size(1) ** -0.5)
        elif isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            module.weight.data.uniform_(-bound, bound)

    def vectors(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        """Look up, scale, place, drop."""
        scaled = F.embedding(ids, embedding.weight) * math.sqrt(embedding.embedding_dim)
        return self.positions(scaled + self.table[: ids.shape[-1]])

    def encode(self, src):
        """Run the encoder's layers."""
        x = self.vectors(src, self.src_embedding)
        for layer in self.encoder.layers:
            x = layer(x, padding_mask(src, self.config.pad_id))
        return x if self.encoder.norm is None else self.encoder.norm(x)

    def decode(self, tgt, memory, src):
        """Run the decoder's layers."""
        steps = torch.arange(tgt.shape[1], device=tgt.device)
        visible = (steps.view(-1, 1) >= steps) & (tgt != self.config.pad_id)[:, None, None]
        x = self.vectors(tgt, self.tgt_embedding)
        for layer in self.decoder.layers:
            x = layer(x, memory, visible, (src != self.config.pad_id)[:, None, None])
        x = x if self.decoder.norm is None else self.decoder.norm(x)
        return self.output(x)

    def forward(self, src, tgt):
        """Encode and decode."""
        return self.decode(memory=self.encode(src), src=src, tgt=tgt)

    def attention_maps(self, src, tgt):
        """Let capture_attention listen."""
        layers = self.decoder.layers
        return capture_attention(
            dict(
                encoder=[layer.self_attn for layer in self.encoder.layers],
                decoder=[layer.self_attn for layer in layers],
                cross=[layer.cross_attn for layer in layers],
            ),
            run=lambda: self(src, tgt),
        )


ANSWERS = START | {"Transformer": (ModelInSmallSteps, ModelOfProducts, ModelLayerByLayer)}
