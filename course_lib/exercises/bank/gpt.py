"""Exercises of chapter 19: trials, known mistakes and right answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.exercises.bank.attention import wrongly_scaled
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.module_checks import keeps_still, sees_later, survivors
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    by_name,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.multi_head import split_heads

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
OTHER_X = torch.cat([X[:, :2], X[:, 2:] + 3], dim=1)
TORCHS = {
    F.multi_head_attention_forward: "This calls torch's own attention layer. Write the attention "
    "out; the fused kernel F.scaled_dot_product_attention is welcome inside."
}


@looks(
    "a later token",
    "A later token must not change what stands before it, in training and in eval mode.",
)
def later(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change what comes later, and compare the first two answers."""
    return sees_later(filled(candidate(**PLAIN)), 2, (X.clone(),), (OTHER_X.clone(),))


@looks(
    "project",
    "Of the columns of `w_qkv(x)` the first third are queries, head by head; the keys come next, "
    "and the values last.",
    kind="equality",
)
def projected(candidate: Callable) -> dict[str, Any]:
    """Compare queries, keys and values."""
    layer = filled(candidate(**PLAIN)).eval()
    with torch.no_grad():
        return dict(zip(("queries", "keys", "values"), layer.project(X.clone()), strict=True))


@looks(
    "dropout=0.2 in training",
    "Dropout acts on each attention weight by itself, and divides the rest by 1 - dropout.",
    "train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Attend evenly; values that are two identities in each head show which weights are left."""
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
        "a dropped weight is dropped for the whole value": torch.allclose(one, again),
        "a weight": survivors(seen[:, 2:], "sentences", "queries", "heads", "keys"),
    }


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
            "causal": (later,),
        },
        hints=(
            "`self.w_qkv(x)` has 3 · d_model columns. In which order must they be cut: into three, "
            "into heads, into the numbers of a head? Then the heads go in front of the tokens.",
            "`unflatten(-1, (3, num_heads, -1))` cuts, `permute(2, 0, 3, 1, 4)` turns (B, T, 3, H, "
            "d_k) into (3, B, H, T, d_k). Afterwards `join_heads` joins the heads again.",
            "`F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        shortcuts=TORCHS,
        extras={
            "project": (projected,),
            "dropout": (
                keeps_still(PLAIN, {"x": X}, dropout=0.5),
                dropped,
            ),
            "names": (names_trial(PLAIN),),
        },
        unnamed=("join_heads(heads)", "join_heads(heads.flip(1))"),
    ),
)


# known mistakes

attention = known("gpt", "CausalSelfAttention")

CUT = "self.w_qkv(x).unflatten(-1, (3, self.num_heads, -1))"
PARTS = "parts.permute(2, 0, 3, 1, 4).unbind()"
JOIN = "join_heads(heads)"
LOOK = "F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)"
SCORES = "(q @ k.mT / math.sqrt(q.size(-1)))"
SQUARE = "torch.ones(x.size(1), x.size(1), dtype=torch.bool)"
FUTURE = f"masked_fill({SQUARE}.triu(1), -math.inf)"
WIDE = "self.w_qkv = nn.Linear(d_model, 3 * d_model, bias)"
DROP = "self.dropout if self.training else 0.0"


