"""Exercises of chapter 13: trials, known mistakes and right answers."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.trial import D_K, D_V, B, H, Trial, answer_to, filled, looks, normal
from course_lib.masks import causal_mask
from course_lib.multi_head import join_heads, split_heads
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
STORED = "Every key and value comes back where it was put, the earlier ones first."
REORDERED = "Row i continues what was row `rows[i]`, with its keys and its values."
SAME = "The logits are those of `model.decode` on everything read so far."
ALL = "With `all_positions` there are logits at every new position."
SOURCE = "Every row reads its own source; with `sources`, source i is what was source `sources[i]`."


def model_for(**sizes: Any) -> Transformer:
    """Build a small model with known weights, in eval mode."""
    return filled(Transformer(TransformerConfig(**SIZES | sizes))).eval()


def appended(label: str, *chunks: int, says: str = STORED) -> Trial:
    """Append tokens in chunks, and look at all that comes back after each."""

    @looks(label, says, "equality")
    def act(candidate: Callable) -> dict[str, Any]:
        """Append, and keep what is returned."""
        cache, end, shown = candidate(ROOM), 0, {}
        for number, size in enumerate(chunks, start=1):
            start, end = end, end + size
            found = cache.append(KEYS[:, :, start:end].clone(), VALUES[:, :, start:end].clone())
            shown |= returned(f"after append {number}", found)
        return shown | {"length": cache.length}

    return act


def returned(when: str, found: Any) -> dict[str, Any]:
    """Name the keys and values that ``append`` returned, or say what came instead."""
    if isinstance(found, tuple | list) and len(found) == 2:
        return {
            f"{name} {when}": x.clone() if isinstance(x, Tensor) else x
            for name, x in zip(("keys", "values"), found, strict=True)
        }
    return {f"returned {when}": found}


def reordered(label: str, *orders: list[int]) -> Trial:
    """Reorder the rows after each append, and look at what the next append returns."""

    @looks(label, REORDERED, "equality")
    def act(candidate: Callable) -> dict[str, Any]:
        """Append two tokens, then reorder and append one more, again and again."""
        cache, shown = candidate(ROOM), {}
        cache.append(KEYS[:, :, :2].clone(), VALUES[:, :, :2].clone())
        for number, order in enumerate(orders):
            cache.reorder(torch.tensor(order))
            new = [
                normal(f"{x} {number}", len(order), H, 1, w) for x, w in (("k", D_K), ("v", D_V))
            ]
            shown |= returned(f"after reordering {number + 1}", cache.append(*new))
        return shown | {"length": cache.length}

    return act


@looks("truncate", "`truncate(length)` forgets all tokens after the first `length`.", "equality")
def truncated(candidate: Callable) -> dict[str, Any]:
    """Append four tokens, forget two, and append others."""
    cache = candidate(ROOM)
    cache.append(KEYS[:, :, :4].clone(), VALUES[:, :, :4].clone())
    cache.truncate(2)
    length = cache.length
    found = cache.append(KEYS[:, :, 5:6].clone(), VALUES[:, :, 5:6].clone())
    return {"length after truncate": length} | returned("after truncate", found)


@looks("room", "`keys` and `values` have room for `max_len` tokens after the first `append`.")
def preallocated(candidate: Callable) -> dict[str, Any]:
    """Look at the tensors themselves after one short append."""
    cache = candidate(ROOM)
    cache.append(KEYS[:, :, :2].clone(), VALUES[:, :, :2].clone())
    shapes = {name: tuple(getattr(cache, name).shape) for name in ("keys", "values")}
    return {f"shape of {name}": shape for name, shape in shapes.items()}


@looks("what does not fit", "A ValueError says what does not fit.")
def refused_by_the_cache(candidate: Callable) -> dict[str, str]:
    """Append more than there is room for, and another number of rows."""
    cache = candidate(4)
    cache.append(KEYS[:, :, :3].clone(), VALUES[:, :, :3].clone())
    return {
        "two tokens, room for one": answer_to(
            lambda: cache.append(KEYS[:, :, :2], VALUES[:, :, :2])
        ),
        "another number of rows": answer_to(
            lambda: cache.append(KEYS[:1, :, :1], VALUES[:1, :, :1])
        ),
    }


def decoded(label: str, *chunks: int, says: str = SAME, rows: int = 3, **sizes: Any) -> Trial:
    """Read the targets in chunks, and look at the logits of every step."""

    @looks(label, says, "equality")
    def act(candidate: Callable) -> dict[str, Any]:
        """Step through the targets."""
        engine = candidate(model_for(**sizes), SOURCES[-rows:].clone(), ROOM)
        parts = TARGETS[-rows:, : sum(chunks)].split(list(chunks), dim=1)
        logits = [engine.step(ids.clone()) for ids in parts]
        shown = {f"logits of step {n}": x for n, x in enumerate(logits, start=1)}
        return detached(shown) | {"length": engine.length}

    return act


def at_every_position(label: str, *chunks: int) -> Trial:
    """Read the targets in chunks, and look at the logits of every position."""

    @looks(label, ALL, "equality")
    def act(candidate: Callable) -> dict[str, Any]:
        """Step through the targets."""
        engine = candidate(model_for(), SOURCES.clone(), ROOM)
        parts = TARGETS[:, : sum(chunks)].split(list(chunks), dim=1)
        return detached({
            f"logits of step {n}": engine.step(ids.clone(), all_positions=True)
            for n, ids in enumerate(parts, start=1)
        })  # fmt: skip

    return act


def detached(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the graph of the computation out."""
    return {name: x.detach() if isinstance(x, Tensor) else x for name, x in shown.items()}


