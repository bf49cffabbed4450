"""What is asked of chapter 02."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    D_K,
    D_V,
    B,
    H,
    S,
    T,
    Trial,
    by_name,
    filled,
    function_trial,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.exercises.trials.attention import some_mask

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
WIDE = PLAIN | dict(d_k=5, d_v=D_V)
UNEVEN = dict(d_model=10, num_heads=3, d_k=4, d_v=2)  # 10 is no multiple of 3, and need not be
EVEN = dict(d_model=16, num_heads=4)  # 4 heads of width 4: four tokens in four sentences
FOUR = "Four nn.Linear layers: w_q, w_k, w_v and w_o, each for all heads at once."
SPLIT = "Head i holds columns i·width … (i+1)·width of every vector."
ITSELF = (
    "This calls torch's own multi-head attention, the very thing you are building here. Inside, "
    "you may call torch's function for attention, F.scaled_dot_product_attention."
)


def inputs(batch: int, lengths=(T, S), width: int = D_MODEL, mask: Tensor | None = None) -> dict:
    """Make queries, keys and values, and a mask if there is one."""
    sizes = dict(zip(("query", "key", "value"), (*lengths, lengths[1]), strict=True))
    named = {name: normal(f"many {name}", batch, length, width) for name, length in sizes.items()}
    return named if mask is None else named | {"mask": mask}


def split(label: str, *shape: int) -> Trial:
    """Cut vectors of one shape into heads."""
    return function_trial(label, {"x": normal(label, *shape), "num_heads": H}, says=SPLIT)


def called(label: str, build: dict, given: dict) -> Trial:
    """Compare the output and its gradients; weights are not looked at."""
    return module_trial(label, build, given, ("output", None))


def told(label: str, build: dict, given: dict) -> Trial:
    """Compare the output and the weights that are asked for."""
    return module_trial(label, build, given, ("output", "weights"), options=dict(need_weights=True))


@looks("a causal mask", "Each answer must come from its own word's heads, joined in their order.")
def first_of_many(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Hide the future, change it, and look at the answer to the first word."""
    layer = filled(candidate(**PLAIN)).eval()
    past = torch.ones(T, T, dtype=torch.bool).tril()
    x = normal("first", B, T, D_MODEL)
    y = torch.cat([x[:, :1], -x[:, 1:]], dim=1)
    before, after = (layer(z, z, z, past)[0][:, 0] for z in (x, y))
    return {"the first answer hears later words": not torch.allclose(before, after, atol=1e-5)}


def dropped(label: str, **options: Any) -> Trial:
    """Drop some of the weights, all equal; values that are two identities show which are left."""

    @looks(
        f"dropout=0.2 in training{label}",
        "Dropout acts on each attention weight by itself, and divides the rest by 1 - dropout.",
        kind="train and eval",
    )
    def act(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        """Look at three times each weight, through w_v and w_o that change nothing."""
        layer, twice = candidate(**PLAIN, dropout=0.2).train(), torch.eye(3).repeat(1, 2 * H)
        query, value = normal("query", 4, 8, D_MODEL), twice.expand(4, 3, D_MODEL)
        with torch.no_grad():
            for name, weight in by_name(layer).items():
                whole = name in ("w_v.weight", "w_o.weight")
                weight.copy_(whole * torch.eye(*weight.shape) if weight.dim() == 2 else 0 * weight)
            output = 3 * layer(query, value, value.clone(), **options)[0]
        one, again = output.unflatten(-1, (H, 2, 3)).unbind(-2)
        return {
            "a dropped weight is dropped for the whole value": torch.allclose(one, again),
            "a weight": survivors(one, "sentences", "queries", "heads", "keys"),
        }

    return act


EXERCISES = (
    Exercise(
        "split_heads",
        "multi_head",
        10,
        core={
            "heads": (
                split("a batch of vectors", B, T, H * D_K),
                split("as many tokens as heads", 3, 3, 9),
            )
        },
        hints=(
            "Cut the last axis in two, heads before width; then bring the heads in front of the "
            "tokens.",
            "`x.unflatten(-1, (num_heads, -1))` cuts; `transpose(-3, -2)` exchanges tokens "
            "and heads.",
        ),
        extras={"no batch": (split("one sentence, no batch", T, H * D_K),)},
    ),
    Exercise(
        "MultiHeadAttention",
        "multi_head",
        40,
        core={
            "parameters": (parameters_trial(PLAIN, FOUR),),
            "heads": (
                called("sizes that all differ", PLAIN, inputs(B)),
                called("sizes that are all equal", EVEN, inputs(4, (4, 4), 16)),
                called("one head", dict(d_model=6, num_heads=1), inputs(B, width=6)),
            ),
            "mask": (
                first_of_many,
                called("a mask for every query", PLAIN, inputs(B, mask=some_mask(T, S))),
                called("a mask for every head", PLAIN, inputs(B, mask=some_mask(B, H, T, S))),
                called("a padding mask (B, 1, 1, S)", PLAIN, inputs(B, mask=some_mask(B, 1, 1, S))),
            ),
        },
        hints=(
            "In `__init__`, `head_width(d_model, num_heads)` computes a width that is not given. "
            "Then build four `nn.Linear` layers: w_q, w_k, w_v and w_o.",
            "Project first, then split: `split_heads(self.w_q(query), self.num_heads)`, and the "
            "same for keys and values. Every head then does what chapter 01 built, all at once.",
            "Before `w_o`, undo the split with `join_heads`: it exchanges heads and tokens back, "
            "and then merges the last two axes.",
            "With `need_weights`, `scaled_dot_product_attention` of chapter 01 returns the heads' "
            "outputs and the weights. Otherwise `attention_output`, with the same arguments, "
            "returns the outputs alone. `dropout_p` is 0 unless `self.training`.",
        ),
        shortcuts={
            F.multi_head_attention_forward: ITSELF,
            torch._native_multi_head_attention: ITSELF,
        },
        extras={
            "need_weights": (
                told("need_weights=True", PLAIN, inputs(B)),
                told("a mask and need_weights", PLAIN, inputs(B, mask=some_mask(T, S))),
            ),
            "bias": (called("bias=False", PLAIN | dict(bias=False), inputs(B)),),
            "d_k, d_v": (
                parameters_trial(WIDE, FOUR + " d_k and d_v count."),
                called("head widths of its own", WIDE, inputs(B)),
                called("d_model=10, d_k=4 and three heads", UNEVEN, inputs(B, width=10)),
            ),
            "dropout": (
                keeps_still(PLAIN, inputs(B), dropout=0.5),
                dropped(""),
                dropped(", need_weights=True", need_weights=True),
            ),
            "names": (names_trial(PLAIN),),
        },
    ),
)
