"""Chapter 05 in other words."""

from torch import Tensor, nn
from torch.nn import functional as F


class ByFunctions(nn.Module):
    """Call torch's functions."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout, self.activation = nn.Dropout(dropout), getattr(F, activation)

    def forward(self, x: Tensor) -> Tensor:
        """Say it in one line."""
        return self.linear2(
            F.dropout(self.activation(self.linear1(x)), self.dropout.p, self.training)
        )


class PositionwiseFeedForward(nn.Module):
    """Be the Annotated Transformer's: a core without a choice of activation."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        """Project up, bend, drop, project down."""
        return self.w_2(self.dropout(self.w_1(x).relu()))


class MLP(nn.Module):
    """Take a config as nanoGPT does, with the paper's activation; dropout comes last."""

    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, config.d_ff)
        self.c_proj = nn.Linear(config.d_ff, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        """Write one step a line."""
        x = self.c_fc(x)
        x = F.relu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class PositionWiseFFN(nn.Module):
    """Be d2l's: other names of the sizes, and no dropout."""

    def __init__(self, ffn_num_hiddens, ffn_num_input):
        super().__init__()
        self.dense1 = nn.Linear(ffn_num_input, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_input)

    def forward(self, X):
        """Say it in one line."""
        return self.dense2(self.relu(self.dense1(X)))


ANSWERS = {"FeedForward": (ByFunctions, PositionwiseFeedForward, MLP, PositionWiseFFN)}