@looks("sentences that leave", SOURCE, "equality")
def sentences_leave(candidate: Callable) -> dict[str, Any]:
    """Read two tokens, change the order of the sentences, and let one of them go."""
    engine = candidate(model_for(), SOURCES.clone(), ROOM)
    engine.step(TARGETS[:, :2].clone())
    shown = {}
    for number, order in enumerate(([2, 0, 1], [1, 2])):
        kept = torch.tensor(order)
        engine.reorder(kept, kept)
        new = TARGETS[: len(order), number + 2 : number + 3].clone()
        shown[f"logits after reordering {number + 1}"] = engine.step(new)
    return detached(shown)


@looks("beams that share a source", SOURCE, "equality")
def beams(candidate: Callable) -> dict[str, Any]:
    """Let two rows share each source, then take rows twice and not at all."""
    engine = candidate(model_for(), SOURCES.clone(), ROOM)
    engine.step(TARGETS[:, :2].clone())
    shown = {}
    for number, order in enumerate(([0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4])):
        engine.reorder(torch.tensor(order))
        new = TARGETS[:, number + 2 : number + 4].reshape(-1, 1)  # (R, 1), each row another token
        shown[f"logits after reordering {number + 1}"] = engine.step(new.clone())
    return detached(shown)


@looks("truncate", "`truncate(length)` forgets all tokens after the first `length`.", "equality")
def engine_truncated(candidate: Callable) -> dict[str, Any]:
    """Read four tokens, forget two, and read two others."""
    engine = candidate(model_for(), SOURCES.clone(), ROOM)
    engine.step(TARGETS[:, :4].clone())
    engine.truncate(2)
    length = engine.length
    logits = engine.step(TARGETS[:, 5:].clone())
    return detached({"length after truncate": length, "logits after truncate": logits})


@looks(
    "a count of the work",
    "Each token passes through the decoder layers once, and the memory is projected once.",
)
def work(candidate: Callable) -> dict[str, bool]:
    """Count the vectors in the last layer, and the projections of the memory."""
    model, vectors, projected = model_for(), [], []
    layer = model.decoder.layers[-1]
    count = lambda _, args: vectors.append(args[0][..., 0].numel())  # noqa: E731
    layer.feed_forward.linear1.register_forward_pre_hook(count)
    layer.cross_attn.w_k.register_forward_pre_hook(lambda *_: projected.append(1))
    engine = candidate(model, SOURCES.clone(), ROOM)
    for ids in TARGETS.split(1, dim=1):
        engine.step(ids.clone())
    return {
        "earlier tokens are computed again": sum(vectors) > TARGETS.numel(),
        "the memory is projected again": len(projected) > 1,
    }


