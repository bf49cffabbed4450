"""What is asked of chapter 18: attention with one product, a layer, GPT, its groups, sampling."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    by_name,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
    refuses,
    value_trial,
)
from course_lib.gpt import GPT, GPTConfig
from course_lib.kv_cache import KVCache

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
CONFIG = GPTConfig(
    vocab_size=10, max_len=6, num_layers=2, num_heads=H, d_model=D_MODEL, dropout=0.0
)
BARE = replace(CONFIG, bias=False)
LARGE = GPTConfig(vocab_size=150, max_len=100, num_layers=4, num_heads=4, d_model=64)
WRITER = replace(CONFIG, vocab_size=11, max_len=7, d_model=4 * H)
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])
TARGETS = torch.tensor([[4, 0, 6, 3, 5], [7, 8, 2, 9, 0]])
PROMPT = torch.tensor([[7, 1, 2], [4, 10, 7]])
LONG = torch.tensor([[5, 7, 1, 8, 10, 2, 3, 6, 0, 4], [0, 9, 9, 6, 4, 5, 8, 1, 2, 7]])
ROWS = 3000
MANY = (0.1, 0.3, 0.1, 0.2, 0.1, 0.1, 0.1)
FUTURE = "A later token must not change what stands before it, in training and in eval mode."
CACHED = "With a cache the new tokens come alone, and attend to those that were read before."
RANDOM = "Dropout acts in training only, "
TORCHS = {
    F.multi_head_attention_forward: "This calls torch's own attention layer. Write the attention "
    "out; the fused kernel F.scaled_dot_product_attention is welcome inside."
}


def first(answer: Any) -> Any:
    """Take the first of several results."""
    return answer[0] if isinstance(answer, tuple | list) else answer


def sees_later(build: dict, x: Tensor, later: Tensor) -> Trial:
    """Change what comes later, and look who notices."""

    def act(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
        """Compare the first two answers."""
        module, found = filled(candidate(**build)), {}
        for mode, training in (("in training", True), ("in eval mode", False)):
            module.train(training)
            one, other = (first(module(y.clone()))[:, :2] for y in (x, later))
            found[f"a later token is seen {mode}"] = not torch.allclose(one, other, atol=1e-4)
        return found

    return value_trial("a later token", act, says=FUTURE)


def in_two_parts(build: dict, x: Tensor, cache: Callable[[], Any]) -> Trial:
    """Hand the first three tokens over, and then the others, with a cache."""

    def act(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
        """Keep what the second call says; a lone token comes last."""
        module, kept = filled(candidate(**build)).eval(), cache()
        with torch.no_grad():
            said = [first(module(part, cache=kept)) for part in x.split((2, x.size(1) - 3, 1), 1)]
        return {"with a cache": torch.cat(said, dim=1)}

    return value_trial("a cache", act, kind="equality", says=CACHED)


def dropped(build: Callable[[float], dict], x: Tensor, says: str) -> Trial:
    """Look for chance in eval mode, and at what is left when everything is dropped."""

    def act(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        """Ask twice, and drop all."""
        still = filled(candidate(**build(0.5))).eval()
        with torch.no_grad():
            one, other = (first(still(x.clone())) for _ in range(2))
            left = first(filled(candidate(**build(1.0))).train()(x.clone()))
        return {"random in eval mode": not torch.equal(one, other), "left of it": left}

    return value_trial("dropout", act, kind="train and eval", says=RANDOM + says)


def projected(candidate: Callable) -> dict[str, Any]:
    """Look at queries, keys and values, and put heads together again."""
    layer = filled(candidate(**PLAIN)).eval()
    with torch.no_grad():
        parts = dict(zip(("queries", "keys", "values"), layer.project(X.clone()), strict=True))
        return parts | {"merge": layer.merge(normal("heads", B, H, T, D_K))}


def one_token_dropped(candidate: Callable) -> dict[str, str]:
    """Drop half of the only weight that there is."""
    layer = candidate(**PLAIN, dropout=0.5).train()
    named = by_name(layer)
    with torch.no_grad():
        for parameter in named.values():
            parameter.zero_()
        named["w_qkv.weight"][-D_MODEL:] = named["w_o.weight"][:] = torch.eye(D_MODEL)
        one = normal("one token", 8, 1, D_MODEL)
        kept = (layer(one.clone()) / one).round() + 0.0
    return {"what comes out is 0 or doubled": str(kept.unique().tolist())}


def inside_dropped(candidate: Callable) -> dict[str, bool]:
    """Look which part of a layer drops something inside."""
    model, found = filled(candidate(**PLAIN, dropout=0.5)).train(), {}
    for part in ("self_attn", "feed_forward"):
        pair = [getattr(model, part)(X.clone()) for _ in range(2)]
        found[f"{part} drops something inside"] = not torch.equal(*pair)
    return found


def new_gpt(candidate: Callable) -> dict[str, Any]:
    """Measure how a new model of four layers starts, to a tenth of what is right."""
    named = {name: p.detach() for name, p in by_name(candidate(LARGE)).items()}
    found = {}
    for unit, parts in (
        (0.02, ("embedding", "positions", "w_qkv", "linear1")),
        (0.02 / 8**0.5, ("w_o", "linear2")),
    ):
        for part in parts:
            values = [x.flatten() for name, x in named.items() if name.endswith(f"{part}.weight")]
            spread = round(float(torch.cat(values).std()) / unit, 1)
            found[f"standard deviation of {part}, of {unit:.4f}"] = spread
    gains = [x for name, x in named.items() if name.endswith("norm.weight")]
    biases = [x for name, x in named.items() if name.endswith("bias")]
    return found | {
        "all biases are 0": all(not x.any() for x in biases),
        "all gains of norms are 1": all(bool((x == 1).all()) for x in gains),
    }


def bad_gpt_calls(candidate: Callable) -> dict[str, str]:
    """Hand over what cannot be looked up, and targets of another shape."""
    model = filled(candidate(CONFIG)).eval()
    return {
        "more tokens than max_len": refuses(model, torch.ones(2, 7, dtype=torch.long)),
        "an id that the vocabulary lacks": refuses(model, IDS + 1),
        "as many targets in another shape": refuses(model, IDS, TARGETS.view(5, 2)),
    }


class Odd(nn.Module):
    """Hold parameters whose names say little: a kernel, a scale, a bias that is a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Conv1d(2, 3, 4)
        self.scale = nn.Parameter(torch.ones(5))
        self.relative_bias = nn.Parameter(torch.ones(2, 3))


