"""What goes wrong in GPTCache."""

from course_lib.exercises.mistake_catalogue import known

cache = known("gpt", "GPTCache")

WORDS = "model.embedding(ids[:, start:])"
PLACES = "model.positions.weight[start:T]"
ROOM = "self.kept = self.kept or [x.new_empty(shape) for _ in model.layers]"
LOOK = "partial(self.attend_cached, layer.self_attn, kept)"
PUT = "kept[0, :, :, start:end] = k\n        kept[1, :, :, start:end] = v"
READ = "keys, values = kept[:, :, :, :end]"
MASK = "past = causal_mask(end, x.device)[start:]"
OUT = "model.output(model.norm(x))"
GOES_ON = "T <= start or any(kept.size(1) != B for kept in self.kept)"
EMPTY = ("x.new_empty(shape)", "x.new_zeros(shape)")  # numbers that are the same every time

MISTAKES = (
    cache(
        "offset_forgotten",
        "every new token is placed at position 0: the table is read from its beginning each time",
        "ml-explore/mlx-lm #93: GPT-2 wrote nonsense; OpenNMT/OpenNMT-py #1971",
        (PLACES, "model.positions.weight[: T - start]"),
    ),
    cache(
        "offset_one_too_small",
        "from the second step on every token stands one place too far to the left",
        "student code: start - 1",
        (PLACES, "model.positions.weight[start - (start > 0) : T - (start > 0)]"),
    ),
    cache(
        "offset_of_the_last",
        "tokens that come together all stand where the last of them stands",
        "student code: weight[T - 1], from when one token came at a time",
        (PLACES, "model.positions.weight[T - 1]"),
    ),
    cache(
        "positions_missing",
        "no positions are added",
        "ml-explore/mlx-lm #93: none for a token that comes alone",
        (f" + {PLACES}", ""),
    ),
    cache(
        "mask_from_the_first_row",
        "the causal mask is not shifted: new tokens get the first rows of it, as by is_causal=True",
        "pytorch/pytorch #103082, #144858: a new query that sees the first key alone",
        (MASK, "past = causal_mask(end, x.device)[: end - start]"),
    ),
    cache(
        "mask_of_the_new_tokens_only",
        "the causal mask is as wide as the new tokens only: what was read before needs room in it",
        "rasbt/LLMs-from-scratch #697",
        (MASK, "past = causal_mask(end - start, x.device)"),
    ),
    cache(
        "no_causal_mask",
        "tokens that come together see each other's future: only one alone needs no causal mask",
        "huggingface/transformers #48748: with a cache, another answer than without",
        (MASK, "past = None"),
    ),
    cache(
        "nothing_kept",
        "the new vectors ask each other, and nobody asks what was kept",
        "huggingface/transformers #42188: a cache that was filled, and not used",
        (READ, "keys, values = kept[:, :, :, start:end]"),
        (MASK, "past = causal_mask(end - start, x.device)"),
    ),
    cache(
        "empty_room_is_read",
        "all of the room is asked, also where nobody has put anything yet",
        "huggingface/transformers #30414, #45940",
        EMPTY,
        (READ, "keys, values = kept"),
        (
            MASK,
            "past = F.pad(causal_mask(end, x.device)[start:], (0, kept.size(3) - end), value=True)",
        ),
    ),
    cache(
        "written_over_the_first",
        "new keys and values are put at the beginning of the room, over the first ones",
        "student code: kept[..., :T, :] for [..., start:end, :]",
        EMPTY,
        (PUT, PUT.replace("start:end", ": end - start")),
    ),
    cache(
        "values_not_kept",
        "only the keys are kept: the values of what was read are zero",
        "student code",
        EMPTY,
        (PUT, "kept[0, :, :, start:end] = k"),
    ),
    cache(
        "keys_and_values_exchanged",
        "the keys are kept where the values belong, and the values where the keys belong",
        "student code",
        ("start:end] = k", "start:end] = swapped"),
        ("start:end] = v", "start:end] = k"),
        ("= swapped", "= v"),
    ),
    cache(
        "one_room_for_all_layers",
        "all layers share one room, and write over each other: [room] * N is N times the same",
        "Python's own FAQ: a list multiplied holds one object several times",
        (ROOM, "self.kept = self.kept or [x.new_empty(shape)] * len(model.layers)"),
    ),
    cache(
        "room_of_float32",
        "the room is of float32, whatever the model computes in",
        "karpathy/nanochat #795, TransformerLensOrg/TransformerLens #1260",
        (ROOM, "self.kept = self.kept or [torch.zeros(shape) for _ in model.layers]"),
    ),
    cache(
        "length_not_advanced",
        "the length is not advanced: each step reads everything again, and says it again",
        "student code: self.length += n forgotten",
        ("        self.length = T\n", ""),
    ),
    cache(
        "everything_read_again",
        "each step begins with nothing kept and reads all that is there: right, and nothing saved",
        "student code",
        (f"{WORDS} + {PLACES}", "model.embedding(ids) + model.positions.weight[:T]"),
        ("        x = model", "        self.length = 0\n        x = model"),
        (OUT, f"{OUT}[:, start:]"),
    ),
    cache(
        "only_the_newest_token",
        "only the last token is read, however many are new",
        "generation loops that feed one token at a time",
        EMPTY,
        (WORDS, "model.embedding(ids[:, -1:])"),
        (PLACES, "model.positions.weight[T - 1 : T]"),
    ),
    cache(
        "only_the_last_logits",
        "only the logits of the last place are returned: each new token has its own",
        "student code: logits[:, -1:]",
        (OUT, f"{OUT}[:, -1:]"),
    ),
    cache(
        "last_norm_forgotten",
        "the last norm is left out",
        "student code: the layers are called, and not the model",
        (OUT, "model.output(x)"),
    ),
    cache(
        "vectors_scaled",
        "the vectors are multiplied by √d_model, as chapter 12's: GPT's are not",
        "student code: lines kept from the other cache",
        (WORDS, f"{WORDS} * math.sqrt(c.d_model)"),
    ),
    cache(
        "norm_not_read",
        "queries, keys and values are made of x itself: AddNorm hands on what is normalized",
        "student code: keys and values computed outside of the sub-layer",
        (LOOK, "lambda _: self.attend_cached(layer.self_attn, kept, x)"),
    ),
    cache(
        "kept_in_the_model",
        "what is kept hangs on the model: a second text reads it, too",
        "Lightning-AI/litgpt #1647 has to clear such a cache",
        (
            ROOM,
            'self.kept = vars(model).setdefault("kept", [x.new_empty(shape) for _ in '
            "model.layers])",
        ),
    ),
    cache(
        "training_accepted",
        "a model in training mode is accepted: it drops numbers, and keeps what is left",
        "student code: eval() forgotten",
        ("if model.training:", "if False:"),
    ),
    cache(
        "gradients_kept",
        "the graph of every step is kept: torch.no_grad() is missing",
        "allenai/OLMo #164",
        ("    @torch.no_grad()\n", ""),
    ),
    cache(
        "no_new_token_accepted",
        "a text in which no token is new is accepted",
        "student code",
        (GOES_ON, "any(kept.size(1) != B for kept in self.kept)"),
    ),
    cache(
        "nothing_refused",
        "nothing is refused: a text of other rows or ids goes through, or breaks further down",
        "student code",
        ('        check_ids(ids, c.vocab_size, c.max_len, "input")\n', ""),
        (f"if {GOES_ON}:", "if False:"),
    ),
)
