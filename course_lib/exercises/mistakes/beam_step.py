"""What goes wrong in beam search."""

from course_lib.exercises.mistake_catalogue import known

penalty = known("decoding", "length_penalty")
extend = known("decoding", "beam_step")
search = known("decoding", "beam_search")

FORMULA = "((5 + lengths) / 6) ** alpha"
LENGTHS = "(tgt[..., 1:] != pad_id).sum(dim=-1) + ~ended"
BEST = "scores.flatten(1).topk(K).indices"
SCORED = "totals / length_penalty(lengths, alpha)"
FRAME = "with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:"
FIRST = "        score.reorder(torch.arange(B, device=src.device).repeat_interleave(K))  # (B·K,)\n"

MISTAKES = (
    penalty(
        "exponent_negative",
        "the exponent has the wrong sign: who divides by this favours short sentences even more",
        "student code: a penalty that is multiplied elsewhere",
        ("** alpha", "** -alpha"),
    ),
    penalty(
        "alpha_multiplied",
        "alpha is a factor: it is an exponent, and 0 must give 1",
        "student code",
        ("** alpha", "* alpha"),
    ),
    penalty(
        "length_alone",
        "the length itself is raised to alpha, without the five and the six",
        "huggingface/transformers divides by length ** length_penalty",
        (FORMULA, "lengths**alpha"),
    ),
    penalty(
        "only_the_top_raised",
        "only the numerator is raised to alpha: (5 + 1) is divided by 6 in vain",
        "student code: a bracket",
        (FORMULA, "(5 + lengths) ** alpha / 6"),
    ),
    penalty(
        "five_forgotten",
        "the five is forgotten, and a single token is divided by less than 1",
        "student code",
        ("(5 + lengths)", "lengths"),
    ),
    penalty(
        "logarithm_returned",
        "the logarithm of the penalty comes out: the penalty itself is divided by",
        "student code: everything else is a logarithm",
        (FORMULA, "alpha * ((5 + lengths) / 6).log()"),
    ),
    extend(
        "beginning_not_summed",
        "only the newest token counts: a beam's score is the sum over its whole beginning",
        "student code: topk of the log-probabilities",
        ("totals.unsqueeze(-1) + torch.where", "torch.where"),
    ),
    extend(
        "penalty_multiplied",
        "the sums are multiplied by the penalty: they are negative, so long sentences lose",
        "student code: the sign of a logarithm forgotten",
        ("sums / length_penalty", "sums * length_penalty"),
    ),
    extend(
        "penalty_forgotten",
        "beams compete by their sums: no penalty, or one that counts padding and is alike for all",
        "student code: the penalty only at the end",
        (" / length_penalty(lengths.to(sums), alpha).unsqueeze(-1)", ""),
    ),
    extend(
        "penalty_kept_in_the_totals",
        "the divided scores come out as totals, and are divided again in the next round",
        "student code: one variable for both",
        ("sums.flatten(1).gather(1, best)", "scores.flatten(1).gather(1, best)"),
    ),
    extend(
        "ended_beams_go_on",
        "a beam that has ended is extended with words as if it had not",
        "student code: no look at eos",
        ("torch.where(ended.unsqueeze(-1), stay, extended)", "extended"),
    ),
    extend(
        "ended_beams_dropped",
        "a beam that has ended has no continuation at all, and is lost",
        "student code: finished sentences are neither kept nor put aside",
        ("    stay[..., pad_id] = 0.0\n", ""),
    ),
    extend(
        "ended_beams_pay_for_padding",
        "a beam that has ended pays for every padding: waiting costs nothing",
        "student code: the model's score of padding is added",
        ("stay[..., pad_id] = 0.0", "stay[..., pad_id] = log_probs[..., pad_id]"),
    ),
    extend(
        "ended_beams_grow",
        "a beam that has ended is counted one token longer, and its score gets better",
        "student code: the length grows by one in every round",
        (LENGTHS, "(tgt[..., 1:] != pad_id).sum(dim=-1) + 1"),
    ),
    extend(
        "padding_chosen",
        "padding is chosen for beams that go on",
        "asyml/texar #62 asks whether padding may come before the end",
        ('    extended[..., pad_id] = float("-inf")\n', ""),
    ),
    extend(
        "end_for_nothing",
        "the end costs nothing: the log-probability of eos is left out of the sum",
        "student code: finished sentences are put aside before their last step is added",
        (
            '    extended[..., pad_id] = float("-inf")\n',
            '    extended[..., pad_id] = float("-inf")\n    extended[..., eos_id] = 0.0\n',
        ),
    ),
    extend(
        "beams_never_cross",
        "each beam keeps its own best continuation: all continuations must compete",
        "student code: argmax over V for every beam",
        (BEST, "scores.argmax(dim=-1) + torch.arange(K) * V"),
    ),
    extend(
        "divided_by_the_beams",
        "the flat place is divided by K: it counts V tokens for each beam",
        "student code: best // K",
        ("beams = best // V", "beams = best // K % K"),
        ("tokens = best % V", "tokens = best % K"),
    ),
    extend(
        "beam_and_token_swapped",
        "// and % are swapped: // V is the beam, % V the token",
        "student code",
        ("beams = best // V", "beams = best % V % K"),
        ("tokens = best % V", "tokens = best // V"),
    ),
    extend(
        "rows_of_the_first_sentence",
        "rows are counted within each sentence: sentence b begins at row b · K",
        "student code: code for one sentence, used for a batch",
        ("(torch.arange(B, device=tgt.device).unsqueeze(1) * K + beams)", "beams"),
    ),
    extend(
        "beginnings_not_reordered",
        "a token is put behind the beginning that stood in its place, not behind its own",
        "student code: tgt[rows] forgotten",
        ("tgt.flatten(0, 1)[rows].view_as(tgt)", "tgt"),
    ),
    extend(
        "length_with_bos",
        "bos is counted into the length: it was read, not written",
        "student code: tgt.size(-1)",
        ("(tgt[..., 1:] != pad_id)", "(tgt != pad_id)"),
    ),
    extend(
        "length_without_the_new_token",
        "the length is that before this round, without the new token",
        "student code",
        (" + ~ended", ""),
    ),
    extend(
        "worst_kept",
        "the worst are kept: topk with largest=False",
        "student code: the sign of a logarithm",
        ("topk(K)", "topk(K, largest=False)"),
    ),
    extend(
        "log_probs_changed_in_place",
        "the scores of padding are overwritten in the caller's log_probs",
        "student code: no clone",
        ("log_probs.clone()", "log_probs"),
    ),
    search(
        "all_beams_start_equal",
        "all beams start with total 0, and K copies of one sentence come out",
        "student code: totals = torch.zeros(B, K)",
        ("[0.0] + [-torch.inf] * (K - 1)", "[0.0] * K"),
    ),
    search(
        "scorer_not_told",
        "score.reorder is forgotten: beams change rows, and what the scorer remembers does not",
        "student code: a cache that is not reordered",
        ("            score.reorder(rows)\n", ""),
    ),
    search(
        "sentences_mixed_up",
        "repeat puts the sentences in the wrong rows: K rows of one sentence stand together",
        "student code: repeat for repeat_interleave",
        (".repeat_interleave(K)", ".repeat(K)"),
    ),
    search(
        "rows_not_repeated",
        "the scorer is left with B rows: it needs B · K",
        "student code",
        (FIRST, ""),
    ),
    search(
        "logits_summed",
        "logits are added up: only log_softmax makes log-probabilities of them",
        "student code",
        (".log_softmax(dim=-1)", ""),
    ),
    search(
        "probabilities_summed",
        "probabilities are added up: their logarithms are",
        "student code: softmax without log",
        (".log_softmax(dim=-1)", ".softmax(dim=-1)"),
    ),
    search(
        "first_place_read",
        "the scores of the first place are read in every round instead of the last",
        "student code: logits[:, 0]",
        ("score(tgt.flatten(0, 1))[:, -1]", "score(tgt.flatten(0, 1))[:, 0]"),
    ),
    search(
        "stops_with_the_first_end",
        "the search stops when any beam has ended",
        "student code: any for all",
        ("| totals.isneginf()).all()", "| totals.isneginf()).any()"),
    ),
    search(
        "stops_when_the_best_has_ended",
        "the search stops when the best beam has ended: a better one may still be on its way",
        "early stopping, as some libraries have it, where the course has none",
        (
            "((tgt == eos_id).any(dim=2) | totals.isneginf()).all()",
            "(tgt[:, 0] == eos_id).any(dim=1).all()",
        ),
    ),
    search(
        "scores_without_penalty",
        "the log-probabilities come out as scores, without the penalty",
        "student code",
        (SCORED, "totals"),
    ),
    search(
        "scores_multiplied",
        "the scores are multiplied by the penalty: they are divided by it",
        "student code: the sign of a logarithm forgotten",
        (SCORED, "totals * length_penalty(lengths, alpha)"),
    ),
    search(
        "length_with_bos",
        "bos is counted into the length of the scores",
        "student code: tgt.size(-1)",
        ("(tgt[..., 1:] != pad_id)", "(tgt != pad_id)"),
    ),
    search(
        "length_with_padding",
        "padding is counted into the length of the scores",
        "student code: tgt.size(-1)",
        ("(tgt[..., 1:] != pad_id)", "(tgt[..., 1:] > -1)"),
    ),
    search(
        "prompt_returned",
        "bos is returned with the answer: it was read, not written",
        "huggingface/transformers #8161 and #16583 show such outputs",
        ("return tgt[..., 1:],", "return tgt,"),
    ),
    search(
        "limit_one_too_few",
        "the loop ends one token before the limit",
        "student code: < in place of <=",
        ("tgt.size(2) <= limit", "tgt.size(2) < limit"),
    ),
    search(
        "alpha_not_passed",
        "alpha does not reach beam_step, where the beams compete",
        "student code",
        ("alpha=alpha)", "alpha=0.6)"),
    ),
    search(
        "scorer_ignored",
        "the scorer that was given is not used: Rereader is only what stands there if none is",
        "student code: the default's name in the body",
        ("score = scorer(model, src)", "score = Rereader(model, src)"),
    ),
    search(
        "eval_missing",
        "the model is not put into eval mode: dropout drops while the model writes",
        "d2l-ai/d2l-en #1528, wenjtop/transformer #3, karpathy/nanoGPT #749",
        (FRAME, "limit = max_new_tokens or model.config.max_len\n    with torch.no_grad():"),
    ),
    search(
        "gradients_kept",
        "the graph of every round is kept: torch.no_grad() is missing",
        "allenai/OLMo #164, RaphaelOlivier/robust_speech #6",
        (FRAME, FRAME.replace("limit:", "limit, torch.enable_grad():")),
    ),
)