def one_layer() -> nn.Module:
    """Build a GPT of one layer."""
    return GPT(replace(CONFIG, num_layers=1))


def frozen() -> nn.Module:
    """Build one whose tables do not learn any more."""
    model = one_layer()
    for parameter in (model.embedding.weight, model.positions.weight, model.norm.bias):
        parameter.requires_grad_(False)
    return model


def grouped(label: str, build: Callable[[], nn.Module], says: str) -> Trial:
    """Name the parameters of both groups, as often as they stand there, and their decay."""

    def act(candidate: Callable) -> dict[str, Any]:
        """Sort, and read."""
        model = build()
        answer = candidate(model, 0.3)
        held = list(answer) if isinstance(answer, list | tuple) else [answer]
        if len(held) != 2 or not all(isinstance(g, dict) and "params" in g for g in held):
            raise TypeError(f"two groups with 'params' should come out, not {describe(answer)}")
        names = {id(p): name for name, p in by_name(model).items()}
        found = {}
        for which, group in zip(("first", "second"), held, strict=True):
            known = sorted(names.get(id(p), "a stranger") for p in group["params"])
            found[f"{which} group"] = ", ".join(known)
            found[f"weight decay of the {which} group"] = float(group.get("weight_decay", 0.01))
        return found

    return value_trial(label, act, says=says)


