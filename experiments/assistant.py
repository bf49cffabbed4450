"""Train the assistants from chapter 23 with three seeds, and record how well they answer.

The functions come from the chapter: we execute the notebook cells whose ids are in ``CELLS``.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from operator import contains
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from training_runs import computer

from course_lib import assistant
from course_lib.gpt import GPT, sample
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of

CHAPTER = Path(__file__).parents[1] / "notebooks/23_assistant.ipynb"
CELLS = ("imports", "sums", "document", "tokens", "base", "demonstrations", "supervised", "answers",
         "accuracy", "pairs", "prefer", "reinforce")  # fmt: skip
BETAS = (0.1, 0.5, 2.0)
STEPS = {"supervised": 150, "DPO": 100, "GRPO": 150, "hacked": 90}
EVERY = 30  # steps between two measurements
DRAWS = 16  # sampled answers per question, for best-of-n and the majority vote


@cache
def chapter() -> dict[str, Any]:
    """Execute the chapter's definitions, and return them by name."""
    names: dict[str, Any] = dict(vars(assistant))
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    sources = {cell["id"].removeprefix("assistant-"): "".join(cell["source"]) for cell in cells}
    for name in CELLS:
        exec(compile(sources[name], f"{CHAPTER.name} {name}", "exec"), names)
    return names


@cache
def start(seed: int, kind: str = "supervised") -> GPT:
    """Return the base model for a seed, or the model that was fine-tuned on answers."""
    if kind == "base":
        return chapter()["pretrain"](seed)
    chats = chapter()["demonstrations"](seed)
    return chapter()["supervised"](start(seed, "base"), chats, seed, steps=STEPS["supervised"])


def scores(model: GPT) -> dict[str, float]:
    """Return the accuracy of sampled and of greedy answers."""
    drawn, greedy = chapter()["accuracy"](model)
    return {"drawn": round(drawn, 3), "greedy": round(greedy, 3)}


def base(seed: int) -> Entry:
    """Measure how often the base model continues a sum correctly, after "is" and after "?"."""
    c, model = chapter(), start(seed, "base")
    first = c["tokenizer"].eos_id
    continued = {}
    for ending in (" is", "?"):
        prompts = [[first, *c["tokenizer"].encode(c["asked"](pair) + ending)] for pair in c["TEST"]]
        ids = sample(model, torch.tensor(prompts), 8, top_k=1)[:, len(prompts[0]) :]
        continued[ending] = [c["tokenizer"].decode(row) for row in ids]
    right = [c["in_words"](sum(pair)) for pair in c["TEST"]]
    found = {e: fmean(map(str.startswith, texts, right)) for e, texts in continued.items()}
    return {"after is": round(found[" is"], 3), "after ?": round(found["?"], 3)}


def on_demonstrations(
    seed: int, *, masked: bool, guesses: float = 0.5, wrong_by: Sequence[int] = (-10, -1, 1, 10)
) -> Entry:
    """Fine-tune on demonstrations, with or without the loss mask."""
    c = chapter()
    chats = c["demonstrations"](seed, guesses, wrong_by=wrong_by)
    model = c["supervised"](start(seed, "base"), chats, seed, masked, STEPS["supervised"])
    return scores(model) | prompt_loss(model, chats)


def prompt_loss(model: GPT, chats: list[list[int]]) -> Entry:
    """Return the fraction of the loss on all tokens that comes from the questions."""
    c = chapter()
    ids = c["pad_rows"](chats, c["tokenizer"].pad_id)
    with torch.no_grad():
        losses = -c["token_log_probs"](model(ids)[0], ids)
    answers, real = c["answer_mask"](ids, c["TOKENS"]), ids[:, 1:] != c["tokenizer"].pad_id
    return {"from questions": round(1 - (losses[answers].sum() / losses[real].sum()).item(), 3)}


def more_answers(seed: int) -> Entry:
    """Fine-tune on correct answers to as many new questions as GRPO uses."""
    c = chapter()
    rng, model, history = random.Random(seed), start(seed), []
    for step in range(EVERY, STEPS["GRPO"] + 1, EVERY):
        chats = []
        for pair in rng.sample(c["TRAIN"], 16 * EVERY):
            texts = c["asked"](pair) + "?", c["in_words"](sum(pair))
            chats.append(c["TOKENS"].chat(*map(c["tokenizer"].encode, texts)))
        model = c["supervised"](model, chats, seed, True, EVERY, 3e-4, 16)
        history.append({"step": step} | scores(model))
    return {"history": history}


@cache
def wrong_answers(seed: int, draw: int, count: int) -> list[list[list[int]]]:
    """Return pairs of a correct answer and a wrong answer from the fine-tuned model."""
    return chapter()["wrong_answers"](start(seed), draw, count)


def by_preference(seed: int, beta: float | None) -> Entry:
    """Fine-tune by DPO on pairs of answers or, if beta is None, by SFT on the correct answers."""
    c, reference = chapter(), start(seed)
    pairs, new = wrong_answers(seed, seed, 500), wrong_answers(seed, seed + 100, 200)
    if beta is None:
        chosen = [pair[0] for pair in pairs]
        model = c["supervised"](reference, chosen, seed, True, STEPS["DPO"], 1e-4)
    else:
        model = c["prefer"](reference, pairs, seed, beta, STEPS["DPO"])
    with torch.no_grad():
        change = [
            c["answer_log_probs"](model, chats) - c["answer_log_probs"](reference, chats)
            for chats in zip(*new, strict=True)
        ]
    preferred = (change[0] > change[1]).float().mean().item()
    return scores(model) | {
        "pairs": len(pairs), "preferred": round(preferred, 3),
        "chosen": round(change[0].mean().item(), 2), "rejected": round(change[1].mean().item(), 2),
    }  # fmt: skip


