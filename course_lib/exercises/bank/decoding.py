"""Exercises for chapter 12: trials, known mistakes and correct answers."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.checking.exercise import INPUT_CHECKS, Exercise
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.outcomes import Outcome, describe
from course_lib.exercises.checking.small_models import SmallScript, small_config, small_model
from course_lib.exercises.checking.trial import Trial, answer_to, as_trial, filled
from course_lib.support.engines import Engine
from course_lib.transformer import Transformer

MAX_LEN = 9
BOS, EOS, PAD = 5, 4, 3  # none of these has its usual id
NAMES = {BOS: "bos", EOS: "eos", PAD: "pad"}
LINES = {6: [7, 8, EOS], 7: [8, 6, 10, 6, EOS], 8: [EOS], 9: [6, 7, 8, 9, 10, 6, 7, 8, 9]}
SOURCES = torch.tensor([[6, 8, PAD], [7, 9, 10], [8, PAD, PAD]])
ENDLESS = torch.tensor([[9, 8], [8, PAD]])
SHORT = torch.tensor([[8, 8, 3], [6, 8, 1], [2, 8, 3], [7, 2, 3], [7, 3, 3], [6, 9, 3]])
ROWS, V = 12_000, 7
RANKED = (5, 1, 6, 0, 2, 4)  # the tokens, from the most to the least likely
FALLING = (0.4, 0.3, 0.2, 0.1)
WHOLE = (0.4, 0.24, 0.16, 0.12, 0.08)  # after top_k=3: 0.5, 0.3 and 0.2
NARROW = (0.76, 0.095, 0.095, 0.03, 0.02)  # after top_k=3: 0.8, 0.1 and 0.1
GREEDY = (
    "Each row gets the most likely token in every round, up to and including eos, and then "
    "padding until the longest row has ended."
)
LIMITED = "Write max_new_tokens tokens, or stop earlier if every row has ended."
CHOICE = "`choose(logits)` picks the tokens from logits of shape (B, V)."
SAMPLED = "Sample a token for each row, with the probabilities that the softmax gives."
COLDER = "Divide the logits by the temperature before the softmax."
NUCLEUS = "Keep the smallest set of most likely tokens whose probabilities add up to at least p."
IN_ORDER = (
    "Apply the temperature first, then `top_k`, and then `top_p` to the tokens that are left."
)
CUT = (
    "Never sample a token that has been cut off, and keep the proportions of the remaining tokens."
)


def script(training: bool = True) -> SmallScript:
    """Return a model that generates the lines above."""
    return SmallScript(small_config(PAD, MAX_LEN), LINES, BOS).train(training)


def decode(candidate: Callable, model: nn.Module, src: Tensor, **options: Any) -> Any:
    """Call a candidate with gradients enabled, and then restore the setting."""
    with torch.enable_grad():
        return candidate(model, src, bos_id=BOS, eos_id=EOS, **options)


def decodes(
    label: str, src: Tensor, build: Callable = script, says: str = GREEDY, **options: Any
) -> Trial:
    """Compare the generated rows, and check that the source is unchanged."""

    def measure(candidate: Callable) -> Outcome:
        given = src.clone()
        ids = decode(candidate, build(), given, **options)
        if not isinstance(ids, Tensor) or ids.dim() != 2:
            return Outcome({"returned": describe(ids)})
        rows = [" ".join(NAMES.get(int(i), str(int(i))) for i in row) for row in ids]
        shown = {f"row {n}": row for n, row in enumerate(rows, start=1)}
        changed = () if torch.equal(given, src) else ("src",)
        return Outcome(shown | {"dtype": str(ids.dtype)}, {}, changed)

    return Trial(label, measure, says=says)


def second_best(logits: Tensor) -> Tensor:
    """If the most likely token is a word, choose the id before it; if all are unlikely, eos."""
    most, tokens = logits.softmax(dim=-1).max(dim=-1)
    return torch.where(most > 0.2, torch.where(tokens > 6, tokens - 1, tokens), EOS)


@as_trial("gradients enabled", "Decode under `torch.no_grad`, and then restore the setting.")
def traces(candidate: Callable) -> dict[str, bool]:
    model = script()
    with torch.enable_grad():
        candidate(model, SOURCES.clone(), bos_id=BOS, eos_id=EOS)
        after = torch.is_grad_enabled()
    return {
        "gradients are recorded": any(model.with_gradients),
        "gradients stay switched off": not after,
    }


@as_trial("use_cache", "Pass `use_cache` to `decoding_engine`, and change a copy of its logits.")
def recomputed(candidate: Callable) -> dict[str, bool]:
    model, scored = filled(Transformer(small_config(PAD, MAX_LEN))), []
    original = model.decode

    def noted(*args: Any) -> Tensor:
        """Record the logits, with a copy if they are an engine's."""
        of_engine = sys._getframe(1).f_globals["__name__"] == Engine.__module__
        scored.append((x := original(*args), x.clone() if of_engine else x))
        return x

    model.decode = noted  # type: ignore[method-assign]  # with a hook, no model has a cache
    decode(candidate, model, SOURCES.clone(), use_cache=False)
    return {
        "with use_cache=False, earlier tokens are decoded again": bool(scored),
        "the engine's logits change": not all(torch.equal(*pair) for pair in scored),
    }


