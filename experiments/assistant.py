"""Train the assistants from chapter 23 with three seeds, and record how well they answer.

The functions come from the chapter: we execute the notebook cells whose ids are in ``CELLS``.
"""

import json
import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from training_runs import computer

from course_lib import assistant
from course_lib.gpt import GPT
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of

CHAPTER = Path(__file__).parents[1] / "notebooks/23_assistant.ipynb"
CELLS = ("imports", "document", "demonstrations")
BETAS = (0.1, 0.5, 2.0)
STEPS = {"supervised": 150, "beginner": 30, "DPO": 100, "GRPO": 90, "hacked": 60}
EVERY = 30  # steps between two measurements
QUESTIONS = 24  # in every step of GRPO


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
    """Return the base model for a seed, or the model after fine-tuning for some steps."""
    if kind == "base":
        return chapter()["pretrain"](seed)
    chats = chapter()["demonstrations"](seed)
    return chapter()["supervised"](start(seed, "base"), chats, seed, steps=STEPS[kind])


def scores(model: GPT) -> dict[str, float]:
    """Return the accuracy of sampled and of greedy answers."""
    drawn, greedy = chapter()["accuracy"](model)
    return {"drawn": round(drawn, 3), "greedy": round(greedy, 3)}


def on_demonstrations(
    seed: int, *, masked: bool, guesses: float = 0.5, wrong_by: Sequence[int] = (-10, -1, 1, 10)
) -> Entry:
    """Fine-tune on demonstrations, with or without the loss mask."""
    c = chapter()
    chats = c["demonstrations"](seed, guesses, wrong_by=wrong_by)
    model = c["supervised"](start(seed, "base"), chats, seed, masked, STEPS["supervised"])
    return scores(model)


def more_answers(seed: int) -> Entry:
    """Fine-tune on correct answers to as many new questions as GRPO uses."""
    c = chapter()
    rng, model, history = random.Random(seed), start(seed, "beginner"), []
    for step in range(EVERY, STEPS["GRPO"] + 1, EVERY):
        chats = []
        for pair in rng.sample(c["TRAIN"], QUESTIONS * EVERY):
            texts = c["asked"](pair) + "?", c["in_words"](sum(pair))
            chats.append(c["TOKENS"].chat(*map(c["tokenizer"].encode, texts)))
        model = c["supervised"](model, chats, seed, True, EVERY, 5e-4, QUESTIONS)
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
    chosen, rejected = (round(each.mean().item(), 2) for each in change)
    return scores(model) | {"pairs": len(pairs), "chosen": chosen, "rejected": rejected}


def length(text: str, pair: tuple[int, int]) -> float:
    """Reward every word, as if a longer answer were a better one."""
    return len(text.replace("-", " ").split()) / 10


def by_reward(
    seed: int,
    kind: str,
    reward: Callable[[str, tuple[int, int]], float],
    steps: int,
    every: int,
    kl_weight: float = 0.04,
) -> Entry:
    """Fine-tune by GRPO, and measure the model at regular intervals."""
    c, reference = chapter(), start(seed, kind)
    asked = c["TEST"][:1]
    before = {"step": 0, "answer": c["read_answers"](c["draw_answers"](reference, asked))[0]}
    history = [before | scores(reference)]
    run = c["reinforce"](reference, reward, seed, steps, kl_weight=kl_weight, questions=QUESTIONS)
    rewards: list[float] = []
    for step, (model, _, found) in enumerate(run, 1):
        rewards.append(found.mean().item())
        if step % every == 0:
            texts = c["read_answers"](c["draw_answers"](model, asked))
            line = {"step": step, "reward": round(fmean(rewards[-every:]), 3), "answer": texts[0]}
            history.append(line | scores(model))
    return {"history": history}


KINDS: dict[str, Callable[[int], Entry]] = {
    "answers counted": partial(on_demonstrations, masked=True),
    "all counted": partial(on_demonstrations, masked=False),
    "answers counted, no guesses": partial(on_demonstrations, masked=True, guesses=0.0),
    "all counted, no guesses": partial(on_demonstrations, masked=False, guesses=0.0),
    "answers counted, right guesses": partial(on_demonstrations, masked=True, wrong_by=(0,)),
    "all counted, right guesses": partial(on_demonstrations, masked=False, wrong_by=(0,)),
    "chosen answers alone": partial(by_preference, beta=None),
    **{f"DPO {beta}": partial(by_preference, beta=beta) for beta in BETAS},
    "GRPO": lambda seed: by_reward(seed, "beginner", chapter()["is_right"], STEPS["GRPO"], 15),
    "length": lambda seed: by_reward(seed, "supervised", length, STEPS["hacked"], 10),
    "length, more KL": lambda seed: by_reward(seed, "supervised", length, STEPS["hacked"], 10, 0.5),
    "more answers": more_answers,
}
RUNS: list[Entry] = [{"name": name, "seed": seed} for seed in SEEDS for name in KINDS]


def train_one(run: Entry) -> Entry:
    """Train one assistant with one seed, and return its measurements."""
    return KINDS[run["name"]](run["seed"]) | computer()


if __name__ == "__main__":
    main(__doc__, record_of("assistant"), RUNS, train_one)
