"""What goes wrong in greedy_decode."""

from course_lib.exercises.mistake_catalogue import known

greedy = known("decoding", "greedy_decode")

FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
LIMIT = "limit = max_new_tokens or model.config.max_len"
BUILD = "score = scorer(model, src)"
ROUND = "while tgt.size(1) <= limit and not ended.all():"
CHOOSE = "choose(score(tgt), ended, model.config.pad_id)"
ENDED = "ended = ended | (tokens == eos_id)"
OUT = "return tgt[:, 1:]"

MISTAKES = (
    greedy(
        "starts_with_padding",
        "the target starts with padding instead of bos",
        "T5 does: huggingface/transformers #8161",
        ("(src.size(0), 1), bos_id", "(src.size(0), 1), model.config.pad_id"),
    ),
    greedy(
        "starts_with_eos",
        "the target starts with eos instead of bos",
        "BART does: huggingface/transformers #16583; facebookresearch/metaseq #5",
        ("(src.size(0), 1), bos_id", "(src.size(0), 1), eos_id"),
    ),
    greedy(
        "prompt_returned",
        "bos is returned with the answer: it was read, not written",
        "huggingface/transformers #8161 and #16583 show such outputs",
        (OUT, "return tgt"),
    ),
    greedy(
        "never_stops",
        "eos stops nothing: every row is written on to the limit",
        "Lightning-AI/lit-llama #153, google/gemma_pytorch #57",
        (ROUND, "while tgt.size(1) <= limit:"),
        (ENDED, "pass"),
    ),
    greedy(
        "padding_to_the_limit",
        "the loop goes on when all rows have ended, and fills them with padding to the limit",
        "google/gemma_pytorch #57",
        (ROUND, "while tgt.size(1) <= limit:"),
    ),
    greedy(
        "rows_go_on_after_their_end",
        "a row that has ended writes on while others do: nothing remembers that it is done",
        "mistralai/mistral-inference #270, huggingface/transformers #31261",
        (
            "(score(tgt), ended,",
            "(score(tgt), ended & False,",
        ),
    ),
    greedy(
        "end_forgotten",
        "ended is computed anew in each round: it must stay true once it was",
        "student code: ended = tokens == eos_id",
        (ENDED, "ended = tokens == eos_id"),
    ),
    greedy(
        "stops_with_the_first_end",
        "the loop stops when any row has ended, and the others are cut off",
        "h-transformer-1d #9 and lit-llama #153: code for one sentence, used for a batch",
        ("not ended.all()", "not ended.any()"),
    ),
    greedy(
        "stops_with_the_first_row",
        "the loop stops when the first row of the batch has ended",
        "tokens[0] == eos_id, from code for one sentence",
        ("not ended.all()", "not ended[0]"),
    ),
    greedy(
        "all_must_end_at_once",
        "the loop stops only if all rows write eos in one and the same round",
        "student code: (tokens == eos_id).all()",
        (ROUND, "done = False\n        while tgt.size(1) <= limit and not done:"),
        (ENDED, "ended = ended | (tokens == eos_id)\n            done = (tokens == eos_id).all()"),
    ),
    greedy(
        "end_not_written",
        "eos is left out of the answer: it is a token like any other and belongs to it",
        "genienlp and KoboldAI strip it on purpose: 0cc4m/KoboldAI #62",
        (OUT, "return tgt[:, 1:].masked_fill(tgt[:, 1:] == eos_id, model.config.pad_id)"),
    ),
    greedy(
        "padding_is_zero",
        "the rest of a row that has ended is filled with 0 instead of the model's pad_id",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        (OUT, "return tgt[:, 1:].masked_fill(tgt[:, 1:] == model.config.pad_id, 0)"),
    ),
    greedy(
        "filled_with_eos",
        "the rest of a row that has ended is filled with eos instead of padding",
        "microsoft/onnxruntime-genai #436",
        (OUT, "return tgt[:, 1:].masked_fill(tgt[:, 1:] == model.config.pad_id, eos_id)"),
    ),
    greedy(
        "padding_chosen",
        "padding is written wherever it has the highest score, before the end too",
        "asyml/texar #62",
        (
            CHOOSE,
            "score(tgt)[:, -1].argmax(dim=-1).masked_fill(ended, model.config.pad_id)",
        ),
    ),
    greedy(
        "first_place_read",
        "the scores of the first place are read in every round instead of the last",
        "student code: logits[:, 0]",
        (
            "choose(score(tgt),",
            "choose(score(tgt)[:, :1],",
        ),
        tells=r"(\)|logits|scores|output)\s*\[:,\s*(:1|0)\b",
    ),
    greedy(
        "nothing_read_back",
        "the model is asked after bos alone in every round: it never reads what it wrote",
        "student code",
        ("score(tgt)", "score(tgt[:, :1])"),
    ),
    greedy(
        "only_the_newest_token",
        "the model reads the newest token only: without a cache it has forgotten the rest",
        "code for decoders with a cache, such as mlfoundations/open_lm #74",
        ("score(tgt)", "score(tgt[:, -1:])"),
    ),
    greedy(
        "cache_offset",
        "every token is placed at position 0, as by a cache that forgets its offset",
        "ml-explore/mlx-lm #93, Blaizzy/mlx-vlm #1983",
        (
            f"        {BUILD}",
            f"        places = model.positions.encoding\n        {BUILD}",
        ),
        (
            "tokens = choose(",
            "model.positions.encoding = places[:1].expand_as(places)\n            tokens = choose(",
        ),
        (OUT, f"model.positions.encoding = places\n    {OUT}"),
    ),
    greedy(
        "encodes_the_target",
        "the encoder reads what is written so far in place of the source",
        "student code: model(tgt, tgt)",
        ("score(tgt)", "model(tgt, tgt)"),
    ),
    greedy(
        "source_and_target_swapped",
        "source and target are handed over in the wrong order: model(tgt, src)",
        "student code",
        ("score(tgt)", "model(tgt, src)"),
    ),
    greedy(
        "source_padding_forgotten",
        "the source's padding is read as if it were words: the batch changes the answer",
        "bentrevett/pytorch-seq2seq #189: another batch size, another answer",
        (
            "score(tgt)",
            "model.decode(tgt, model.encode(src), torch.full_like(src, bos_id))",
        ),
    ),
    greedy(
        "limit_one_too_few",
        "the loop ends one token before the limit",
        "student code: < in place of <=",
        ("tgt.size(1) <= limit", "tgt.size(1) < limit"),
    ),
    greedy(
        "limit_one_too_many",
        "one token more than the limit is written: bos is not among those that count",
        "student code",
        ("tgt.size(1) <= limit", "tgt.size(1) <= limit + 1"),
    ),
    greedy(
        "limit_ignored",
        "max_new_tokens is ignored: a row is written on to max_len",
        "student code",
        ("tgt.size(1) <= limit", "tgt.size(1) <= model.config.max_len"),
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
        (f"        {BUILD}\n", ""),
        (FRAME, f"with torch.no_grad():\n        {BUILD}\n    {FRAME}"),
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
        "scorer_ignored",
        "the scorer that was given is not used: Rereader is only what stands there if none is",
        "student code: the default's name in the body",
        (BUILD, "score = Rereader(model, src)"),
    ),
    greedy(
        "scorer_built_in_every_round",
        "a new scorer is built in every round, and the source is encoded again each time",
        "student code: scorer(model, src)(tgt)",
        ("score(tgt)", "scorer(model, src)(tgt)"),
    ),
    greedy(
        "choose_ignored",
        "the choose that was given is not used: argmax_tokens is only what stands there if none is",
        "student code: the default's name in the body",
        ("tokens = choose(", "tokens = argmax_tokens("),
    ),
)
