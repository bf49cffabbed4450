"""The numbers that each explorer's ES module computes, from the course's own functions."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.beam_search import Beams, beam_search, length_penalty
from course_lib.decoding import greedy_decode
from course_lib.masks import causal_mask, padding_mask
from course_lib.modern_decoder import apply_rope, rope_angles
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding, sinusoidal_encoding
from course_lib.support.pre_tokenization import byte_words
from course_lib.tokenization import merge_pair
from course_lib.training import warmup_inverse_sqrt
from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.beam_explorer import BeamExplorer
from course_lib.viz.explorer_base import Explorer
from course_lib.viz.mask_explorer import (
    D_MODEL,
    DECODER,
    ENCODER,
    MAX_WORDS,
    PAD,
    UNK,
    MaskExplorer,
)
from course_lib.viz.position_explorer import PositionExplorer
from course_lib.viz.schedule_explorer import ScheduleExplorer
from course_lib.viz.token_explorer import TokenExplorer, number_tokenizer

KEYS = torch.tensor([[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]]).double()
VALUES = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 3.0]]).double()
PAD_ID, BOS_ID, END_ID = 0, 1, 2
CUT, KEPT, ENDED = "cut", "kept", "ended"  # what happens to a continuation
LIMIT = 9  # the largest number of tokens in a sentence
WIDE = 16  # a beam of this size misses no sentence of the language
SOURCE = torch.ones(1, 1, dtype=torch.long)  # (B, S); the language ignores the source
HOW: dict[str, Any] = {"bos_id": BOS_ID, "eos_id": END_ID, "use_cache": False}
PAPER = {"warmup_steps": 4000, "d_model": 512}  # table 3, row (base)
LAST = 100_000  # the last step in the picture


@singledispatch
def numbers(explorer: Explorer) -> dict[str, Any]:
    """Compute the same numbers as ``compute`` in the explorer's module, for its state."""
    raise NotImplementedError(f"register a function for {type(explorer).__name__}")


@numbers.register
def attention_numbers(explorer: AttentionExplorer) -> dict[str, Any]:
    """Compute scores, weights, output, and the norm of the largest weight's gradient."""
    scale = (1 if explorer.divide else math.sqrt(explorer.d_k)) / explorer.temperature
    query = torch.tensor([[explorer.x, explorer.y]], dtype=torch.float64) * scale  # (1, 2)
    scores = (query @ KEYS.mT / math.sqrt(2))[0].requires_grad_()  # (S,)
    output, weights = scaled_dot_product_attention(query, KEYS, VALUES)
    (gradient,) = torch.autograd.grad(scores.softmax(-1)[weights.argmax()], scores)
    values = {"scores": scores, "weights": weights[0], "output": output[0]}
    named = {name: value.tolist() for name, value in values.items()}
    return named | {"gradient": gradient.norm().item()}


