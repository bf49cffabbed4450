"""Small GPTs that contain a circuit which we put there, and a check of which heads it consists of.

The vectors of tokens, of positions, of the tokens before, and those that nothing reads are
orthonormal, and orthogonal to the vector of ones. A sum of them has mean 0 and a known length, so
a LayerNorm only multiplies it by a known number, and a head can read each of them alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.checking.contents import CIRCUIT
from course_lib.exercises.checking.report import Report
from course_lib.gpt import GPT, GPTConfig
from course_lib.interpretability import ablate_head

ROWS, LETTERS, LENGTH = 32, 16, 25  # the id after those of the letters starts a row
V, D, H = LETTERS + 1, 128, 4
WRITTEN = 4.0  # the length of what a head in layer 1 writes; the vector of a token has length 1
SCORE = 30.0  # of a match; all other scores are 0
SCALES = (D / 2) ** 0.5, (D / 4) ** 0.5  # a layer's first norm multiplies by this: 2 or 4 vectors

Place = tuple[int, int]  # a layer and a head

PREVIOUS, INDUCTION = "previous_token", "induction"
BEFORE, MATCH = "attends to the token before", "attends to the token after an earlier match"
PICTURE = "An attention picture isn't a cause: ablate this head, and no prediction changes."
HEADS = {  # in each layer: the name of a wrong answer, and what the head does
    0: {
        PREVIOUS: ("other_role", f"{BEFORE} and passes it on. That is the other role."),
        "silent": ("decoy", f"{BEFORE}, but writes nothing. {PICTURE}"),
        "unread": ("decoy", f"{BEFORE}, but nothing reads what it writes. {PICTURE}"),
        "even": ("attends_evenly", "attends to all tokens equally, and writes nothing."),
    },
    1: {
        INDUCTION: ("other_role", f"{MATCH} and copies it. That is the other role."),
        "silent": ("decoy", f"{MATCH}, but writes nothing. {PICTURE}"),
        "unread": ("decoy", f"{MATCH}, but nothing reads what it writes. {PICTURE}"),
        "eight back": (
            "position_only",
            "attends eight positions back, whatever the tokens are. That is a match only in rows "
            "that repeat after nine letters: look at the others, or ablate this head.",
        ),
    },
}
SWAPPED = (
    "The two heads are right, but their roles are swapped: a head can only use what an earlier "
    "layer has written. Which one has to come first?"
)


@dataclass(frozen=True, eq=False)
class PlantedCircuit:
    """A GPT that continues a repeated list of letters, because of two of its heads.

    Row b of ``ids`` (B, T) is the id 16 and then letters, 0 to 15, which repeat after ``period[b]``
    letters.
    """

    seed: int
    model: GPT
    ids: Tensor
    period: Tensor

    def accuracy(self, logits: Tensor) -> float:
        """Return how often logits (B, T, V) predict a repeated letter, as a fraction.

        The first letter that is repeated doesn't count, because no match announces it.
        """
        right = logits[:, :-1].argmax(dim=-1) == self.ids[:, 1:]  # (B, T - 1)
        known = torch.arange(LENGTH - 1) > self.period[:, None]  # (B, T - 1)
        return right[known].double().mean().item()


def planted_circuit(seed: int) -> PlantedCircuit:
    """Build a GPT of two layers with four heads each, and examples for it.

    The seed draws the vectors, the order of the heads in each layer and the examples.
    """
    generator = torch.Generator().manual_seed(seed)
    free = torch.randn(D, 1 + 3 * V + LENGTH, generator=generator, dtype=torch.float64)
    free[:, 0] = 1.0
    basis = torch.linalg.qr(free).Q.T[1:].float()
    token, before, unread, place = basis.split([V, V, V, LENGTH])
    nothing, previous, match = 0 * token, (place[1:], place[:-1]), (token, before)
    parts = {  # the queries and keys that match each other, and what is written for each token
        (0, PREVIOUS): (*previous, before),
        (0, "silent"): (*previous, nothing),
        (0, "unread"): (*previous, unread),
        (0, "even"): (nothing, nothing, nothing),
        (1, INDUCTION): (*match, WRITTEN * token),
        (1, "silent"): (*match, nothing),
        (1, "unread"): (*match, WRITTEN * unread),
        (1, "eight back"): (place[8:], place[:-8], WRITTEN * unread),
    }
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        sizes = dict(vocab_size=V, max_len=LENGTH, num_layers=2, num_heads=H, d_model=D)
        model = GPT(GPTConfig(**sizes, dropout=0.0))  # type: ignore[arg-type]
        for name, parameter in model.named_parameters():
            parameter.fill_("norm" in name and name.endswith("weight"))
        model.embedding.weight.copy_(token)
        model.positions.weight.copy_(place)
        for head, role in _roles(seed).items():
            _plant(model, head, token, *parts[head[0], role])
    return PlantedCircuit(seed, model.eval(), *_examples(generator))


def _examples(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw rows of letters that repeat (B, T), and after how many letters each does (B,)."""
    letters = torch.rand(ROWS, LETTERS, generator=generator).argsort(dim=1)
    period = torch.randint(6, 13, (ROWS, 1), generator=generator)
    repeated = letters.gather(1, torch.arange(LENGTH - 1) % period)  # (B, T - 1)
    ids = torch.cat([torch.full_like(period, LETTERS), repeated], dim=1)  # (B, T)
    return ids, period.squeeze(1)


