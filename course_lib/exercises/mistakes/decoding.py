"""What goes wrong in chapter 12."""

from course_lib.exercises.mistake_catalogue import ignored, known

greedy = known("decoding", "greedy_decode")
sample = known("decoding", "sample_tokens")

FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
LIMIT = "limit = max_new_tokens or model.config.max_len"
TABLE = "(len(src), limit), model.config.pad_id"
BOS = "tokens = torch.full_like(rows, bos_id)"
READ = "engine.step(tokens.unsqueeze(1))"
PREFIX = "F.pad(written[rows, :position], (1, 0), value=bos_id)"
AGAIN = f"model.decode({PREFIX}, model.encode(src)[rows], src[rows])[:, -1]"
UNFINISHED = "unfinished = (tokens != eos_id).nonzero().squeeze(1)"
LEAVE = "if len(unfinished) < len(rows):"
OUT = "return written[:, : position + 1]"
LAST = "\n    return written\n"
ENDED = "ended = torch.zeros(len(src)) > 0"

DIVIDED = "logits.float() / temperature"
PROBS = "scores.softmax(dim=-1)"
KEPT = "before < p * probs.sum(dim=-1, keepdim=True)"
TOP = "probs.topk(k)"

WRITING = (
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
        (OUT, "return F.pad(written[:, : position + 1], (1, 0), value=bos_id)"),
        (LAST, "\n    return F.pad(written, (1, 0), value=bos_id)\n"),
    ),
    greedy(
        "never_stops",
        "eos ends no row: whoever has ended is written on, to the limit",
        "Lightning-AI/lit-llama #153, google/gemma_pytorch #57",
        (UNFINISHED, "unfinished = torch.arange(len(rows))"),
    ),
    greedy(
        "padding_to_the_limit",
        "the loop goes on when all rows have ended, and fills them with padding to the limit",
        "google/gemma_pytorch #57",
        (OUT, "return written"),
    ),
    greedy(
        "rows_go_on_after_their_end",
        "a row that has ended writes on while others do: nothing remembers that it is done",
        "mistralai/mistral-inference #270, huggingface/transformers #31261",
        (BOS, f"{BOS}\n        {ENDED}"),
        (
            UNFINISHED,
            "ended = ended | (tokens == eos_id)\n            "
            "unfinished = (~ended).nonzero().squeeze(1)",
        ),
        (LEAVE, "if False:"),
    ),
    greedy(
        "stops_with_the_first_end",
        "the loop stops when any row has ended, and the others are cut off",
        "h-transformer-1d #9 and lit-llama #153: code for one sentence, used for a batch",
        ("if len(unfinished) == 0:", f"{LEAVE}"),
    ),
    greedy(
        "end_not_written",
        "eos is left out of the answer: it is a token like any other and belongs to it",
        "genienlp and KoboldAI strip it on purpose: 0cc4m/KoboldAI #62",
        (OUT, "return written.where(written != eos_id, model.config.pad_id)[:, : position + 1]"),
        (LAST, "\n    return written.where(written != eos_id, model.config.pad_id)\n"),
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
        "padding is written wherever it has the highest score, before the end too (masked_fill "
        "returns a new tensor: was it kept?)",
        "asyml/texar #62",
        ('logits[:, model.config.pad_id] = float("-inf")', "pass"),
    ),
    greedy(
        "only_the_newest_token",
        "the model reads the newest token only: without a cache it has forgotten the rest",
        "code for decoders with a cache, such as mlfoundations/open_lm #74",
        (READ, AGAIN.replace(PREFIX, "tokens.unsqueeze(1)")),
    ),
    greedy(
        "source_padding_forgotten",
        "the source's padding is read as if it were words: the batch changes the answer",
        "bentrevett/pytorch-seq2seq #189: another batch size, another answer",
        (READ, AGAIN.replace("src[rows])", "torch.full_like(src[rows], bos_id))")),
    ),
    greedy(
        "eval_missing",
        "model.eval() is missing: dropout drops while the model writes",
        "d2l-ai/d2l-en #1528, wenjtop/transformer #3, karpathy/nanoGPT #749",
        (FRAME, f"{LIMIT}\n    with torch.no_grad():"),
    ),
    greedy(
        "left_in_eval_mode",
        "the model is left in eval mode: a training that goes on then learns without dropout",
        "shubhamagarwal92/mmd #14, tk-rusch/coRNN #1",
        (FRAME, f"{LIMIT}\n    model.eval()\n    with torch.no_grad():"),
    ),
    greedy(
        "gradients_kept",
        "the graph of every round is kept: torch.no_grad() is missing",
        "allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
        (FRAME, FRAME.replace("limit:", "limit, torch.enable_grad():")),
    ),
    *ignored(
        greedy,
        (
            "max_new_tokens",
            ("    with generation_mode(", "    max_new_tokens = None\n    with generation_mode("),
        ),
    ),
)

DRAWING = (
    sample(
        "likeliest_taken",
        "the likeliest token is taken and nothing is drawn",
        "argmax in place of a draw",
        ("torch.multinomial(probs, 1, generator=generator)", "probs.argmax(-1, keepdim=True)"),
        ("torch.multinomial(nucleus, 1, generator=generator)", "nucleus.argmax(-1, keepdim=True)"),
    ),
    sample(
        "temperature_multiplied",
        "the logits are multiplied by the temperature: dividing makes it colder below 1",
        "the sign of the exponent, or of the division, turned round",
        (DIVIDED, "logits.float() * temperature"),
    ),
    sample(
        "temperature_after_the_softmax",
        "the probabilities are divided by the temperature: the logits are, before the softmax",
        "softmax(logits) / temperature",
        (DIVIDED, "logits.float()"),
        (PROBS, "scores.softmax(dim=-1) / temperature"),
    ),
    sample(
        "top_k_one_too_many",
        "top_k keeps one token more than k",
        "logits < logits_sorted[k]",
        (TOP, "probs.topk(min(k + 1, logits.size(-1)))"),
    ),
    sample(
        "top_p_drops_the_crossing",
        "top_p drops the token that crosses p, and what is left does not reach it",
        "cumsum > p is removed, without the shift by one",
        (KEPT, "(before + probs <= p * probs.sum(dim=-1, keepdim=True)) | (before == 0)"),
    ),
    sample(
        "shares_not_renewed",
        "top_p looks at the shares among all tokens: after top_k those that are left have all",
        "one softmax at the start for both",
        (KEPT, "before < p"),
    ),
    sample(
        "scores_not_checked",
        "logits without a finite entry reach the softmax, which turns them into nan",
        "ProjectD-AI/llama_inference #11, JIA-Lab-research/MGM #87",
        ("    check_scores(scores, temperature)\n", ""),
    ),
    *ignored(
        sample,
        ("temperature", (DIVIDED, "logits.float()")),
        ("top_k", (TOP, "probs.topk(logits.size(-1))")),
        ("top_p", ("1.0 if top_p is None else top_p", "1.0")),
        ("generator", (", generator=generator", "")),
    ),
)

MISTAKES = (*WRITING, *DRAWING)