@contextmanager
def float64() -> Iterator[None]:
    """Make float64 the default type, so that the course's tables use it."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(kept)


def position_vectors(explorer: PositionExplorer) -> Tensor:
    """Return the vector of every position. Shape (L, d_model)."""
    length, width = explorer.positions, explorer.d_model
    with float64():
        if explorer.kind == "learned":
            return torch.tensor(explorer.learned[:length]) / 100
        if explorer.kind == "none":
            return torch.zeros(length, width)
        if explorer.kind == "sinusoidal" and explorer.base == 10_000:
            return sinusoidal_encoding(length, width)
        angles = rope_angles(length, width, explorer.base)  # (L, d_model / 2)
        if explorer.kind == "sinusoidal":
            return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        word = torch.sin(1 + torch.arange(width) ** 2.0).expand(length, -1)
        return apply_rope(word, angles)


@numbers.register
def position_numbers(explorer: PositionExplorer) -> dict[str, Any]:
    """Compute all codes, one position's products, and the products' range at each distance."""
    table = position_vectors(explorer)
    all_products = table @ table.T  # (L, L)
    last = explorer.positions - 1
    position = min(explorer.position, last)
    products = all_products[position]  # (L,)
    others = products.clone()
    others[position] = -torch.inf
    best = (others > others.max() - 1e-6).nonzero().flatten()
    spans = [all_products.diagonal(k).aminmax() for k in range(-last, last + 1)]
    return {
        "table": table.tolist(),
        "products": products.tolist(),
        "similar": int(best[(best - position).abs().argmin()]),
        "lows": [low.item() for low, _ in spans],
        "highs": [high.item() for _, high in spans],
    }


def mask_of(explorer: MaskExplorer, length: int, keys: list[str]) -> Tensor:
    """Build the chosen mask for some queries and keys. Shape (T, S), True = may look."""
    ids = torch.tensor([[key != PAD for key in keys]]).int()  # (1, S), 0 is padding
    causal = causal_mask(MAX_WORDS)[:length, : len(keys)]
    real = padding_mask(ids, pad_id=0)[0, 0].expand(length, -1)
    own = torch.tensor([[cell == "1" for cell in row] for row in explorer.cells])
    masks = {
        "causal": causal,
        "padding": real,
        "both": causal & real,
        "nothing blocked": torch.ones_like(real),
        "your own": own[:length, : len(keys)],
    }
    return masks[explorer.mask]


def weights_of(explorer: MaskExplorer, queries: list[str], keys: list[str], mask: Tensor) -> Tensor:
    """Compute the trained layer's attention weights in float64. Shape (T, S)."""
    vectors, projections = explorer.layer["embedding"], explorer.layer[explorer.attention]
    attention = MultiHeadAttention(D_MODEL, 1, bias=False).double()
    for name, projection in projections.items():
        getattr(attention, name).weight.data = torch.tensor(projection).double() / 100
    positions = PositionalEncoding(D_MODEL, MAX_WORDS)
    query, key = (
        positions(
            torch.tensor([[vectors.get(word, vectors[UNK]) for word in words]]).double() / 100
        )
        for words in (queries, keys)
    )  # (1, T, d_model), (1, S, d_model)
    return attention(query, key, key, mask, need_weights=True)[1][0, 0]


@numbers.register
def mask_numbers(explorer: MaskExplorer) -> dict[str, Any]:
    """Compute the mask, the chosen row, the weights, and how much weight leaks in each row."""
    queries = (explorer.source if explorer.attention == ENCODER else explorer.target).split()
    keys = (explorer.target if explorer.attention == DECODER else explorer.source).split()
    mask = mask_of(explorer, len(queries), keys)
    weights = weights_of(explorer, queries, keys, mask)
    row = mask[min(explorer.row, len(queries) - 1)]  # (S,)
    is_real = torch.tensor([[query != PAD] for query in queries])  # (T, 1)
    leaked = torch.zeros(len(queries))
    if explorer.attention == DECODER:
        leaked = (weights.triu(1) * is_real).sum(dim=-1)  # (T,)
    values = {"mask": mask, "weights": weights, "leaked": leaked}
    values |= {"blocked": ~row, "additive": row.log()}
    return {name: value.tolist() for name, value in values.items()}


@numbers.register
def token_numbers(explorer: TokenExplorer) -> dict[str, Any]:
    """Compute the ids after each merge that applies, and that merge's number."""
    tokenizer = number_tokenizer()
    words = byte_words(explorer.text)
    steps, places = [[tokenizer.ids[token] for word in words for token in word]], [0]
    for place, pair in enumerate(tokenizer.ranks, start=1):
        words = [merge_pair(word, pair) for word in words]
        ids = [tokenizer.ids[token] for word in words for token in word]
        if ids != steps[-1]:
            steps.append(ids)
            places.append(place)
    return {"steps": steps, "places": places}


@numbers.register
def schedule_numbers(explorer: ScheduleExplorer) -> dict[str, Any]:
    """Compute both curves, and the final losses of the runs with the nearest warm-up."""
    yours = {"d_model": explorer.d_model, "warmup_steps": explorer.warmup_steps}
    curves = {}
    for name, one in (("yours", yours), ("paper", PAPER)):
        steps = (1, one["warmup_steps"], LAST)
        curves[name] = [[step, math.log10(warmup_inverse_sqrt(step, **one))] for step in steps]
    distance = [abs(math.log(run["warmup_steps"] / explorer.warmup_steps)) for run in explorer.runs]
    nearest = explorer.runs[distance.index(min(distance))]
    return curves | {
        "recorded": nearest["warmup_steps"],
        "reached": [losses[-1] for losses in nearest["losses"]],
    }