@looks("a look at gradients", "An engine is for inference: `@torch.no_grad()` above `step`.")
def without_gradients(candidate: Callable) -> dict[str, bool]:
    """Look for a graph."""
    with torch.enable_grad():
        logits = candidate(model_for(), SOURCES.clone(), ROOM).step(TARGETS[:, :1].clone())
    return {"logits require a gradient": logits.requires_grad}


@looks("what does not fit", "A ValueError says what does not fit.")
def refused_by_the_engine(candidate: Callable) -> dict[str, str]:
    """Hand over an id that the vocabulary lacks, and rows that the sources cannot share."""
    engine = candidate(model_for(), SOURCES.clone(), ROOM)
    engine.step(TARGETS[:, :1].clone())
    strange, four = torch.full((3, 1), 13), torch.ones(4, 1, dtype=torch.long)
    return {
        "id 13 of 13": answer_to(lambda: engine.step(strange)),
        "four rows for three sources": answer_to(
            lambda: candidate(model_for(), SOURCES.clone(), ROOM).step(four)
        ),
    }


EXERCISES = (
    Exercise(
        "AttentionCache",
        "kv_cache",
        20,
        core={
            "append": (
                appended("one token at a time", 1, 1, 1),
                appended("six tokens at once", 6),
                appended("three tokens, then exactly two, then one", 3, 2, 1),
            ),
            "reorder": (
                reordered("a row that is taken twice", [1, 1]),
                reordered(
                    "more rows than before, then fewer, then others", [1, 0, 1], [2, 0], [1, 0]
                ),
            ),
            "truncate": (truncated,),
        },
        hints=(
            "The first call of `append` makes the two tensors, with room for `max_len` tokens. "
            "Every call writes the new keys and values from position `length` on.",
            "`self.keys[:, :, start : self.length] = keys`, and the same for the values. Return "
            "both up to `length`.",
            "For `reorder`, `self.keys[rows]` picks rows in a new order; the values need the same.",
        ),
        extras={"room": (preallocated,), "errors": (refused_by_the_cache,)},
        methods=("append", "reorder"),
        unnamed=("start : self.length] = keys", "start : self.length] = keys.flip(1)"),
    ),
    Exercise(
        "DecodingEngine",
        "kv_cache",
        25,
        core={
            "one token at a time": (
                decoded("one token at a time", 1, 1, 1, 1),
                decoded("a source without padding", 1, 1, rows=2, pad_id=1),
                decoded("a pre-norm model", 1, 1, norm_first=True),
            ),
            "several tokens": (
                decoded("four tokens at once, then one", 4, 1),
                decoded("three tokens, then exactly two, then one", 3, 2, 1),
                at_every_position("the logits of all positions", 3, 2, 1),
            ),
            "reorder": (sentences_leave, beams),
            "truncate": (engine_truncated,),
            "work": (work,),
        },
        hints=(
            "`step` follows `Transformer.hidden`: embed, scale by √d_model, add the positions, "
            "pass through the layers. What is different for a token that is not the first?",
            "The new tokens come after `self.length` others: `model.positions(vectors, "
            "self.length)`. Each `layer` of `self.layers` has `step(x, self.cross_mask)`.",
            "Keep the last position unless `all_positions`, apply `model.decoder.norm` if there is "
            "one, then `model.output`.",
        ),
        extras={"no gradients": (without_gradients,), "errors": (refused_by_the_engine,)},
        methods=("step",),
        unnamed=("x = layer.step(x, self.cross_mask)", "x = layer.step(2 * x, self.cross_mask)"),
    ),
)


