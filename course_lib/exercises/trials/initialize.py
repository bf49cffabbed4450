"""What is asked of `initialize`: a start of the right size in every matrix, and nowhere else."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import value_trial

D_MODEL, D_FF = 64, 192  # large enough to measure the spread of what is drawn
VOCAB = 200
UNTOUCHED = 7.0  # in every bias and every gain
EMBEDDING = "times √d_model, the standard deviation of"
LINEAR = "as a share of Glorot and Bengio's bound, the largest number of"


class Parts(nn.Module):
    """Hold embeddings, linear layers and a norm, named as in a Transformer."""

    def __init__(self, tied: bool = False, output_first: bool = False) -> None:
        super().__init__()
        output = nn.Linear(D_MODEL, VOCAB, bias=False)
        if output_first:
            self.output = output
        self.src_embedding = nn.Embedding(VOCAB + 50, D_MODEL)
        self.tgt_embedding = nn.Embedding(VOCAB, D_MODEL)
        inner = nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.LayerNorm(D_FF))
        self.encoder = nn.Sequential(inner, nn.Linear(D_FF, D_MODEL))
        self.output = output
        if tied:
            self.output.weight = self.tgt_embedding.weight
        for parameter in self.parameters():
            if parameter.dim() == 1:
                nn.init.constant_(parameter, UNTOUCHED)


def loudness(matrix: Tensor) -> float:
    """Measure an embedding's spread in units of what is right, to one digit."""
    return round(float(matrix.detach().std()) * math.sqrt(D_MODEL), 1)


def reach(matrix: Tensor) -> float:
    """Measure a projection's largest number in units of what is right, to one digit."""
    bound = math.sqrt(6 / sum(matrix.shape))
    return round(float(matrix.detach().abs().max()) / bound, 1)


def started(candidate: Callable) -> dict[str, Any]:
    """Start a model whose matrices are all apart, and measure."""
    candidate(parts := Parts())
    inner = parts.encoder[0][0].weight
    uniform = float(inner.detach().std()) / math.sqrt(2 / (D_MODEL + D_FF))
    beyond = float((parts.src_embedding.weight.detach() * math.sqrt(D_MODEL)).abs().max()) > 2.5
    kept = [p for p in parts.parameters() if p.dim() == 1]
    return {
        f"{EMBEDDING} src_embedding": loudness(parts.src_embedding.weight),
        f"{EMBEDDING} tgt_embedding": loudness(parts.tgt_embedding.weight),
        "an embedding is normal: some numbers lie far out": beyond,
        f"{LINEAR} a linear layer": reach(inner),
        f"{LINEAR} a linear layer further out": reach(parts.encoder[1].weight),
        f"{LINEAR} output": reach(parts.output.weight),
        "relative to Glorot and Bengio's, the deviation of a linear layer": round(uniform, 1),
        "biases and gains are kept": all(bool((p == UNTOUCHED).all()) for p in kept),
    }


def tied_start(candidate: Callable, output_first: bool) -> dict[str, Any]:
    """Start a model whose output shares a matrix, and measure that matrix."""
    candidate(parts := Parts(tied=True, output_first=output_first))
    return {
        f"{EMBEDDING} the shared matrix": loudness(parts.tgt_embedding.weight),
        "it is still shared": parts.output.weight is parts.tgt_embedding.weight,
    }


def tied_case(label: str, output_first: bool) -> Any:
    """Ask that a shared matrix starts as an embedding and stays shared."""
    wanted = {f"{EMBEDDING} the shared matrix": 1.0, "it is still shared": True}
    says = "A matrix that output and embedding share starts as an embedding, and stays shared."
    return value_trial(label, lambda c: tied_start(c, output_first), wanted, says=says)


EXERCISES = (
    Exercise(
        "initialize",
        "transformer",
        15,
        (
            value_trial(
                "matrices that are all apart",
                started,
                {
                    f"{EMBEDDING} src_embedding": 1.0,
                    f"{EMBEDDING} tgt_embedding": 1.0,
                    "an embedding is normal: some numbers lie far out": True,
                    f"{LINEAR} a linear layer": 1.0,
                    f"{LINEAR} a linear layer further out": 1.0,
                    f"{LINEAR} output": 1.0,
                    "relative to Glorot and Bengio's, the deviation of a linear layer": 1.0,
                    "biases and gains are kept": True,
                },
                says="Embeddings start as N(0, 1 / d_model), the weights of linear layers as "
                "Glorot and Bengio's uniform; all else stays.",
            ),
            tied_case("an output that shares the embedding's matrix", output_first=False),
            tied_case("a sharing output that comes first", output_first=True),
        ),
        (
            "`model.modules()` walks through everything, however deep; `isinstance` tells an "
            "`nn.Linear` from an `nn.Embedding`.",
            "`nn.init.xavier_uniform_` is Glorot and Bengio's; `nn.init.normal_` wants the "
            "standard deviation, the root of the variance 1 / d_model.",
            "One matrix may be both a linear layer's and an embedding's. Whoever comes last wins: "
            "go through the model twice.",
        ),
    ),
)
