"""Exercises of chapter 12: trials, known mistakes and right answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.decoding import argmax_tokens
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.small_models import SmallScript, small_config, small_model
from course_lib.exercises.trial import Trial, answer_to, looks
from course_lib.kv_cache import decoding_engine

MAX_LEN = 9
BOS, EOS, PAD = 5, 4, 3  # none of them where one would guess it
NAMES = {BOS: "bos", EOS: "eos", PAD: "pad"}
LINES = {6: [7, 8, EOS], 7: [8, 6, 10, 6, EOS], 8: [EOS], 9: [6, 7, 8, 9, 10, 6, 7, 8, 9]}
SOURCES = torch.tensor([[6, 8, PAD], [7, 9, 10], [8, PAD, PAD]])
ENDLESS = torch.tensor([[9, 8], [8, PAD]])
SHORT = torch.tensor([[8, 8, 3], [6, 8, 1], [2, 8, 3], [7, 2, 3], [7, 3, 3], [6, 9, 3]])
ROWS, V = 12_000, 7
RANKED = (5, 1, 6, 0, 2, 4)  # the tokens, the likeliest first
FALLING = (0.4, 0.3, 0.2, 0.1)
WHOLE = (0.4, 0.24, 0.16, 0.12, 0.08)  # the first three have 0.8 together: as 5 to 3 to 2
NARROW = (0.76, 0.095, 0.095, 0.03, 0.02)  # the first three have 0.95 together: as 8 to 1 to 1
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


def logits_for(
    probs: tuple[float, ...], temperature: float = 1.0, ranked: tuple[int, ...] = RANKED
) -> Tensor:
    """Make rows that have these probabilities at this temperature; some tokens are impossible.

    Logits are not logarithms of probabilities, because a constant added to them changes nothing.
    """
    last = torch.full((V,), float("-inf"))
    for token, prob in zip(ranked, probs, strict=False):
        last[token] = temperature * torch.tensor(prob).log() + ranked[0]
    return last.expand(ROWS, V).clone()  # (B, V)


def drawn(label: str, probs: tuple[float, ...], says: str = CUT, **how: Any) -> Trial:
    """Draw from two kinds of rows in turn, and tell how often each token came, to a tenth."""
    temperature = how.get("temperature", 1.0)
    logits = logits_for(probs, temperature)
    other = NARROW if probs is WHOLE else FALLING
    logits[1::2] = logits_for(other, temperature, RANKED[::-1])[1::2]

    def act(candidate: Callable) -> Outcome:
        """Draw, and look whether the logits are as they were."""
        given = logits.clone()
        tokens = candidate(given, **how)
        if not isinstance(tokens, Tensor) or tokens.shape != (ROWS,):
            return Outcome({"drawn": describe(tokens)})
        often = {}
        for rows, some in (("even rows", tokens[::2]), ("odd rows", tokens[1::2])):
            counts = some.long().bincount(minlength=V).tolist()
            often[rows] = {f"token {n}": f"{c / len(some):.1f}" for n, c in enumerate(counts) if c}
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


@looks("a count of the work", "The encoder reads the source once, not again for every token.")
def encoded_once(candidate: Callable) -> dict[str, bool]:
    """Count the passes through the encoder, for an answer of three tokens and one of nine."""
    passes = []
    for row in (SOURCES[:1], ENDLESS[:1]):
        model = script()
        decode(candidate, model, row.clone())
        passes.append(len(model.modes["encoder"]))
    return {"the encoder runs again for later tokens": passes[1] > passes[0]}


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
            "work": (encoded_once,),
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
        unnamed=(": position + 1]", ": position + 1].flip(1)"),
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
        unnamed=("scores.softmax(dim=-1)", "scores.softmax(dim=-1).sqrt()"),
    ),
)


# known mistakes

greedy = known("decoding", "greedy_decode")
sample = known("decoding", "sample_tokens")

FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
LIMIT = "limit = max_new_tokens or model.config.max_len"
TABLE = "(len(src), limit), model.config.pad_id"
BOS_LINE = "tokens = torch.full_like(rows, bos_id)"
READ = "engine.step(tokens.unsqueeze(1))"
PREFIX = "F.pad(written[rows, :position], (1, 0), value=bos_id)"
AGAIN = f"model.decode({PREFIX}, model.encode(src)[rows], src[rows])[:, -1]"
UNFINISHED = "unfinished = (tokens != eos_id).nonzero().squeeze(1)"
LEAVE = "if len(unfinished) < len(rows):"
OUT = "return written[:, : position + 1]"
LAST = "\n    return written\n"
ENDED = "ended = torch.zeros(len(src)) > 0"

DIVIDED = "logits.float() / temperature"
PROBS = "scores.softmax(dim=-1)"
KEPT = "before < p * probs.sum(dim=-1, keepdim=True)"
TOP = "probs.topk(k)"

WRITING = (
    greedy(
        "starts_with_padding",
        "the target starts with padding instead of bos",
        (BOS_LINE, BOS_LINE.replace("bos_id", "model.config.pad_id")),
        seen="T5 does: huggingface/transformers #8161",
    ),
    greedy(
        "starts_with_eos",
        "the target starts with eos instead of bos",
        (BOS_LINE, BOS_LINE.replace("bos_id", "eos_id")),
        seen="BART does: huggingface/transformers #16583; facebookresearch/metaseq #5",
    ),
    greedy(
        "prompt_returned",
        "bos is returned with the answer: it was read, not written",
        (OUT, "return F.pad(written[:, : position + 1], (1, 0), value=bos_id)"),
        (LAST, "\n    return F.pad(written, (1, 0), value=bos_id)\n"),
        seen="huggingface/transformers #8161 and #16583 show such outputs",
    ),
    greedy(
        "never_stops",
        "eos ends no row: whoever has ended is written on, to the limit",
        (UNFINISHED, "unfinished = torch.arange(len(rows))"),
        seen="Lightning-AI/lit-llama #153, google/gemma_pytorch #57",
    ),
    greedy(
        "padding_to_the_limit",
        "the loop goes on when all rows have ended, and fills them with padding to the limit",
        (OUT, "return written"),
        seen="google/gemma_pytorch #57",
    ),
    greedy(
        "rows_go_on_after_their_end",
        "a row that has ended writes on while others do: nothing remembers that it is done",
        (BOS_LINE, f"{BOS_LINE}\n        {ENDED}"),
        (
            UNFINISHED,
            "ended = ended | (tokens == eos_id)\n            "
            "unfinished = (~ended).nonzero().squeeze(1)",
        ),
        (LEAVE, "if False:"),
        seen="mistralai/mistral-inference #270, huggingface/transformers #31261",
    ),
    greedy(
        "stops_with_the_first_end",
        "the loop stops when any row has ended, and the others are cut off",
        ("if len(unfinished) == 0:", f"{LEAVE}"),
        seen="h-transformer-1d #9 and lit-llama #153: code for one sentence, used for a batch",
    ),
    greedy(
        "end_not_written",
        "eos is left out of the answer: it is a token like any other and belongs to it",
        (OUT, "return written.where(written != eos_id, model.config.pad_id)[:, : position + 1]"),
        (LAST, "\n    return written.where(written != eos_id, model.config.pad_id)\n"),
        seen="genienlp and KoboldAI strip it on purpose: 0cc4m/KoboldAI #62",
    ),
    greedy(
        "padding_is_zero",
        "the rest of a row that has ended is filled with 0 instead of the model's pad_id",
        (TABLE, TABLE.replace("model.config.pad_id", "0")),
        seen="INK-USC/MHGRN #8, hallerite/ludic #11",
    ),
    greedy(
        "filled_with_eos",
        "the rest of a row that has ended is filled with eos instead of padding",
        (TABLE, TABLE.replace("model.config.pad_id", "eos_id")),
        seen="microsoft/onnxruntime-genai #436",
    ),
    greedy(
        "padding_chosen",
        "padding is written wherever it has the highest score, before the end too (masked_fill "
        "returns a new tensor: was it kept?)",
        ('logits[:, model.config.pad_id] = float("-inf")', "pass"),
        seen="asyml/texar #62",
    ),
    greedy(
        "only_the_newest_token",
        "the model reads the newest token only: without a cache it has forgotten the rest",
        (READ, AGAIN.replace(PREFIX, "tokens.unsqueeze(1)")),
        seen="code for decoders with a cache, such as mlfoundations/open_lm #74",
    ),
    greedy(
        "source_padding_forgotten",
        "the source's padding is read as if it were words: the batch changes the answer",
        (READ, AGAIN.replace("src[rows])", "torch.full_like(src[rows], bos_id))")),
        seen="bentrevett/pytorch-seq2seq #189: another batch size, another answer",
    ),
    greedy(
        "eval_missing",
        "model.eval() is missing: dropout drops while the model writes",
        (FRAME, f"{LIMIT}\n    with torch.no_grad():"),
        seen="d2l-ai/d2l-en #1528, wenjtop/transformer #3, karpathy/nanoGPT #749",
    ),
    greedy(
        "left_in_eval_mode",
        "the model is left in eval mode: a training that goes on then learns without dropout",
        (FRAME, f"{LIMIT}\n    model.eval()\n    with torch.no_grad():"),
        seen="shubhamagarwal92/mmd #14, tk-rusch/coRNN #1",
    ),
    greedy(
        "gradients_kept",
        "the graph of every round is kept: torch.no_grad() is missing",
        (FRAME, FRAME.replace("limit:", "limit, torch.enable_grad():")),
        seen="allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
    ),
    greedy(
        "encoder_runs_again",
        "the encoder runs again for every token, although its output does not change",
        (READ, AGAIN),
    ),
    *ignored(
        greedy,
        (
            "max_new_tokens",
            ("    with generation_mode(", "    max_new_tokens = None\n    with generation_mode("),
        ),
    ),
)

DRAWING = (
    sample(
        "likeliest_taken",
        "the likeliest token is taken and nothing is drawn",
        ("torch.multinomial(probs, 1, generator=generator)", "probs.argmax(-1, keepdim=True)"),
        ("torch.multinomial(nucleus, 1, generator=generator)", "nucleus.argmax(-1, keepdim=True)"),
    ),
    sample(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        (DIVIDED, "logits.float() * temperature"),
    ),
    sample(
        "temperature_after_the_softmax",
        "the probabilities are divided by the temperature: the logits are, before the softmax",
        (DIVIDED, "logits.float()"),
        (PROBS, "scores.softmax(dim=-1) / temperature"),
    ),
    sample(
        "top_k_one_too_many",
        "top_k keeps one token more than k",
        (TOP, "probs.topk(min(k + 1, logits.size(-1)))"),
    ),
    sample(
        "top_p_drops_the_crossing",
        "top_p drops the token that crosses p, and what is left does not reach it",
        (KEPT, "(before + probs <= p * probs.sum(dim=-1, keepdim=True)) | (before == 0)"),
    ),
    sample(
        "shares_not_renewed",
        "top_p counts the probabilities of tokens that top_k has removed; let the "
        "probabilities of the remaining tokens add up to 1 first",
        (KEPT, "before < p"),
    ),
    sample(
        "scores_not_checked",
        "logits without a finite entry reach the softmax, which turns them into nan",
        ("    check_scores(scores, temperature)\n", ""),
        seen="ProjectD-AI/llama_inference #11, JIA-Lab-research/MGM #87",
    ),
    *ignored(
        sample,
        ("temperature", (DIVIDED, "logits.float()")),
        ("top_k", (TOP, "probs.topk(logits.size(-1))")),
        ("top_p", ("1.0 if top_p is None else top_p", "1.0")),
        ("generator", (", generator=generator", "")),
    ),
)

MISTAKES = (*WRITING, *DRAWING)


# right answers


def annotated_decode(model, src, start_symbol, end_symbol):
    """Keep every row to the end, under The Annotated Transformer's names: the core, no more."""
    mode, pad_id = model.training, model.config.pad_id
    model.eval()
    ys = torch.zeros(len(src), 1).fill_(start_symbol).type_as(src)
    ended = src.new_zeros(len(src), dtype=torch.bool)
    with torch.no_grad():
        memory = model.encode(src)
        for _ in range(model.config.max_len):
            prob = model.decode(ys, memory, src)[:, -1].clone()
            prob[:, pad_id] = -torch.inf
            _, next_word = torch.max(prob, dim=1)
            ys = torch.cat([ys, next_word.masked_fill(ended, pad_id).unsqueeze(1)], dim=1)
            ended |= next_word == end_symbol
            if ended.all():
                break
    model.train(mode)
    return ys[:, 1:]