# known mistakes

cache = known("kv_cache", "AttentionCache")
engine = known("kv_cache", "DecodingEngine")

ZEROS = ("new_empty", "new_zeros")  # what is not written must be the same every time
RETURN = "return self.keys[:, :, : self.length], self.values[:, :, : self.length]"
SWAP = "(self.keys, self.values), self.spare = self.spare, before"
PICK = "torch.index_select(old[:, :, : self.length], 0, rows, out=filled)"
STEP = "x = layer.step(x, self.cross_mask)"
LAYER = "CachedDecoderLayer(layer, memory, max_len)"


def other_layer(name: str, method: str) -> tuple[tuple[str, str], ...]:
    """Return the edits that give an engine layers of its own, with one method written otherwise."""
    text = f"class {name}(CachedDecoderLayer):\n{method}\n\n\nclass DecodingEngine(Engine):"
    return ("class DecodingEngine(Engine):", text), (
        LAYER,
        LAYER.replace("CachedDecoderLayer", name),
    )


def attending(mask: str) -> str:
    """Write self-attention with another mask for T of n tokens."""
    return f"""
    def attend_to_target(self, x):
        attention = self.layer.self_attn
        q, k, v = (split_heads(part, attention.num_heads) for part in self.project(x))
        keys, values = self.cache.append(k, v)
        T, n = q.size(-2), keys.size(-2)
        heads = F.scaled_dot_product_attention(q, keys, values, {mask})
        return attention.w_o(join_heads(heads))"""


CACHING = (
    cache(
        "values_stay",
        "`reorder` reorders the keys but not the values",
        (SWAP, "self.keys, self.spare = self.spare[0], (before[0], self.spare[1])"),
    ),
    cache(
        "nothing_reordered",
        "`reorder` changes nothing, so every row continues its old tokens",
        ("if self.keys is None or self.values is None:\n            return", "return"),
        seen="huggingface/transformers #46612",
    ),
    cache(
        "order_inverted",
        "row i is put in place `rows[i]`, but row i should be taken from place `rows[i]`",
        (PICK, "filled[rows % len(filled)] = old[: len(rows), :, : self.length]"),
        ("x.new_empty(len(rows)", "x.new_zeros(len(rows)"),
    ),
    cache(
        "newest_not_reordered",
        "the newest token is left out when the rows are reordered",
        (PICK, PICK.replace("old[:, :, : self.length]", "old[:, :, : self.length - 1]")
         .replace("filled", "filled[:, :, :-1]")),
        ZEROS,
    ),
    cache(
        "overwritten_from_zero",
        "every call writes from position 0 on, over the tokens that were stored before",
        ("[:, :, start : self.length] = keys", "[:, :, : keys.size(2)] = keys"),
        ("[:, :, start : self.length] = values", "[:, :, : values.size(2)] = values"),
        ZEROS,
    ),
    cache(
        "only_the_new_returned",
        "`append` returns the new keys and values only, so the earlier tokens are lost",
        (RETURN, "return keys, values"),
    ),
    cache(
        "empty_room_returned",
        "`append` returns the empty room after the last token as well",
        (RETURN, "return self.keys, self.values"),
        ZEROS,
    ),
    cache(
        "keys_for_values",
        "`append` returns the keys twice, and the values are lost",
        (RETURN, RETURN.replace("self.values", "self.keys")),
    ),
    cache(
        "newest_first",
        "the new tokens are put in front of the earlier ones",
        (RETURN, "return tuple(torch.cat([x[:, :, start : self.length], x[:, :, :start]], 2) "
         "for x in (self.keys, self.values))"),
    ),
    cache(
        "calls_counted",
        "`length` grows by one in every call, however many tokens are new",
        ("start, self.length = self.length, self.length + keys.size(2)",
         "start, self.length = self.length, self.length + 1\n        keys = keys[:, :, :1]\n"
         "        values = values[:, :, :1]"),
    ),
)  # fmt: skip

