"""What goes wrong where windows are drawn."""

from course_lib.exercises.mistake_catalogue import known

windows = known("decoder_only", "random_windows")

STARTS = "torch.randint(len(ids) - length, (batch_size, 1), generator=generator)"
WINDOW = "ids[starts + torch.arange(length + 1)]"
PAIR = "return window[:, :-1], window[:, 1:]"
GUARD = "if min(batch_size, length) < 1 or len(ids) <= length:"

MISTAKES = (
    windows(
        "targets_not_shifted",
        "what is to be predicted is what is read: move it on by one token",
        "songlab-cal/tape #32 asks; a model that copies has zero loss at once",
        (PAIR, "return window[:, :-1], window[:, :-1]"),
    ),
    windows(
        "shifted_by_two",
        "what is to be predicted stands two tokens further on: one is due",
        "huggingface/transformers #47394: shifted here, and once more in the loss",
        ("ids[starts + torch.arange(length + 1)]", "ids[starts + torch.arange(length + 2)]"),
        ("len(ids) - length,", "len(ids) - length - 1,"),
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
        "what is to be predicted is the window that follows: the next *token* is due, at each "
        "place",
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
        "first_window_never_drawn",
        "the first window is never drawn: the text begins at place 0",
        "student code: torch.randint(1, …)",
        ("torch.randint(len(ids)", "torch.randint(1, len(ids)"),
    ),
    windows(
        "past_the_end",
        "some windows begin so late that they do not fit: length + 1 tokens are needed",
        "spro/char-rnn.pytorch #7",
        ("len(ids) - length,", "len(ids) - length + 1,"),
    ),
    windows(
        "end_drawn_too_often",
        "windows that begin too late are moved back, and the last one is drawn too often",
        "student code: min(start, len(ids) - length - 1)",
        (STARTS, f"{STARTS.replace(' - length', '')}.clamp(max=len(ids) - length - 1)"),
    ),
    windows(
        "goes_on_at_the_beginning",
        "a window that meets the end goes on at the beginning of the text, which does not follow",
        "numpy.take with mode='wrap'",
        (STARTS, STARTS.replace(" - length", "")),
        (WINDOW, "ids[(starts + torch.arange(length + 1)) % len(ids)]"),
    ),
    windows(
        "side_by_side",
        "windows begin at multiples of length only: they may begin anywhere",
        "ShusenTang/Dive-into-DL-PyTorch #160 asks why so few are drawn",
        (STARTS, f"length * {STARTS.replace('len(ids) - length', '(len(ids) - 1) // length')}"),
    ),
    windows(
        "one_place_for_all",
        "all windows begin at one place: each row needs a place of its own",
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
        "places_in_place_of_tokens",
        "places come out: they are an index, and ids[…] holds the tokens",
        "student code",
        (WINDOW, "starts + torch.arange(length + 1)"),
    ),
    windows(
        "time_before_batch",
        "the windows stand in columns: a row for each window is due, (B, T)",
        "nn.RNN and PyTorch's word language model, whose batches are (T, B)",
        (PAIR, "return window[:, :-1].T, window[:, 1:].T"),
    ),
    windows(
        "generator_ignored",
        "generator is not handed to randint: the windows cannot be drawn again",
        "student code",
        (", generator=generator)", ")"),
    ),
    windows(
        "seeded_inside",
        "a seed is set inside: every call draws the same windows",
        "student code: manual_seed(0) in the function, for repeatable results",
        ("    starts = ", "    generator = torch.Generator().manual_seed(0)\n    starts = "),
    ),
    windows(
        "nothing_refused",
        "sizes and lengths are not looked at: a batch of no windows goes through",
        "student code",
        (GUARD, "if False:"),
    ),
)
