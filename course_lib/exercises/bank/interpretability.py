"""Exercises for chapter 20: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import Edits
from course_lib.exercises.checking.trial import D_K, B, H, Trial, answer_to, as_trial, filled
from course_lib.gpt import GPT, GPTConfig

N, LENGTH, V = 3, 5, 11
SIZES = dict(vocab_size=V, max_len=9, num_layers=N, num_heads=H, d_model=H * D_K)
IDS = (7 * torch.arange(B * LENGTH) % V).view(B, LENGTH)
SOURCE = (3 * IDS + 1) % V
LENS = (
    "Read the residual stream before the first layer and after each layer, with the final norm and "
    "the output layer."
)
ABLATED = "One head of one layer passes zeros to `w_o`, and everything else stays as it is."
PATCHED = (
    "Only one vector, after this layer and at this position, comes from the other run: in each row "
    "from the same row."
)
KEPT = "Leave the model as you found it: with the same weights, and without hooks."
MODE = "Run the model in eval mode and without gradients, and then restore its mode."
FAILED = "Remove the hooks even if the model raises an error: `hooked` and try … finally do."


def small() -> GPT:
    """Build a model with known weights, in eval mode."""
    config = GPTConfig(**SIZES, dropout=0.5)  # type: ignore[arg-type]
    return filled(GPT(config)).eval()


def logits(label: str, says: str, *args: Any, ids: Tensor = IDS) -> Trial:
    """Compare the logits."""

    @as_trial(label, says, "equality")
    def measure(candidate: Callable[..., Tensor]) -> dict[str, Any]:
        result = candidate(small(), ids.clone(), *args)
        return {"logits": result.detach() if isinstance(result, Tensor) else result}

    return measure


def in_training(*args: Any) -> Trial:
    """Compare the logits of a model in training mode, and look at its mode after the call."""

    @as_trial("a model in training mode", MODE, "train and eval")
    def measure(candidate: Callable[..., Tensor]) -> dict[str, Any]:
        model = small().train()
        result = candidate(model, IDS.clone(), *args)
        return {
            "logits": result.detach(),
            "the model is in training mode again": model.training,
            "the logits require a gradient": result.requires_grad,
        }

    return measure


def afterward(*args: Any) -> Trial:
    """Look at the model after a call."""

    @as_trial("the model after the call", KEPT)
    def measure(candidate: Callable[..., Tensor]) -> dict[str, bool]:
        model = small()
        candidate(model, IDS.clone(), *args)
        same = torch.equal(model(IDS)[0], small()(IDS)[0])
        return {"a hook is left": has_hooks(model), "the model computes other logits": not same}

    return measure


def failing(*args: Any) -> Trial:
    """Look at the model after a call with ids that it rejects."""

    @as_trial("ids that the model rejects", FAILED)
    def measure(candidate: Callable[..., Tensor]) -> dict[str, bool]:
        model = small()
        answer_to(lambda: candidate(model, IDS + V, *args))
        return {"a hook is left": has_hooks(model)}

    return measure


def has_hooks(model: nn.Module) -> bool:
    """Return whether any part of the model has a hook."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


