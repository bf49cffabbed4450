"""Chapter 07 in other words."""

import copy
import functools

from torch import Tensor, nn

from course_lib.add_norm import AddNorm
from course_lib.encoder import EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention


class LayerOfNamedSteps(nn.Module):
    """Give the attention step a name of its own."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu",
                 *, d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0):  # fmt: skip
        super().__init__()
        self.add_norm2, self.add_norm1 = (AddNorm(d_model, dropout, norm_first) for _ in range(2))
        self.feed_forward = FeedForward(
            d_model, d_ff, dropout=activation_dropout, activation=activation
        )
        self.self_attn = MultiHeadAttention(
            d_model=d_model, num_heads=num_heads, dropout=attention_dropout, d_k=d_k, d_v=d_v
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend with the weights asked for, too."""

        def attend(tokens: Tensor) -> Tensor:
            """Return the first of attention's two answers."""
            output, _ = self.self_attn(tokens, tokens, tokens, mask=mask, need_weights=True)
            return output

        return self.add_norm2(self.add_norm1(x, attend), self.feed_forward)


class TransformerEncoderBlock(nn.Module):
    """Take d2l's arguments and attribute names; the norm and the sum are written inside."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias=True):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, bias=use_bias)
        self.addnorm1 = nn.ModuleDict({"ln": nn.LayerNorm(num_hiddens)})
        self.ffn = nn.Sequential(
            nn.Linear(num_hiddens, ffn_num_hiddens),
            nn.ReLU(),
            nn.Linear(ffn_num_hiddens, num_hiddens),
        )
        self.addnorm2 = nn.ModuleDict({"ln": nn.LayerNorm(num_hiddens)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, X, attention_mask=None):
        """Follow figure 1."""
        Y = self.dropout(self.attention(X, X, X, attention_mask)[0])
        Y = self.addnorm1["ln"](Y + X)
        return self.addnorm2["ln"](self.dropout(self.ffn(Y)) + Y)


class Block(nn.Module):
    """Take a config as nanoGPT does, with the norms where the paper has them."""

    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = MultiHeadAttention(config.n_embd, config.n_head)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.c_fc = nn.Linear(config.n_embd, config.d_ff)
        self.c_proj = nn.Linear(config.d_ff, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, mask=None):
        """Write one sub-layer a line."""
        x = self.ln_1(x + self.dropout(self.attn(x, x, x, mask)[0]))
        return self.ln_2(x + self.dropout(self.c_proj(self.c_fc(x).relu())))


class StackByCounting(nn.Module):
    """Build the list piece by piece; end in a module that does nothing."""

    def __init__(self, num_layers, d_model, *args, **kwargs):
        super().__init__()
        make = functools.partial(EncoderLayer, d_model, *args, **kwargs)
        self.layers = nn.ModuleList([make()])
        self.layers.extend(make() for _ in range(1, num_layers))
        pre = self.layers[-1].add_norm2.norm_first
        self.norm = nn.LayerNorm(d_model) if pre else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Count through the layers."""
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask=mask)
        return self.norm(x)


class EncoderOfClones(nn.Module):
    """Copy one layer N times, as the Annotated Transformer does; draw each anew."""

    def __init__(self, N, d_model, d_ff, h, dropout=0.1):
        super().__init__()
        layer = EncoderLayer(d_model, h, d_ff, dropout)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(N)])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, mask):
        """Pass the input and the mask through each layer in turn."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class TransformerEncoder(nn.Module):
    """Take d2l's arguments, in its order."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        super().__init__()
        self.blks = nn.Sequential()
        for i in range(num_blks):
            block = TransformerEncoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout)
            self.blks.add_module("block" + str(i), block)

    def forward(self, X, valid=None):
        """Call one block after another."""
        for blk in self.blks:
            X = blk(X, valid)
        return X


class StackOfBlocks(nn.Module):
    """Take a config as nanoGPT does."""

    def __init__(self, config):
        super().__init__()
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])

    def forward(self, x, mask=None):
        """Fold the blocks into one call."""
        return functools.reduce(lambda x, block: block(x, mask), self.h, x)


ANSWERS = {
    "EncoderLayer": (LayerOfNamedSteps, TransformerEncoderBlock, Block),
    "Encoder": (StackByCounting, EncoderOfClones, TransformerEncoder, StackOfBlocks),
}
