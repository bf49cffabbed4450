"""What goes wrong in chapter 18."""

from course_lib.exercises.mistake_catalogue import ignored, known

windows = known("decoder_only", "random_windows")
model = known("decoder_only", "DecoderOnly")

STARTS = "torch.randint(len(ids) - length, (batch_size, 1), generator=generator)"
WINDOW = "ids[starts + torch.arange(length + 1)]"
PAIR = "return window[:, :-1], window[:, 1:]"

PAST = "past = causal_mask(ids.size(1), ids.device)"
ROOT = "math.sqrt(self.config.d_model)"
PLACED = "self.positions(vectors)"
STACK = f"self.stack({PLACED}, past)"
OUT = f"return self.output({STACK})"
SIZES = "sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)"
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
    *ignored(windows, ("generator", (", generator=generator)", ")"))),
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
        "causal_one_ahead",
        "the causal mask is off by one: a row sees the next token, its own answer",
        "reported in RVC-Boss/GPT-SoVITS #965",
        (PAST, f"past = {SQUARE}.tril(1)"),
    ),
    model(
        "positions_missing",
        "positions are never added: a layer reads the earlier tokens as a bag, without order",
        "Lightning-AI/pytorch-lightning #20099",
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
        "output_not_tied",
        "the output does not share the embedding's matrix; a copy of its numbers is not sharing",
        "karpathy/nanoGPT #21 ties them later",
        ("        self.output.weight = self.embedding.weight\n", ""),
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
    *ignored(model, ("norm_first", (SIZES, SIZES.replace(", c.norm_first, c.activation", "")))),
)
