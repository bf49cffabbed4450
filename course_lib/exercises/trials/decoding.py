"""What is asked of chapter 12."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.small_models import SmallScript, small_config, small_model
from course_lib.exercises.trial import Trial, answer_to, looks

MAX_LEN = 9
BOS, EOS, PAD = 5, 4, 3  # none of them where one would guess it
NAMES = {BOS: "bos", EOS: "eos", PAD: "pad"}
LINES = {6: [7, 8, EOS], 7: [8, 6, 10, 6, EOS], 8: [EOS], 9: [6, 7, 8, 9, 10, 6, 7, 8, 9]}
SOURCES = torch.tensor([[6, 8, PAD], [7, 9, 10], [8, PAD, PAD]])
ENDLESS = torch.tensor([[9, 8], [8, PAD]])
SHORT = torch.tensor([[8, 8, 3], [6, 8, 1], [2, 8, 3], [7, 2, 3], [7, 3, 3], [6, 9, 3]])
ROWS, V = 6000, 7
RANKED = (5, 1, 6, 0, 2, 4)  # the tokens, the likeliest first
FALLING = (0.4, 0.3, 0.2, 0.1)
WHOLE = (0.4, 0.24, 0.16, 0.12, 0.08)  # the first three have 0.8 together: as 5 to 3 to 2
GREEDY = (
    "Each row: the likeliest token after all that is written so far, its eos included; from then "
    "on padding, until the longest row has ended."
)
SAMPLED = (
    "How often each token comes: as the softmax of the logits says; each row has its own draw."
)
CUT = "What is cut off never comes; what is left comes in its old proportions."


def script(training: bool = True) -> SmallScript:
    """Return the model that follows the lines above."""
    return SmallScript(small_config(PAD, MAX_LEN), LINES, BOS).train(training)


def decode(candidate: Callable, model: nn.Module, src: Tensor, **options: Any) -> Any:
    """Let a candidate write, with gradients on before, whatever it leaves behind."""
    with torch.enable_grad():
        return candidate(model, src, bos_id=BOS, eos_id=EOS, **options)


def written(
    label: str, src: Tensor, build: Callable = script, says: str = GREEDY, **options: Any
) -> Trial:
    """Compare what is written, the special tokens by name, and look at the source afterwards."""

    def act(candidate: Callable) -> Outcome:
        """Write every row down."""
        given = src.clone()
        ids = decode(candidate, build(), given, **options)
        if not isinstance(ids, Tensor) or ids.dim() != 2:
            return Outcome({"returned": describe(ids)})
        rows = [" ".join(NAMES.get(int(i), str(int(i))) for i in row) for row in ids]
        shown = {f"row {n}": row for n, row in enumerate(rows, start=1)}
        changed = () if torch.equal(given, src) else ("src",)
        return Outcome(shown | {"dtype": str(ids.dtype)}, {}, changed)

    return Trial(label, act, says=says)


def second_best(logits: Tensor) -> Tensor:
    """Choose in another way: the token before the likeliest, among the words."""
    tokens = logits.argmax(dim=-1)
    return torch.where(tokens > 6, tokens - 1, tokens)


@looks(
    "a look at gradients", "No gradients while it writes (`torch.no_grad`), afterwards as before."
)
def traces(candidate: Callable) -> dict[str, bool]:
    """Look for gradients during and after."""
    model = script()
    with torch.enable_grad():
        candidate(model, SOURCES.clone(), bos_id=BOS, eos_id=EOS)
        after = torch.is_grad_enabled()
    return {"gradients are kept": any(model.with_gradients), "gradients stay off": not after}


@looks(
    "a look at the mode",
    "Write in eval mode, dropout off, and hand the model back in its own.",
    kind="train and eval",
)
def modes(candidate: Callable) -> dict[str, Any]:
    """Look in which mode the model writes, and in which it comes back."""
    shown = {}
    for mode in ("training", "eval"):
        model = script(training=mode == "training")
        decode(candidate, model, SOURCES.clone())
        back = {"training" if module.training else "eval" for module in model.modules()}
        for part, noted in model.modes.items():
            shown[f"from {mode}: its {part} is in training mode"] = any(noted)
        shown[f"from {mode}: it comes back in mode"] = " and ".join(sorted(back))
    return shown


def logits_for(shares: tuple[float, ...], temperature: float = 1.0) -> Tensor:
    """Make rows that have these shares at this temperature; some tokens are impossible.

    Logits are no logarithms of shares: what is added to all of them changes nothing.
    """
    last = torch.full((V,), float("-inf"))
    for token, share in zip(RANKED, shares, strict=False):
        last[token] = temperature * torch.tensor(share).log() + 2
    return last.expand(ROWS, V).clone()  # (B, V)


def drawn(label: str, shares: tuple[float, ...], says: str = CUT, **how: Any) -> Trial:
    """Draw from many equal rows, and tell how often every token came, to a tenth."""
    logits = logits_for(shares, how.get("temperature", 1.0))

    def act(candidate: Callable) -> Outcome:
        """Draw, and look whether the logits are as they were."""
        given = logits.clone()
        tokens = candidate(given, **how)
        if not isinstance(tokens, Tensor) or tokens.shape != (ROWS,):
            return Outcome({"drawn": describe(tokens)})
        counts = tokens.long().bincount(minlength=V).tolist()
        often = {f"token {n}": f"about {c / ROWS:.1f}" for n, c in enumerate(counts) if c}
        changed = () if torch.equal(given, logits) else ("logits",)
        return Outcome({"drawn": often, "dtype": str(tokens.dtype)}, {}, changed)

    return Trial(label, act, says=says)


@looks("generators", "The random numbers come from `generator`.")
def generators(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, and of another."""
    first, again, other = (
        candidate(logits_for(FALLING), generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    return {
        "the same generator gives the same tokens": torch.equal(first, again),
        "another one gives others": not torch.equal(first, other),
    }


@looks("what cannot be drawn from", "A ValueError says which argument or which logits are wrong.")
def rejected(candidate: Callable) -> dict[str, str]:
    """Ask for options out of range, and hand over logits without a softmax."""
    fine = logits_for(FALLING)[:2]
    options = (("temperature", 0.0), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.5))
    asked = {f"{k}={v}": partial(candidate, fine.clone(), **{k: v}) for k, v in options}
    nothing, nan = torch.full((2, V), float("-inf")), torch.full((2, V), float("nan"))
    asked["a row without a finite logit"] = partial(candidate, nothing)
    asked["nan"] = partial(candidate, nan)
    asked["temperature=1e-40"] = partial(candidate, fine.clone() + 1, temperature=1e-40)
    return {name: answer_to(call) for name, call in asked.items()}


EXERCISES = (
    Exercise(
        "greedy_decode",
        "decoding",
        40,
        core={
            "sentences": (
                written("rows that end after 3, 5 and 1 tokens", SOURCES),
                written("a small model", SHORT, lambda: small_model(PAD, MAX_LEN)),
            ),
            "ends": (
                written(
                    "a row that never ends",
                    ENDLESS,
                    says="Without max_new_tokens, at most max_len tokens are written.",
                ),
            ),
            "mode and gradients": (modes, traces),
        },
        hints=(
            "`engine = decoding_engine(model, src, limit, use_cache=use_cache)` scores the next "
            "token of every row. In each round: `engine.step(tokens.unsqueeze(1))`, padding to "
            "-inf, `choose(logits)`.",
            "Start with a table `written` full of padding. Keep `rows`, the sentences that have "
            "not ended, and write for them only; `engine.reorder(unfinished, unfinished)` lets the "
            "others leave. Stop when no row is left, or at the limit.",
            "The loop is inside `with generation_mode(…) as limit:`. Return the columns that were "
            "written; `bos_id` is not among them.",
        ),
        extras={
            "max_new_tokens": (
                written(
                    "max_new_tokens=2",
                    SOURCES,
                    says="No more than max_new_tokens are written, and no fewer.",
                    max_new_tokens=2,
                ),
                written(
                    "one sentence and max_new_tokens=4",
                    SOURCES[:1],
                    says="Writing stops when every row has ended, before the limit too.",
                    max_new_tokens=4,
                ),
            ),
            "choose": (
                written(
                    "another way to choose",
                    SOURCES,
                    says="`choose(logits)` picks the tokens, from logits `(B, V)`.",
                    choose=second_best,
                ),
            ),
        },
    ),
    Exercise(
        "sample_tokens",
        "decoding",
        30,
        core={"shares": (drawn("the logits alone", FALLING, SAMPLED),)},
        hints=(
            "`logits.topk(k)` gives the k best, the best first, and which tokens they are; with "
            "`top_p` alone, k is V. Divide by the temperature, take the softmax.",
            "`cumsum` minus the probability itself is what the likelier tokens have: keep a token "
            "while that is below p.",
            "`torch.multinomial(probs, 1, generator=generator)` draws an index in each row. The "
            "probabilities need not add up to 1; `tokens.gather(1, drawn)` is the token.",
        ),
        extras={
            "temperature": (
                drawn(
                    "temperature=0.5",
                    (0.7, 0.2, 0.1),
                    "The logits are divided by the temperature, before the softmax.",
                    temperature=0.5,
                ),
            ),
            "top_k": (
                drawn("top_k=3", WHOLE, top_k=3),
                drawn("top_k=50, more than there are", FALLING, top_k=50),
            ),
            "top_p": (
                drawn(
                    "top_p=0.75",
                    WHOLE,
                    "As few of the likeliest as reach p together; the one that crosses it is kept.",
                    top_p=0.75,
                ),
                drawn(
                    "top_p=0.3, less than the likeliest has",
                    WHOLE,
                    "The likeliest token always stays.",
                    top_p=0.3,
                ),
            ),
            "options together": (
                drawn(
                    "top_k=3 and top_p=0.75",
                    WHOLE,
                    "`top_p` is a share of what `top_k` left: 0.5, 0.3 and 0.2 here.",
                    top_k=3,
                    top_p=0.75,
                ),
                drawn(
                    "temperature=0.5 and top_p=0.75",
                    WHOLE,
                    "The temperature comes first, and `top_p` looks at what it made.",
                    temperature=0.5,
                    top_p=0.75,
                ),
            ),
            "generator": (generators,),
            "errors": (rejected,),
        },
    ),
)
