"""Chapter 08 in other words."""

from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.exercises.solutions.add_norm import SublayerConnection
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


ANSWERS = {
    "DecoderLayer": (LayerWithNamedSteps, LayerOfTheAnnotatedTransformer, TransformerDecoderBlock)
}