DECODING = (
    engine(
        "offset_forgotten",
        "the positions start at 0 in every step, so each new token is placed first",
        ("model.positions(vectors, self.length)", "model.positions(vectors)"),
        seen="mosaicml/examples #244",
    ),
    engine(
        "offset_too_large",
        "the positions start one too late: the first new token has position `length`",
        ("model.positions(vectors, self.length)", "model.positions(vectors, self.length + 1)"),
    ),
    engine(
        "scale_missing",
        "the embeddings are not multiplied by √d_model",
        (" * math.sqrt(c.d_model)", ""),
    ),
    engine(
        "mask_forgotten",
        "several new tokens come without a causal mask, so they see the tokens after them",
        *other_layer("Unmasked", attending("None")),
        seen="mlx-node/mlx-node #24",
    ),
    engine(
        "first_rows_of_the_mask",
        "T new tokens get the first T rows of the causal mask instead of the last T, so they do "
        "not see the earlier tokens",
        *other_layer("TopLeft", attending("causal_mask(n)[:T]")),
        seen="pytorch/pytorch #108108 and #144858: is_causal with more keys than queries",
    ),
    engine(
        "mask_for_the_new_only",
        "the mask is built for the new tokens only and hides all earlier ones",
        *other_layer("NewOnly", attending("F.pad(causal_mask(T), (n - T, 0), value=False)")),
    ),
    engine(
        "source_padding_forgotten",
        "cross-attention reads the source's padding: the cross mask is missing",
        (STEP, "x = layer.step(x, None)"),
    ),
    engine(
        "memory_of_another_row",
        "row i reads source i % B, but neighboring rows share a source",
        (STEP, "n, K = len(layer.keys), len(x) // len(layer.keys)\n            x = layer.step("
         "x.unflatten(0, (K, n)).transpose(0, 1).flatten(0, 1), self.cross_mask)\n            "
         "x = x.unflatten(0, (n, K)).transpose(0, 1).flatten(0, 1)"),
    ),
    engine(
        "first_position_returned",
        "the logits of the first new position are returned instead of the last one's",
        ("x[:, -1]", "x[:, 0]"),
    ),
    engine(
        "only_the_last_position",
        "`all_positions` is ignored: the logits of the last position are returned in any case",
        ("x if all_positions else x[:, -1]", "x[:, -1]"),
    ),
    engine(
        "norm_forgotten",
        "the decoder's last norm is left out: a pre-norm model has one",
        ("model.output(x if model.decoder.norm is None else model.decoder.norm(x))",
         "model.output(x)"),
    ),
    engine(
        "sources_stay",
        "`reorder` ignores `sources`, so a row goes on with another sentence's source",
        ("if sources is not None:", "if False:"),
    ),
    engine(
        "targets_stay",
        "`reorder` reorders the sources but not the keys and values of the target",
        ("super().reorder(rows)", "pass"),
    ),
    engine(
        "everything_recomputed",
        "the logits are right, but every step computes all earlier tokens again",
        ("vectors = model", "T, seen = ids.size(1), getattr(self, \"seen\", ids[:, :0])\n        "
         "ids = self.seen = torch.cat([seen[:, : self.length], ids], dim=1)\n        "
         "self.truncate(0)\n        vectors = model"),
        ("x if all_positions else x[:, -1]", "x[:, -T:] if all_positions else x[:, -1]"),
        ("super().reorder(rows)", "super().reorder(rows)\n        self.seen = self.seen[rows]"),
    ),
    engine(
        "gradients_recorded",
        "`torch.no_grad` is missing, so every step keeps a graph for a backward pass",
        ("@torch.no_grad()\n    def step", "def step"),
        seen="allenai/OLMo #164",
    ),
)  # fmt: skip

MISTAKES = (*CACHING, *DECODING)


# right answers