class Language(nn.Module):
    """A bigram language model that counts the calls to ``decode``."""

    def __init__(self, steps: dict[str, dict[str, float]]) -> None:
        super().__init__()
        self.words = ["pad", "bos", "end", *sorted(steps.keys() - {"bos"})]
        rows = [steps.get(last, {"pad": 1.0}) for last in self.words]
        table = [[row.get(word, 0.0) for word in self.words] for row in rows]
        self.table = torch.tensor(table, dtype=torch.float64).log()  # (V, V): from, to
        self.config = SimpleNamespace(max_len=LIMIT, pad_id=PAD_ID, tgt_vocab_size=len(rows))
        self.encode, self.calls = nn.Identity(), 0  # the source does not matter

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Return the next word's log-probabilities at every position: (B, T) → (B, T, V)."""
        self.calls += 1
        return self.table[tgt]

    def log_prob(self, ids: list[int]) -> float:
        """Return the log-probability of a hypothesis."""
        return sum(self.table[pair].item() for pair in pairwise([BOS_ID, *ids]))

    def text(self, ids: list[int]) -> str:
        """Return a hypothesis as text, without padding."""
        return " ".join(self.words[token] for token in ids if token != PAD_ID)


def beam_columns(explorer: BeamExplorer, model: Any, steps: int) -> list[list[dict[str, Any]]]:
    """Return each step's best 2K continuations, each with its parent, word, total and fate."""
    columns: list[list[dict[str, Any]]] = []
    kept = [0]
    beams = Beams(model, SOURCE, BOS_ID, explorer.beam_size, LIMIT, use_cache=False)
    for length in range(1, steps + 1):
        logits = model.table[beams.tgt[..., length - 1]]  # (1, K, V)
        sums = beams.totals.unsqueeze(-1) + logits.log_softmax(dim=-1)  # as in beam_step
        totals, places = sums.flatten().topk(2 * explorer.beam_size)  # the 2K best, best first
        best = (each.tolist() for each in (*torch.unravel_index(places, sums.shape[1:]), totals))
        ends = beams.step(length, END_ID)[1][0].tolist()  # (K,): -inf if a hypothesis did not end
        beams.keep(torch.tensor([0]))
        fates = dict.fromkeys(beams.totals[0].tolist(), KEPT) | dict.fromkeys(ends, ENDED)
        column = [
            {
                "parent": {"rank": kept[parent]},
                "word": model.words[token],
                "total": total,
                "fate": fates.get(total, CUT),
            }
            for parent, token, total in zip(*best, strict=True)
            if total > -math.inf
        ]
        kept = [rank for rank, node in enumerate(column) if node["fate"] == KEPT]
        columns.append(column)
    return columns


def followed_hypothesis(
    explorer: BeamExplorer, columns: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    """Find the followed sentence in the tree, or else its longest prefix in the tree."""
    found: dict[str, dict[str, Any]] = {}  # every hypothesis in the tree, by its text
    texts = [""]
    for length, column in enumerate(columns, 1):
        texts = [f"{texts[node['parent']['rank']]} {node['word']}".strip() for node in column]
        for rank, text in enumerate(texts):
            found[text] = {"length": length, "rank": rank, "text": text}
    words = explorer.sentence.split()
    parts = [" ".join(words[:length]) for length in range(len(words), 0, -1)]
    return next((found[part] for part in parts if part in found), next(iter(found.values())))


@numbers.register
def beam_numbers(explorer: BeamExplorer) -> dict[str, Any]:
    """Compute the tree up to a step, its finished sentences, and the followed hypothesis."""
    K, alpha = explorer.beam_size, explorer.alpha
    model: Any = Language(explorer.language)
    beam_search(model, SOURCE, beam_size=K, alpha=alpha, **HOW)
    steps = model.calls
    columns = beam_columns(explorer, model, min(explorer.step, steps))
    pool = [
        {"score": node["total"] / length_penalty(length, alpha), "length": length, "rank": rank}
        for length, column in enumerate(columns, 1)
        for rank, node in enumerate(column)
        if node["fate"] == ENDED
    ]
    greedy = greedy_decode(model, SOURCE, **HOW)[0].tolist()
    greedy_score = model.log_prob(greedy) / length_penalty(len(greedy), alpha)
    best, scores = beam_search(model, SOURCE, beam_size=WIDE, alpha=alpha, **HOW)
    return {
        "steps": steps,
        "columns": columns,
        "pool": sorted(pool, key=lambda node: node["score"], reverse=True)[:K],
        "followed": followed_hypothesis(explorer, columns),
        "greedy": {"score": greedy_score, "text": model.text(greedy)},
        "best": {"score": scores[0, 0].item(), "text": model.text(best[0, 0].tolist())},
    }