EXERCISES = (
    Exercise(
        "logit_lens",
        10,
        core={
            "logits": (
                logits("three layers", LENS),
                logits("one sequence of one token", LENS, ids=IDS[:1, :1]),
            ),
            "model": (afterward(),),
        },
        hints=(
            "The model itself reads its residual stream only once, at the end. Which two parts "
            "does it use for that? Use the same two at every depth.",
            "`residual_stream(model, ids)` has the vectors of all depths in one tensor, and both "
            "parts accept more axes in front.",
            "Inside `with hooked(model):`, call `model.norm` and then `model.output`.",
        ),
        extras={"mode": (in_training(),), "errors": (failing(),)},
    ),
    Exercise(
        "ablate_head",
        15,
        core={
            "logits": (
                logits("layer 1 and head 2", ABLATED, 1, 2),
                logits("layer 0 and head 0", ABLATED, 0, 0),
                logits("the last layer", ABLATED, N - 1, 1, ids=IDS[:1]),
            ),
            "model": (afterward(1, 2),),
        },
        hints=(
            "`w_o` mixes the heads, so take the head away before that. Which columns of the "
            "input of `w_o` belong to it?",
            "The input is (B, T, d_model). `unflatten(-1, (num_heads, -1))` makes it "
            "(B, T, H, d_k), and `flatten(-2)` joins the heads again.",
            "`w_o.register_forward_pre_hook(silence)` calls `silence(w_o, inputs)` first, and "
            "`w_o` gets what it returns. Clone the input before you change it.",
        ),
        extras={"mode": (in_training(1, 2),), "errors": (failing(1, 2),)},
        rejects=("(small(), IDS, 3, 0)", "(small(), IDS, 0, 3)", "(small(), IDS, -1, 0)"),
    ),
    Exercise(
        "patch_activations",
        15,
        core={
            "logits": (
                logits("layer 1 and position 2", PATCHED, SOURCE, 1, 2),
                logits("layer 0 and position 0", PATCHED, SOURCE, 0, 0),
                logits("the last place", PATCHED, SOURCE[:1], N - 1, LENGTH - 1, ids=IDS[:1]),
            ),
            "model": (afterward(SOURCE, 1, 2),),
        },
        hints=(
            "Two runs are needed. What do you keep from the run on `source_ids`, and when does "
            "the run on `ids` need it?",
            "`residual_stream` starts with the vectors before the first layer, so those after "
            "`layer` are entry `layer + 1`.",
            "A hook that `register_forward_hook` adds to the layer gets `(module, inputs, output)` "
            "and returns what replaces the output: a clone with one new position.",
        ),
        extras={"mode": (in_training(SOURCE, 1, 2),), "errors": (failing(SOURCE, 1, 2),)},
        rejects=(
            "(small(), IDS, SOURCE[:, :4], 0, 0)",
            "(small(), IDS, SOURCE, 3, 0)",
            "(small(), IDS, SOURCE, 0, 5)",
        ),
    ),
)


# known mistakes


STREAM = "stream = residual_stream(model, ids)"
READ = "model.output(model.norm(stream))"
HOOKS = "with hooked(model) as hooks:"
OWN_HOOKS = """found = []
    model.layers[0].register_forward_pre_hook(lambda layer, inputs: found.append(inputs[0]))
    for layer in model.layers:
        layer.register_forward_hook(lambda layer, inputs, output: found.append(output))
    with hooked(model):
        model(ids)
    stream = torch.stack(found)"""
ZERO = "heads[:, :, head] = 0"
SPLIT = "unflatten(-1, (attention.num_heads, -1))"
SILENCE = "attention.w_o.register_forward_pre_hook(silence)"
QUERIES = (
    "attention.w_qkv.register_forward_hook(lambda w, x, y: y.unflatten(-1, (3 * "
    "attention.num_heads, -1)).index_fill(2, torch.tensor(head), 0).flatten(-2))"
)
PUT = "output[:, position] = source[:, position]"
PATCH = "model.layers[layer].register_forward_hook(patch)"
BEFORE = PATCH.replace("hook(patch)", "pre_hook(lambda block, x: patch(block, x, x[0]))")
RUN = "return model(ids)[0]"
TWO_LOGITS = """out, other = model(ids)[0], model(source_ids)[0]
        out[:, position] = other[:, position]
        return out"""


def careless(hook: str, result: str) -> dict[str, Edits]:
    """Return the mistakes around a run with a hook."""
    return {
        "hook_stays: the hook is never removed, so it changes every later call of the model": (
            f"hooks.append({hook})",
            hook,
        ),
        "mode_lost: the model is left in eval mode, even if it was in training mode before": (
            HOOKS,
            f"model.eval()\n    {HOOKS}",
        ),
        "dropout_active: the model runs in its own mode, so dropout changes the numbers in "
        "training": (HOOKS, "with hooked(nn.Identity()) as hooks:"),
        "nothing_returned: the hook changes a copy and does "
        "not return it, so the model goes on with the old vectors": (f"return {result}", result),
        "pair_returned: the logits and the loss are returned, not the logits alone": (
            RUN,
            "return model(ids)",
        ),
    }


