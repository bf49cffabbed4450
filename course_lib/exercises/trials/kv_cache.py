"""The checks of chapter 13: a cache for one attention, and an engine for the whole decoder."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import D_K, D_V, B, H, Trial, answer_to, filled, looks, normal
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
    ),
)
