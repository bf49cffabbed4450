"""Right answers of chapter 18, in other styles."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.decoding import sample_tokens
from course_lib.feed_forward import FeedForward
from course_lib.gpt import CausalSelfAttention, GPTLayer
from course_lib.kv_cache import KVCache
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
    """Write norms, residual connections and dropout out."""

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


def sample_by_hand(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                   generator=None, *, use_cache=True):  # fmt: skip
    """Draw with lines of one's own; make a new cache for nothing but the first window."""
    check_ids(ids, model.config.vocab_size, ids.size(-1), "text")
    if temperature <= 0 or top_k not in (None, *range(1, 999)) or not 0 < (top_p or 1) <= 1:
        raise ValueError(f"{temperature=}, {top_k=}, {top_p=}")
    mode = model.training
    model.eval()
    cache = KVCache(model.config.num_layers, model.config.max_len) if use_cache else None
    with torch.no_grad():
        for _ in range(max_new_tokens):
            window = ids[:, max(0, ids.size(1) - model.config.max_len) :]
            if cache is not None and window.size(1) == ids.size(1):
                last = model(ids[:, cache.length :], cache=cache)[0][:, -1]
            else:
                last = model(window)[0][:, -1]
            probs, tokens = (last / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
            if top_k is not None:
                probs[:, top_k:] = 0.0
            if top_p is not None:
                probs = probs / probs.sum(dim=-1, keepdim=True)
                probs[probs.cumsum(dim=-1) - probs >= top_p] = 0.0
            index = torch.multinomial(probs, num_samples=1, generator=generator)
            ids = torch.cat((ids, tokens.gather(1, index)), dim=1)
    model.train(mode)
    return ids


def sample_into_columns(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                     generator=None, *, use_cache=True):  # fmt: skip
    """Write into columns that are there from the start; a dropped cache is deleted."""
    if ids.size(1) == 0:
        raise ValueError("there is no text to go on with")
    was, limit, text = model.training, model.config.max_len, F.pad(ids, (0, max_new_tokens))
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    try:
        model.eval()
        cache = KVCache(model.config.num_layers, limit) if use_cache else None
        with torch.inference_mode():
            for end in range(ids.size(1), text.size(1)):
                cache = cache if end <= limit else None
                start = max(0, end - limit) if cache is None else cache.length
                logits, _ = model(text[:, start:end], **({"cache": cache} if cache else {}))
                text[:, end] = sample_tokens(logits[:, -1], **how)
    finally:
        model.train(was)
    return text


class AttentionOfNanoGPT(nn.Module):
    """Hold the core as nanoGPT does: c_attn and c_proj, sizes from a config."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        """Split, attend, join."""
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class BlockOfNanoGPT(nn.Module):
    """Hold the core as nanoGPT's block does: ln_1, attn, ln_2, mlp."""

    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(config.n_embd), AttentionOfNanoGPT(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        up = nn.Linear(config.n_embd, 4 * config.n_embd)
        down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.mlp = nn.ModuleDict(dict(c_fc=up, c_proj=down))

    def forward(self, x):
        """Attend, then transform."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GPTOfNanoGPT(nn.Module):
    """Hold the core under nanoGPT's names: wte, wpe, h, ln_f, lm_head."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.d_model),
            wpe=nn.Embedding(config.max_len, config.d_model),
            drop=nn.Dropout(config.dropout),
            h=nn.ModuleList(GPTLayer(config.d_model, config.num_heads, config.dropout)
                            for _ in range(config.num_layers)),
            ln_f=nn.LayerNorm(config.d_model),
        ))  # fmt: skip
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith(("w_o.weight", "linear2.weight")):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.num_layers))

    def _init_weights(self, module):
        """Start one module."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        """Embed, run the blocks, score; with targets, take the mean loss."""
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def groups_of_nanogpt(model, weight_decay):
    """Hold the core: two lists, by the number of axes."""
    param_dict = {n: p for n, p in model.named_parameters() if p.requires_grad}
    decay_params = [p for p in param_dict.values() if p.dim() >= 2]
    nodecay_params = [p for p in param_dict.values() if p.dim() < 2]
    return [
        {"params": decay_params, "weight_decay": weight_decay},
        {"params": nodecay_params, "weight_decay": 0.0},
    ]


@torch.no_grad()
def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None):
    """Hold the core as nanoGPT does: no cache, no nucleus, in whichever mode the model is."""
    for _ in range(max_new_tokens):
        logits, _ = model(idx[:, -model.config.max_len :])
        logits = logits[:, -1, :] / temperature
        if top_k is not None:
            v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
            logits[logits < v[:, [-1]]] = -float("inf")
        idx_next = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
        idx = torch.cat((idx, idx_next), dim=1)
    return idx


ANSWERS = {
    "CausalSelfAttention": (AttentionBySums, AttentionTokenByToken, AttentionOfNanoGPT),
    "GPTLayer": (LayerOfLines, LayerOfPairs, BlockOfNanoGPT),
    "GPT": (GPTOfSteps, GPTInARow, GPTOfNanoGPT),
    "param_groups": (groups_by_sorting, groups_by_walking, groups_of_nanogpt),
    "sample": (sample_by_hand, sample_into_columns, generate),
}