MISTAKES = {
    "logit_lens": {
        "norm_missing: the residual stream goes to the output layer without the final norm": (
            READ,
            "model.output(stream)",
        ),
        "norm_at_the_end_only: only the last depth goes through the final norm": (
            READ,
            "model.output(torch.cat([stream[:-1], model.norm(stream[-1:])]))",
        ),
        "last_depth_not_normed: every depth but the last goes through the final norm": (
            READ,
            "model.output(torch.cat([model.norm(stream[:-1]), stream[-1:]]))",
        ),
        "first_depth_missing: the lens starts after the first layer, without the embedded tokens": (
            READ,
            "model.output(model.norm(stream[1:]))",
        ),
        "last_depth_missing: only the input of each layer is read, so the last depth is missing": (
            READ,
            "model.output(model.norm(stream[:-1]))",
        ),
        "read_before_the_layer: the input of each layer is read in place of its output, so the "
        "first depth comes twice and "
        "the last never": (READ, "model.output(model.norm(torch.cat([stream[:1], stream[:-1]])))"),
        "changes_only: each depth is what its layer has added, not the sum up to there": (
            READ,
            "model.output(model.norm(torch.cat([stream[:1], stream.diff(dim=0)])))",
        ),
        "positions_missing: the first depth has the embedded tokens, but not their positions": (
            READ,
            "model.output(model.norm(torch.cat([model.embedding(ids)[None], stream[1:]])))",
        ),
        "batch_averaged: the logits are averaged over the batch": (READ, f"{READ}.mean(dim=1)"),
        "last_position_only: only the last position is returned": (READ, f"{READ}[:, :, -1]"),
        "probabilities: the softmax is applied, but a lens returns logits": (
            READ,
            f"{READ}.softmax(dim=-1)",
        ),
        "hook_stays: the hooks are never removed, so every later call of the model is recorded": (
            STREAM,
            OWN_HOOKS,
        ),
        "mode_lost: the model is left in eval mode, even if it was in training mode before": (
            STREAM,
            f"model.eval()\n    {STREAM}",
        ),
    },
    "ablate_head": {
        "all_heads: every head of the layer is set to zero": (ZERO, "heads.zero_()"),
        "others_silenced: all heads of the layer but this one are set to zero": (
            ZERO,
            "heads[:, :, torch.arange(attention.num_heads) != head] = 0",
        ),
        "scaled: the head's output is made smaller, but not zero": (
            ZERO,
            "heads[:, :, head] *= 0.5",
        ),
        "averaged: the head's output becomes its mean over the batch and the positions, not zero": (
            ZERO,
            "heads[:, :, head] = heads[:, :, head].mean(dim=(0, 1))",
        ),
        "last_position_only: the head is set to zero at the last position only": (
            ZERO,
            "heads[:, -1, head] = 0",
        ),
        "head_from_one: heads are counted from 1, so the head before this one is set to zero": (
            ZERO,
            "heads[:, :, head - 1] = 0",
        ),
        "after_the_projection: columns are set to zero after `w_o`, where each of them already "
        "mixes all heads": (
            SILENCE,
            "attention.w_o.register_forward_hook(lambda w_o, inputs, y: silence(w_o, (y,)))",
        ),
        "queries_silenced: the head's queries are set to zero, so it attends to all tokens "
        "equally, but still writes": (SILENCE, QUERIES),
        "all_layers: the head with this number is set to zero in every layer": (
            f"hooks.append({SILENCE})",
            "hooks += [x.self_attn.w_o.register_forward_pre_hook(silence) for x in model.layers]",
        ),
        "weights_changed: columns of `w_o` are set to zero in the model itself, and stay zero "
        "after "
        "the call": (f"hooks.append({SILENCE})", f"attention.w_o.weight.{SPLIT}[:, head] = 0"),
        "position_silenced: the head's number is used for the axis of the positions, so all heads "
        "are set to zero at one position; use `heads[:, :, head]`": (ZERO, "heads[:, head] = 0"),
        "width_of_num_heads: the block set to zero has num_heads columns, but a head has d_k "
        "columns": (ZERO, "heads.flatten(-2).split(attention.num_heads, dim=-1)[head][:] = 0"),
        "columns_interleaved: every H-th column is set to zero, but a head has d_k columns next to "
        "each other": (
            (SPLIT, "unflatten(-1, (-1, attention.num_heads))"),
            (ZERO, "heads[..., head] = 0"),
        ),
        "layer_from_one: layers are counted from 1, so the layer before this one is changed": (
            "model.layers[layer].self",
            "model.layers[layer - 1].self",
        ),
        **careless(SILENCE, "heads.flatten(-2)"),
    },
    "patch_activations": {
        "whole_row: the vectors at all positions are replaced": (PUT, "output[:] = source"),
        "from_the_position_on: the later positions are replaced as well": (
            PUT,
            "output[:, position:] = source[:, position:]",
        ),
        "last_position: the last position is replaced, whatever `position` is": (
            PUT,
            "output[:, -1] = source[:, -1]",
        ),
        "position_from_one: positions are counted from 1, so the position before is replaced": (
            PUT,
            "output[:, position - 1] = source[:, position - 1]",
        ),
        "batch_averaged: every row gets the mean of the rows of the source": (
            PUT,
            "output[:, position] = source[:, position].mean(dim=0)",
        ),
        "first_row_only: every row gets the vector from the first row of the source": (
            PUT,
            "output[:, position] = source[0, position]",
        ),
        "added: the vector is added to the one that is there, but should replace it": (
            PUT,
            "output[:, position] += source[:, position]",
        ),
        "source_one_layer_early: the vector comes from before the layer, because entry 0 of the "
        "stream is before the first layer": ("[layer + 1]", "[layer]"),
        "before_the_layer: the vector is replaced before the layer, which then still changes it": (
            ("[layer + 1]", "[layer]"),
            (PATCH, BEFORE),
        ),
        "input_patched: the vector after the layer is put into its input": (PATCH, BEFORE),
        "after_the_next_layer: the vector is replaced one layer too late": (
            ("[layer + 1]", "[layer + 2 :][:1].sum(dim=0)"),
            (
                f"hooks.append({PATCH})",
                "hooks += [x.register_forward_hook(patch) for x in model.layers[layer + 1 :][:1]]",
            ),
        ),
        "runs_exchanged: a vector from the run on `ids` is put into the run on `source_ids`": (
            ("residual_stream(model, source_ids)", "residual_stream(model, ids)"),
            (RUN, "return model(source_ids)[0]"),
        ),
        "logits_patched: the logits at the position are replaced, so no layer reads the patch": (
            (f"hooks.append({PATCH})", "hooks.clear()"),
            (RUN, TWO_LOGITS),
        ),
        **careless(PATCH, "output"),
    },
}


# right answers

WALKED = """with hooked(model):
        depths = [model.positions(model.embedding(ids))]
        for layer in model.layers:
            depths.append(layer(depths[-1]))
    stream = torch.stack(depths)"""
COPIED = f"""import copy
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        model.layers[layer].self_attn.w_o.weight.{SPLIT}[:, head] = 0
        {RUN}"""
STEPPED = """with hooked(model):
        x = model.positions(model.embedding(ids))
        for number, block in enumerate(model.layers):
            x = block(x)
            if number == layer:
                x[:, position] = source[:, position]
        return model.output(model.norm(x))"""

ANSWERS = {
    "logit_lens": {"by_walking: the layers are called one by one": (STREAM, WALKED)},
    "ablate_head": {
        "in_a_copy: columns of `w_o` are set to zero in a copy of the model": (
            f"{HOOKS}\n        hooks.append({SILENCE})\n        {RUN}",
            COPIED,
        ),
    },
    "patch_activations": {
        "by_walking: the layers are called one by one, and one output is changed": (
            f"{HOOKS}\n        hooks.append({PATCH})\n        {RUN}",
            STEPPED,
        ),
    },
}
