"""Exercises for chapter 07: trials, known mistakes and correct answers."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import (
    MODES,
    TORCH_ATTENTION,
    dropout_trials,
    outputs_in,
)
from course_lib.exercises.checking.mistake import Edits, ignored
from course_lib.exercises.checking.trial import (
    PASSED_ON,
    B,
    H,
    S,
    Trial,
    as_trial,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=6, num_heads=H, d_ff=10)
EVEN = dict(d_model=4, num_heads=4, d_ff=4)
STACK = dict(num_layers=3) | SIZES
PRE_NORM = STACK | {"norm_first": True}
OPTIONS = {"activation": "gelu", "d_k": 5, "d_v": 7}
PADDING = torch.tensor([[True, True, True, False, False], [True] * S])[:, None, None, :]
HEADS = (normal("mask", B, H, S, S) > 0) | torch.eye(S, dtype=torch.bool)
X = normal("x", B, S, 6)
LAYER_SAYS = "A layer has four parts: self_attn, feed_forward, add_norm1 and add_norm2."
STACK_SAYS = (
    "Every layer has its own parameters. The layers are in an nn.ModuleList called layers, because "
    "torch does not look inside a plain list. A pre-norm encoder has one more LayerNorm, called "
    "norm."
)
FAR = "All tokens may attend to each other, but no token may attend to padding that the mask hides."


def called(label: str, build: Mapping[str, Any], mask: Tensor | None = None, **how: Any) -> Trial:
    """Compare the output and all gradients."""
    return module_trial(label, build, {"x": X} if mask is None else {"x": X, "mask": mask}, **how)


def moved(layer: nn.Module, mask: Tensor | None, position: int) -> str:
    """Change the first sentence at one position; return the positions whose output changes."""
    other, found = X.clone(), []
    other[0, position] = 1 - other[0, position]
    for training in MODES.values():
        inputs = ((x.clone(), *([] if mask is None else [mask.clone()])) for x in (other, X))
        after, before = outputs_in(training, layer, inputs)
        changes = (after - before)[0].abs().amax(dim=-1) > 1e-5
        found.append(str(changes.nonzero().flatten().tolist()))
    return found[0] if found[0] == found[1] else f"{found[0]} in training, {found[1]} in eval mode"


def affects(build: Mapping[str, Any], says: str) -> Trial:
    """Compare the positions that a change at one position affects."""

    @as_trial("one position changed", says)
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, str]:
        layer = filled(candidate(**build))
        return {
            "a change to token 2 affects": moved(layer, None, 2),
            "a change to token 2, with padding hidden, affects": moved(layer, PADDING, 2),
            "a change to padding position 3, which is hidden, affects": moved(layer, PADDING, 3),
        }

    return measure


@as_trial("a new stack", "The initial weights of the layers must differ.")
def starts_alike(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    matrices = [p for p in candidate(**STACK).parameters() if p.dim() == 2]
    same = all(map(torch.equal, matrices, matrices[len(matrices) // 3 :]))
    return {"layers start with the same weights": same}


EXERCISES = (
    Exercise(
        "EncoderLayer",
        25,
        core={
            "formula": (
                called("sizes that all differ", SIZES),
                module_trial("sizes that are all equal", EVEN, {"x": normal("x", 4, 4, 4)}),
            ),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "mask": (
                affects(SIZES, FAR),
                called("a padding mask", SIZES, PADDING),
                called("a mask for every head", SIZES, HEADS),
            ),
        },
        formula="Attention of x to x is wrapped in add_norm1, and then feed_forward in "
        "add_norm2. Only AddNorm adds x and normalizes.",
        hints=(
            "Four parts come from earlier chapters: `MultiHeadAttention`, `FeedForward`, and an "
            "`AddNorm` for each of them. Which arguments of the layer does each part need?",
            "`AddNorm` already adds x, applies dropout and normalizes. It takes a function that "
            "turns one tensor into one tensor. Attention takes three tensors and a mask and "
            "returns a pair, so wrap it in a lambda.",
            "The lambda passes its own argument three times, together with the mask: "
            "`lambda y: self.self_attn(y, y, y, mask)[0]`. Pass the output of add_norm1 to "
            "add_norm2, together with `self.feed_forward`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "norm_first": (
                called("norm_first=True", SIZES | {"norm_first": True}, PADDING, says=PASSED_ON),
            ),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}, says=PASSED_ON),
                called("d_k=4 and d_v=7", SIZES | {"d_k": 4, "d_v": 7}, says=PASSED_ON),
            ),
            **dropout_trials(SIZES, {"x": X}, ("self_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
        rejects=(
            "(6, 3, 8)(torch.ones(2, 4, 5))",
            "(6, 3, 8)(torch.ones(2, 4, 6), torch.ones(4, 4))",
        ),
    ),
    Exercise(
        "Encoder",
        15,
        core={
            "layers": (called("three layers", STACK),),
            "parameters": (parameters_trial(STACK, STACK_SAYS),),
            "mask": (
                affects(STACK, "Every layer needs the mask, so that no token attends to padding."),
                called("a padding mask", STACK, PADDING),
            ),
        },
        formula="Each layer reads the output of the previous layer. With `norm_first`, one more "
        "norm follows.",
        hints=(
            "Call `EncoderLayer` once for each of the `num_layers` layers, and store the layers "
            "where torch finds their parameters. Pass every other argument to the layers.",
            "`nn.ModuleList` takes a list of modules. In `forward`, every layer gets the mask and "
            "the output of the previous layer.",
            "With `norm_first`, `self.norm` is an `nn.LayerNorm(d_model)` that `forward` applies "
            "at the end; otherwise it is `None`.",
        ),
        shortcuts=TORCH_ATTENTION,
        extras={
            "norm_first": (
                parameters_trial(PRE_NORM, STACK_SAYS),
                called("norm_first=True", PRE_NORM, HEADS),
            ),
            "activation, d_k, d_v": (
                called('activation="gelu", d_k=5 and d_v=7', STACK | OPTIONS, says=PASSED_ON),
            ),
            "dropout": tuple(
                called(
                    f"{'='.join(names)}=1.0 in training",
                    STACK | dict.fromkeys(names, 1.0),
                    training=True,
                    kind="train and eval",
                    says="Pass all three dropout probabilities to the layers.",
                )
                for names in (["dropout"], ["attention_dropout", "activation_dropout"])
            ),
            "initialization": (starts_alike,),
            "names": (names_trial(STACK),),
        },
        rejects=("(0, 6, 3, 8)",),
    ),
)


# known mistakes


NORM = "AddNorm(d_model, dropout, norm_first)"
NORM2 = f"self.add_norm2 = {NORM}"
HEADS_LINES = "d_k=d_k, d_v=d_v, dropout=attention_dropout"
FEED_FORWARD = "FeedForward(d_model, d_ff, activation_dropout, activation)"
ATTEND = "x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, mask)[0])"
THINK = "return self.add_norm2(x, self.feed_forward)"
LOOK = "self.self_attn(y, y, y, mask)[0]"

IGNORED = (  # in the constructor, which the decoder layer shares
    ("norm_first", (NORM, "AddNorm(d_model, dropout)")),
    ("activation", (FEED_FORWARD, "FeedForward(d_model, d_ff, activation_dropout)")),
    ("d_k", (HEADS_LINES, "d_v=d_v, dropout=attention_dropout")),
    ("dropout", (NORM, "AddNorm(d_model, norm_first=norm_first)")),
    ("attention_dropout", (HEADS_LINES, "d_k=d_k, d_v=d_v")),
    ("activation_dropout", (FEED_FORWARD, "FeedForward(d_model, d_ff, activation=activation)")),
)

SWAPPED: dict[str, Edits] = {
    "arguments_swapped: AddNorm gets `norm_first` before `dropout`, so each takes the other's "
    "place": (NORM, "AddNorm(d_model, norm_first, dropout)")
}


LAYER = "new_layer(d_k=d_k, d_v=d_v, **rates)"
LAYERS = f"[{LAYER} for _ in range(num_layers)]"
LAST_NORM = "nn.LayerNorm(d_model) if norm_first else None"
LOOP = "for layer in self.layers:\n            x = layer(x, mask)"
EACH = "x = x if self.norm is None else self.norm(x)"
END = "return x if self.norm is None else self.norm(x)"


ALONE = r"""def alone(part, x, sublayer):
            read = part.norm(x) if part.norm_first else x
            answer = part.dropout(sublayer(read))
            return answer if part.norm_first else part.norm(answer)

        \1alone(\2, x, \3)"""
AROUND = (  # what goes wrong around one sub-layer, or around every one: name, edit, two sentences
    (
        "residual_missing",
        ALONE,
        "the input of the {} sub-layer is not added to its output, so this residual path is "
        "missing",
        "no sub-layer's input is added to its output, so the residual paths are missing",
    ),
    (
        "add_norm_missing",
        r"\1(\3)(x)",
        "the {} sub-layer is called without its AddNorm, so nothing is added or normalized there",
        "the sub-layers are called without AddNorm, so nothing is added or normalized",
    ),
    (
        "norm_missing",
        r"\1x + (\3)(x)",
        "x is added to the output of the {} sub-layer without AddNorm, so there is no norm",
        "x is added to the output of every sub-layer without AddNorm, so there are no norms",
    ),
    (
        "added_inside",
        r"\1\2(x, lambda z: z + (\3)(z))",
        "the function for the {} sub-layer adds its input, but AddNorm adds it, too",
        "the function for every sub-layer adds its input, but AddNorm adds it, too",
    ),
    (
        "residual_twice",
        r"\1x + \2(x, \3)",
        "",  # people do this around every sub-layer
        "x is added to the result of every AddNorm, but AddNorm has already added it{cited}",
    ),
)
CALL = r"(x = |return )(self\.add_norm\d)\(x, (.*)\)$"  # of an AddNorm with its sub-layer


def around(cited: str = "", **lines: str) -> dict[str, Edits]:
    """Define the mistakes of ``AROUND`` for every sub-layer and for each of them.

    ``cited`` is public code that adds x twice.
    """
    mistakes: dict[str, Edits] = {}
    for name, new, each, every in AROUND:
        edits = {part: (line, re.sub(CALL, new, line)) for part, line in lines.items()}
        mistakes[f"{name}: {every.format(cited=cited)}"] = tuple(edits.values())
        for part, edit in edits.items() if each else ():
            mistakes[f"{name}_{part}: {each.format(part.replace('_', '-'))}"] = edit
    return mistakes


MISTAKES = {
    "EncoderLayer": {
        **around(" [yunzeliu/MAP #3]", attention=ATTEND, feed_forward=THINK),
        "residual_of_input: the second residual connection adds the layer's input instead of the "
        "output of add_norm1 [strutive07/transformer-tensorflow2.0 #14; JanSchm/CapMarket #8]": (
            (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
            (THINK, "return self.add_norm2(x, lambda _: self.feed_forward(found))"),
        ),
        "one_norm: both sub-layers use the same norm, but each needs its own gain and shift "
        "[bentrevett/pytorch-seq2seq #100; lsdefine/attention-is-all-you-need-keras #33]": (
            (NORM2, ""),
            (THINK, THINK.replace("add_norm2", "add_norm1")),
        ),
        "norm_used_twice: add_norm1 is used for both sub-layers, and add_norm2 is not used": (
            THINK,
            THINK.replace("add_norm2", "add_norm1"),
        ),
        "second_norm_used_twice: add_norm2 is used for both "
        "sub-layers, and add_norm1 is not used": (ATTEND, ATTEND.replace("add_norm1", "add_norm2")),
        "norms_exchanged: add_norm2 is used for attention and add_norm1 for the feed-forward "
        "layer, but the names of the parameters say that it is the other way around": (
            (ATTEND, ATTEND.replace("add_norm1", "add_norm2")),
            (THINK, THINK.replace("add_norm2", "add_norm1")),
        ),
        "feed_forward_skipped: the layer ends after attention, so feed_forward is not used": (
            THINK,
            "return x",
        ),
        "always_pre_norm: the norm comes before each sub-layer, even in post-norm": (
            NORM,
            "AddNorm(d_model, dropout, True)",
        ),
        "feed_forward_first: the feed-forward layer comes before attention [allenai/allennlp "
        "#3334]": (
            (ATTEND, "x = self.add_norm1(x, self.feed_forward)"),
            (THINK, f"return self.add_norm2(x, lambda y: {LOOK})"),
        ),
        "lines_exchanged: feed_forward, with its add_norm2, comes before attention, with its "
        "add_norm1": (
            (THINK, ATTEND.replace("x =", "return", 1)),
            (ATTEND, THINK.replace("return", "x =")),
        ),
        **SWAPPED,
        "mask_not_passed_on: the mask is not passed to attention [imperial-qore/TranAD #10; "
        "facebookresearch/fairseq #1339]": ("(y, y, y, mask)", "(y, y, y)"),
        "mask_inverted: the mask is inverted, as nn.MultiheadAttention expects, but here True "
        "means *may look*": ("(y, y, y, mask)", "(y, y, y, mask if mask is None else ~mask)"),
        "keys_not_normalized: with pre-norm, only the queries are normalized, because the keys and "
        "values come from x before the norm [facebookresearch/xformers #233; "
        "tier4/Diffusion-Planner #239]": (
            ATTEND,
            "x = self.add_norm1(x, lambda z: self.self_attn(z, x, x, mask)[0])",
        ),
        "lambda_ignores_its_argument: the lambda uses the layer's x instead of its argument, so "
        "with pre-norm, attention gets vectors that are not "
        "normalized": (ATTEND, "x = self.add_norm1(x, lambda z: self.self_attn(x, x, x, mask)[0])"),
        "attention_over_the_batch: the first two axes are swapped, so attention compares sentences "
        "instead of tokens [IBM/TabFormer #14; Exorust/TorchLeet #5]": (
            LOOK,
            "self.self_attn(*3 * [y.transpose(0, 1)], mask)[0].transpose(0, 1)",
        ),
        "dropout_as_in_torch: `dropout` sets all three probabilities, as in torch.nn, but here "
        "each of them has its own argument": (
            ("dropout=attention_dropout", "dropout=dropout"),
            (FEED_FORWARD, "FeedForward(d_model, d_ff, dropout, activation)"),
        ),
        **ignored(*IGNORED),
        "feed_forward_reads_input: the feed-forward layer gets the layer's input instead of the "
        "output of add_norm1": (
            (ATTEND, f"first = x\n        {ATTEND}"),
            (THINK, "return self.add_norm2(x, lambda _: self.feed_forward(first))"),
        ),
        "sublayers_in_parallel: both sub-layers read the layer's input, and their results are "
        "added, but the feed-forward layer reads the output of add_norm1": (
            (ATTEND, ATTEND.replace("x = ", "first = ", 1)),
            (THINK, THINK.replace("return", "return first +")),
        ),
        "one_residual: one AddNorm is around both sub-layers together, but each needs its own": (
            (ATTEND, ""),
            (THINK, f"return self.add_norm1(x, lambda y: self.feed_forward({LOOK}))"),
        ),
        "attention_dropped: the second step starts from the layer's input again, so the output of "
        "attention is lost": (ATTEND, ATTEND.replace("x = ", "found = ", 1)),
    },
    "Encoder": {
        "plain_list: the layers are in a plain Python list, so torch neither trains nor saves them "
        "[LiamMaclean216/Pytorch-Transfomer #7]": ("nn.ModuleList(layers)", "layers"),
        "one_layer_repeated: the list contains the same layer num_layers times, so there is only "
        "one set of weights [espnet/espnet #1278; IDEA-Research/DAB-DETR #17; "
        "acids-ircam/ddsp_pytorch #37]": (LAYERS, f"[{LAYER}] * num_layers"),
        "layers_copied: all layers are copies of one layer, so they start with the same weights": (
            f"layers = {LAYERS}",
            f"import copy\n        one = {LAYER}\n"
            "        layers = [copy.deepcopy(one) for _ in range(num_layers)]",
        ),
        "every_layer_reads_the_input: every layer gets the stack's input, so only the last layer "
        "affects the output [Atcold/NYU-DLSP20 #270; simon-ging/coot-videotext #5]": (
            LOOP,
            "first = x\n        for layer in self.layers:\n            x = layer(first, mask)",
        ),
        "first_layer_only: only the first layer runs, because a return inside the loop ends it "
        "[microsoft/ProDA #33]": (LOOP, f"{LOOP}\n            {END}"),
        "layers_added: the input of each layer is added to its output, but the sub-layers have "
        "already added theirs": ("x = layer(x, mask)", "x = x + layer(x, mask)"),
        "result_dropped: the result of layer(…) is not assigned to x, so x never changes": (
            "x = layer(x, mask)",
            "layer(x, mask)",
        ),
        "mask_not_passed_on: the layers do not get the mask [imperial-qore/TranAD #10; "
        "facebookresearch/fairseq #1339]": ("layer(x, mask)", "layer(x)"),
        "mask_for_first_layer_only: only the first layer gets the mask, so the other layers attend "
        "to padding [keras-team/keras-hub #137]": (LOOP, f"{LOOP}\n            mask = None"),
        "norm_after_every_layer: the last norm of a pre-norm stack is applied after every layer, "
        "but it belongs after the loop": ((LOOP, f"{LOOP}\n            {EACH}"), (END, "return x")),
        **ignored(("activation", (", activation)", ")")), ("d_k", ("d_k=d_k, ", ""))),
        "last_norm_missing: the last norm of a pre-norm stack is missing [NVIDIA-NeMo/Speech "
        "#2197; marian-nmt/marian-dev #719]": (LAST_NORM, "None"),
        "last_norm_in_post_norm: a post-norm stack ends with an extra norm, even though its last "
        "layer already ends with one [pytorch/pytorch "
        "#50086; Atten4Vis/ConditionalDETR #11]": (LAST_NORM, "nn.LayerNorm(d_model)"),
    },
}


# right answers

ONE_BY_ONE = f"""self.layers = nn.ModuleList()
        while len(self.layers) < num_layers:
            self.layers.append({LAYER})"""

ANSWERS = {
    "Encoder": {
        "by_counting: the layers are created and called by their index, and norm may do nothing": (
            (f"layers = {LAYERS}\n        self.layers = nn.ModuleList(layers)", ONE_BY_ONE),
            ("if norm_first else None", "if norm_first else nn.Identity()"),
            ("for layer in self.layers:", "for i in range(len(self.layers)):"),
            ("layer(x, mask)", "self.layers[i](x, mask=mask)"),
            (END, "return self.norm(x)"),
        ),
    },
}
