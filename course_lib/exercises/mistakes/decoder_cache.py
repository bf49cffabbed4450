"""What goes wrong in DecoderCache."""

from course_lib.exercises.mistake_catalogue import known

cache = known("kv_cache", "DecoderCache")

PLACES = "model.positions.encoding[start:T]"
NEW = "tgt[:, start:]"
CAUSAL = "causal_mask(T, tgt.device)[start:]"
LAYERS = "[LayerCache(layer, memory) for layer in model.decoder.layers]"
OUT = "model.output(x if model.decoder.norm is None else model.decoder.norm(x))"
GOES_ON = "B != rows or T <= start"

MISTAKES = (
    cache(
        "offset_forgotten",
        "every new token is placed at position 0: the table is read from its beginning each time",
        "ml-explore/mlx-lm #93, Blaizzy/mlx-vlm #1983",
        (PLACES, "model.positions.encoding[: T - start]"),
    ),
    cache(
        "offset_one_too_large",
        "every token stands one place too far to the right",
        "fla-org/flash-linear-attention #766",
        (PLACES, "model.positions.encoding[start + 1 : T + 1]"),
    ),
    cache(
        "offset_one_too_small",
        "from the second step on every token stands one place too far to the left",
        "student code: start - 1",
        (PLACES, "model.positions.encoding[start - (start > 0) : T - (start > 0)]"),
    ),
    cache(
        "all_at_the_first_new_place",
        "tokens that come together all stand where the first of them stands",
        "student code: encoding[start]",
        (PLACES, "model.positions.encoding[start]"),
    ),
    cache(
        "positions_forgotten",
        "no positions are added",
        "ml-explore/mlx-lm #93: none for a token that comes alone",
        (f"        x = x + {PLACES}  # the first new token does not stand at 0\n", ""),
    ),
    cache(
        "mask_from_the_first_row",
        "the causal mask is not shifted: new tokens get the first rows of it, not the last",
        "hyprstream/hyprstream #1521, pytorch/executorch #21749",
        (CAUSAL, "causal_mask(T, tgt.device)[: T - start]"),
    ),
    cache(
        "mask_of_the_new_tokens_only",
        "the causal mask is as wide as the new tokens only: what was read before needs room in it",
        "rasbt/LLMs-from-scratch #697",
        (CAUSAL, "causal_mask(T - start, tgt.device)"),
    ),
    cache(
        "no_causal_mask",
        "tokens that come together see each other's future: only one alone needs no causal mask",
        "Mikyx-1/TinyLLM #17: no causal mask where there is a cache",
        (f"{CAUSAL} & padding_mask", "padding_mask"),
    ),
    cache(
        "target_padding_seen",
        "the target's padding is read as if it were words",
        "ml-explore/mlx-lm #1906: padding is read in every step",
        (f"{CAUSAL} & padding_mask(tgt, config.pad_id)", CAUSAL),
    ),
    cache(
        "source_padding_seen",
        "the source's padding is read as if it were words",
        "bentrevett/pytorch-seq2seq #189: another batch size, another answer",
        ("padding_mask(src, model.config.pad_id)", "padding_mask(src, -1)"),
    ),
    cache(
        "pad_id_zero",
        "padding is taken for id 0, whatever pad_id says",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        ("model.config.pad_id)", "0)"),
        ("config.pad_id)", "0)"),
    ),
    cache(
        "length_not_advanced",
        "the length is not advanced: what was read is read again, and kept twice",
        "student code",
        ("        self.length = T\n", ""),
    ),
    cache(
        "everything_read_again",
        "each step begins with empty caches and reads all that is written: right, and nothing "
        "saved",
        "student code",
        (
            "start = self.length",
            "start = 0",
        ),
        (
            "        for layer in self.layers:\n            x = layer(",
            "        read, memory = self.length, self.memory\n"
            "        self.layers = [LayerCache(layer, memory) for layer in model.decoder.layers]\n"
            "        for layer in self.layers:\n            x = layer(",
        ),
        ("self.layers = [LayerCache", "self.memory, self.layers = memory, [LayerCache"),
        (OUT, f"{OUT}[:, read:]"),
        (GOES_ON, "B != rows or T <= self.length"),
        (
            "        self.cross_mask = self.cross_mask[rows]\n",
            "        self.cross_mask, self.memory = self.cross_mask[rows], self.memory[rows]\n",
        ),
    ),
    cache(
        "only_the_newest_token",
        "only the last token is read, however many are new",
        "generation loops that feed one token at a time",
        (NEW, "tgt[:, -1:]"),
        (PLACES, "model.positions.encoding[T - 1 : T]"),
        (CAUSAL, "causal_mask(T, tgt.device)[-1:]"),
    ),
    cache(
        "only_the_last_logits",
        "only the logits of the last place are returned: each new token has its own",
        "student code: logits[:, -1:]",
        (f"return {OUT}", f"return {OUT}[:, -1:]"),
    ),
    cache(
        "embeddings_not_scaled",
        "the embeddings are not multiplied by √d_model",
        "student code",
        (" * math.sqrt(config.d_model)", ""),
    ),
    cache(
        "positions_scaled_too",
        "the positions are multiplied by √d_model, too: only the embeddings are",
        "student code",
        (" * math.sqrt(config.d_model)", ""),
        (
            f"x = x + {PLACES}",
            f"x = (x + {PLACES}) * math.sqrt(config.d_model)",
        ),
    ),
    cache(
        "source_embedding",
        "the target is looked up in the source's embedding",
        "student code: one table was enough while both were one",
        ("model.tgt_embedding(", "model.src_embedding("),
    ),
    cache(
        "last_norm_forgotten",
        "the decoder's last norm is left out: pre-norm has one",
        "student code: the layers are called, and not the stack",
        (OUT, "model.output(x)"),
    ),
    cache(
        "one_layer_for_all",
        "one and the same layer is run again and again",
        "student code: layers[0]",
        (LAYERS, "[LayerCache(model.decoder.layers[0], memory) for _ in model.decoder.layers]"),
    ),
    cache(
        "layers_beside_each_other",
        "every layer reads the embeddings: each should read what the one below says",
        "student code",
        (
            "        for layer in self.layers:\n            x = layer(x, *masks)",
            "        below = x\n        for layer in self.layers:\n"
            "            x = layer(below, *masks)",
        ),
    ),
    cache(
        "layers_keep_their_rows",
        "reorder picks rows of the source's mask only, and tells no layer",
        "huggingface/transformers #46612",
        ("            layer.reorder(rows)\n", "            pass\n"),
    ),
    cache(
        "first_layer_alone_keeps",
        "reorder tells the first layer only",
        "student code: a return inside the loop",
        ("            layer.reorder(rows)\n", "            return layer.reorder(rows)\n"),
    ),
    cache(
        "keep_forgets_the_mask",
        "reorder forgets the source's mask: a row gets another sentence's padding",
        "student code",
        ("        self.cross_mask = self.cross_mask[rows]\n", ""),
        (
            "rows = len(self.cross_mask)",
            "rows = len(self.layers[0].source[0])",
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
        "allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
        ("    @torch.no_grad()\n", ""),
    ),
    cache(
        "no_new_token_accepted",
        "a target in which no token is new is accepted",
        "student code",
        (GOES_ON, "B != rows"),
    ),
    cache(
        "nothing_refused",
        "nothing is refused: a target of other rows or other ids goes through",
        "student code",
        ('        check_ids(tgt, config.tgt_vocab_size, config.max_len, "target")\n', ""),
        (f"if {GOES_ON}:", "if False:"),
    ),
)
