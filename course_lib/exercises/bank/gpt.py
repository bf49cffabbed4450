"""Exercises for chapter 19: trials, known mistakes and correct answers."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.bank.attention import TWO_ROOTS, wrongly_scaled
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import keeps_still, sees_later, survivors
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.outcomes import Outcome
from course_lib.exercises.checking.trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    as_trial,
    by_name,
    filled,
    module_trial,
    names_trial,
    normal,
    observe,
    outputs_only,
    parameters_trial,
)
from course_lib.gpt import GPTConfig

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
TORCH_ATTENTION = {
    F.multi_head_attention_forward: "Your code calls torch's own attention layer. Write the layer "
    "yourself. Inside it, you may call the fused kernel F.scaled_dot_product_attention."
}
LAYERS = "Register two nn.Linear layers with biases: w_qkv, from d_model to 3 · d_model, and w_o."
EVEN = normal("even", 4, 4, 16)
SPLIT = "Split `w_qkv(x)` into queries, keys and values, and then into heads."


def later(build: Mapping[str, int], x: Tensor, *more: Tensor) -> Trial:
    """Change the tokens from position 2 on, and compare the first two outputs."""
    other = torch.cat([x[:, :2], x[:, 2:] + 3], dim=1)

    @as_trial("changed later tokens", "A token must not attend to later tokens in either mode.")
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
        pair = ((tokens.clone(), *more) for tokens in (x, other))
        return sees_later(filled(candidate(**build)), 2, *pair)

    return measure


def projected(says: str, build: Mapping[str, int], *inputs: Tensor) -> Trial:
    """Compare the queries, keys and values that ``project`` returns."""

    @as_trial("project", says, "equality")
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
        layer = filled(candidate(**build)).eval()
        with torch.no_grad():
            parts = layer.project(*(x.clone() for x in inputs))
        return dict(zip(("queries", "keys", "values"), parts, strict=True))

    return measure


SMALL = GPTConfig(vocab_size=11, max_len=9, num_layers=2, num_heads=H, d_model=D_MODEL, dropout=0.0)
IDS = (7 * torch.arange(20) % 11).view(5, 4)
TARGETS = (3 * torch.arange(20) % 5).view(5, 4)  # different tokens from the ids, in a smaller range


def scored(label: str, **inputs: Tensor) -> Trial:
    """Compare logits, loss and gradients; large position vectors make the norms' eps negligible."""

    def measure(candidate: Callable[..., nn.Module]) -> Outcome:
        model = filled(candidate(SMALL)).eval()
        with torch.no_grad():
            for name, parameter in by_name(model).items():
                parameter.mul_(10.0 if name.startswith("positions") else 1.0)
        call = lambda now: model(*now.values())  # noqa: E731
        return observe(call, inputs, ("logits", "loss"), by_name(model))

    return Trial(label, measure)


@as_trial(
    "the parts",
    "Keep the constructor as it is, because later cells use the parts that it creates.",
    "parameters",
)
def parts(candidate: Callable) -> dict[str, str]:
    model = candidate(SMALL)
    model(IDS.clone())
    names = ("embedding", "positions", "layers", "norm", "output")
    return {"missing": ", ".join(name for name in names if not hasattr(model, name)) or "none"}