@as_trial("the model's mode", "Decode in eval mode, and then restore the mode.", "train and eval")
def modes(candidate: Callable) -> dict[str, Any]:
    shown = {}
    for mode in ("training", "eval"):
        model = script(training=mode == "training")
        decode(candidate, model, SOURCES.clone())
        back = {"training" if module.training else "eval" for module in model.modules()}
        for part, noted in model.modes.items():
            shown[f"called in {mode} mode: the {part} runs in training mode"] = any(noted)
        shown[f"called in {mode} mode: the mode afterward"] = " and ".join(sorted(back))
    return shown


def logits_for(
    probs: tuple[float, ...], temperature: float = 1.0, ranked: tuple[int, ...] = RANKED
) -> Tensor:
    """Return rows of logits that give these probabilities at this temperature."""
    last = torch.full((V,), float("-inf"))
    for token, prob in zip(ranked, probs, strict=False):
        last[token] = temperature * torch.tensor(prob).log() + ranked[0]  # no effect on probs
    return last.expand(ROWS, V).clone()  # (B, V)


def independent(one: Tensor, other: Tensor) -> bool:
    """Return whether pairs of tokens appear as often as they do if the draws are independent."""
    one, other = (F.one_hot(tokens.long(), V).float() for tokens in (one, other))
    pairs = one.T @ other / len(one)
    return bool((pairs - torch.outer(one.mean(0), other.mean(0))).abs().max() < 0.03)


def drawn(label: str, probs: tuple[float, ...], says: str = CUT, **how: Any) -> Trial:
    """Sample from two kinds of rows; compare token frequencies rounded to one decimal place."""
    temperature = how.get("temperature", 1.0)
    logits = logits_for(probs, temperature)
    other = NARROW if probs is WHOLE else FALLING
    logits[1::2] = logits_for(other, temperature, RANKED[::-1])[1::2]

    def measure(candidate: Callable) -> Outcome:
        given = logits.clone()
        tokens = candidate(given, **how)
        if not isinstance(tokens, Tensor) or tokens.shape != (ROWS,):
            return Outcome({"drawn": describe(tokens)})
        often: dict[str, Any] = {}
        for rows, some in (("even rows", tokens[::2]), ("odd rows", tokens[1::2])):
            counts = some.long().bincount(minlength=V).tolist()
            often[rows] = {f"token {n}": f"{c / len(some):.1f}" for n, c in enumerate(counts) if c}
        neighbors = (tokens[::2], tokens[1::2]), (tokens[1:-1:2], tokens[2::2])
        often["for a single row"] = describe(candidate(given[:1], **how))
        often["neighboring rows are independent"] = all(independent(*pair) for pair in neighbors)
        changed = () if torch.equal(given, logits) else ("logits",)
        return Outcome({"drawn": often, "dtype": str(tokens.dtype)}, {}, changed)

    return Trial(label, measure, says=says)


