"""Right answers of chapter 18, in other styles; those that write stand apart."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.exercises.solutions.gpt_sampling import ANSWERS as WRITING
from course_lib.feed_forward import FeedForward
from course_lib.gpt import CausalSelfAttention, GPTLayer
from course_lib.multi_head import split_heads
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.transformer import check_ids


class AttentionBySums(nn.Module):
    """Cut the product into three, split as chapter 02 does, and write the sums down."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} does not divide by {num_heads}")
        self.w_qkv = nn.Linear(d_model, d_model * 3)
        self.w_o = nn.Linear(d_model, d_model)
        self.num_heads, self.dropout = num_heads, dropout
        self.drop = nn.Dropout(dropout)

    def project(self, x):
        """Cut, and split."""
        q, k, v = self.w_qkv(x).chunk(3, dim=2)
        return [split_heads(part, self.num_heads) for part in (q, k, v)]

    def merge(self, heads):
        """Put heads side by side, one after the other."""
        return self.w_o(torch.cat(heads.unbind(dim=1), dim=-1))

    def forward(self, x):
        """Hide what comes later with minus infinity."""
        q, k, v = self.project(x)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        weights = self.drop(scores.masked_fill(later, float("-inf")).softmax(dim=-1))
        return self.merge(torch.einsum("bhts,bhsd->bhtd", weights, v))


