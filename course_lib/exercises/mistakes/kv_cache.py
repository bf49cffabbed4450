"""What goes wrong in chapter 12: queries, and the cache of one layer."""

from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.mistakes.decoder_cache import MISTAKES as WHOLE

ask = known("kv_cache", "attend")
layer = known("kv_cache", "LayerCache")

QUERY = "split_heads(attention.w_q(x), attention.num_heads)"
JOINED = "heads.transpose(-3, -2).flatten(-2)"
GROW = "[F.pad(kept, (0, 0, 0, end)) for kept in self.target]"
BOTH = "zip(self.target, (attention.w_k, attention.w_v), strict=True)"
LOOK = "attend(attention, x, *(kept[:, :, :end] for kept in self.target), mask)"
CAT = (
    "attend(attention, x, *(torch.cat([kept[:, :, :start], kept[:, :, start:end]], DIM) if start "
    "else kept for kept in self.target), mask)"
)
ACROSS = "attend(layer.cross_attn, y, *self.source, cross_mask)"
KEEP_SOURCE = "self.source = [kept[rows] for kept in self.source]"
KEEP_TARGET = "self.target = [kept[rows] for kept in self.target]"

MISTAKES = (
    ask(
        "reads_only_what_is_new",
        "the new vectors ask each other, and nobody asks the keys and values that were kept",
        "huggingface/transformers #42188: a cache that was filled, and not used",
        (f"    return attention.w_o({JOINED})", "    return attention(x, x, x)[0]"),
    ),
    ask(
        "query_not_projected",
        "the queries are x itself, cut into heads: w_q is missing",
        "student code",
        (QUERY, "split_heads(x, attention.num_heads)"),
    ),
    ask(
        "asks_with_w_k",
        "the queries are made by w_k",
        "student code: a line copied once too often",
        ("attention.w_q(x)", "attention.w_k(x)"),
    ),
    ask(
        "heads_not_mixed",
        "the joined heads are returned as they are: w_o is missing",
        "student code",
        (f"attention.w_o({JOINED})", JOINED),
    ),
    ask(
        "heads_joined_without_transpose",
        "the heads are put one below the other (reshape without a transpose) in place of abreast",
        "pytorch forums: view after attention without transpose",
        (JOINED, "heads.reshape(x.size(0), x.size(1), -1)"),
    ),
    ask(
        "mask_ignored",
        "the mask is not handed on",
        "student code",
        ("values, mask)  #", "values)  #"),
    ),
    ask(
        "mask_inverted",
        "the mask is read the other way round: True means may look",
        "torch.nn.MultiheadAttention reads masks that way",
        ("values, mask)  #", "values, None if mask is None else ~mask)  #"),
    ),
    ask(
        "causal_from_the_first_key",
        "is_causal=True stands for the mask: it lets the first new query see the first key alone",
        "pytorch/pytorch #108108, #144858",
        ("values, mask)  #", "values, is_causal=True)  #"),
    ),
    ask(
        "keys_and_values_exchanged",
        "keys and values have changed places",
        "student code",
        ("(q, keys, values", "(q, values, keys"),
    ),
    ask(
        "not_scaled",
        "the scores are not divided by √d_k",
        "student code",
        ("values, mask)  #", "values, mask, scale=1.0)  #"),
    ),
    ask(
        "scaled_by_d_model",
        "the scores are divided by √d_model: √d_k is due",
        "student code",
        ("values, mask)  #", "values, mask, scale=x.size(-1) ** -0.5)  #"),
    ),
    ask(
        "drops_weights",
        "weights are dropped while the model predicts",
        "F.scaled_dot_product_attention drops whenever dropout_p > 0, says its documentation",
        ("values, mask)  #", "values, mask, attention.dropout)  #"),
    ),
    layer(
        "nothing_kept",
        "every step sees its own new words only: nothing is kept from step to step",
        "huggingface/transformers #42188: keys of one word in every step",
        ("*(kept[:, :, :end] for", "*(kept[:, :, start:end] for"),
    ),
    layer(
        "length_not_advanced",
        "the length is not advanced, and each word is written over the one before",
        "student code: self.length += n forgotten",
        ("        self.length = end\n", ""),
    ),
    layer(
        "values_not_kept",
        "only the keys of new words are kept: their values stay zero",
        "student code",
        (BOTH, "zip(self.target[:1], [attention.w_k], strict=True)"),
    ),
    layer(
        "keys_not_kept",
        "only the values of new words are kept: their keys stay zero",
        "student code",
        (BOTH, "zip(self.target[1:], [attention.w_v], strict=True)"),
    ),
    layer(
        "keys_and_values_exchanged",
        "the keys are kept where the values belong, and the values where the keys belong",
        "student code",
        (BOTH, "zip(self.target, (attention.w_v, attention.w_k), strict=True)"),
    ),
    layer(
        "lost_when_it_grows",
        "what was kept is lost where the room is made larger",
        "student code: a new buffer, and nothing copied into it",
        (GROW, "[F.pad(kept * 0, (0, 0, 0, end)) for kept in self.target]"),
    ),
    layer(
        "empty_room_is_read",
        "room that nobody has filled answers, too, with zeros",
        "huggingface/transformers #30414, #45940",
        ("*(kept[:, :, :end] for kept in self.target), mask", "*self.target, mask"),
    ),
    layer(
        "added_along_the_batch",
        "new keys and values are put behind the old ones along the batch (dim=0): the words are "
        "axis 2",
        "deepspeedai/Megatron-DeepSpeed #112",
        (LOOK, CAT.replace("DIM", "0")),
    ),
    layer(
        "added_along_the_heads",
        "new keys and values are put behind the old ones along the heads (dim=1): the words are "
        "axis 2",
        "student code: dim=1, as before the heads were split",
        (LOOK, CAT.replace("DIM", "1")),
    ),
    layer(
        "put_in_front",
        "new keys and values are put before the old ones, and masks meet the wrong words",
        "student code: torch.cat((new, old))",
        (
            "*(kept[:, :, :end] for kept in self.target)",
            "*(torch.cat([kept[:, :, start:end], kept[:, :, :start]], 2) for kept in self.target)",
        ),
    ),
    layer(
        "source_by_self_attention",
        "the source's keys and values are made by the projections of self_attn",
        "student code",
        ("cross = layer.cross_attn", "cross = layer.self_attn"),
    ),
    layer(
        "target_by_cross_attention",
        "the target's keys and values are made by the projections of cross_attn",
        "student code",
        (BOTH, "zip(self.target, (self.layer.cross_attn.w_k, self.layer.cross_attn.w_v))"),
    ),
    layer(
        "cross_reads_the_target",
        "cross-attention asks the target's keys and values: the source is never read",
        "student code: one cache for both attentions",
        (
            ACROSS,
            "attend(layer.cross_attn, y, *(kept[:, :, : self.length] for kept in self.target))",
        ),
    ),
    layer(
        "cross_keys_from_x",
        "the keys and values of cross-attention are made anew from x, not from the memory",
        "student code: the same lines for both attentions",
        (ACROSS, "layer.cross_attn(x, x, x)[0]"),
    ),
    layer(
        "masks_exchanged",
        "the two masks have changed places",
        "student code",
        ("self.attend_cached(y, self_mask)", "self.attend_cached(y, cross_mask)"),
        ("*self.source, cross_mask)", "*self.source, self_mask)"),
    ),
    layer(
        "self_mask_ignored",
        "the mask of self-attention is not handed on",
        "student code",
        ("self.attend_cached(y, self_mask)", "self.attend_cached(y)"),
    ),
    layer(
        "cross_mask_ignored",
        "the mask of cross-attention is not handed on: the source's padding answers",
        "student code",
        ("*self.source, cross_mask)", "*self.source)"),
    ),
    layer(
        "norms_exchanged",
        "the norms of the first two sub-layers have changed places",
        "student code",
        ("layer.add_norm1(x", "layer.add_norm0(x"),
        ("layer.add_norm2(x", "layer.add_norm1(x"),
        ("layer.add_norm0(x", "layer.add_norm2(x"),
    ),
    layer(
        "source_not_read",
        "cross-attention is left out",
        "student code: a decoder-only cache, used for an encoder-decoder",
        (f"        x = layer.add_norm2(x, lambda y: {ACROSS})\n", ""),
    ),
    layer(
        "kept_before_the_norm",
        "in pre-norm the queries are made after the norm, but the keys and values before it",
        "student code: keys and values computed outside of the sub-layer",
        (
            "layer.add_norm1(x, lambda y: self.attend_cached(y, self_mask))",
            "layer.add_norm1(x, lambda y, z=x: self.attend_cached(z, self_mask))",
        ),
    ),
    layer(
        "kept_in_the_layer",
        "what is kept hangs on the layer itself: a second sentence reads it, too",
        "Lightning-AI/litgpt #1647 has to clear such a cache",
        (
            "        self.layer = layer\n",
            "        self.layer = layer\n        self.own = vars(layer)\n",
        ),
        (
            "        attention =",
            '        self.target = self.own.setdefault("kept", self.target)\n        attention =',
        ),
        (
            "        self.length = end\n",
            '        self.length, self.own["kept"] = end, self.target\n',
        ),
        (KEEP_TARGET, 'self.own["kept"] = self.target = [kept[rows] for kept in self.target]'),
    ),
    layer(
        "keep_does_nothing",
        "reorder changes nothing: every row goes on from its own past",
        "huggingface/transformers #46612",
        (KEEP_SOURCE, "pass"),
        (f"        {KEEP_TARGET}\n", ""),
    ),
    layer(
        "keep_forgets_the_target",
        "reorder picks rows of the source only: the target's keys and values stay where they were",
        "student code",
        (f"        {KEEP_TARGET}\n", ""),
    ),
    layer(
        "keep_forgets_the_source",
        "reorder picks rows of the target only: the source's keys and values stay where they were",
        "student code",
        (f"        {KEEP_SOURCE}\n", ""),
    ),
    layer(
        "keep_forgets_values",
        "reorder picks rows of the keys, and leaves the values where they were",
        "student code",
        (KEEP_SOURCE, "self.source = [self.source[0][rows], self.source[1]]"),
        (KEEP_TARGET, "self.target = [self.target[0][rows], self.target[1]]"),
    ),
    layer(
        "keep_picks_words",
        "reorder picks along the words instead of the rows",
        "student code: index_select with the wrong dim",
        ("[kept[rows] for", "[kept[:, :, rows] for"),
    ),
    *WHOLE,
)