@as_trial("generators", "Draw all random numbers from `generator`.")
def generators(candidate: Callable) -> dict[str, bool]:
    logits, seeded = logits_for(FALLING), lambda seed: torch.Generator().manual_seed(seed)
    draw = lambda seed, **how: candidate(logits, generator=seeded(seed), **how)  # noqa: E731
    pairs = [(draw(1, **how), draw(1, **how)) for how in ({}, {"top_p": 0.75})]
    return {
        "the same generator gives the same tokens": all(torch.equal(*pair) for pair in pairs),
        "a different generator gives different tokens": not torch.equal(draw(1), draw(2)),
    }


@as_trial(
    "invalid arguments", "Raise a ValueError that names the argument or the logits that are wrong."
)
def rejected(candidate: Callable) -> dict[str, str]:
    fine = logits_for(FALLING)[:2]
    options = (("temperature", 0.0), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.5))
    asked = {f"{k}={v}": partial(candidate, fine.clone(), **{k: v}) for k, v in options}
    nothing, nan = torch.full((2, V), float("-inf")), torch.full((2, V), float("nan"))
    asked["a row without a finite logit"] = partial(candidate, nothing)
    asked["nan"] = partial(candidate, nan)
    asked["temperature=1e-40"] = partial(candidate, fine.clone() + 1, temperature=1e-40)
    return {name: answer_to(call) for name, call in asked.items()}


@as_trial("a count of the work", "The encoder reads the source once, not again for every token.")
def encoded_once(candidate: Callable) -> dict[str, bool]:
    passes = []
    for row in (SOURCES[:1], ENDLESS[:1]):
        model = script()
        decode(candidate, model, row.clone())
        passes.append(len(model.modes["encoder"]))
    return {"the encoder runs again for later tokens": passes[1] > passes[0]}


EXERCISES = (
    Exercise(
        "greedy_decode",
        40,
        core={
            "sentences": (
                decodes("rows that end after 3, 5 and 1 tokens", SOURCES),
                decodes("a small model", SHORT, lambda: small_model(PAD, MAX_LEN)),
            ),
            "ends": (decodes("an endless row", ENDLESS, says="Write at most max_len tokens."),),
            "mode and gradients": (modes, traces),
            "work": (encoded_once,),
        },
        hints=(
            "`engine = decoding_engine(model, src, limit, use_cache=use_cache)` scores the next "
            "token of every row. In each round, call `engine.step(tokens.unsqueeze(1))`, set the "
            "logit of padding to -inf, and call `choose(logits)`.",
            "Start with a table `ids` full of padding. Keep `rows`, the sentences that have not "
            "ended, and choose tokens only for them. `engine.reorder(unfinished, unfinished)` "
            "removes the others. Stop when no row is left, or at the limit.",
            "The loop is inside `with generation_mode(…) as limit:`. Return the columns that were "
            "written, without `bos_id`.",
        ),
        extras={
            "max_new_tokens": (
                decodes("max_new_tokens=2", SOURCES, says=LIMITED, max_new_tokens=2),
                decodes("one sentence of 3 tokens", SOURCES[:1], says=LIMITED, max_new_tokens=4),
            ),
            "use_cache": (recomputed,),
            "choose": (decodes("another `choose`", SOURCES, says=CHOICE, choose=second_best),),
        },
        rejects=(
            "(small_model(), torch.tensor([[3]]), bos_id=1, eos_id=2, max_new_tokens=0)",
            "(small_model(), torch.tensor([[3]]), bos_id=1, eos_id=1)",
        ),
    ),
    Exercise(
        "sample_tokens",
        30,
        core={
            "probabilities": (drawn("the logits alone", FALLING, SAMPLED),),
            "temperature": (drawn("temperature=0.5", (0.7, 0.2, 0.1), COLDER, temperature=0.5),),
        },
        hints=(
            "Divide by the temperature and take the softmax. `probs.topk(k)` returns the k largest "
            "probabilities in descending order, and their tokens. With `top_p` alone, k is V.",
            "`cumsum` minus the probability itself is the total probability of all tokens that are "
            "more likely. Keep a token if that sum is below p.",
            "`torch.multinomial(probs, 1, generator=generator)` draws an index in each row. The "
            "probabilities need not add up to 1. `tokens.gather(1, drawn)` returns the tokens.",
        ),
        extras={
            "top_k": (
                drawn("top_k=3", WHOLE, top_k=3),
                drawn("top_k=50, more than V", FALLING, top_k=50),
            ),
            "top_p": (
                drawn("top_p=0.75", WHOLE, NUCLEUS, top_p=0.75),
                drawn("top_p=0.3, below the largest probability", WHOLE, NUCLEUS, top_p=0.3),
            ),
            "options together": (
                drawn("top_k=3 and top_p=0.75", WHOLE, IN_ORDER, top_k=3, top_p=0.75),
                drawn("a temperature and top_p", WHOLE, IN_ORDER, temperature=0.5, top_p=0.75),
            ),
            "generator": (generators,),
            INPUT_CHECKS: (rejected,),
        },
    ),
)


