"""Exercises for chapter 13: trials, known mistakes and correct answers."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import NOTHING
from course_lib.exercises.checking.trial import (
    D_K,
    D_V,
    B,
    H,
    Trial,
    answer_to,
    as_trial,
    filled,
    normal,
)
from course_lib.transformer import Transformer, TransformerConfig

ROOM = 9
KEYS, VALUES = normal("cached keys", B, H, ROOM, D_K), normal("cached values", B, H, ROOM, D_V)
PAD = 3
SOURCES = torch.tensor([[6, 8, PAD, PAD, PAD], [7, 9, 10, 6, 4], [8, 5, 2, PAD, PAD]])  # (B, S)
TARGETS = torch.tensor([[1, 5, 9, 2, 11, 7, 4], [1, 8, 6, 10, 4, 2, 5], [1, 2, 7, 7, 12, 9, 6]])
SIZES = dict(
    src_vocab_size=11, tgt_vocab_size=13, d_model=12, num_heads=2, num_encoder_layers=1,
    num_decoder_layers=2, d_ff=7, max_len=ROOM, tie_embeddings="none", pad_id=PAD, d_k=5, d_v=4,
)  # fmt: skip
LOGITS = (
    "`step` must return the same logits as `model.decode`: for the last position or, with "
    "`all_positions`, for every new position."
)
TRUNCATED = "`truncate(length)` forgets all tokens after the first `length`."
SOURCE = "Each row reads its own source. With `sources`, source i is the old source `sources[i]`."
ERRORS = "Raise a ValueError that says what does not fit."


def model_for(**sizes: Any) -> Transformer:
    """Build a small model with known weights, in eval mode."""
    return filled(Transformer(TransformerConfig(**SIZES | sizes))).eval()


def new_tokens(start: int, stop: int, rows: int = B) -> tuple[Tensor, Tensor]:
    """Copy the keys and values of some tokens."""
    return KEYS[:rows, :, start:stop].clone(), VALUES[:rows, :, start:stop].clone()


def appended(label: str, *chunks: int, dtype: torch.dtype = torch.float32) -> Trial:
    """Append tokens in chunks, and compare the results of all calls."""

    @as_trial(label, "`append` returns all stored keys and values, the newest last.", "equality")
    def measure(candidate: Callable) -> dict[str, Any]:
        cache, end, shown = candidate(ROOM), 0, {}
        for number, size in enumerate(chunks, start=1):
            start, end = end, end + size
            new = (x.to(dtype) for x in new_tokens(start, end))
            shown |= returned(f"after append {number}", cache.append(*new))
        return shown | {"length": cache.length}

    return measure


def returned(when: str, found: Any) -> dict[str, Any]:
    """Name the keys and values that ``append`` returned, or show what it returned instead."""
    if isinstance(found, tuple | list) and len(found) == 2:
        keys, values = deepcopy(found)
        return {f"keys {when}": keys, f"values {when}": values}
    return {f"returned {when}": found}


def reordered(label: str, *orders: list[int]) -> Trial:
    """Reorder the rows after each append, and compare the results of the next append."""

    @as_trial(label, "New row i gets the keys and values of the old row `rows[i]`.", "equality")
    def measure(candidate: Callable) -> dict[str, Any]:
        cache, shown = candidate(ROOM), {}
        cache.append(*new_tokens(0, 2))
        for number, order in enumerate(orders, start=1):
            cache.reorder(torch.tensor(order))
            keys = normal(f"keys {number}", len(order), H, 1, D_K)
            values = normal(f"values {number}", len(order), H, 1, D_V)
            shown |= returned(f"after reordering {number}", cache.append(keys, values))
        return shown | {"length": cache.length}

    return measure


@as_trial("truncate", TRUNCATED, "equality")
def truncated(candidate: Callable) -> dict[str, Any]:
    cache = candidate(ROOM)
    cache.append(*new_tokens(0, 5))
    cache.truncate(2)
    shown = {"length after truncate": cache.length}
    return shown | returned("after truncate", cache.append(*new_tokens(5, 6)))


@as_trial("room", "After the first `append`, `keys` and `values` have room for `max_len` tokens.")
def preallocated(candidate: Callable) -> dict[str, Any]:
    cache = candidate(ROOM)
    cache.append(*new_tokens(0, 2))
    return {f"shape of {name}": tuple(getattr(cache, name).shape) for name in ("keys", "values")}


@as_trial("tokens that do not fit", ERRORS)
def rejected_by_the_cache(candidate: Callable) -> dict[str, str]:
    cache = candidate(4)
    cache.append(*new_tokens(0, 3))
    too_many, one_row = new_tokens(0, 2), new_tokens(0, 1, rows=1)
    return {
        "two tokens, room for one": answer_to(lambda: cache.append(*too_many)),
        "a different number of rows": answer_to(lambda: cache.append(*one_row)),
        "`reorder` before any token": answer_to(lambda: candidate(4).reorder(torch.tensor([0]))),
    }


def begun(candidate: Callable, tokens: int = 0) -> Any:
    """Build an engine for three sources, and let it read the first tokens of each target."""
    engine = candidate(model_for(), SOURCES.clone(), ROOM)
    if tokens:
        engine.step(TARGETS[:, :tokens].clone())
    return engine


def decoded(
    label: str, *chunks: int, rows: int = 3, how: Mapping[str, bool] = NOTHING, **sizes: Any
) -> Trial:
    """Read the targets in chunks, and compare the logits of every step."""

    @as_trial(label, LOGITS, "equality")
    def measure(candidate: Callable) -> dict[str, Any]:
        engine = candidate(model_for(**sizes), SOURCES[-rows:].clone(), ROOM)
        parts = TARGETS[-rows:, : sum(chunks)].split(list(chunks), dim=1)
        logits = [engine.step(ids.clone(), **how) for ids in parts]
        shown = {f"logits of step {n}": x for n, x in enumerate(logits, start=1)}
        return shown | {"length": engine.length}

    return measure


def continued(label: str, *orders: list[int], sources: bool = False) -> Trial:
    """Reorder the rows after each step, optionally with their sources, and compare the logits."""

    @as_trial(label, SOURCE, "equality")
    def measure(candidate: Callable) -> dict[str, Any]:
        engine, shown = begun(candidate, 2), {}
        for number, order in enumerate(orders, start=1):
            rows = torch.tensor(order)
            engine.reorder(rows, rows if sources else None)
            new = TARGETS[:, number + 1 : number + 3].reshape(-1, 1)[: len(order)]  # (R, 1)
            shown[f"logits after reordering {number}"] = engine.step(new.clone())
        return shown

    return measure


@as_trial("truncate", TRUNCATED, "equality")
def engine_truncated(candidate: Callable) -> dict[str, Any]:
    engine = begun(candidate, 5)
    engine.truncate(2)
    shown = {"length after truncate": engine.length}
    return shown | {"logits after truncate": engine.step(TARGETS[:, 5:].clone())}


@as_trial(
    "seven single tokens",
    "The layers must process each token only once and project the memory only once.",
)
def work(candidate: Callable) -> dict[str, bool]:
    model, vectors, projected = model_for(), [], []
    layer = model.decoder.layers[-1]
    first = layer.feed_forward.linear1
    first.register_forward_pre_hook(lambda _, args: vectors.append(args[0][..., 0].numel()))
    layer.cross_attn.w_k.register_forward_pre_hook(lambda *_: projected.append(1))
    engine = candidate(model, SOURCES.clone(), ROOM)
    for ids in TARGETS.split(1, dim=1):
        engine.step(ids.clone())
    return {
        "earlier tokens are recomputed": sum(vectors) > TARGETS.numel(),
        "the memory is projected again": len(projected) > 1,
    }


@as_trial("gradients enabled", "An engine is for inference, so write `@torch.no_grad()`.")
def without_gradients(candidate: Callable) -> dict[str, bool]:
    with torch.enable_grad():
        logits = begun(candidate).step(TARGETS[:, :1].clone())
    return {"logits require a gradient": logits.requires_grad}


@as_trial("ids that do not fit", ERRORS)
def rejected_by_the_engine(candidate: Callable) -> dict[str, str]:
    engine, other = begun(candidate, 1), begun(candidate)
    outside, four = torch.full((3, 1), 13), torch.ones(4, 1, dtype=torch.long)
    return {
        "id 13 in a vocabulary of 13": answer_to(lambda: engine.step(outside)),
        "four rows for three sources": answer_to(lambda: other.step(four)),
    }


EXERCISES = (
    Exercise(
        "AttentionCache",
        20,
        core={
            "append": (
                appended("one token at a time", 1, 1, 1),
                appended("six tokens at once", 6),
                appended("three tokens, then exactly two, then one", 3, 2, 1),
            ),
            "reorder": (
                reordered("a row that is used twice", [0, 0]),
                reordered("three rows, then two, then both in reverse", [1, 0, 1], [2, 0], [1, 0]),
            ),
            "truncate": (truncated,),
            "types": (appended("float64", 2, 1, dtype=torch.float64),),
        },
        hints=(
            "The first call to `append` creates the two tensors, with room for `max_len` tokens. "
            "Every call writes the new keys and values after the first `length` tokens.",
            "Write `self.keys[:, :, start : self.length] = keys`, do the same with the values, and "
            "return both up to `length`.",
            "In `reorder`, `self.keys[rows]` selects the rows in their new order. Reorder the "
            "values in the same way.",
        ),
        extras={"room": (preallocated,), "errors": (rejected_by_the_cache,)},
        methods=("append", "reorder"),
    ),
    Exercise(
        "DecodingEngine",
        25,
        core={
            "one token at a time": (
                decoded("one token at a time", 1, 1, 1, 1),
                decoded("a source without padding", 1, 1, rows=2, pad_id=0),
                decoded("a pre-norm model", 1, 1, norm_first=True),
            ),
            "several tokens": (
                decoded("four tokens at once, then one", 4, 1),
                decoded("three tokens, then exactly two, then one", 3, 2, 1),
                decoded("all_positions=True", 3, 2, 1, how=dict(all_positions=True)),
            ),
            "reorder": (
                continued("sentences that leave the batch", [2, 0, 1], [1, 2], sources=True),
                continued("two beams for each source", [0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4]),
                continued("the same number of rows, twice", [2, 0, 1], [1, 0, 2]),
            ),
            "truncate": (engine_truncated,),
            "work": (work,),
        },
        hints=(
            "`step` follows `Transformer.hidden`: embed, scale by √d_model, add the positions, and "
            "call the layers. What is different for a token that is not the first?",
            "The new tokens come after `self.length` earlier ones, so call "
            "`model.positions(vectors, self.length)`. For each `layer` in `self.layers`, call "
            "`layer.step(x, self.cross_mask)`.",
            "Keep only the last position unless `all_positions` is set. Then apply "
            "`model.decoder.norm`, if the model has one, and `self.output`.",
        ),
        extras={"no gradients": (without_gradients,), "errors": (rejected_by_the_engine,)},
        methods=("step",),
    ),
)


# known mistakes


ZEROS = ("new_empty", "new_zeros")  # entries that are never written must not be random
RETURN = "return self.keys[:, :, : self.length], self.values[:, :, : self.length]"
MOVE = "start, self.length = self.length, self.length + keys.size(2)"
SWAP = "(self.keys, self.values), self.spare = self.spare, before"
PICK = "torch.index_select(old[:, :, : self.length], 0, rows, out=filled)"
STEP = "x = layer.step(x, self.cross_mask)"
EMPTY = "if self.keys is None or self.values is None:"
PLACED = "model.positions(vectors, self.length)"
END = "self.output(x if model.decoder.norm is None else model.decoder.norm(x))"
ROOT = " * math.sqrt(c.d_model)"
ENGINE = "class DecodingEngine(Engine):"
SOURCES_TURNED = f"""n, K = len(layer.keys), len(x) // len(layer.keys)
            x = x.unflatten(0, (K, n)).transpose(0, 1).flatten(0, 1)
            {STEP}
            x = x.unflatten(0, (n, K)).transpose(0, 1).flatten(0, 1)"""
REORDERED = f"""before = self.keys, self.values
        if self.spare is None or len(self.spare[0]) != len(rows):
            self.spare = tuple(x.new_empty(len(rows), *x.shape[1:]) for x in before)
        for old, new in zip(before, self.spare, strict=True):
            filled = new[:, :, : self.length]
            {PICK}
        {SWAP}"""
TAKEN = "self.keys, self.values = self.keys[rows], self.values[rows]"
ONE_BY_ONE = """for n, row in enumerate(rows.tolist()):
            self.keys[n], self.values[n] = self.keys[row], self.values[row]"""


def masked_by(mask: str) -> tuple[tuple[str, str], ...]:
    """Return the edits that give self-attention a different mask for the last T of n tokens."""
    text = f"""class MaskedLayer(CachedDecoderLayer):
    def attend_to_target(self, x):
        attention = self.layer.self_attn
        q, k, v = (split_heads(part, attention.num_heads) for part in self.project(x))
        keys, values = self.cache.append(k, v)
        T, n = q.size(-2), keys.size(-2)
        heads = F.scaled_dot_product_attention(q, keys, values, {mask})
        return attention.w_o(join_heads(heads))


