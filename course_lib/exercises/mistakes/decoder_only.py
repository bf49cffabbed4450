"""What goes wrong in chapter 17."""

from course_lib.exercises.mistake_catalogue import ignored, known

windows = known("decoder_only", "random_windows")
model = known("decoder_only", "DecoderOnly")

STARTS = "torch.randint(len(ids) - length, (batch_size, 1), generator=generator)"
WINDOW = "ids[starts + torch.arange(length + 1)]"
PAIR = "return window[:, :-1], window[:, 1:]"
TOO_SHORT = "if min(batch_size, length) < 1 or len(ids) <= length:"
REFUSAL = 'raise ValueError(f"no {batch_size} windows of {length} + 1 tokens in {len(ids)}")'

PAST = "past = causal_mask(ids.size(1), ids.device)"
ROOT = "math.sqrt(self.config.d_model)"
PLACED = "self.positions(vectors)"
STACK = f"self.stack({PLACED}, past)"
OUT = f"return self.output({STACK})"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"
CHECK = 'check_ids(ids, self.config.tgt_vocab_size, self.config.max_len, "input")'
SQUARE = "torch.ones(ids.size(1), ids.size(1), dtype=torch.bool)"

MISTAKES = (
    windows(
        "targets_not_shifted",
        "what is to be predicted is what is read: move it on by one token",
        "songlab-cal/tape #32 asks; a model that copies has zero loss at once",
        (PAIR, "return window[:, :-1], window[:, :-1]"),
    ),
    windows(
        "shifted_by_two",
        "the targets stand two tokens further on: one is right",
        "huggingface/transformers #47394: shifted here, and once more in the loss",
        (WINDOW, "ids[starts + torch.arange(length + 2)]"),
        ("len(ids) - length,", "max(1, len(ids) - length - 1),"),
        (PAIR, "return window[:, :-2], window[:, 2:]"),
    ),
    windows(
        "shifted_the_wrong_way",
        "the two have changed places: the later tokens are read, the earlier ones predicted",
        "student code: y, x = …",
        (PAIR, "return window[:, 1:], window[:, :-1]"),
    ),
    windows(
        "next_window_predicted",
        "the targets are the window that follows: at each position the next *token* is to be "
        "predicted",
        "pytorch/text #207 shows such targets",
        (WINDOW, "ids[starts + torch.arange(2 * length)]"),
        ("len(ids) - length,", "max(1, len(ids) + 1 - 2 * length),"),
        (PAIR, "return window[:, :length], window[:, length:]"),
    ),
    windows(
        "last_window_never_drawn",
        "the last window that fits is never drawn: randint leaves its upper end out already",
        "karpathy/ng-video-lecture #56 proposes it; karpathy/minGPT #31 takes it back",
        ("len(ids) - length,", "len(ids) - length - 1,"),
    ),
    windows(
        "past_the_end",
        "some windows start so late that they do not fit: length + 1 tokens are needed",
        "spro/char-rnn.pytorch #7",
        ("len(ids) - length,", "len(ids) - length + 1,"),
    ),
    windows(
        "side_by_side",
        "windows start at multiples of length only: they may start anywhere",
        "ShusenTang/Dive-into-DL-PyTorch #160 asks why so few are drawn",
        (STARTS, f"length * {STARTS.replace('len(ids) - length', '(len(ids) - 1) // length')}"),
    ),
    windows(
        "one_start_for_all",
        "all windows start at one position: each row needs a start of its own",
        "student code: one start = randint(…) for the whole batch",
        ("(batch_size, 1)", "(1, 1)"),
        (PAIR, "window = window.expand(batch_size, -1)\n    " + PAIR),
    ),
    windows(
        "one_token_short",
        "a window has length tokens, and one is lost where it is shifted: take length + 1",
        "student code: ids[start : start + length] for both",
        ("torch.arange(length + 1)", "torch.arange(length)"),
    ),
    windows(
        "time_before_batch",
        "the windows stand in columns: a row for each window is asked for, (B, T)",
        "nn.RNN and PyTorch's word language model, whose batches are (T, B)",
        (PAIR, "return window[:, :-1].T, window[:, 1:].T"),
    ),
    *ignored(windows, ("generator", (", generator=generator)", ")"))),
    windows(
        "seeded_inside",
        "a seed is set inside: every call draws the same windows",
        "student code: manual_seed(0) in the function, for repeatable results",
        ("    starts = ", "    generator = torch.Generator().manual_seed(0)\n    starts = "),
    ),
    windows(
        "nothing_refused",
        "sizes and lengths are not checked: a batch of no windows goes through",
        "nanoGPT's get_batch checks nothing",
        (TOO_SHORT, "if False:"),
    ),
    windows(
        "asserted",
        "bad sizes stop at an `assert`: a ValueError is asked for, as asserts are skipped under "
        "`python -O`",
        "the habit of minGPT and nanoGPT",
        (
            f"    {TOO_SHORT}\n        {REFUSAL}",
            "    assert min(batch_size, length) > 0 and len(ids) > length",
        ),
    ),
    model(
        "future_seen",
        "no causal mask is handed on: every row sees the token that it should predict",
        "keras-team/keras #23038; huggingface/transformers #48745",
        (STACK, f"self.stack({PLACED})"),
    ),
    model(
        "future_seen_in_eval",
        "the causal mask is used in training only",
        "facebookresearch/fairmotion #56 moves the mask under `if self.training`",
        (STACK, f"self.stack({PLACED}, past if self.training else None)"),
    ),
    model(
        "future_seen_in_training",
        "the causal mask is used in eval mode only: in training each row sees its answer",
        "student code: a mask that was added for sampling",
        (STACK, f"self.stack({PLACED}, None if self.training else past)"),
    ),
    model(
        "sees_only_itself",
        "a row sees its own token and nothing else: of the triangle only the diagonal is left",
        "student code: tril and triu, one after the other",
        (PAST, f"{PAST}.triu()"),
    ),
    model(
        "causal_transposed",
        "the causal mask is transposed: a row sees itself and what comes later",
        "student code: triu for tril",
        (PAST, f"{PAST}.T"),
    ),
    model(
        "causal_inverted",
        "the causal mask is inverted, as torch.nn wants it: True as blocked",
        "ports from nn.TransformerEncoder, whose True means blocked",
        (PAST, "past = ~causal_mask(ids.size(1), ids.device)"),
    ),
    model(
        "causal_one_ahead",
        "the causal mask is off by one: a row sees the next token, its own answer",
        "reported in RVC-Boss/GPT-SoVITS #965",
        (PAST, f"past = {SQUARE}.tril(1)"),
    ),
    model(
        "padding_hidden",
        "tokens equal to pad_id are hidden: here all ids are text, and there is no padding",
        "student code: a mask kept from the translator",
        (PAST, f"{PAST} & (ids != self.config.pad_id)[:, None, None]"),
    ),
    model(
        "positions_missing",
        "positions are never added: a layer reads the earlier tokens as a bag, without order",
        "Lightning-AI/pytorch-lightning #20099",
        (PLACED, "vectors"),
    ),
    model(
        "positions_before_scaling",
        "the positions are added before the multiplication by √d_model, and grow with the tokens",
        "student code: the two lines in the other order",
        (f"self.embedding(ids) * {ROOT}", f"self.positions(self.embedding(ids)) * {ROOT}"),
        (PLACED, "vectors"),
    ),
    *ignored(
        model,
        (
            "learned_positions",
            (
                "LearnedPositionalEmbedding if learned_positions else PositionalEncoding",
                "PositionalEncoding",
            ),
        ),
    ),
    model(
        "scale_missing",
        "the vectors are not multiplied by √d_model",
        "asked about again and again: pytorch/examples #854, OpenNMT/OpenNMT-py #1328",
        (f" * {ROOT}", ""),
    ),
    model(
        "scale_without_root",
        "the vectors are multiplied by d_model, not by its root",
        "student code: sqrt forgotten",
        (ROOT, "self.config.d_model"),
    ),
    model(
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        "karpathy/nanoGPT #21 ties them later",
        ("        self.output.weight = self.embedding.weight\n", ""),
    ),
    model(
        "output_bias",
        "the output adds a bias",
        "nn.Linear's default, in student code",
        (", bias=False", ""),
    ),
    model(
        "softmax_inside",
        "a softmax stands at the end of the model, and the loss will take a second one",
        "bkitano/llama-from-scratch #5",
        (OUT, f"{OUT}.softmax(dim=-1)"),
    ),
    model(
        "initialize_missing",
        "the matrices start as torch leaves them: embeddings far too large, at N(0, 1)",
        "student code: the last line forgotten",
        ("\n        initialize(self)\n", "\n"),
    ),
    model(
        "encoders_depth",
        "the stack is as deep as the config's encoder: num_decoder_layers counts",
        "student code: an Encoder, so num_encoder_layers",
        ("c.num_decoder_layers", "c.num_encoder_layers"),
    ),
    *ignored(
        model,
        ("norm_first", (SIZES, SIZES.replace(", c.norm_first, c.activation", ""))),
        ("d_k", (", d_k=c.d_k, d_v=c.d_v", "")),
    ),
    model(
        "dropout_of_embeddings_missing",
        "dropout does not reach the embeddings with their positions",
        "student code: an argument with a default, not given",
        ("c.max_len, c.dropout)", "c.max_len)"),
    ),
    model(
        "ids_not_checked",
        "the ids are not checked: torch's own error comes, from further down, or none",
        "student code: a model without input checks",
        (CHECK, "pass"),
    ),
)