def _plant(
    model: GPT, place: Place, token: Tensor, queries: Tensor, keys: Tensor, writes: Tensor
) -> None:
    """Let a head attend to the keys that match its queries, and write a vector for each token."""
    layer, head = place
    attention: Any = model.layers[layer].self_attn
    sharp = (SCORE * (D // H) ** 0.5) ** 0.5
    w_qkv = attention.w_qkv.weight.view(3, H, D // H, D)[:, head]
    for weight, reads in zip(w_qkv, (sharp * queries, sharp * keys, token), strict=True):
        weight[: len(reads)] = reads / SCALES[layer]
    attention.w_o.weight.view(D, H, D // H)[:, head, :V] = writes.T


def _roles(seed: int) -> dict[Place, str]:
    """Return the role of each head."""
    orders = torch.rand(2, H, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
    return {
        (layer, head): role
        for layer, order in enumerate(orders.tolist())
        for head, role in zip(order, HEADS[layer], strict=True)
    }


def judge_circuit(circuit: PlantedCircuit, previous_token: object, induction: object) -> Report:
    """Report on the heads that are named for the two roles, first on the one that comes first."""
    report = partial(Report, CIRCUIT.name)
    answers = {PREVIOUS: previous_token, INDUCTION: induction}
    if any(answer is ... or answer is None for answer in answers.values()):
        return report(False, hint="Replace `...` with a pair (layer, head).", attempted=False)
    roles, found = _roles(circuit.seed), {}
    for name, answer in answers.items():
        place = _place(answer)
        if place not in roles:
            hint = f"`{name}` should be a pair (layer, head): 2 layers with 4 heads each, from 0."
            return report(False, hint=hint, detail=f"{name}: {answer!r:.60}")
        found[name] = place
    held = {name: roles[place] for name, place in found.items()}
    if held == {PREVIOUS: INDUCTION, INDUCTION: PREVIOUS}:
        return report(False, "roles_swapped", SWAPPED)
    for name, (layer, head) in found.items():
        if held[name] != name:
            mistake, does = HEADS[layer][held[name]]
            hint = f"`{name}`: head {head} of layer {layer} {does}"
            return report(False, mistake, hint, detail=_measured(circuit.seed, [(layer, head)]))
    return report(True, detail=_measured(circuit.seed, found.values()))


def _place(answer: Any) -> Place:
    """Return an answer as a pair of integers, or a place without a head if it is none."""
    try:
        layer, head = map(index, answer)
    except (TypeError, ValueError):
        return -1, -1
    return layer, head


def _measured(seed: int, places: Iterable[Place]) -> str:
    """Say what fraction of the repeated letters is predicted with all heads, and without each."""
    circuit = planted_circuit(seed)  # the learner's copy may have been changed
    whole = circuit.accuracy(circuit.model(circuit.ids)[0])
    lines = [f"repeated letters that are predicted: {whole:.2f}"]
    for layer, head in places:
        left = circuit.accuracy(ablate_head(circuit.model, circuit.ids, layer, head))
        lines.append(f"without head {head} of layer {layer}: {left:.2f}")
    return "\n".join(lines)