MISTAKES = (
    attention(
        "future_seen",
        "nothing hides the future: is_causal=True is missing",
        (", is_causal=True", ""),
        seen="keras-team/keras #23038, facebookresearch/xformers #103, paiml/entrenar #310",
    ),
    attention(
        "causal_transposed",
        "the triangle is the wrong one: each token sees itself and what comes later",
        ("dropout_p=dropout_p, is_causal=True", f"{SQUARE}.triu(), dropout_p"),
        seen="karpathy/nanoGPT #170 asks which triangle it is",
    ),
    attention(
        "zeros_hide_nothing",
        "hidden scores are set to 0, and the softmax gives them a weight: -inf is right",
        (LOOK, f"F.dropout({SCORES}.tril().softmax(dim=-1), dropout_p) @ v"),
        seen="hyunwoongko/transformer #10; karpathy/minGPT #75",
    ),
    attention(
        "masked_after_the_softmax",
        "the future is hidden after the softmax, and what is left does not add up to 1",
        (LOOK, f"F.dropout({SCORES}.softmax(dim=-1).tril(), dropout_p) @ v"),
        seen="lucidrains/memory-compressed-attention #2 asks which comes first",
    ),
    attention(
        "softmax_over_the_queries",
        "the softmax runs over the queries: the weights of the *keys* add up to 1, dim=-1",
        (LOOK, f"F.dropout({SCORES}.{FUTURE}.softmax(dim=-2), dropout_p) @ v"),
        seen="labmlai/annotated_deep_learning_paper_implementations #146; FudanNLP/fastNLP #254",
    ),
    attention(
        "keys_first",
        "the first third of the product is taken for the keys: queries, keys, values is the order",
        (f"return {PARTS}", f"k, q, v = {PARTS}\n        return q, k, v"),
        seen="student code: k, q, v = …, the order of karpathy/ng-video-lecture",
    ),
    attention(
        "cut_into_heads_first",
        "the product is cut into heads first, and each head into its three: here it is the other "
        "way round",
        (CUT, "self.w_qkv(x).unflatten(-1, (self.num_heads, 3, -1))"),
        (PARTS, "parts.permute(3, 0, 2, 1, 4).unbind()"),
        seen="GPT-NeoX's and Bloom's order: vllm-project/vllm #53114, sgl-project/sglang #40127",
    ),
    attention(
        "heads_joined_without_transpose",
        "the heads are joined by view or reshape without a transpose: every output is put "
        "together from several tokens",
        (JOIN, "heads.reshape(len(heads), heads.size(2), -1)"),
        seen="ajhalthor/Transformer-Neural-Network #4, jsbaan/transformer-from-scratch #6",
    ),
    attention(
        "scale_d_model",
        "the scores are divided by √d_model instead of √d_k, the width of one head",
        ("is_causal=True", "is_causal=True, scale=x.size(-1) ** -0.5"),
        seen="karpathy/ng-video-lecture #6; FareedKhan-dev/train-llm-from-scratch #3",
    ),
    attention(
        "w_o_unused",
        "w_o is made and not used: the heads are never mixed",
        (f"self.w_o({JOIN})", JOIN),
        seen="JohnGiorgi/seq2rel #224",
    ),
    attention(
        "three_matrices",
        "there are three matrices, w_q, w_k and w_v: one product is to make all three",
        (WIDE, "self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))"),
        ("self.w_qkv(x)", "torch.cat([self.w_q(x), self.w_k(x), self.w_v(x)], dim=-1)"),
        seen="chapter 02's attention, and karpathy/ng-video-lecture",
    ),
    attention(
        "dropout_always_on",
        "dropout also acts in eval mode: ask self.training",
        (DROP, "self.dropout"),
        seen="karpathy/nanoGPT #240",
    ),
    attention(
        "output_dropped_too",
        "dropout acts on the output, too: in a layer AddNorm does that",
        (f"self.w_o({JOIN})", f"F.dropout(self.w_o({JOIN}), dropout_p)"),
    ),
    attention(
        "mask_not_assigned",
        "what `masked_fill` returns is not kept: it leaves the scores as they were, and the future "
        "is seen",
        (
            f"heads = {LOOK}",
            f"scores = {SCORES}\n        scores.{FUTURE}\n"
            "        heads = F.dropout(scores.softmax(dim=-1), dropout_p) @ v",
        ),
        tells=r"^\s*\w+\.masked_fill\(",
    ),
    *wrongly_scaled(
        attention,
        lambda by: ("is_causal=True", f"is_causal=True, scale=1 / ({by})"),
        without=("scale_keys",),
    ),
    attention(
        "mask_added",
        "the boolean triangle is added to the scores, so that True adds 1 and nothing is hidden",
        (LOOK, f"F.dropout(({SCORES} + {SQUARE}.tril()).softmax(dim=-1), dropout_p) @ v"),
    ),
    attention(
        "heads_joined_number_by_number",
        "the heads are joined number by number, as after `permute(0, 2, 3, 1)`, although each "
        "head needs its own block of columns",
        (JOIN, "heads.permute(0, 2, 3, 1).flatten(-2)"),
    ),
    attention(
        "residual_inside",
        "x is added to the output here, although AddNorm does that later",
        (f"self.w_o({JOIN})", f"x + self.w_o({JOIN})"),
    ),
)


# right answers


class AttentionBySums(nn.Module):
    """Cut the product into three, split as chapter 02 does, and write the sums down."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.w_qkv = nn.Linear(d_model, d_model * 3)
        self.w_o = nn.Linear(d_model, d_model)
        self.num_heads, self.dropout = num_heads, dropout
        self.drop = nn.Dropout(dropout)

    def project(self, x):
        """Cut, and split."""
        q, k, v = self.w_qkv(x).chunk(3, dim=2)
        return [split_heads(part, self.num_heads) for part in (q, k, v)]

    def forward(self, x):
        """Hide what comes later with minus infinity, and put the heads side by side."""
        q, k, v = self.project(x)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        weights = self.drop(scores.masked_fill(later, float("-inf")).softmax(dim=-1))
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.w_o(torch.cat(heads.unbind(dim=1), dim=-1))


class AttentionOfNanoGPT(nn.Module):
    """Hold the core as nanoGPT does: c_attn and c_proj, sizes from a config."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        """Split, attend, join."""
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


ANSWERS = {"CausalSelfAttention": (AttentionBySums, AttentionOfNanoGPT)}
