"""What goes wrong in greedy_decode."""

from course_lib.exercises.mistake_catalogue import known

greedy = known("decoding", "greedy_decode")

FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
LIMIT = "limit = max_new_tokens or model.config.max_len"
ENCODE = "memory = model.encode(src)  # (B, S, d_model)"
TABLE = "(len(src), limit + 1), model.config.pad_id"
BOS = "tgt[:, 0] = bos_id"
ROUND = "while T <= limit and len(rows):"
READ = "next_logits(model, tgt[rows, :T], memory, src, cache)"
AGAIN = "model.decode(tgt[rows, :T], memory, src)[:, -1]"
GOING = "going = (tokens != eos_id).nonzero().squeeze(1)"
OUT = "return tgt[:, 1:T]"
FORGET = "model.positions.encoding = places[:1].expand_as(places)"
ENDED = "ended = torch.zeros(len(src)) > 0"

MISTAKES = (
    greedy(
        "starts_with_padding",
        "the target starts with padding instead of bos",
        "T5 does: huggingface/transformers #8161",
        (BOS, BOS.replace("bos_id", "model.config.pad_id")),
    ),
    greedy(
        "starts_with_eos",
        "the target starts with eos instead of bos",
        "BART does: huggingface/transformers #16583; facebookresearch/metaseq #5",
        (BOS, BOS.replace("bos_id", "eos_id")),
    ),
    greedy(
        "prompt_returned",
        "bos is returned with the answer: it was read, not written",
        "huggingface/transformers #8161 and #16583 show such outputs",
        (OUT, "return tgt[:, :T]"),
    ),
    greedy(
        "never_stops",
        "eos stops nothing: every row is written on to the limit",
        "Lightning-AI/lit-llama #153, google/gemma_pytorch #57",
        (GOING, "going = torch.arange(len(rows))"),
    ),
    greedy(
        "padding_to_the_limit",
        "the loop goes on when all rows have ended, and fills them with padding to the limit",
        "google/gemma_pytorch #57",
        (OUT, "return tgt[:, 1:]"),
    ),
    greedy(
        "rows_go_on_after_their_end",
        "a row that has ended writes on while others do: nothing remembers that it is done",
        "mistralai/mistral-inference #270, huggingface/transformers #31261",
        ("T = 1\n", f"T = 1\n        {ENDED}\n"),
        (ROUND, "while T <= limit and not ended.all():"),
        (GOING, "ended, going = ended | (tokens == eos_id), rows"),
    ),
    greedy(
        "end_forgotten",
        "ended is computed anew in each round: it must stay true once it was",
        "student code: ended = tokens == eos_id",
        ("T = 1\n", f"T = 1\n        {ENDED}\n"),
        (ROUND, "while T <= limit and not ended.all():"),
        ("tgt[rows, T] = tokens", "tgt[:, T] = tokens.masked_fill(ended, model.config.pad_id)"),
        (GOING, "ended, going = tgt[:, T - 1] == eos_id, rows"),
    ),
    greedy(
        "stops_with_the_first_end",
        "the loop stops when any row has ended, and the others are cut off",
        "h-transformer-1d #9 and lit-llama #153: code for one sentence, used for a batch",
        ("and len(rows)", "and len(rows) == len(tgt)"),
    ),
    greedy(
        "stops_with_the_first_row",
        "the loop stops when the first row of the batch has ended",
        "tokens[0] == eos_id, from code for one sentence",
        ("and len(rows)", "and 0 in rows"),
    ),
    greedy(
        "end_not_written",
        "eos is left out of the answer: it is a token like any other and belongs to it",
        "genienlp and KoboldAI strip it on purpose: 0cc4m/KoboldAI #62",
        (OUT, f"{OUT}.masked_fill(tgt[:, 1:T] == eos_id, model.config.pad_id)"),
    ),
    greedy(
        "padding_is_zero",
        "the rest of a row that has ended is filled with 0 instead of the model's pad_id",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        (TABLE, TABLE.replace("model.config.pad_id", "0")),
    ),
    greedy(
        "filled_with_eos",
        "the rest of a row that has ended is filled with eos instead of padding",
        "microsoft/onnxruntime-genai #436",
        (TABLE, TABLE.replace("model.config.pad_id", "eos_id")),
    ),
    greedy(
        "padding_chosen",
        "padding is written wherever it has the highest score, before the end too",
        "asyml/texar #62",
        ('            logits[:, model.config.pad_id] = float("-inf")  # never written\n', ""),
    ),
    greedy(
        "first_place_read",
        "the scores of the first position are read in every round instead of the last",
        "student code: logits[:, 0]",
        (READ, AGAIN.replace("[:, -1]", "[:, 0]")),
        tells=r"(\)|logits|scores|output)\s*\[:,\s*(:1|0)\b",
    ),
    greedy(
        "nothing_read_back",
        "the model is asked after bos alone in every round: it never reads what it wrote",
        "student code",
        (READ, AGAIN.replace(":T", ":1")),
    ),
    greedy(
        "only_the_newest_token",
        "the model reads the newest token only: without a cache it has forgotten the rest",
        "code for decoders with a cache, such as mlfoundations/open_lm #74",
        (READ, AGAIN.replace(":T", "T - 1 : T")),
    ),
    greedy(
        "cache_offset",
        "every token is placed at position 0, as by a cache that forgets its offset",
        "ml-explore/mlx-lm #93, Blaizzy/mlx-vlm #1983",
        (ENCODE, f"places = model.positions.encoding\n        {ENCODE}"),
        (
            READ,
            f"None\n            {FORGET}\n            logits = {AGAIN}",
        ),
        (OUT, f"model.positions.encoding = places\n    {OUT}"),
    ),
    greedy(
        "encodes_the_target",
        "the encoder reads what is written so far in place of the source",
        "student code: model(tgt, tgt)",
        (READ, "model(tgt[rows, :T], tgt[rows, :T])[:, -1]"),
    ),
    greedy(
        "source_and_target_swapped",
        "source and target are handed over in the wrong order: model(tgt, src)",
        "student code",
        (READ, "model(tgt[rows, :T], src)[:, -1]"),
    ),
    greedy(
        "source_padding_forgotten",
        "the source's padding is read as if it were words: the batch changes the answer",
        "bentrevett/pytorch-seq2seq #189: another batch size, another answer",
        (READ, AGAIN.replace("src)", "torch.full_like(src, bos_id))")),
    ),
    greedy(
        "limit_one_too_few",
        "the loop ends one token before the limit",
        "student code: < in place of <=",
        ("T <= limit", "T < limit"),
    ),
    greedy(
        "limit_one_too_many",
        "one token more than the limit is written: bos is not among those that count",
        "student code",
        ("T <= limit", "T <= limit + 1"),
        (TABLE, TABLE.replace("1", "2")),
        (READ, AGAIN),
    ),
    greedy(
        "limit_ignored",
        "max_new_tokens is ignored: a row is written on to max_len",
        "student code",
        ("T <= limit", "T <= model.config.max_len"),
        (TABLE, TABLE.replace("limit", "model.config.max_len")),
        (READ, AGAIN),
    ),
    greedy(
        "limit_of_the_source",
        "without max_new_tokens the limit is the length of the source",
        "student code: for _ in range(src.size(1))",
        (FRAME, FRAME.replace("max_new_tokens)", "max_new_tokens or src.size(1))")),
    ),
    greedy(
        "eval_missing",
        "model.eval() is missing: dropout drops while the model writes",
        "d2l-ai/d2l-en #1528, wenjtop/transformer #3, karpathy/nanoGPT #749",
        (FRAME, f"{LIMIT}\n    with torch.no_grad():"),
    ),
    greedy(
        "eval_after_the_encoder",
        "model.eval() comes after the encoder has read the source with dropout",
        "student code",
        (f"        {ENCODE}\n", ""),
        (FRAME, f"with torch.no_grad():\n        {ENCODE}\n    {FRAME}"),
    ),
    greedy(
        "left_in_eval_mode",
        "the model is left in eval mode: a training that goes on then learns without dropout",
        "shubhamagarwal92/mmd #14, tk-rusch/coRNN #1",
        (OUT, f"model.eval()\n    {OUT}"),
    ),
    greedy(
        "left_in_training_mode",
        "the model is always left in training mode, also where it came in eval mode",
        "IBM/pytorch-seq2seq #38",
        (OUT, f"model.train()\n    {OUT}"),
    ),
    greedy(
        "gradients_kept",
        "the graph of every round is kept: torch.no_grad() is missing",
        "allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
        (FRAME, FRAME.replace("limit:", "limit, torch.enable_grad():")),
    ),
    greedy(
        "gradients_stay_off",
        "gradients are turned off and not on again: nothing learns afterwards",
        "torch.set_grad_enabled(False) in a notebook",
        (OUT, f"torch.set_grad_enabled(False)\n    {OUT}"),
    ),
    greedy(
        "choose_ignored",
        "the choose that was given is not used: argmax_tokens is only what stands there if none is",
        "student code: the default's name in the body",
        ("tokens = choose(", "tokens = argmax_tokens("),
    ),
)