# known mistakes


FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
LIMIT = "limit = max_new_tokens or model.config.max_len"
TABLE = "(len(src), limit), model.config.pad_id"
BOS_LINE = "tokens = torch.full_like(rows, bos_id)"
READ = "engine.step(tokens.unsqueeze(1))"
PREFIX = "F.pad(ids[rows, :position], (1, 0), value=bos_id)"
AGAIN = f"model.decode({PREFIX}, model.encode(src)[rows], src[rows])[:, -1]"
UNFINISHED = "unfinished = (tokens != eos_id).nonzero().squeeze(1)"
LEAVE = "if len(unfinished) < len(rows):"
OUT = "return ids[:, : position + 1]"
LAST = "\n    return ids\n"

DIVIDED = "logits.float() / temperature"
PROBS = "scores.softmax(dim=-1)"
KEPT = "before < p * probs.sum(dim=-1, keepdim=True)"
TOP = "probs.topk(k)"
FOUND = "tokens.gather(1, drawn).squeeze(1)"


MISTAKES = {
    "greedy_decode": {
        "starts_with_padding: the target starts with padding instead of bos": (
            BOS_LINE,
            BOS_LINE.replace("bos_id", "model.config.pad_id"),
        ),
        "starts_with_eos: the target starts with eos instead of bos": (
            BOS_LINE,
            BOS_LINE.replace("bos_id", "eos_id"),
        ),
        "prompt_returned: bos is returned as part of the answer, even though the model did not "
        "write it": (
            (OUT, "return F.pad(ids[:, : position + 1], (1, 0), value=bos_id)"),
            (LAST, "\n    return F.pad(ids, (1, 0), value=bos_id)\n"),
        ),
        "prompt_in_the_first_column: bos is written into the first column, but the first token "
        "that the model writes belongs there": (
            (BOS_LINE, f"{BOS_LINE}\n        ids[:, 0] = bos_id"),
            ("in range(limit)", "in range(1, limit)"),
        ),
        "bos_in_every_round: the engine reads bos in every round, not the tokens that were just "
        "chosen": (READ, "engine.step(torch.full_like(tokens, bos_id).unsqueeze(1))"),
        "never_stops: decoding does not stop at eos, so every row runs to the length limit "
        "[Lightning-AI/lit-llama "
        "#153, google/gemma_pytorch #57]": (UNFINISHED, "unfinished = torch.arange(len(rows))"),
        "padding_to_the_limit: the loop continues after all rows have ended, and adds padding up "
        "to the limit [google/gemma_pytorch #57]": (OUT, "return ids"),
        "rows_go_on_after_their_end: a row that has ended keeps getting tokens until every row has "
        "ended [mistralai/mistral-inference #270, huggingface/transformers #31261]": (
            (BOS_LINE, f"{BOS_LINE}\n        ended = torch.zeros(len(src)) > 0"),
            (
                UNFINISHED,
                "ended = ended | (tokens == eos_id)\n            "
                "unfinished = (~ended).nonzero().squeeze(1)",
            ),
            (LEAVE, "if False:"),
        ),
        "stops_with_the_first_end: the loop stops as soon as one row has ended, so the other rows "
        "are cut off": ("if len(unfinished) == 0:", LEAVE),
        "end_not_written: eos is left out of the answer, but it is one of the tokens that the "
        "model writes": (
            (OUT, "return ids.where(ids != eos_id, model.config.pad_id)[:, : position + 1]"),
            (LAST, "\n    return ids.where(ids != eos_id, model.config.pad_id)\n"),
        ),
        "padding_is_zero: a row that has ended is padded with 0 instead of the model's pad_id "
        "[INK-USC/MHGRN "
        "#8, hallerite/ludic #11]": (TABLE, TABLE.replace("model.config.pad_id", "0")),
        "filled_with_eos: a row that has ended is filled with eos instead of padding "
        "[microsoft/onnxruntime-genai "
        "#436]": (TABLE, TABLE.replace("model.config.pad_id", "eos_id")),
        "padding_chosen: padding is written wherever it has the largest logit (`masked_fill` "
        "returns a new tensor, so "
        "assign it) [asyml/texar #62]": ('logits[:, model.config.pad_id] = float("-inf")', "pass"),
        "only_the_newest_token: the model reads only the newest token, but it has no cache of the "
        "earlier ones": (READ, AGAIN.replace(PREFIX, "tokens.unsqueeze(1)")),
        "source_padding_forgotten: the source's padding is treated as words, so the answer depends "
        "on the batch [bentrevett/pytorch-seq2seq "
        "#189]": (READ, AGAIN.replace("src[rows])", "torch.full_like(src[rows], bos_id))")),
        "eval_missing: model.eval() is missing, so dropout is on while the model generates text "
        "[d2l-ai/d2l-en #1528, wenjtop/transformer #3, "
        "karpathy/nanoGPT #749]": (FRAME, f"{LIMIT}\n    with torch.no_grad():"),
        "left_in_eval_mode: the model is left in eval mode, so dropout stays off when training "
        "continues [shubhamagarwal92/mmd "
        "#14, tk-rusch/coRNN #1]": (FRAME, f"{LIMIT}\n    model.eval()\n    with torch.no_grad():"),
        "gradients_kept: torch.no_grad() is missing, so autograd keeps the graph of every round "
        "[allenai/OLMo #164, RaphaelOlivier/robust_speech #6]": (
            FRAME,
            FRAME.replace("limit:", "limit, torch.enable_grad():"),
        ),
        "encoder_runs_again: the encoder runs again for every token, even though its output does "
        "not change": (READ, AGAIN),
        "sources_not_reordered: `engine.reorder` gets only the rows, so the engine still scores "
        "the sources of the rows that have left": (", unfinished)\n", ")\n"),
        "tokens_not_selected: the tokens of finished rows stay in `tokens`, although these rows "
        "have left the engine": ("rows, tokens = rows[unfinished], tokens", "rows = rows"),
        "rows_renumbered: `unfinished` becomes the new `rows`, but it counts only the "
        "rows that are left; use `rows[unfinished]`": ("= rows[unfinished]", "= unfinished"),
        "probabilities_to_choose: `choose` gets probabilities, but it expects logits, to which it "
        "may apply a softmax itself": ("choose(logits)", "choose(logits.softmax(dim=-1))"),
        "not_cloned: the logit of padding is set to -inf in the engine's own logits instead of in "
        "a copy (`clone`)": (".clone()", ""),
        **ignored(("max_new_tokens", (FRAME, FRAME.replace("max_new_tokens", "None")))),
        **ignored(("use_cache", (", use_cache=use_cache", ""))),
        **ignored(("choose", ("choose(logits)", "argmax_tokens(logits)"))),
    },
    "sample_tokens": {
        "most_likely_taken: the most likely token is taken instead of a sampled one": (
            "torch.multinomial(",
            "(lambda weights, *_, **__: weights.argmax(dim=-1, keepdim=True))(",
        ),
        "temperature_multiplied: the logits are multiplied by the temperature instead of divided "
        "by it": (DIVIDED, "logits.float() * temperature"),
        "temperature_after_the_softmax: the temperature divides the probabilities instead of the "
        "logits": ((DIVIDED, "logits.float()"), (PROBS, "scores.softmax(dim=-1) / temperature")),
        "top_k_one_too_many: top_k keeps k + 1 tokens": (
            TOP,
            "probs.topk(min(k + 1, logits.size(-1)))",
        ),
        "top_p_drops_the_crossing: top_p removes the token at which the sum crosses p, so the "
        "remaining probabilities add up to less "
        "than p": (KEPT, "(before + probs <= p * probs.sum(dim=-1, keepdim=True)) | (before == 0)"),
        "top_p_may_keep_nothing: top_p keeps tokens only while the sum stays below p, so it keeps "
        "none if the most likely "
        "token alone exceeds p": (KEPT, "(before + probs <= p * probs.sum(dim=-1, keepdim=True))"),
        "top_p_counts_itself: a token is kept only if the sum that includes it is below p, so even "
        "the default p = 1 removes the last token": ("cumsum(dim=-1) - probs", "cumsum(dim=-1)"),
        "squeezed: `squeeze()` also removes the axis of the rows if there is only one; use "
        "`squeeze(1)`": (".squeeze(1)", ".squeeze()"),
        "generator_forgotten: the draw after top_k or top_p does not use `generator`, so it cannot "
        "be repeated": ("multinomial(nucleus, 1, generator=generator)", "multinomial(nucleus, 1)"),
        "cut_to_zero: the logits of the tokens that top_k removes become 0, but exp(0) is 1, so "
        "they can still be sampled; use -inf": (
            (PROBS, "scores.where(scores >= scores.topk(k)[0][:, -1:], 0.0).softmax(dim=-1)"),
            (TOP, "probs.topk(logits.size(-1))"),
        ),
        "shares_not_renewed: top_p counts the probabilities of tokens that top_k has removed; "
        "first rescale "
        "the probabilities of the remaining tokens so that they add up to 1": (KEPT, "before < p"),
        "scores_not_checked: logits without a finite entry are not rejected, so their softmax is "
        "nan [ProjectD-AI/llama_inference "
        "#11, JIA-Lab-research/MGM #87]": ("    check_scores(scores, temperature)\n", ""),
        **{
            f"places_in_place_of_tokens{when}: the result is the place of a token among the sorted "
            "probabilities, so look up which token is at that place": (
                (FOUND, f"({place}).squeeze(1)"),
                ("if top_k is None and p == 1:", f"if {unsorted}:"),
            )
            for when, place, unsorted in (
                ("", "drawn", "top_k is None and p == 1"),
                ("_always", "drawn", "False"),
                ("_after_top_p", "tokens.gather(1, drawn) if top_p is None else drawn", "False"),
            )
        },
        "options_ignored: `temperature`, `top_k` and `top_p` are accepted but never used": (
            (PROBS, "logits.float().softmax(dim=-1)"),
            ("if top_k is None and p == 1:", "if True:"),
        ),
        **ignored(
            ("temperature", (PROBS, "logits.float().softmax(dim=-1)")),
            ("top_k", (TOP, "probs.topk(logits.size(-1))")),
            ("top_p", ("1.0 if top_p is None else top_p", "1.0")),
        ),
    },
}
PATTERNS = {
    "temperature_after_the_softmax": r"softmax\(.*\) */|prob\w* */=? *temp",
}


# right answers

WRITE = "ids[rows, position] = tokens"
PADDED = """tokens = tokens.masked_fill((ids == eos_id).any(dim=1), model.config.pad_id)
            ids[:, position] = tokens"""
REMOVED = f"""            {LEAVE}  # finished sentences leave the batch
                rows, tokens = rows[unfinished], tokens[unfinished]
                engine.reorder(unfinished, unfinished)
"""

ANSWERS = {
    "greedy_decode": {
        "whole_batch: a sentence that has ended stays in the batch and gets padding": (
            (WRITE, PADDED),
            (UNFINISHED, "unfinished = (ids != eos_id).all(dim=1).nonzero()"),
            (REMOVED, ""),
        ),
    },
}
