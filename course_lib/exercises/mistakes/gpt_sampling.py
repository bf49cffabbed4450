"""What goes wrong in sample."""

from course_lib.exercises.mistake_catalogue import known

write = known("gpt", "sample")

WINDOW = "ids[:, -limit:]"
FITS = "if cache is not None and ids.size(1) <= limit:"
TOKEN = "sample_tokens(logits[:, -1], **how)"
LOOP = "for _ in range(max_new_tokens):"

MISTAKES = (
    write(
        "window_not_cropped",
        "the whole text goes to the model: it reads the last max_len tokens, no more",
        "openai/gpt-2 #137; huggingface/transformers #1749, #530",
        (WINDOW, "ids"),
    ),
    write(
        "first_tokens_read",
        "of a long text the first max_len tokens are read, again and again: the last ones count",
        "student code: ids[:, :max_len]",
        (WINDOW, "ids[:, :limit]"),
    ),
    write(
        "window_one_short",
        "the window is one token short: max_len of them fit",
        "student code: -(max_len - 1)",
        (WINDOW, "ids[:, 1 - limit :]"),
    ),
    write(
        "beginning_lost",
        "the text itself is cropped, and comes back without its beginning: crop what is read only",
        "student code: idx = idx[:, -block_size:]",
        (f"            {FITS}", f"            ids = {WINDOW}\n            {FITS}"),
    ),
    write(
        "stops_at_the_window",
        "writing ends where the window is full: from there on the window moves",
        "openai/gpt-2 #137 asks how to get beyond 1024",
        (LOOP, "for _ in range(min(max_new_tokens, limit - ids.size(1))):"),
    ),
    write(
        "cache_not_dropped",
        "the cache is asked when the window has moved: its positions are others then, drop it",
        "rasbt/LLMs-from-scratch #925, clankur/einygpt #2; asked in zhaorw02/DeepMesh #28",
        (FITS, "if cache is not None:"),
    ),
    write(
        "cache_never_asked",
        "a cache is made and never asked: everything is read again for each token",
        "student code",
        (FITS, "if False:"),
    ),
    write(
        "cached_not_looked_at",
        "use_cache=False is not looked at: the cache reads in any case",
        "student code",
        ("if use_cache else None", ""),
    ),
    write(
        "only_the_new",
        "only what was written comes out: the text stands in front of it",
        "student code: chapter 11's habit",
        ("    return ids", "    return ids[:, ids.size(1) - max_new_tokens :]"),
    ),
    write(
        "length_in_all",
        "max_new_tokens is taken for the length of the whole text: it counts what is new",
        "ai-glimpse/toyllm #107: a loop from the prompt's length to max_new_tokens",
        (LOOP, "while ids.size(1) < max_new_tokens:"),
    ),
    write(
        "one_too_many",
        "one token more is written than was asked for",
        "student code: range(max_new_tokens + 1)",
        ("range(max_new_tokens)", "range(max_new_tokens + 1)"),
    ),
    write(
        "first_place_read",
        "the scores of the first new place are drawn from, not those of the last",
        "student code: logits[:, 0]",
        (TOKEN, TOKEN.replace("-1", "0")),
    ),
    write(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        "student code",
        ("temperature=temperature", "temperature=1 / (temperature or -1)"),
    ),
    write(
        "temperature_not_passed",
        "temperature does not reach the draw",
        "student code",
        ("temperature=temperature, ", ""),
    ),
    write(
        "top_k_not_passed",
        "top_k does not reach the draw",
        "student code",
        ("top_k=top_k, ", ""),
    ),
    write(
        "top_p_not_passed",
        "top_p does not reach the draw",
        "student code",
        ("top_p=top_p, ", ""),
    ),
    write(
        "generator_not_passed",
        "generator does not reach the draw: the text cannot be written again",
        "bytedance/GRN #27",
        (", generator=generator)", ")"),
    ),
    write(
        "cut_off_with_almost_zero",
        "what top_k cuts off gets a score of 1e-10, which is more than many have: -inf is due",
        "karpathy/minGPT #10",
        (
            f"tokens = {TOKEN}",
            "if top_k:\n"
            "                least = logits[:, -1:].topk(min(top_k, V)).values[..., -1:]\n"
            "                logits = logits.masked_fill(logits < least, 1e-10)\n"
            "            rest = how | {'top_k': None} if top_k else how\n"
            "            tokens = sample_tokens(logits[:, -1], **rest)",
        ),
    ),
    write(
        "softmax_over_the_rows",
        "the softmax runs over the rows: the shares of a row's *tokens* add up to 1, dim=-1",
        "student code: softmax(dim=0)",
        (TOKEN, TOKEN.replace("-1]", "-1].log_softmax(dim=0)")),
    ),
    write(
        "likeliest_taken",
        "the likeliest token is taken and nothing is drawn",
        "student code: argmax",
        (TOKEN, "logits[:, -1].argmax(dim=-1)"),
    ),
    write(
        "one_draw_for_all",
        "one draw is made for the first row, and every row gets it",
        "code for one text, used for a batch",
        (TOKEN, f"{TOKEN}[:1].expand(len(ids))"),
    ),
    write(
        "dropout_left_on",
        "the model writes in training mode: eval() is missing",
        "karpathy/ng-video-lecture #16, pytorch/examples #114",
        ("    model.eval()\n", ""),
    ),
    write(
        "left_in_eval_mode",
        "the model is left in eval mode: whoever was training goes on without dropout",
        "shubhamagarwal92/mmd #14; rohitg00/ai-engineering-from-scratch #206",
        ("model.train(was_training)", "pass"),
    ),
    write(
        "always_back_to_training",
        "the model comes back in training mode, whichever it was in",
        "fatchord/WaveRNN #71 asks why",
        ("model.train(was_training)", "model.train()"),
    ),
    write(
        "gradients_kept",
        "the graph of every token is kept: torch.no_grad() is missing",
        "flairNLP/flair #210, karpathy/ng-video-lecture #62",
        ("@torch.no_grad()\n", ""),
    ),
)