def writer(scale: float = 1000.0, **changes: Any) -> GPT:
    """Build a model whose texts differ, and that leaves one choice at each step."""
    model = filled(GPT(replace(WRITER, **changes)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 0.5 if name.endswith("bias") else 1)
        for parameter in model.norm.parameters():
            parameter.mul_(scale)
    return model.eval()


def written(label: str, ids: Tensor, new: int, says: str = "", **how: Any) -> Trial:
    """Let it write, and look whether the prompt is as it was."""

    def act(candidate: Callable) -> dict[str, Any]:
        """Write every row out."""
        given = ids.clone()
        text = candidate(writer(), given, new, **how)
        if not isinstance(text, Tensor) or text.dim() != 2 or text.is_floating_point():
            return {"returned": describe(text)}
        rows = {f"row {n}": " ".join(map(str, row)) for n, row in enumerate(text.tolist())}
        return rows | {"the prompt has changed": not given.equal(ids)}

    return value_trial(label, act, kind="equality", says=says)


def liking(probs: Sequence[float], temperature: float = 1.0) -> GPT:
    """Build a model that gives tokens these probabilities at this temperature."""
    sizes = dict(vocab_size=len(probs), max_len=5, num_layers=1, num_heads=1, d_model=2)
    model = GPT(GPTConfig(**sizes, dropout=0.0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.norm.bias[0] = 1.0
        model.embedding.weight[:, 0] = temperature * torch.tensor(probs).log()
    return model


def drawn(label: str, says: str, probs: Sequence[float] = MANY, **how: Any) -> Trial:
    """Draw one token for many equal rows, and count how often each comes, in tenths."""

    def act(candidate: Callable) -> dict[str, str]:
        """Count."""
        ids = torch.tensor([[2, 0]]).repeat(ROWS, 1)
        text = candidate(liking(probs, how.get("temperature", 1.0)), ids, 1, **how)
        counts = text[:, -1].long().bincount(minlength=len(probs)).tolist()
        return {f"token {n}": f"about {count / ROWS:.1f}" for n, count in enumerate(counts)}

    return value_trial(label, act, says=says)


def generators(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, and of another."""
    first, again, other = (
        candidate(liking(MANY), torch.zeros(60, 1).long(), 6,
                  generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )  # fmt: skip
    return {
        "the same generator writes the same": torch.equal(first, again),
        "another one writes something else": not torch.equal(first, other),
    }


def watched(candidate: Callable, training: bool = False, **how: Any) -> tuple[GPT, list]:
    """Let a model write four tokens; note at its first layer how many positions pass, and how."""
    model, noted = writer(dropout=0.5).train(training), []

    def note(part: nn.Module, given: tuple) -> None:
        """Take note."""
        noted.append((given[0].size(1), part.training, torch.is_grad_enabled()))

    model.layers[0].feed_forward.register_forward_pre_hook(note)
    with torch.enable_grad():
        candidate(model, PROMPT.clone(), 4, **how)
    return model, noted


def positions_computed(candidate: Callable) -> dict[str, int]:
    """Count the positions that are computed for four tokens after three."""
    return {
        f"positions computed with use_cache={on}": sum(
            n for n, *_ in watched(candidate, use_cache=on)[1]
        )
        for on in (True, False)
    }


def modes(candidate: Callable) -> dict[str, Any]:
    """Look in which mode the model writes, and in which it comes back."""
    found = {}
    for mode, training in (("training", True), ("eval", False)):
        model, noted = watched(candidate, training)
        found[f"from {mode}: it writes with dropout"] = any(was for _, was, _ in noted)
        found[f"from {mode}: it comes back as it was"] = all(
            module.training == training for module in model.modules()
        )
        found[f"from {mode}: gradients are kept"] = any(grad for *_, grad in noted)
    return found


def bad_samples(candidate: Callable) -> dict[str, str]:
    """Ask for what cannot be done."""
    nothing = torch.zeros(2, 0, dtype=torch.long)
    return {
        "no token to begin with": refuses(candidate, writer(), nothing, 2),
        "temperature=0.0": refuses(candidate, writer(), PROMPT.clone(), 2, temperature=0.0),
        "top_k=0": refuses(candidate, writer(), PROMPT.clone(), 2, top_k=0),
    }


def of_gpt(label: str, config: GPTConfig, **targets: Tensor) -> Trial:
    """Compare logits and loss, and the gradients of all parameters."""
    return module_trial(label, {"config": config}, {"ids": IDS, **targets}, ("logits", "loss"))


WINDOW = (
    "Of a long text the last max_len tokens are read, as if it began there; once the window "
    "moves, nothing that was cached is right any more."
)
GPT_PARTS = (
    "The parts are embedding, positions, layers (an nn.ModuleList), norm and output, which has no "
    "bias and shares the embedding's matrix. With bias=False no layer has any."
)
LAYER_PARTS = (
    "A layer has four parts, each with parameters of its own: self_attn, feed_forward (4 · d_model "
    "features), add_norm1 and add_norm2."
)
OTHER_X = torch.cat([X[:, :2], X[:, 2:] + 3], dim=1)
OTHER_IDS = torch.cat([IDS[:, :2], (IDS[:, 2:] + 1) % 10], dim=1)

EXERCISES = (
    Exercise(
        "CausalSelfAttention",
        "gpt",
        25,
        core={
            "parameters": (
                parameters_trial(
                    PLAIN,
                    "Two nn.Linear layers with biases: w_qkv, three times as wide as its input, "
                    "and w_o.",
                ),
            ),
            "attention": (
                module_trial("sizes that all differ", PLAIN, {"x": X}),
                module_trial(
                    "sizes that are all equal",
                    dict(d_model=16, num_heads=4),
                    {"x": normal("even", 4, 4, 16)},
                ),
                module_trial("one token", PLAIN, {"x": X[:, :1]}),
            ),
            "causal": (sees_later(PLAIN, X, OTHER_X),),
        },
        hints=(
            "`self.w_qkv(x)` has 3 · d_model columns. In which order must they be cut: into three, "
            "into heads, into the numbers of a head? Then the heads go in front of the tokens.",
            "`unflatten(-1, (3, num_heads, -1))` cuts, `permute(2, 0, 3, 1, 4)` turns (B, T, 3, H, "
            "d_k) into (3, B, H, T, d_k). `merge` undoes the split: `transpose(1, 2).flatten(2)`.",
            "`F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        shortcuts=TORCHS,
        extras={
            "project and merge": (
                value_trial(
                    "project and merge",
                    projected,
                    kind="equality",
                    says="Of the product's columns the first third are queries, head by head, "
                    "then keys, then values; `merge` joins the heads, and mixes them.",
                ),
            ),
            "KV cache": (in_two_parts(PLAIN, X, lambda: KVCache(1, T).layers[0].self_attn),),
            "dropout": (
                dropped(
                    lambda p: PLAIN | {"dropout": p},
                    X,
                    "on the attention weights and on nothing else.",
                ),
                value_trial(
                    "dropout=0.5 in training",
                    one_token_dropped,
                    kind="train and eval",
                    says="Dropout acts on the attention weights, once, and doubles what is left.",
                ),
            ),
            "sizes that do not fit": (
                value_trial(
                    "sizes that do not fit",
                    lambda c: {"7 numbers for 3 heads": refuses(c, d_model=7, num_heads=3)},
                    says="Heads that do not divide the width are a ValueError, as from "
                    "`head_width(d_model, num_heads)`.",
                ),
            ),
            "names": (names_trial(PLAIN),),
        },
    ),
    Exercise(
        "GPTLayer",
        "gpt",
        15,
        core={
            "parameters": (parameters_trial(PLAIN, LAYER_PARTS),),
            "layer": (
                module_trial("sizes that all differ", PLAIN, {"x": X}),
                module_trial("one token", PLAIN, {"x": X[:1, :1]}),
            ),
            "causal": (sees_later(PLAIN, X, OTHER_X),),
        },
        hints=(
            "Everything is built already: `CausalSelfAttention`, `FeedForward`, and an `AddNorm` "
            "for each of them. Where does dropout go, and where does it not?",
            '`FeedForward(d_model, 4 * d_model, activation="gelu")`, and '
            "`AddNorm(d_model, dropout, norm_first=True)`, twice.",
            "Both sub-layers take one tensor and return one, so `AddNorm` can be given them as "
            "they are: `self.add_norm1(x, self.self_attn)` first.",
        ),
        shortcuts=TORCHS,
        extras={
            "KV cache": (in_two_parts(PLAIN, X, lambda: KVCache(1, T).layers[0]),),
            "dropout": (
                dropped(
                    lambda p: PLAIN | {"dropout": p},
                    X,
                    "on each sub-layer's output before the sum.",
                ),
                value_trial(
                    "dropout inside the parts",
                    inside_dropped,
                    kind="train and eval",
                    says="Attention drops some of its weights; inside the feed-forward nothing is "
                    "dropped.",
                ),
            ),
            "names": (names_trial(PLAIN),),
        },
    ),
    Exercise(
        "GPT",
        "gpt",
        35,
        core={
            "parameters": (parameters_trial({"config": CONFIG}, GPT_PARTS),),
            "logits and loss": (
                of_gpt("ids alone", CONFIG),
                of_gpt("ids and targets", CONFIG, targets=TARGETS),
            ),
            "causal": (sees_later({"config": CONFIG}, IDS, OTHER_IDS),),
            "initialization": (
                value_trial(
                    "a new model of four layers",
                    new_gpt,
                    says="Matrices start as N(0, 0.02²), those that write into the residual "
                    "stream, w_o and linear2, divided by √(2N); biases start at 0, gains at 1.",
                ),
            ),
        },
        hints=(
            "Five parts, with the names of the docstring; tie the output as in `DecoderOnly`. "
            "`forward`: `check_ids`, embedding (not scaled), positions, layer after layer, the "
            "norm, the output.",
            "`F.cross_entropy` wants one row for each token: `logits.flatten(0, 1)` and "
            "`targets.flatten()`. The targets are shifted already.",
            "Go through `self.named_parameters()`: `dim() == 2` is a matrix; a name that ends in "
            "`w_o.weight` or `linear2.weight` writes into the residual stream, 2N times in all. To "
            "take a bias away, set `module.bias = None`, in norms as well.",
        ),
        shortcuts=TORCHS,
        extras={
            "bias": (
                parameters_trial({"config": BARE}, GPT_PARTS),
                of_gpt("bias=False and targets", BARE, targets=TARGETS),
            ),
            "KV cache": (in_two_parts({"config": CONFIG}, IDS, lambda: KVCache(2, 6)),),
            "dropout": (
                dropped(
                    lambda p: {"config": replace(CONFIG, dropout=p)},
                    IDS,
                    "on embeddings with their positions, and on all that the layers add.",
                ),
            ),
            "bad calls": (
                value_trial(
                    "calls that cannot be right",
                    bad_gpt_calls,
                    says="`check_ids` refuses ids; targets have the shape of the ids, or a "
                    "ValueError.",
                ),
            ),
            "names": (names_trial({"config": CONFIG}),),
        },
    ),
    Exercise(
        "param_groups",
        "gpt",
        10,
        core={
            "groups": (
                grouped(
                    "a GPT of one layer",
                    one_layer,
                    "Two groups: what has two axes or more, embedding and positions among it, "
                    "decays as asked for, the rest with 0, written down. Each parameter stands in "
                    "one group, once, a shared one too.",
                ),
                grouped(
                    "parameters of other names and shapes",
                    Odd,
                    "The number of axes decides, not the name, nor the kind of module.",
                ),
            ),
            "frozen parameters": (
                grouped(
                    "parameters that do not learn",
                    frozen,
                    "What does not learn (`requires_grad` is false) stands in no group.",
                ),
            ),
        },
        hints=(
            "`model.parameters()` yields each parameter once, shared ones too. Which of them "
            "learn, and what tells a matrix from a gain or a bias?",
            '`parameter.dim() >= 2`, and the rest. A group is a dict with `"params"` and '
            '`"weight_decay"`; the second group\'s is 0.0, and is written down.',
        ),
        extras={
            "weight decay below 0": (
                value_trial(
                    "a weight decay below 0",
                    lambda candidate: {"it raises": refuses(candidate, Odd(), -0.1)},
                    says="A weight decay below 0 is a ValueError.",
                ),
            ),
        },
    ),
    Exercise(
        "sample",
        "gpt",
        25,
        core={
            "text": (
                written(
                    "four tokens after three",
                    PROMPT,
                    4,
                    "The text itself comes out, and behind it what was written.",
                ),
                written("nothing to write", PROMPT, 0, "With 0 new tokens the text comes back."),
            ),
            "window": (
                written("more than the window holds", PROMPT, 11, WINDOW),
                written("a text longer than the window", LONG, 3, WINDOW),
            ),
            "draws": (
                drawn(
                    "one token for many rows",
                    "How often each token comes: as the softmax of the last position says.",
                ),
            ),
        },
        hints=(
            "Three lines in a loop: score the last `max_len` tokens, draw one for each row with "
            "`sample_tokens`, put it behind the text.",
            "`ids[:, -limit:]` is the window, for a short text as well. With a `KVCache` the "
            "model reads `ids[:, cache.length:]` as long as the whole text fits; from then on the "
            "window, without the cache, each time.",
            "`sample_tokens(logits[:, -1], …)` draws from the scores of the last position.",
        ),
        extras={
            "temperature, top_k, top_p": (
                drawn(
                    "temperature=0.5",
                    "The logits are divided by the temperature: below 1 the likely get likelier.",
                    (0.1, 0.4, 0.2, 0.3),
                    temperature=0.5,
                ),
                drawn("top_k=2", "Only the k likeliest tokens are drawn from.", top_k=2),
                drawn(
                    "top_p=0.45",
                    "Only as few of the likeliest as reach p together are drawn from.",
                    top_p=0.45,
                ),
            ),
            "generator": (
                value_trial(
                    "generators", generators, says="The random numbers come from `generator`."
                ),
            ),
            "KV cache": (
                written("use_cache=False", PROMPT, 11, WINDOW, use_cache=False),
                value_trial(
                    "a look at what is computed",
                    positions_computed,
                    says="With the cache each token is read once, without it all of them each "
                    "time.",
                ),
            ),
            "eval mode": (
                value_trial(
                    "a look at the mode",
                    modes,
                    kind="train and eval",
                    says="Write in eval mode without gradients (`@torch.no_grad()`), and hand the "
                    "model back in its own mode.",
                ),
            ),
            "bad calls": (
                value_trial(
                    "calls that cannot be right",
                    bad_samples,
                    says="`check_ids` refuses a text without tokens, `sample_tokens` its own part.",
                ),
            ),
        },
    ),
)
