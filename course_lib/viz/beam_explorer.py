"""An explorer for beam search in the small language from chapter 14 (paper, §6.1)."""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from traitlets import Dict, Float, Int, Unicode

from course_lib.beam_search import Beams, beam_search, beam_step, length_penalty
from course_lib.decoding import greedy_decode
from course_lib.viz.explorer_base import Explorer

PAD, BOS, END = 0, 1, 2
CUT, KEPT, ENDED = "cut", "kept", "ended"  # what happens to a continuation
LIMIT = 9  # the largest number of tokens in a sentence
WIDE = 16  # a beam of this size misses no sentence of the language
SOURCE = torch.ones(1, 1, dtype=torch.long)  # (B, S); the language ignores the source
HOW: dict[str, Any] = {"bos_id": BOS, "eos_id": END, "use_cache": False}
SKY, ORDINARY = {"falls": 0.9, "end": 0.1}, {"end": 0.9, "again": 0.1}
WEATHER = {  # for each last word, the probabilities of the next word
    "bos": {"it": 0.5, "rain": 0.3, "snow": 0.15, "end": 0.05},
    "it": {"is": 0.5, "rains": 0.3, "end": 0.2},
    "rain": SKY,
    "snow": SKY,
    "is": {"raining": 0.6, "wet": 0.4},
    "rains": {"end": 0.6, "again": 0.4},
    "falls": {"end": 0.7, "again": 0.3},
    "raining": ORDINARY,
    "wet": ORDINARY,
    "again": {"end": 1.0},
}


class Language(nn.Module):
    """A bigram language model that counts the calls to ``decode``."""

    def __init__(self, steps: dict[str, dict[str, float]]) -> None:
        super().__init__()
        self.words = ["pad", "bos", "end", *sorted(steps.keys() - {"bos"})]
        rows = [steps.get(last, {"pad": 1.0}) for last in self.words]
        table = [[row.get(word, 0.0) for word in self.words] for row in rows]
        self.table = torch.tensor(table, dtype=torch.float64).log()  # (V, V): from, to
        self.config = SimpleNamespace(max_len=LIMIT, pad_id=PAD, tgt_vocab_size=len(rows))
        self.encode, self.calls = nn.Identity(), 0  # the source does not matter

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Return the next word's log-probabilities at every position: (B, T) → (B, T, V)."""
        self.calls += 1
        return self.table[tgt]

    def log_prob(self, ids: list[int]) -> float:
        """Return the log-probability of a hypothesis."""
        return sum(self.table[pair].item() for pair in pairwise([BOS, *ids]))

    def text(self, ids: list[int]) -> str:
        """Return a hypothesis as text, without padding."""
        return " ".join(self.words[token] for token in ids if token != PAD)


class BeamExplorer(Explorer):
    """An explorer that shows a beam search step by step and follows one hypothesis."""

    module = "beams"
    alt = (
        "A tree of four search steps, each of which keeps two hypotheses. Each step shows the four "
        "best continuations with their total log-probabilities, and whether they are kept, cut or "
        "ended. “rain falls” ended in step 3 with a total of −1.67, whose terms are next to the "
        "tree. It is the best sentence. Greedy decoding writes “it is raining”, with −2.00."
    )
    beam_size = Int(2, min=1, max=4).tag(sync=True, state=True)
    alpha = Float(0.0, min=0).tag(sync=True, state=True)
    step = Int(5, min=1).tag(sync=True, state=True)
    sentence = Unicode("rain falls end").tag(sync=True, state=True)
    language = Dict(default_value=WEATHER).tag(sync=True, state=True)

    def columns(self, model: Any, steps: int) -> list[list[dict[str, Any]]]:
        """Return each step's best 2K continuations, each with its parent, word, total and fate."""
        columns: list[list[dict[str, Any]]] = []
        kept = [0]
        beams = Beams(model, SOURCE, BOS, self.beam_size, LIMIT, use_cache=False)
        for length in range(1, steps + 1):
            logits = model.table[beams.tgt[..., length - 1]]  # (1, K, V)
            best = [each[0].tolist() for each in beam_step(logits, beams.totals, PAD)]
            ends = beams.step(length, END)[1][0].tolist()  # (K,): -inf if a hypothesis did not end
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

    def followed(self, columns: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Find the followed sentence in the tree, or else its longest prefix in the tree."""
        found: dict[str, dict[str, Any]] = {}  # every hypothesis in the tree, by its text
        texts = [""]
        for length, column in enumerate(columns, 1):
            texts = [f"{texts[node['parent']['rank']]} {node['word']}".strip() for node in column]
            for rank, text in enumerate(texts):
                found[text] = {"length": length, "rank": rank, "text": text}
        words = self.sentence.split()
        parts = [" ".join(words[:length]) for length in range(len(words), 0, -1)]
        return next((found[part] for part in parts if part in found), next(iter(found.values())))

    def numbers(self) -> dict[str, Any]:
        """Compute the tree up to a step, its finished sentences, and the followed hypothesis."""
        K, alpha = self.beam_size, self.alpha
        model: Any = Language(self.language)
        beam_search(model, SOURCE, beam_size=K, alpha=alpha, **HOW)
        steps = model.calls
        columns = self.columns(model, min(self.step, steps))
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
            "followed": self.followed(columns),
            "greedy": {"score": greedy_score, "text": model.text(greedy)},
            "best": {"score": scores[0, 0].item(), "text": model.text(best[0, 0].tolist())},
        }