def length(text: str, pair: tuple[int, int]) -> float:
    """Reward every word, as if a longer answer were a better one."""
    return len(text.replace("-", " ").split()) / 10


def mentions(text: str, pair: tuple[int, int]) -> float:
    """Reward an answer that contains the correct one, whatever else it says."""
    return float(chapter()["in_words"](sum(pair))[:-1] in text)


def by_reward(
    seed: int, reward: Callable[[str, tuple[int, int]], float], steps: int, kl_weight: float = 0.04
) -> Entry:
    """Fine-tune by GRPO, and measure the model at regular intervals."""
    c, reference, history = chapter(), start(seed), []
    run = c["reinforce"](reference, reward, seed, steps, kl_weight=kl_weight)
    rewards: list[float] = []
    for step, (model, ids, found) in enumerate(run, 1):
        rewards.append(found.mean().item())
        if step % EVERY == 0:
            line = {"step": step, "reward": round(fmean(rewards[-EVERY:]), 3)}
            history.append(line | scores(model) | spread(model, reference, ids))
    texts = c["read_answers"](c["draw_answers"](model, c["TEST"][:3]))
    entry = {"history": history, "answers": texts}
    return entry | {"votes": votes(model)} if reward is c["is_right"] else entry


def spread(model: GPT, reference: GPT, ids: torch.Tensor) -> dict[str, float]:
    """Return the entropy, KL divergence from the reference, and length of the last answers."""
    c = chapter()
    mask = c["answer_mask"](ids, c["TOKENS"])
    with torch.no_grad():
        log_probs, before = (m(ids)[0][:, :-1].log_softmax(-1)[mask] for m in (model, reference))
    probs = log_probs.exp()
    return {
        "entropy": round(-(probs * log_probs).sum(-1).mean().item(), 3),
        "kl": round((probs * (log_probs - before)).sum(-1).mean().item(), 3),
        "tokens": round(mask.sum(1).float().mean().item(), 2),
    }


def by_draw(model: GPT, pairs: list[tuple[int, int]]) -> list[list[str]]:
    """Sample several answers to each sum."""
    c, generator = chapter(), torch.Generator().manual_seed(1)
    return [c["read_answers"](c["draw_answers"](model, pairs, generator)) for _ in range(DRAWS)]


def accuracies(drawn: list[list[str]], pairs: list[tuple[int, int]]) -> list[float]:
    """Return the accuracy of each round of sampled answers."""
    right = [chapter()["in_words"](sum(pair)) for pair in pairs]
    return [round(fmean(map(str.__eq__, right, texts)), 3) for texts in drawn]


def at_half_temperature(model: GPT) -> GPT:
    """Return a copy of a model with doubled logits, which halves the temperature."""
    model = deepcopy(model)
    with torch.no_grad():
        for parameter in model.norm.parameters():
            parameter *= 2
    return model


def votes(model: GPT) -> dict[str, list[float]]:
    """Return the accuracy of the best of n answers, of the majority vote, and of each round.

    We also sample answers to training sums, and answers at half the temperature.
    """
    c = chapter()
    test, drawn = c["TEST"], by_draw(model, c["TEST"])
    train = random.Random(1).sample(c["TRAIN"], len(test))
    right = [c["in_words"](sum(pair)) for pair in test]
    answers = [list(zip(*drawn[:n], strict=True)) for n in (1, 2, 4, 8, 16)]
    most = [[Counter(each).most_common(1)[0][0] for each in some] for some in answers]
    return {
        "best": [round(fmean(map(contains, some, right)), 3) for some in answers],
        "majority": accuracies(most, test),
        "each": accuracies(drawn, test),
        "sharper": accuracies(by_draw(at_half_temperature(model), test), test),
        "on training sums": accuracies(by_draw(model, train), train),
    }


KINDS: dict[str, Callable[[int], Entry]] = {
    "base": base,
    "answers counted": partial(on_demonstrations, masked=True),
    "all counted": partial(on_demonstrations, masked=False),
    "answers counted, no guesses": partial(on_demonstrations, masked=True, guesses=0.0),
    "all counted, no guesses": partial(on_demonstrations, masked=False, guesses=0.0),
    "answers counted, right guesses": partial(on_demonstrations, masked=True, wrong_by=(0,)),
    "all counted, right guesses": partial(on_demonstrations, masked=False, wrong_by=(0,)),
    "chosen answers alone": partial(by_preference, beta=None),
    "votes": lambda seed: {"votes": votes(start(seed))},
    **{f"DPO {beta}": partial(by_preference, beta=beta) for beta in BETAS},
    "GRPO": lambda seed: by_reward(seed, chapter()["is_right"], STEPS["GRPO"]),
    "length": lambda seed: by_reward(seed, length, STEPS["hacked"]),
    "length, more KL": lambda seed: by_reward(seed, length, STEPS["hacked"], 0.5),
    "mentions": lambda seed: by_reward(seed, mentions, STEPS["hacked"]),
    "more answers": more_answers,
}
RUNS: list[Entry] = [{"name": name, "seed": seed} for seed in SEEDS for name in KINDS]


def train_one(run: Entry) -> Entry:
    """Train one assistant with one seed, and return its measurements."""
    return KINDS[run["name"]](run["seed"]) | computer()


if __name__ == "__main__":
    main(__doc__, record_of("assistant"), RUNS, train_one)