@torch.inference_mode()
def decode_into_a_table(
    model, src, *, bos_id, eos_id, max_new_tokens=None, use_cache=True, choose=argmax_tokens
):
    """Fill a table of fixed size from left to right; cut what nobody needed."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens if max_new_tokens is not None else model.config.max_len
    table = torch.full((src.shape[0], limit + 1), pad_id)
    table[:, 0] = bos_id
    model.train(False)
    try:
        engine = decoding_engine(model, src, limit, use_cache=use_cache)
        for place in range(limit):
            over = (table == eos_id).any(dim=1)
            logits = engine.step(table[:, place : place + 1])
            logits = logits.index_fill(1, torch.tensor([pad_id]), -torch.inf)
            table[:, place + 1] = choose(logits).masked_fill(over, pad_id)
    finally:
        model.train(was_training)
    longest = int((table[:, 1:] != pad_id).sum(dim=1).max())
    return table[:, 1 : longest + 1]


def sample_by_sorting(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Sort the whole vocabulary, cut, and let ``multinomial`` draw."""
    bad_k = top_k is not None and top_k < 1
    bad_p = top_p is not None and not 0 < top_p <= 1
    if temperature <= 0 or bad_k or bad_p:
        raise ValueError(f"cannot draw with {temperature=}, {top_k=}, {top_p=}")
    scores, tokens = (logits / temperature).sort(dim=-1, descending=True)
    if not scores[:, 0].isfinite().all():
        raise ValueError("a row of logits has no softmax")
    shares = scores[:, :top_k].softmax(dim=-1)
    if top_p is not None:
        shares = shares * (shares.cumsum(dim=-1) - shares < top_p)
    return tokens.gather(1, torch.multinomial(shares, 1, generator=generator)).flatten()


def nano_sample(logits, temperature=1.0, top_k=None):
    """Cut and draw as nanoGPT does: without top_p and a generator."""
    logits = logits / temperature
    if top_k is not None:
        v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
        logits[logits < v[:, [-1]]] = -float("Inf")
    return torch.multinomial(logits.softmax(dim=-1), num_samples=1)[:, 0]


ANSWERS = {
    "greedy_decode": (decode_into_a_table, annotated_decode),
    "sample_tokens": (sample_by_sorting, nano_sample),
}
