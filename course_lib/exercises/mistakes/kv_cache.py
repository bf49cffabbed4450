"""Known mistakes of chapter 13."""

from course_lib.exercises.mistake_catalogue import known

cache = known("kv_cache", "AttentionCache")
engine = known("kv_cache", "DecodingEngine")

STUDENTS = "student code"
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
        STUDENTS,
        (SWAP, "self.keys, self.spare = self.spare[0], (before[0], self.spare[1])"),
    ),
    cache(
        "nothing_reordered",
        "`reorder` changes nothing, so every row continues its old tokens",
        "huggingface/transformers #46612",
        ("if self.keys is None or self.values is None:\n            return", "return"),
    ),
    cache(
        "order_inverted",
        "row i is put in place `rows[i]`, but row i should be taken from place `rows[i]`",
        STUDENTS,
        (PICK, "filled[rows % len(filled)] = old[: len(rows), :, : self.length]"),
        ("x.new_empty(len(rows)", "x.new_zeros(len(rows)"),
    ),
    cache(
        "newest_not_reordered",
        "the newest token is left out when the rows are reordered",
        STUDENTS,
        (PICK, PICK.replace("old[:, :, : self.length]", "old[:, :, : self.length - 1]")
         .replace("filled", "filled[:, :, :-1]")),
        ZEROS,
    ),
    cache(
        "overwritten_from_zero",
        "every call writes from position 0 on, over the tokens that were stored before",
        STUDENTS,
        ("[:, :, start : self.length] = keys", "[:, :, : keys.size(2)] = keys"),
        ("[:, :, start : self.length] = values", "[:, :, : values.size(2)] = values"),
        ZEROS,
    ),
    cache(
        "only_the_new_returned",
        "`append` returns the new keys and values only, so the earlier tokens are lost",
        STUDENTS,
        (RETURN, "return keys, values"),
    ),
    cache(
        "empty_room_returned",
        "`append` returns the empty room after the last token as well",
        STUDENTS,
        (RETURN, "return self.keys, self.values"),
        ZEROS,
    ),
    cache(
        "keys_for_values",
        "`append` returns the keys twice, and the values are lost",
        STUDENTS,
        (RETURN, RETURN.replace("self.values", "self.keys")),
    ),
    cache(
        "newest_first",
        "the new tokens are put in front of the earlier ones",
        STUDENTS,
        (RETURN, "return tuple(torch.cat([x[:, :, start : self.length], x[:, :, :start]], 2) "
         "for x in (self.keys, self.values))"),
    ),
    cache(
        "calls_counted",
        "`length` grows by one in every call, however many tokens are new",
        STUDENTS,
        ("start, self.length = self.length, self.length + keys.size(2)",
         "start, self.length = self.length, self.length + 1\n        keys = keys[:, :, :1]\n"
         "        values = values[:, :, :1]"),
    ),
)  # fmt: skip

DECODING = (
    engine(
        "offset_forgotten",
        "the positions start at 0 in every step, so each new token is placed first",
        "mosaicml/examples #244",
        ("model.positions(vectors, self.length)", "model.positions(vectors)"),
    ),
    engine(
        "offset_too_large",
        "the positions start one too late: the first new token has position `length`",
        STUDENTS,
        ("model.positions(vectors, self.length)", "model.positions(vectors, self.length + 1)"),
    ),
    engine(
        "scale_missing",
        "the embeddings are not multiplied by √d_model",
        STUDENTS,
        (" * math.sqrt(c.d_model)", ""),
    ),
    engine(
        "mask_forgotten",
        "several new tokens come without a causal mask, so they see the tokens after them",
        "mlx-node/mlx-node #24",
        *other_layer("Unmasked", attending("None")),
    ),
    engine(
        "first_rows_of_the_mask",
        "T new tokens get the first T rows of the causal mask instead of the last T, so they do "
        "not see the earlier tokens",
        "pytorch/pytorch #108108 and #144858: is_causal with more keys than queries",
        *other_layer("TopLeft", attending("causal_mask(n)[:T]")),
    ),
    engine(
        "mask_for_the_new_only",
        "the mask is built for the new tokens only and hides all earlier ones",
        STUDENTS,
        *other_layer("NewOnly", attending("F.pad(causal_mask(T), (n - T, 0), value=False)")),
    ),
    engine(
        "source_padding_forgotten",
        "cross-attention reads the source's padding: the cross mask is missing",
        STUDENTS,
        (STEP, "x = layer.step(x, None)"),
    ),
    engine(
        "memory_of_another_row",
        "row i reads source i % B, but neighboring rows share a source",
        "student code: repeat in place of repeat_interleave",
        (STEP, "n, K = len(layer.keys), len(x) // len(layer.keys)\n            x = layer.step("
         "x.unflatten(0, (K, n)).transpose(0, 1).flatten(0, 1), self.cross_mask)\n            "
         "x = x.unflatten(0, (n, K)).transpose(0, 1).flatten(0, 1)"),
    ),
    engine(
        "first_position_returned",
        "the logits of the first new position are returned instead of the last one's",
        STUDENTS,
        ("x[:, -1]", "x[:, 0]"),
    ),
    engine(
        "only_the_last_position",
        "`all_positions` is ignored: the logits of the last position are returned in any case",
        STUDENTS,
        ("x if all_positions else x[:, -1]", "x[:, -1]"),
    ),
    engine(
        "norm_forgotten",
        "the decoder's last norm is left out: a pre-norm model has one",
        STUDENTS,
        ("model.output(x if model.decoder.norm is None else model.decoder.norm(x))",
         "model.output(x)"),
    ),
    engine(
        "sources_stay",
        "`reorder` ignores `sources`, so a row goes on with another sentence's source",
        STUDENTS,
        ("if sources is not None:", "if False:"),
    ),
    engine(
        "targets_stay",
        "`reorder` reorders the sources but not the keys and values of the target",
        STUDENTS,
        ("super().reorder(rows)", "pass"),
    ),
    engine(
        "everything_recomputed",
        "the logits are right, but every step computes all earlier tokens again",
        "student code: the prefix is kept in place of its keys and values",
        ("vectors = model", "T, seen = ids.size(1), getattr(self, \"seen\", ids[:, :0])\n        "
         "ids = self.seen = torch.cat([seen[:, : self.length], ids], dim=1)\n        "
         "self.truncate(0)\n        vectors = model"),
        ("x if all_positions else x[:, -1]", "x[:, -T:] if all_positions else x[:, -1]"),
        ("super().reorder(rows)", "super().reorder(rows)\n        self.seen = self.seen[rows]"),
    ),
    engine(
        "gradients_recorded",
        "`torch.no_grad` is missing, so every step keeps a graph for a backward pass",
        "allenai/OLMo #164",
        ("@torch.no_grad()\n    def step", "def step"),
    ),
)  # fmt: skip

MISTAKES = (*CACHING, *DECODING)