class CopyingCache:
    """Write with ``index_copy_``, reorder with a full copy, and refuse what does not fit."""

    def __init__(self, max_len):
        self.max_len, self.length = max_len, 0
        self.keys = self.values = None

    def append(self, keys, values):
        """Store new keys and values; return all so far."""
        rows, heads, new, _ = keys.shape
        if self.keys is None:
            self.keys = torch.zeros(rows, heads, self.max_len, keys.shape[-1]).to(keys)
            self.values = torch.zeros(rows, heads, self.max_len, values.shape[-1]).to(values)
        if rows != self.keys.shape[0]:
            raise ValueError(f"{rows} rows do not continue {self.keys.shape[0]}")
        if self.length + new > self.max_len:
            raise ValueError(f"no room for {new} more tokens after {self.length}")
        places = torch.arange(self.length, self.length + new, device=keys.device)
        self.keys.index_copy_(2, places, keys)
        self.values.index_copy_(2, places, values)
        self.length += new
        return self.keys.narrow(2, 0, self.length), self.values.narrow(2, 0, self.length)

    def reorder(self, rows):
        """Let row i continue row ``rows[i]``."""
        if self.keys is not None:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)

    def truncate(self, length):
        """Forget the last tokens."""
        self.length = length


class EngineOfLists:
    """Grow a list of keys and values for each layer, and write the layers out: the core."""

    def __init__(self, model, src, max_len):
        self.model, self.length = model, 0
        self.mask = (src != model.config.pad_id)[:, None, None, :]
        with torch.no_grad():
            memory = model.encode(src)
            self.memory = [
                [split_heads(w(memory), layer.cross_attn.num_heads) for w in
                 (layer.cross_attn.w_k, layer.cross_attn.w_v)]
                for layer in model.decoder.layers
            ]  # fmt: skip
        self.past = [None for _ in model.decoder.layers]

    @torch.no_grad()
    def step(self, ids, *, all_positions=False):
        """Score the next token."""
        x = self.model.tgt_embedding(ids) * math.sqrt(self.model.config.d_model)
        x = self.model.positions(x, self.length)
        self.length += ids.shape[1]
        for n, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm1(x, lambda y, n=n: self._look_back(n, y))
            x = layer.add_norm2(x, lambda y, n=n: self._look_at_source(n, y))
            x = layer.add_norm3(x, layer.feed_forward)
        if self.model.decoder.norm is not None:
            x = self.model.decoder.norm(x)
        logits = self.model.output(x)
        return logits if all_positions else logits[:, -1, :]

    def _look_back(self, n, y):
        """Attend to the target in layer n."""
        attention = self.model.decoder.layers[n].self_attn
        projections = (attention.w_q, attention.w_k, attention.w_v)
        q, k, v = (split_heads(w(y), attention.num_heads) for w in projections)
        if self.past[n] is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.past[n], (k, v), strict=True))
        self.past[n] = (k, v)
        mask = causal_mask(self.length)[-y.shape[1] :]
        return attention.w_o(join_heads(F.scaled_dot_product_attention(q, k, v, mask)))

    def _look_at_source(self, n, y):
        """Attend to the memory in layer n; copy it for every row of a source."""
        attention = self.model.decoder.layers[n].cross_attn
        beams = len(y) // len(self.mask)
        k, v, mask = (x.repeat_interleave(beams, 0) for x in (*self.memory[n], self.mask))
        q = split_heads(attention.w_q(y), attention.num_heads)
        return attention.w_o(join_heads(F.scaled_dot_product_attention(q, k, v, mask)))

    def reorder(self, rows, sources=None):
        """Let row i continue row ``rows[i]``."""
        self.past = [(k[rows], v[rows]) for k, v in self.past]
        if sources is not None:
            self.memory = [[part[sources] for part in pair] for pair in self.memory]
            self.mask = self.mask[sources]

    def truncate(self, length):
        """Forget the last tokens."""
        self.length = length
        self.past = [(k[:, :, :length], v[:, :, :length]) for k, v in self.past]


ANSWERS = {
    "AttentionCache": (CopyingCache,),
    "DecodingEngine": (EngineOfLists,),
}