{ENGINE}"""
    return (ENGINE, text), ("CachedDecoderLayer(layer", "MaskedLayer(layer")


def moved(length: str) -> tuple[tuple[str, str], ...]:
    """Return the edits that set ``length`` wrongly after the new tokens have found their place."""
    return (
        (MOVE, f"{MOVE.replace('self.length =', 'end =')}\n        self.length = {length}"),
        ("start : self.length", "start : end"),
        (RETURN, RETURN.replace("self.length", "end")),
    )


MISTAKES = {
    "AttentionCache": {
        "values_stay: `reorder` reorders the keys but not the values": (
            SWAP,
            "self.keys, self.spare = self.spare[0], (before[0], self.spare[1])",
        ),
        "nothing_reordered: `reorder` changes nothing, so every row keeps its old keys and values "
        "[huggingface/transformers "
        "#46612]": (f"{EMPTY}\n            return", "return"),
        "order_inverted: row i is moved to row `rows[i]`, but row `rows[i]` should be moved to row "
        "i": (REORDERED, "self.keys[rows], self.values[rows] = self.keys + 0, self.values + 0"),
        "empty_cache: `reorder` indexes keys and values, although they are None before the first "
        "`append`": ((f"{EMPTY}\n            return\n        ", ""), (REORDERED, TAKEN)),
        "inverse_order: the new order is the inverse of `rows`, but new row i is the old row "
        "`rows[i]`, so use `self.keys[rows]`": (REORDERED, TAKEN.replace("]", ".argsort()]")),
        "one_row_at_a_time: the rows are copied one by one into the same tensors, which overwrites "
        "rows that are still needed, and leaves no place for more rows": (REORDERED, ONE_BY_ONE),
        "length_not_moved: `length` stays 0, so every call overwrites the tokens of the one before "
        "it": moved("0"),
        "length_moved_by_one: `length` grows by 1 with every call instead of by the number of new "
        "tokens": moved("start + 1"),
        "length_of_the_new: `length` becomes the number of new tokens, but should grow by "
        "it": moved("keys.size(2)"),
        "overwritten_from_zero: every call starts writing at position 0 and overwrites the earlier "
        "tokens": (
            ("[:, :, start : self.length] = keys", "[:, :, : keys.size(2)] = keys"),
            ("[:, :, start : self.length] = values", "[:, :, : values.size(2)] = values"),
            ZEROS,
        ),
        "only_the_new_returned: `append` returns only the new keys and values, so the earlier "
        "tokens are lost": (RETURN, "return keys, values"),
        "empty_room_returned: `append` also returns the empty positions after the last token": (
            (RETURN, "return self.keys, self.values"),
            ZEROS,
        ),
        "newest_first: the new tokens come before the earlier ones": (
            RETURN,
            "return tuple(torch.cat([x[:, :, start : self.length], x[:, :, :start]], 2) "
            "for x in (self.keys, self.values))",
        ),
    },
    "DecodingEngine": {
        "one_position_behind: a new token gets the position `self.length - 1`, which is that of "
        "the token before it": (PLACED, PLACED.replace("self.length", "max(self.length - 1, 0)")),
        "probabilities_returned: a softmax turns the logits into probabilities, but the callers "
        "expect logits": (END, f"{END}.softmax(dim=-1)"),
        "positions_before_scaling: the positions are added before the multiplication by √d_model, "
        "so they are scaled as well": ((ROOT, ""), (PLACED, f"{PLACED}{ROOT}")),
        "source_embedding: the target's tokens are looked up in src_embedding": (
            "model.tgt_embedding",
            "model.src_embedding",
        ),
        "offset_forgotten: the positions start at 0 at every step, so each new token gets the "
        "first position [mosaicml/examples "
        "#244]": (PLACED, "model.positions(vectors)"),
        "scale_missing: the embeddings are not multiplied by √d_model": (ROOT, ""),
        "mask_forgotten: several new tokens that are read at once get no causal mask, so each "
        "attends to later tokens [mlx-node/mlx-node #24]": masked_by("None"),
        "first_rows_of_the_mask: T new tokens get the first T rows of the causal mask instead of "
        "the last T rows [pytorch/pytorch #108108, #144858]": masked_by("causal_mask(n)[:T]"),
        "mask_for_the_new_only: the mask is built for the new tokens only and hides all earlier "
        "ones": masked_by("F.pad(causal_mask(T), (n - T, 0), value=False)"),
        "source_padding_forgotten: cross-attention attends to padding, because the cross mask is "
        "missing": (STEP, "x = layer.step(x, None)"),
        "memory_of_another_row: row i reads source i % B, even though neighboring rows share a "
        "source": (STEP, SOURCES_TURNED),
        "first_position_returned: the logits are returned for the first new position instead of "
        "the last one": ("x[:, -1]", "x[:, 0]"),
        "only_the_last_position: `all_positions` is ignored, so only the logits of the last "
        "position are returned": ("x if all_positions else x[:, -1]", "x[:, -1]"),
        "norm_forgotten: the decoder's final norm is left out, but a pre-norm model has one": (
            END,
            "self.output(x)",
        ),
        "sources_stay: `reorder` ignores `sources`, "
        "so a row reads the source of another sentence": ("if sources is not None:", "if False:"),
        "targets_stay: `reorder` reorders the sources, but not the keys and values of the target": (
            "super().reorder(rows)",
            "pass",
        ),
        "gradients_recorded: `torch.no_grad` is missing, so every step records a graph for a "
        "backward pass [allenai/OLMo #164]": ("@torch.no_grad()\n    def step", "def step"),
    },
}

PATTERNS = {"inverse_order": "argsort"}


# right answers

SPELLED_OUT = """def across(y, layer=layer):
                attention, beams = layer.layer.cross_attn, len(y) // len(layer.keys)
                keys, values = (x.repeat_interleave(beams, 0) for x in (layer.keys, layer.values))
                mask = self.cross_mask
                mask = None if mask is None else mask.repeat_interleave(beams, 0)
                q = split_heads(attention.w_q(y), attention.num_heads)
                heads = F.scaled_dot_product_attention(q, keys, values, mask)
                return attention.w_o(join_heads(heads))

            x = layer.layer.add_norm1(x, layer.attend_to_target)
            x = layer.layer.add_norm2(x, across)
            x = layer.layer.add_norm3(x, layer.layer.feed_forward)"""

ANSWERS = {
    "AttentionCache": {
        "by_copying: `index_copy_` writes, and every reordering copies the whole tensors": (
            *(
                (
                    f"[:, :, start : self.length] = {x}",
                    f".index_copy_(2, torch.arange(start, self.length), {x})",
                )
                for x in ("keys", "values")
            ),
            (RETURN, "return tuple(x.narrow(2, 0, self.length) for x in (self.keys, self.values))"),
            (REORDERED, TAKEN.replace("values[rows]", "values.index_select(0, rows)")),
        ),
    },
    "DecodingEngine": {
        "spelled_out: the sub-layers are called one by one, and every beam copies the memory": (
            STEP,
            SPELLED_OUT,
        ),
    },
}