class AttentionTokenByToken(nn.Module):
    """Let each token ask the prefix that ends with it: nothing has to be hidden."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_k, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"a remainder of {rest}")
        self.w_o, self.w_qkv = nn.Linear(d_model, d_model), nn.Linear(d_model, 3 * d_model)
        self.num_heads, self.dropout = num_heads, dropout

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        """Take rows of the weight, third by third."""
        thirds = zip(self.w_qkv.weight.chunk(3), self.w_qkv.bias.chunk(3), strict=True)
        shape = (len(x), -1, self.num_heads, self.d_k)
        return tuple(F.linear(x, w, b).view(shape).transpose(1, 2) for w, b in thirds)

    def merge(self, heads: Tensor) -> Tensor:
        """Bring tokens to the front, and forget where a head ends."""
        B, H, T, d_k = heads.shape
        return self.w_o(heads.permute(0, 2, 1, 3).reshape(B, T, H * d_k))

    def forward(self, x: Tensor) -> Tensor:
        """Ask one by one."""
        q, k, v = self.project(x)
        p = self.dropout * self.training
        said = [
            F.scaled_dot_product_attention(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1],
                                           dropout_p=p)
            for t in range(x.size(1))
        ]  # fmt: skip
        return self.merge(torch.cat(said, dim=2))


class LayerOfLines(nn.Module):
    """Write norms, sums and dropout out."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.self_attn = CausalSelfAttention(d_model, num_heads, dropout=dropout)
        self.feed_forward = FeedForward(d_model, 4 * d_model, activation="gelu")
        self.add_norm1 = nn.ModuleDict({"norm": nn.LayerNorm(d_model)})
        self.add_norm2 = nn.ModuleDict({"norm": LayerNorm(d_model)})
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Look back, then think."""
        x = x + self.drop(self.self_attn(self.add_norm1["norm"](x)))
        return x + self.drop(self.feed_forward(self.add_norm2["norm"](x)))


class LayerOfPairs(nn.Module):
    """Go through pairs of a frame and what it frames."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        frame = dict(d_model=d_model, dropout=dropout, norm_first=True)
        self.add_norm2, self.add_norm1 = AddNorm(**frame), AddNorm(**frame)
        self.feed_forward = FeedForward(d_model, d_model * 4, 0.0, "gelu")
        self.self_attn = CausalSelfAttention(d_model, num_heads, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Frame after frame."""
        pairs = {self.add_norm1: self.self_attn, self.add_norm2: self.feed_forward}
        for frame, sublayer in pairs.items():
            x = frame(x, lambda y, sublayer=sublayer: sublayer(y))
        return x


class GPTOfSteps(nn.Module):
    """Start modules by ``apply``, and count the loss by hand."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config.d_model
        self.output = nn.Linear(width, config.vocab_size, bias=False)
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.embedding.weight = self.output.weight
        self.positions = LearnedPositionalEmbedding(width, config.max_len, config.dropout)
        self.layers = nn.ModuleList()
        for _ in range(config.num_layers):
            self.layers.append(GPTLayer(width, config.num_heads, config.dropout))
        self.norm = nn.LayerNorm(width)
        self.apply(self.start)
        for layer in self.layers:
            for part in (layer.self_attn.w_o, layer.feed_forward.linear2):
                nn.init.normal_(part.weight, 0.0, 0.02 * (2 * config.num_layers) ** -0.5)
        if not config.bias:
            self.apply(lambda m: m.register_parameter("bias", None) if hasattr(m, "bias") else None)

    @staticmethod
    def start(module):
        """Start one module."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if getattr(module, "bias", None) is not None:
            module.bias.data.zero_()

    def forward(self, ids, targets=None):
        """Score, and take the mean of what the right ones lack."""
        check_ids(ids, self.config.vocab_size, self.config.max_len, "text")
        x = self.positions(self.embedding(ids))
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        if targets is None:
            return logits, None
        if targets.size() != ids.size():
            raise ValueError("a target for each id, please")
        right = logits.gather(2, targets.unsqueeze(2)).squeeze(2)
        return logits, (logits.logsumexp(dim=2) - right).mean()


class GPTInARow(nn.Module):
    """Keep the layers in a row that runs by itself; lay positions on the vectors by hand."""

    def __init__(self, config) -> None:
        super().__init__()
        c, self.config = config, config
        row = [GPTLayer(c.d_model, c.num_heads, dropout=c.dropout) for _ in range(c.num_layers)]
        self.embedding, self.positions = nn.Embedding(c.vocab_size, c.d_model), nn.Module()
        self.positions.weight = nn.Parameter(torch.empty(c.max_len, c.d_model))
        self.layers, self.norm = nn.Sequential(*row), nn.LayerNorm(c.d_model, bias=c.bias)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.output.weight = self.embedding.weight
        quiet = {id(m.w_o.weight) for m in self.modules() if hasattr(m, "w_o")}
        quiet |= {id(m.linear2.weight) for m in self.modules() if hasattr(m, "linear2")}
        with torch.no_grad():
            for p in self.parameters():
                if p.ndim > 1:
                    p.normal_().mul_(0.02 / math.sqrt(2 * c.num_layers if id(p) in quiet else 1))
        for module in [m for m in self.modules() if isinstance(getattr(m, "bias", None), Tensor)]:
            module.bias = nn.Parameter(torch.zeros_like(module.bias)) if c.bias else None

    def forward(self, ids: Tensor, targets: Tensor | None = None):
        """Refuse, score, compare."""
        c = self.config
        check_ids(ids, c.vocab_size, c.max_len, "input")
        if targets is not None and tuple(targets.shape) != tuple(ids.shape):
            raise ValueError(f"{tuple(targets.shape)} targets")
        x = self.embedding(ids) + self.positions.weight[None, : ids.size(-1)]
        logits = self.output(self.norm(self.layers(F.dropout(x, c.dropout, self.training))))
        loss = None if targets is None else F.cross_entropy(logits.transpose(1, 2), targets)
        return logits, loss


def groups_by_sorting(model, weight_decay):
    """Put each parameter into one of two lists."""
    if weight_decay < 0.0:
        raise ValueError(f"weight_decay={weight_decay}")
    lists = {True: [], False: []}
    for _, parameter in model.named_parameters():
        if parameter.requires_grad:
            lists[parameter.ndim > 1].append(parameter)
    kinds = ((True, weight_decay), (False, 0))
    return [{"params": lists[matrix], "weight_decay": strength} for matrix, strength in kinds]


def groups_by_walking(model: nn.Module, weight_decay: float) -> tuple[dict, dict]:
    """Walk from module to module, and remember whom one has met."""
    if not weight_decay >= 0:
        raise ValueError("a strength below 0")
    met, decays, rests = set(), [], []

    def walk(module: nn.Module) -> None:
        """Look at a module's own parameters, and go on to what is in it."""
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in met:
                (rests if len(parameter.shape) < 2 else decays).append(parameter)
            met.add(id(parameter))
        for child in module.children():
            walk(child)

    walk(model)
    rest = {"weight_decay": 0.0, "params": tuple(rests), "name": "gains and biases"}
    return {"params": decays, "weight_decay": weight_decay}, rest


ANSWERS = WRITING | {
    "CausalSelfAttention": (AttentionBySums, AttentionTokenByToken),
    "GPTLayer": (LayerOfLines, LayerOfPairs),
    "GPT": (GPTOfSteps, GPTInARow),
    "param_groups": (groups_by_sorting, groups_by_walking),
}