@as_trial(
    "dropout=0.2 in training",
    "Dropout must drop each attention weight independently and divide the remaining weights by 1 "
    "- dropout.",
    "train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Apply dropout to equal weights; values made of two identity matrices reveal the weights."""
    layer = candidate(**PLAIN, dropout=0.2).train()
    with torch.no_grad():
        for name, weight in by_name(layer).items():
            weight.zero_()
            if name.endswith("weight"):
                weight[-D_MODEL:] = torch.eye(D_MODEL)  # the values, or w_o
        output = layer(torch.eye(6, 3).repeat(8, 1, 2 * H))
    one, again = output.unflatten(-1, (H, 2, 3)).unbind(-2)
    seen = one * torch.arange(1, 7)[:, None, None]  # query t attends to t + 1 keys
    return {
        "a dropped weight removes the whole value vector": torch.allclose(one, again),
        "a weight": survivors(seen[:, 2:], "sentences", "queries", "heads", "keys"),
    }


EXERCISES = (
    Exercise(
        "CausalSelfAttention",
        25,
        core={
            "parameters": (parameters_trial(PLAIN, LAYERS),),
            "attention": (
                module_trial("different sizes", PLAIN, {"x": X}),
                module_trial(
                    "equal sizes in training",
                    dict(d_model=16, num_heads=4),
                    {"x": EVEN},
                    training=True,
                ),
                module_trial("one token", PLAIN, {"x": X[:1, :1]}),
                outputs_only(module_trial("scores in the hundreds", PLAIN, {"x": 10 * X})),
            ),
            "causal": (later(PLAIN, X),),
        },
        formula="w_qkv computes queries, keys and values, in this order. Each token attends to "
        "itself and the tokens before it, and w_o projects the joined heads.",
        hints=(
            "`self.w_qkv(x)` has 3 · d_model columns. Split them into queries, keys and values "
            "first, and then into heads. Which two axes do you have to swap after that?",
            "`unflatten(-1, (3, num_heads, -1))` splits the columns, and `permute(2, 0, 3, 1, 4)` "
            "turns (B, T, 3, H, d_k) into (3, B, H, T, d_k). Use `join_heads` at the end.",
            "Call `F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "project": (projected(SPLIT, PLAIN, X),),
            "dropout": (keeps_still(PLAIN, {"x": X}, dropout=0.5), dropped),
            "bias": (parameters_trial(PLAIN | {"bias": False}, "Then no layer has a bias."),),
            "names": (names_trial(PLAIN),),
        },
        rejects=("(10, 3)",),
    ),
    Exercise(
        "GPT",
        15,
        core={
            "logits": (
                scored("sizes that all differ", ids=IDS),
                scored("as many tokens as max_len", ids=IDS.view(2, 10)[:1, :9]),
            ),
            "loss": (scored("targets", ids=IDS, targets=TARGETS),),
            "parts": (parts,),
        },
        formula="Add positions to the embeddings, and apply the layers, the last norm and "
        "`output`. The loss is the mean cross-entropy.",
        hints=(
            "Follow the vectors from the ids to the logits: they pass through the parts in the "
            "order in which the constructor creates them.",
            "`self.positions` adds the positions to the output of `self.embedding`. Each layer "
            "reads the output of the previous one. `self.norm` comes before `self.output`.",
            "Return `logits, next_token_loss(logits, targets)`. Without targets, the loss is None.",
        ),
        methods=("forward",),
        rejects=(
            "(SMALL)(torch.tensor([[99]]))",
            "(SMALL)(torch.zeros(1, 99).long())",
            "(SMALL)(torch.tensor([[1, 2]]), torch.tensor([[1]]))",
        ),
    ),
)


# known mistakes


CUT = "self.w_qkv(x).unflatten(-1, (3, self.num_heads, -1))"
PARTS = "parts.permute(2, 0, 3, 1, 4).unbind()"
JOIN = "join_heads(heads)"
LOOK = "F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)"
SCORES = "(q @ k.mT / math.sqrt(q.size(-1)))"
SQUARE = "torch.ones(x.size(1), x.size(1), dtype=torch.bool)"
FUTURE = f"masked_fill({SQUARE}.triu(1), -math.inf)"
DROP = "self.dropout if self.training else 0.0"


EMBEDDED = "self.embedding(ids)"
NORMED = "self.output(self.norm(x))"
LOSS = "next_token_loss(logits, targets)"

MISTAKES = {
    "CausalSelfAttention": {
        "future_seen: is_causal=True is missing, so a token attends to later tokens "
        "[keras-team/keras "
        "#23038, facebookresearch/xformers #103, paiml/entrenar #310]": (", is_causal=True", ""),
        "causal_transposed: the mask is the upper triangle, so a token attends to itself and to "
        "later tokens": ("dropout_p=dropout_p, is_causal=True", f"{SQUARE}.triu(), dropout_p"),
        "seen_and_hidden_exchanged: True in the mask means hidden, but torch attends "
        "where it is True": ("dropout_p=dropout_p, is_causal=True", f"{SQUARE}.triu(1), dropout_p"),
        "itself_hidden: the mask leaves out the diagonal, so a token does not attend to itself": (
            "dropout_p=dropout_p, is_causal=True",
            f"{SQUARE}.tril(-1), dropout_p",
        ),
        "zeros_hide_nothing: blocked scores are set to 0 instead of -inf, so their weights are not "
        "0 [hyunwoongko/transformer #10; karpathy/minGPT #75]": (
            LOOK,
            f"F.dropout({SCORES}.tril().softmax(dim=-1), dropout_p) @ v",
        ),
        "masked_after_the_softmax: the mask is applied after the softmax, so the weights do not "
        "add up to 1": (LOOK, f"F.dropout({SCORES}.softmax(dim=-1).tril(), dropout_p) @ v"),
        "softmax_over_the_queries: the softmax runs over the queries (dim=-2) instead of the keys "
        "(dim=-1) [labmlai/annotated_deep_learning_paper_implementations #146; "
        "FudanNLP/fastNLP #254]": (
            LOOK,
            f"F.dropout({SCORES}.{FUTURE}.softmax(dim=-2), dropout_p) @ v",
        ),
        "keys_first: the first third of the columns is used for the keys instead of the queries": (
            f"return {PARTS}",
            f"k, q, v = {PARTS}\n        return q, k, v",
        ),
        "values_first: the first third of the columns is used for the values "
        "instead of the queries": (f"return {PARTS}", f"v, q, k = {PARTS}\n        return q, k, v"),
        "split_without_transpose: the columns are reshaped to (B, H, T, d_k) without a transpose, "
        "so the tokens are mixed": (
            PARTS,
            "parts.permute(2, 0, 1, 3, 4).reshape(3, len(x), self.num_heads, x.size(1), -1)",
        ),
        "cut_into_heads_first: the columns are split into heads first, and then into queries, keys "
        "and values": (
            (CUT, "self.w_qkv(x).unflatten(-1, (self.num_heads, 3, -1))"),
            (PARTS, "parts.permute(3, 0, 2, 1, 4).unbind()"),
        ),
        "heads_joined_without_transpose: the heads are joined with view or reshape but without a "
        "transpose, so the tokens are mixed [ajhalthor/Transformer-Neural-Network #4, "
        "jsbaan/transformer-from-scratch #6]": (
            JOIN,
            "heads.reshape(len(heads), heads.size(2), -1)",
        ),
        "scale_d_model: the scores are divided by √d_model instead of √d_k, the width of one head "
        "[karpathy/ng-video-lecture #6; FareedKhan-dev/train-llm-from-scratch #3]": (
            "is_causal=True",
            "is_causal=True, scale=x.size(-1) ** -0.5",
        ),
        "w_o_unused: w_o is created but not used, so the heads are never mixed [JohnGiorgi/seq2rel "
        "#224]": (f"self.w_o({JOIN})", JOIN),
        "dropout_always_on: dropout is also active in eval mode, because self.training is not "
        "checked [karpathy/nanoGPT #240]": (DROP, "self.dropout"),
        "output_dropped_too: dropout is also applied to the output, even though AddNorm already "
        "does that": (f"self.w_o({JOIN})", f"F.dropout(self.w_o({JOIN}), dropout_p)"),
        "mask_not_assigned: the result of `masked_fill` is not assigned, so the scores do not "
        "change": (
            f"heads = {LOOK}",
            f"scores = {SCORES}\n        scores.{FUTURE}\n"
            "        heads = F.dropout(scores.softmax(dim=-1), dropout_p) @ v",
        ),
        **wrongly_scaled(
            lambda by: ("is_causal=True", f"is_causal=True, scale=1 / ({by})"),
            without=("scale_keys",),
        ),
        "mask_added: the boolean triangle is added to the scores, so True adds 1 and nothing is "
        "hidden": (LOOK, f"F.dropout(({SCORES} + {SQUARE}.tril()).softmax(dim=-1), dropout_p) @ v"),
        "heads_joined_number_by_number: the columns of the heads are interleaved, as after "
        "`permute(0, 2, 3, 1)`, even though "
        "each head needs its own block of columns": (JOIN, "heads.permute(0, 2, 3, 1).flatten(-2)"),
        "residual_inside: x is added to the output here, even though AddNorm does that later": (
            f"self.w_o({JOIN})",
            f"x + self.w_o({JOIN})",
        ),
        "bias_not_passed_on: `bias` reaches only w_qkv, so w_o always has a bias": (
            "(d_model, d_model, bias)",
            "(d_model, d_model)",
        ),
        **ignored(("bias", (", bias)", ")"))),
    },
    "GPT": {
        "positions_missing: no positions are added, so only the causal mask tells the model the "
        "order of the tokens": (f"self.positions({EMBEDDED})", EMBEDDED),
        "scaled_as_in_the_paper: the embedded tokens are multiplied by √d_model, but a GPT does "
        "not scale them": (EMBEDDED, f"{EMBEDDED} * math.sqrt(self.config.d_model)"),
        "last_norm_missing: the final norm is never called, but a pre-norm model needs it before "
        "the output layer [vllm-project/speculators #313]": ("self.norm(x)", "x"),
        "last_position_only: only the last position gets logits if there are no targets, but later "
        "cells need logits at every position [meta-llama/llama #294, "
        "simple-stories/simple_stories_train #32]": (
            NORMED,
            f"{NORMED}\n        logits = logits if targets is not None else logits[:, -1:]",
        ),
        "targets_shifted_twice: the targets are shifted a second time, even though they are "
        "already the next tokens [huggingface/transformers #47394, "
        "huggingface/transformers #37830]": (
            LOSS,
            "None if targets is None else next_token_loss(logits[:, :-1], targets[:, 1:])",
        ),
        "ids_as_targets: the loss compares the logits with the ids that the model reads, instead "
        "of the targets [huggingface/transformers "
        "#27517]": (LOSS, "None if targets is None else next_token_loss(logits, ids)"),
    },
}
PATTERNS = {
    "scale_twice": TWO_ROOTS,
    "mask_not_assigned": r"^\s*\w+\.masked_fill\(",
}


# right answers

ONE_BY_ONE = f"""x = self.positions({EMBEDDED})  # (B, T, d_model)
        for layer in self.layers:
            x = layer(x)"""
CHAINED = """parts = (self.embedding, self.positions, *self.layers, self.norm)
        x = nn.Sequential(*parts)(ids)"""
FORMULA = """if targets is None:
            return logits, None
        right = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return logits, (logits.logsumexp(dim=-1) - right).mean()"""

ANSWERS = {
    "GPT": {
        "chained: one module chains the layers, and the formula of the loss is spelled out": (
            (ONE_BY_ONE, CHAINED),
            (NORMED, "F.linear(x, self.embedding.weight)"),
            (f"return logits, {LOSS}", FORMULA),
            ("self, ids:", "self, idx:"),
            ("(ids", "(idx"),
        ),
    },
}
