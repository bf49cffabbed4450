"""Exercises of chapter 07: trials, known mistakes and right answers."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.add_norm import AddNorm
from course_lib.encoder import EncoderLayer
from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import TORCHS, dropout_trials
from course_lib.exercises.trial import (
    B,
    H,
    S,
    Trial,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention

SIZES = dict(d_model=6, num_heads=H, d_ff=10)
STACK = dict(num_layers=3) | SIZES
PRE_NORM = STACK | {"norm_first": True}
PADDING = torch.tensor([[True, True, True, False, False], [True] * S])[:, None, None, :]
HEADS = (normal("mask", B, H, S, S) > 0) | torch.eye(S, dtype=torch.bool)
X = normal("x", B, S, 6)
LAYER_SAYS = "A layer has self_attn, feed_forward, add_norm1 and add_norm2, each of its own."
STACK_SAYS = (
    "Every layer has parameters of its own, in an nn.ModuleList called layers (a plain list hides "
    "them from torch); only in pre-norm there is one more LayerNorm, called norm."
)
FAR = "Without a mask all words attend to each other; nobody attends to hidden padding."


def called(label: str, build: Mapping[str, Any], mask: Tensor | None = None, **how: Any) -> Trial:
    """Compare the output and all gradients."""
    return module_trial(label, build, {"x": X} if mask is None else {"x": X, "mask": mask}, **how)


def moved(layer: nn.Module, mask: Tensor | None, position: int) -> str:
    """Change one position of the first sentence; list the positions whose answer changes."""
    other = X.clone()
    other[0, position] = 1 - other[0, position]
    masks = ([] if mask is None else [mask.clone()] for _ in range(2))
    after, before = (layer(x.clone(), *m) for x, m in zip((other, X), masks, strict=True))
    return str(((after - before)[0].abs().amax(dim=-1) > 1e-5).nonzero().flatten().tolist())


def reach(build: Mapping[str, Any], says: str) -> Trial:
    """Change a word, and padding, and look whose answer changes."""

    @looks("one position changed", says)
    def act(candidate: Callable[..., nn.Module]) -> dict[str, str]:
        """Say where the answers change."""
        layer = filled(candidate(**build)).eval()
        return {
            "a change of word 2 shows at": moved(layer, None, 2),
            "a change of word 2 beside hidden padding shows at": moved(layer, PADDING, 2),
            "a change of padding 3, hidden, shows at": moved(layer, PADDING, 3),
        }

    return act


@looks("a new stack", "Each layer draws its own weights.")
def starts_alike(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Look whether two layers begin with the same matrices."""
    matrices = [p for p in candidate(**STACK).parameters() if p.dim() == 2]
    return {"layers start alike": all(map(torch.equal, matrices, matrices[len(matrices) // 3 :]))}


EXERCISES = (
    Exercise(
        "EncoderLayer",
        "encoder",
        25,
        core={
            "formula": (
                called("sizes that all differ", SIZES),
                module_trial(
                    "sizes that are all equal",
                    dict(d_model=4, num_heads=4, d_ff=4),
                    {"x": normal("x", 4, 4, 4)},
                ),
            ),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "mask": (
                reach(SIZES, FAR),
                called("a padding mask", SIZES, PADDING),
                called("a mask for every head", SIZES, HEADS),
            ),
        },
        hints=(
            "Four parts come from earlier chapters: `MultiHeadAttention`, `FeedForward`, and an "
            "`AddNorm` for each of them. Which arguments of the layer does each part need?",
            "`AddNorm` adds, drops and normalizes already: `forward` only says what is wrapped. "
            "It wants a function of one tensor that returns one tensor; a lambda makes one of "
            "attention, which takes three and a mask, and returns a pair.",
            "Inside the lambda use its own argument three times, and close over the mask: "
            "`lambda y: self.self_attn(y, y, y, mask)[0]`. What add_norm1 returns is what "
            "add_norm2 gets, together with `self.feed_forward`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (called("norm_first=True", SIZES | {"norm_first": True}, PADDING),),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}),
                called("d_k=4 and d_v=7", SIZES | {"d_k": 4, "d_v": 7}),
            ),
            **dropout_trials(SIZES, {"x": X}, ("self_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
        unnamed=("return self.add_norm2(x,", "return 2 * self.add_norm2(x,"),
    ),
    Exercise(
        "Encoder",
        "encoder",
        15,
        core={
            "layers": (called("three layers", STACK),),
            "parameters": (parameters_trial(STACK, STACK_SAYS),),
            "mask": (
                reach(STACK, "Every layer needs the mask: nobody attends to hidden padding."),
                called("a padding mask", STACK, PADDING),
            ),
        },
        hints=(
            "Make `num_layers` layers, one call of `EncoderLayer` for each, and keep them where "
            "torch finds their parameters. Every argument goes on to the layers.",
            "`nn.ModuleList` takes a list of modules. In `forward` every layer reads what the "
            "layer before it wrote, and gets the mask.",
            "With `norm_first`, `self.norm` is an `nn.LayerNorm(d_model)` that `forward` applies "
            "at the end; otherwise it is `None`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (
                parameters_trial(PRE_NORM, STACK_SAYS),
                called("norm_first=True", PRE_NORM, HEADS),
            ),
            "activation, d_k, d_v": (
                called(
                    'activation="gelu", d_k=5 and d_v=7',
                    STACK | {"activation": "gelu", "d_k": 5, "d_v": 7},
                ),
            ),
            "dropout": tuple(
                called(
                    f"{' and '.join(names)} 1.0 in training",
                    STACK | dict.fromkeys(names, 1.0),
                    training=True,
                    kind="train and eval",
                    says="The layers get every argument, the dropouts too.",
                )
                for names in (["dropout"], ["attention_dropout", "activation_dropout"])
            ),
            "drawn anew": (starts_alike,),
            "names": (names_trial(STACK),),
        },
        unnamed=("x = layer(x, mask)", "x = layer(x, mask).relu()"),
    ),
)


# known mistakes

layer = known("encoder", "EncoderLayer")
stack = known("encoder", "Encoder")

NORM = "AddNorm(d_model, dropout, norm_first)"
NORM2 = f"self.add_norm2 = {NORM}"
HEADS_LINES = "dict(d_k=d_k, d_v=d_v, dropout=attention_dropout)"
THINKER = "FeedForward(d_model, d_ff, activation_dropout, activation)"
ATTEND = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, mask)[0])"
THINK = "return self.add_norm2(x, self.feed_forward)"
LOOK = "self.self_attn(y, y, y, mask)[0]"

WITHOUT_SUM = """def alone(part, x, sublayer):
            read = part.norm(x) if part.norm_first else x
            answer = part.dropout(sublayer(read))
            return answer if part.norm_first else part.norm(answer)
"""

LAYER = "EncoderLayer(*sizes, d_k=d_k, d_v=d_v, **rates)"
LAYERS = f"[{LAYER} for _ in range(num_layers)]"
LAST_NORM = "nn.LayerNorm(d_model) if norm_first else None"
LOOP = "for layer in self.layers:\n            x = layer(x, mask)"
END = "return x if self.norm is None else self.norm(x)"

MISTAKES = (
    layer(
        "residual_missing",
        "no sub-layer's input is added to its answer: the residual paths are missing",
        (ATTEND, f"{WITHOUT_SUM}\n        x = alone(self.add_norm1, x, lambda y: {LOOK})"),
        (THINK, "return alone(self.add_norm2, x, self.feed_forward)"),
        seen="suspected in tensorflow/models #7533",
    ),
    layer(
        "residual_of_input",
        "the second sum adds the layer's input instead of what add_norm1 returned",
        (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
        (THINK, "return self.add_norm2(x, lambda _: self.feed_forward(found))"),
        seen="strutive07/transformer-tensorflow2.0 #14; JanSchm/CapMarket #8",
    ),
    layer(
        "residual_twice",
        "x is added once more outside: AddNorm has added it already",
        (ATTEND, ATTEND.replace("x = ", "x = x + ", 1)),
        (THINK, THINK.replace("return ", "return x + ")),
        seen="yunzeliu/MAP #3",
    ),
    layer(
        "one_norm",
        "there is one norm for both sub-layers: each needs a gain and a shift of its own",
        (NORM2, ""),
        (THINK, THINK.replace("add_norm2", "add_norm1")),
        seen="bentrevett/pytorch-seq2seq #100; lsdefine/attention-is-all-you-need-keras #33",
    ),
    layer(
        "always_pre_norm",
        "the norm comes before each sub-layer, though the paper's order is asked for",
        (NORM, "AddNorm(d_model, dropout, True)"),
    ),
    layer(
        "feed_forward_first",
        "the feed-forward part comes before attention",
        (ATTEND, "x = self.add_norm1(x, self.feed_forward)"),
        (THINK, f"return self.add_norm2(x, lambda y: {LOOK})"),
        seen="allenai/allennlp #3334",
    ),
    layer(
        "mask_not_handed_on",
        "attention does not get the mask",
        ("(y, y, y, mask)", "(y, y, y)"),
        seen="imperial-qore/TranAD #10; facebookresearch/fairseq #1339",
    ),
    layer(
        "mask_inverted",
        "the mask is turned round on its way, as nn.MultiheadAttention would want it",
        ("(y, y, y, mask)", "(y, y, y, mask if mask is None else ~mask)"),
        seen="ports from nn.MultiheadAttention, whose True means blocked (pytorch/pytorch #170415)",
    ),
    layer(
        "keys_not_normalized",
        "in pre-norm only the queries are normalized: keys and values are the x outside the lambda",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(z, x, x, mask)[0])"),
        seen="facebookresearch/xformers #233; tier4/Diffusion-Planner #239",
    ),
    layer(
        "lambda_ignores_its_argument",
        "the lambda uses the x outside, not what AddNorm hands it: pre-norm reads no norm",
        (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(x, x, x, mask)[0])"),
    ),
    layer(
        "attention_over_the_batch",
        "attention compares sentences instead of words: the first two axes are swapped",
        (LOOK, "self.self_attn(*3 * [y.transpose(0, 1)], mask)[0].transpose(0, 1)"),
        seen="IBM/TabFormer #14; Exorust/TorchLeet #5 (batch_first left at False)",
    ),
    layer(
        "dropout_as_in_torch",
        "dropout acts in all three places as in torch.nn; here each place has its own share",
        ("dropout=attention_dropout", "dropout=dropout"),
        (THINKER, "FeedForward(d_model, d_ff, dropout, activation)"),
    ),
    *ignored(
        layer,
        ("norm_first", (NORM, "AddNorm(d_model, dropout)")),
        ("activation", (THINKER, "FeedForward(d_model, d_ff, activation_dropout)")),
        ("d_k", (HEADS_LINES, "dict(d_v=d_v, dropout=attention_dropout)")),
        ("dropout", (NORM, "AddNorm(d_model, norm_first=norm_first)")),
        ("attention_dropout", (HEADS_LINES, "dict(d_k=d_k, d_v=d_v)")),
        ("activation_dropout", (THINKER, "FeedForward(d_model, d_ff, activation=activation)")),
    ),
    layer(
        "residual_missing_attention",
        "the input of self-attention is not added to its output, so this residual path is missing",
        (ATTEND, f"{WITHOUT_SUM}\n        x = alone(self.add_norm1, x, lambda y: {LOOK})"),
    ),
    layer(
        "residual_missing_feed_forward",
        "the input of the feed-forward part is not added to its output, so this residual path "
        "is missing",
        (THINK, f"{WITHOUT_SUM}\n        return alone(self.add_norm2, x, self.feed_forward)"),
    ),
    layer(
        "feed_forward_reads_input",
        "the feed-forward part reads the layer's input instead of what add_norm1 returned",
        (ATTEND, f"first = x\n        {ATTEND}"),
        (THINK, "return self.add_norm2(x, lambda _: self.feed_forward(first))"),
    ),
    layer(
        "attention_dropped",
        "the second step starts from the layer's input again, so the output of attention is lost",
        (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
    ),
    stack(
        "plain_list",
        "the layers stand in a plain Python list: torch does not see them, and they never learn",
        ("nn.ModuleList(layers)", "layers"),
        seen="LiamMaclean216/Pytorch-Transfomer #7; many questions on nn.ModuleList",
    ),
    stack(
        "one_layer_repeated",
        "one and the same layer stands in the list num_layers times: all share their weights",
        (LAYERS, f"[{LAYER}] * num_layers"),
        seen="espnet/espnet #1278; IDEA-Research/DAB-DETR #17; acids-ircam/ddsp_pytorch #37",
    ),
    stack(
        "layers_copied",
        "all layers are copies of one: they have weights of their own, that start alike",
        (
            f"layers = {LAYERS}",
            f"import copy\n        one = {LAYER}\n"
            "        layers = [copy.deepcopy(one) for _ in range(num_layers)]",
        ),
    ),
    stack(
        "every_layer_reads_the_input",
        "every layer reads the stack's input: only the last layer has a say",
        (LOOP, "given = x\n        for layer in self.layers:\n            x = layer(given, mask)"),
        seen="Atcold/NYU-DLSP20 #270; simon-ging/coot-videotext #5",
    ),
    stack(
        "first_layer_only",
        "only the first layer runs: a return inside the loop ends it",
        (LOOP, f"{LOOP}\n            {END}"),
        seen="microsoft/ProDA #33",
    ),
    stack(
        "result_dropped",
        "layer(…) is called and its result not kept: x stays as it came",
        ("x = layer(x, mask)", "layer(x, mask)"),
    ),
    stack(
        "mask_not_handed_on",
        "the layers do not get the mask",
        ("layer(x, mask)", "layer(x)"),
        seen="imperial-qore/TranAD #10; facebookresearch/fairseq #1339",
    ),
    stack(
        "mask_for_first_layer_only",
        "only the first layer gets the mask; the others read the padding",
        (LOOP, f"{LOOP}\n            mask = None"),
        seen="keras-team/keras-hub #137",
    ),
    stack(
        "last_norm_missing",
        "a pre-norm stack ends without a norm of its own",
        (LAST_NORM, "None"),
        seen="NVIDIA-NeMo/Speech #2197; marian-nmt/marian-dev #719",
    ),
    stack(
        "last_norm_in_post_norm",
        "a post-norm stack ends with one more norm, though its last layer ends with one already",
        (LAST_NORM, "nn.LayerNorm(d_model)"),
        seen="pytorch/pytorch #50086; Atten4Vis/ConditionalDETR #11",
    ),
    stack(
        "options_not_passed",
        "d_k, d_v and the two further dropouts do not reach the layers",
        (LAYER, "EncoderLayer(*sizes)"),
    ),
)


# right answers


class LayerOfNamedSteps(nn.Module):
    """Give the attention step a name of its own."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu",
                 *, d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0):  # fmt: skip
        super().__init__()
        self.add_norm2, self.add_norm1 = (AddNorm(d_model, dropout, norm_first) for _ in range(2))
        self.feed_forward = FeedForward(
            d_model, d_ff, dropout=activation_dropout, activation=activation
        )
        self.self_attn = MultiHeadAttention(
            d_model=d_model, num_heads=num_heads, dropout=attention_dropout, d_k=d_k, d_v=d_v
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend with the weights asked for, too."""

        def attend(tokens: Tensor) -> Tensor:
            """Return the first of attention's two answers."""
            output, _ = self.self_attn(tokens, tokens, tokens, mask=mask, need_weights=True)
            return output

        return self.add_norm2(self.add_norm1(x, attend), self.feed_forward)


class TransformerEncoderBlock(nn.Module):
    """Take d2l's arguments and attribute names; the norm and the sum are written inside."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias=True):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, bias=use_bias)
        self.addnorm1 = nn.ModuleDict({"ln": nn.LayerNorm(num_hiddens)})
        self.ffn = nn.Sequential(
            nn.Linear(num_hiddens, ffn_num_hiddens),
            nn.ReLU(),
            nn.Linear(ffn_num_hiddens, num_hiddens),
        )
        self.addnorm2 = nn.ModuleDict({"ln": nn.LayerNorm(num_hiddens)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, X, attention_mask=None):
        """Follow figure 1."""
        Y = self.dropout(self.attention(X, X, X, attention_mask)[0])
        Y = self.addnorm1["ln"](Y + X)
        return self.addnorm2["ln"](self.dropout(self.ffn(Y)) + Y)


class Block(nn.Module):
    """Take a config as nanoGPT does, with the norms where the paper has them."""

    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = MultiHeadAttention(config.n_embd, config.n_head)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.c_fc = nn.Linear(config.n_embd, config.d_ff)
        self.c_proj = nn.Linear(config.d_ff, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, mask=None):
        """Write one sub-layer a line."""
        x = self.ln_1(x + self.dropout(self.attn(x, x, x, mask)[0]))
        return self.ln_2(x + self.dropout(self.c_proj(self.c_fc(x).relu())))


class StackByCounting(nn.Module):
    """Build the list piece by piece; end in a module that does nothing."""

    def __init__(self, num_layers, d_model, *args, **kwargs):
        super().__init__()
        make = functools.partial(EncoderLayer, d_model, *args, **kwargs)
        self.layers = nn.ModuleList([make()])
        self.layers.extend(make() for _ in range(1, num_layers))
        pre = self.layers[-1].add_norm2.norm_first
        self.norm = nn.LayerNorm(d_model) if pre else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Count through the layers."""
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask=mask)
        return self.norm(x)


class EncoderOfClones(nn.Module):
    """Copy one layer N times, as the Annotated Transformer does; draw each anew."""

    def __init__(self, N, d_model, d_ff, h, dropout=0.1):
        super().__init__()
        layer = EncoderLayer(d_model, h, d_ff, dropout)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(N)])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, mask):
        """Pass the input and the mask through each layer in turn."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class TransformerEncoder(nn.Module):
    """Take d2l's arguments, in its order."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        super().__init__()
        self.blks = nn.Sequential()
        for i in range(num_blks):
            block = TransformerEncoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout)
            self.blks.add_module("block" + str(i), block)

    def forward(self, X, valid=None):
        """Call one block after another."""
        for blk in self.blks:
            X = blk(X, valid)
        return X


class StackOfBlocks(nn.Module):
    """Take a config as nanoGPT does."""

    def __init__(self, config):
        super().__init__()
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])

    def forward(self, x, mask=None):
        """Fold the blocks into one call."""
        return functools.reduce(lambda x, block: block(x, mask), self.h, x)


ANSWERS = {
    "EncoderLayer": (LayerOfNamedSteps, TransformerEncoderBlock, Block),
    "Encoder": (StackByCounting, EncoderOfClones, TransformerEncoder, StackOfBlocks),
}
