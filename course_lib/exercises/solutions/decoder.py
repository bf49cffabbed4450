"""Chapter 08 in other words."""

from copy import deepcopy
from functools import reduce

from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.decoder import DecoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention


class LayerWithNamedSteps(nn.Module):
    """Write every sub-layer as a method, and give AddNorm the method."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", *,
        d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        for place in ("self_attn", "cross_attn"):
            part = MultiHeadAttention(
                d_model, num_heads, d_k=d_k, d_v=d_v, dropout=attention_dropout
            )
            self.add_module(place, part)
        for number in (1, 2, 3):
            setattr(self, f"add_norm{number}", AddNorm(d_model, dropout, norm_first))
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout, activation)

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Keep what the steps need, and run them in their order."""

        def back(queries: Tensor) -> Tensor:
            """Look back."""
            answer, _ = self.self_attn(queries, queries, queries, self_mask, need_weights=True)
            return answer

        def across(queries: Tensor) -> Tensor:
            """Look across."""
            answer, _ = self.cross_attn(queries, memory, memory, mask=cross_mask)
            return answer

        steps = (back, across, self.feed_forward)
        add_norms = (self.add_norm1, self.add_norm2, self.add_norm3)
        for add_norm, step in zip(add_norms, steps, strict=True):
            x = add_norm(x, step)
        return x


class LayerOfFunctions(nn.Module):
    """Let the parts hold the numbers only, and do the arithmetic with torch's functions."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", *,
        d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        self.self_attn, self.cross_attn = (
            MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v) for _ in range(2)
        )
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation)
        self.add_norm1 = AddNorm(d_model, norm_first=norm_first)
        self.add_norm2 = AddNorm(d_model, norm_first=norm_first)
        self.add_norm3 = AddNorm(d_model, norm_first=norm_first)
        self.shares = (dropout, attention_dropout, activation_dropout)

    def look(self, part: nn.Module, asking: Tensor, answering: Tensor, mask) -> Tensor:
        """Attend with torch's fused kernel, head by head side by side."""
        heads = (part.num_heads, -1)
        q = part.w_q(asking).unflatten(-1, heads).movedim(-2, 1)
        k = part.w_k(answering).unflatten(-1, heads).movedim(-2, 1)
        v = part.w_v(answering).unflatten(-1, heads).movedim(-2, 1)
        share = self.shares[1] if self.training else 0.0
        said = F.scaled_dot_product_attention(q, k, v, mask, share)
        return part.w_o(said.movedim(1, 2).flatten(-2))

    def think(self, x: Tensor) -> Tensor:
        """Compute feed-forward."""
        inner = self.feed_forward.activation(self.feed_forward.linear1(x))
        return self.feed_forward.linear2(F.dropout(inner, self.shares[2], self.training))

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Add and normalize three times."""
        sublayers = {
            self.add_norm1: lambda z: self.look(self.self_attn, z, z, self_mask),
            self.add_norm2: lambda z: self.look(self.cross_attn, z, memory, cross_mask),
            self.add_norm3: self.think,
        }
        for part, sublayer in sublayers.items():
            norm, early = part.norm, part.norm_first
            said = F.dropout(sublayer(norm(x) if early else x), self.shares[0], self.training)
            x = x + said if early else norm(x + said)
        return x


class SublayerConnection(nn.Module):
    """Hold the norm and the dropout around one sub-layer."""

    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Add, then normalize."""
        return self.norm(x + self.dropout(sublayer(x)))


class LayerOfTheAnnotatedTransformer(nn.Module):
    """Take its names, and its order of the masks: the source's first."""

    def __init__(self, size, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(size, h)
        self.src_attn = MultiHeadAttention(size, h)
        self.feed_forward = FeedForward(size, d_ff)
        self.sublayer = nn.ModuleList([SublayerConnection(size, dropout) for _ in range(3)])

    def forward(self, x, memory, src_mask, tgt_mask):
        """Follow figure 1."""
        m = memory
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask)[0])
        x = self.sublayer[1](x, lambda x: self.src_attn(x, m, m, src_mask)[0])
        return self.sublayer[2](x, self.feed_forward)


class TransformerDecoderBlock(nn.Module):
    """Take d2l's arguments and attribute names."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention1 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm1 = SublayerConnection(num_hiddens, dropout)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm2 = SublayerConnection(num_hiddens, dropout)
        self.ffn = nn.Module()
        self.ffn.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.ffn.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)
        self.addnorm3 = SublayerConnection(num_hiddens, dropout)

    def forward(self, X, enc_outputs, dec_mask=None, enc_mask=None):
        """Name what every step makes."""
        Y = self.addnorm1(X, lambda X: self.attention1(X, X, X, dec_mask)[0])
        Z = self.addnorm2(Y, lambda Y: self.attention2(Y, enc_outputs, enc_outputs, enc_mask)[0])
        return self.addnorm3(Z, lambda Z: self.ffn.dense2(F.relu(self.ffn.dense1(Z))))


class StackByAppending(nn.Module):
    """Name the arguments, build in a loop, run by index."""

    def __init__(
        self, num_layers, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, **options
    ):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(
                DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first, **options)
            )
        if norm_first:
            self.norm = nn.LayerNorm(d_model)
        else:
            self.norm = nn.Identity()

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Run from 0 to N - 1."""
        for i in range(len(self.layers)):
            x = self.layers[i](x, memory, cross_mask=cross_mask, self_mask=self_mask)
        return self.norm(x)


class DecoderOfClones(nn.Module):
    """Copy one layer N times, as the Annotated Transformer does; draw each anew."""

    def __init__(self, N, d_model, d_ff, h, dropout=0.1):
        super().__init__()
        first = LayerOfTheAnnotatedTransformer(d_model, h, d_ff, dropout)
        self.layers = nn.ModuleList([deepcopy(first) for _ in range(N)])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, memory, src_mask, tgt_mask):
        """Pass x from one layer to the next."""
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return x


class TransformerDecoder(nn.Module):
    """Take d2l's arguments, in its order."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout=0.0):
        super().__init__()
        sizes = (num_hiddens, ffn_num_hiddens, num_heads, dropout)
        self.blks = nn.ModuleList(TransformerDecoderBlock(*sizes) for _ in range(num_blks))

    def forward(self, X, enc_outputs, *masks):
        """Fold the stack with reduce."""
        return reduce(lambda Y, blk: blk(Y, enc_outputs, *masks), self.blks, X)


ANSWERS = {
    "DecoderLayer": (
        LayerWithNamedSteps,
        LayerOfFunctions,
        LayerOfTheAnnotatedTransformer,
        TransformerDecoderBlock,
    ),
    "Decoder": (StackByAppending, DecoderOfClones, TransformerDecoder),
}
