"""What goes wrong in the loss."""

from course_lib.exercises.mistake_catalogue import known

loss = known("training", "label_smoothed_cross_entropy")

LOGS = "logits.log_softmax(dim=-1)"
BEGIN = f"log_probs = {LOGS}  # (..., V)"
SUM = "log_probs.index_fill(-1, pad, 0.0).sum(dim=-1)"
DOUBT = f"{SUM} / others"
DOUBT_OF_ALL = "doubt = log_probs.mean(dim=-1)"
DIVERGENCE = """    if pad_id is not None:
        q[..., pad_id] = 0.0
        q = q * (targets != pad_id).unsqueeze(-1)
    count = targets.numel() if pad_id is None else (targets != pad_id).sum()
    return F.kl_div(logits.log_softmax(dim=-1), q, reduction="sum") / count
"""
OWN_Q = f"""q = (1 - smoothing) * F.one_hot(targets, logits.size(-1))
    q = q + smoothing / (logits.size(-1) - (pad_id is not None))
{DIVERGENCE}"""
ANNOTATED_Q = f"""q = torch.full_like(logits, smoothing / (logits.size(-1) - 2))
    q = q.scatter(-1, targets.unsqueeze(-1), 1 - smoothing)
{DIVERGENCE}"""
BLEND = "-((1 - smoothing) * right + smoothing * doubt)"
MEAN_OF_ALL = f"return {BLEND}.mean()"
MEAN_OF_REAL = "losses.masked_fill(~real, 0.0).sum() / real.sum()"

MISTAKES = (
    loss(
        "double_softmax",
        "the logits go through a softmax before the loss takes its own",
        "vinhkhuc/PyTorch-Mini-Tutorials #1, DSKSD/DeepNLP-models-Pytorch #2",
        (LOGS, "logits.softmax(dim=-1).log_softmax(dim=-1)"),
    ),
    loss(
        "log_missing",
        "probabilities stand where their logarithms belong: softmax in place of log_softmax",
        "softmax handed to NLLLoss: a runebook.dev article on torch.nn.Softmax",
        (LOGS, "logits.softmax(dim=-1)"),
    ),
    loss(
        "log_softmax_missing",
        "logits are read as if they were log-probabilities: log_softmax is missing",
        "student code: logits handed to nll_loss",
        (LOGS, "logits * 1.0"),
    ),
    loss(
        "log_of_softmax",
        "log and softmax are taken one after the other: a probability of 0 becomes -inf",
        "student code: torch.log(torch.softmax(x))",
        (LOGS, "logits.softmax(dim=-1).log()"),
    ),
    loss(
        "softmax_over_positions",
        "log_softmax runs over axis 1, the positions, instead of the last one, the vocabulary",
        "pytorch/pytorch #27626, stanford-cs336/spring2024-assignment2-systems #4",
        (LOGS, "logits.log_softmax(dim=1)"),
    ),
    loss(
        "vocabulary_on_the_wrong_axis",
        "F.cross_entropy gets (B, T, V) and takes axis 1 for the vocabulary: it wants (B, V, T)",
        "markhliu/DGAI #7, bentrevett/pytorch-seq2seq #166",
        (
            BEGIN,
            "ignored = -100 if pad_id is None else pad_id\n"
            "    return F.cross_entropy(\n"
            "        logits, targets, ignore_index=ignored, label_smoothing=smoothing\n"
            "    )\n"
            f"    {BEGIN}",
        ),
    ),
    loss(
        "minus_missing",
        "the minus is missing, and training would look for the greatest surprise",
        "student code",
        (BLEND, "((1 - smoothing) * right + smoothing * doubt)"),
    ),
    loss(
        "bits",
        "the surprise is counted in bits (log2) instead of nats",
        "texts on information theory, which count in bits",
        (LOGS, f"({LOGS} / math.log(2))"),
    ),
    loss(
        "decimal_logarithm",
        "the logarithm is the decimal one (log10) instead of the natural one",
        "student code: np.log10 or torch.log10 taken for ln",
        (LOGS, f"({LOGS} / math.log(10))"),
    ),
    loss(
        "padding_counted",
        "padding counts as if it were a token, in the sum and in the mean",
        "DaoyuanLi2816/Molecule-Generator #20, voidism/DiffCSE #25",
        (MEAN_OF_REAL, "losses.mean()"),
    ),
    loss(
        "padding_in_the_denominator",
        "padding is left out of the sum, but still counted when the mean divides",
        "tensorflow/docs #1460, eladhoffer/utils.pytorch #4",
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).mean()"),
    ),
    loss(
        "padding_in_the_sum",
        "padding is added up with the rest, though the mean divides by the real tokens only",
        "pytorch/pytorch #73205",
        (MEAN_OF_REAL, "losses.sum() / real.sum()"),
    ),
    loss(
        "doubt_at_padding",
        "padding is left out of the first term only: its doubt is still added up",
        "pytorch/pytorch #7455 (a comment), pytorch/pytorch #73205",
        (BLEND + "  # (...)", "-((1 - smoothing) * right * real + smoothing * doubt)"),
        (MEAN_OF_REAL, "losses.sum() / real.sum()"),
    ),
    loss(
        "padding_inverted",
        "padding is what counts, and the real tokens are left out",
        "awslabs/sockeye #200",
        ("real = targets != pad_id", "real = targets == pad_id"),
    ),
    loss(
        "mean_over_sentences",
        "each sentence is averaged first: tokens of a short sentence weigh more",
        "d2l-ai/d2l-en #2707: a mean for each sentence first",
        (
            MEAN_OF_REAL,
            "(losses.masked_fill(~real, 0.0).sum(-1) / real.sum(-1).clamp(min=1)).mean()",
        ),
    ),
    loss(
        "sum_in_place_of_mean",
        "the losses are added up and not divided",
        "reduction='sum' or size_average=False, as in the Annotated Transformer's KLDivLoss",
        (MEAN_OF_ALL, f"return {BLEND}.sum()"),
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).sum()"),
    ),
    loss(
        "sum_per_sentence",
        "the sum is divided by the number of sentences instead of the number of real tokens",
        "student code: loss.sum() / batch_size",
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).sum() / (*losses.shape, 1)[0]"),
    ),
    loss(
        "not_averaged",
        "every token's loss is returned: the mean is missing",
        "reduction='none' left in place",
        (MEAN_OF_ALL, f"return {BLEND}"),
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0)"),
    ),
    loss(
        "smoothing_on_padding",
        "the doubt is spread over all V entries, padding among them, as F.cross_entropy does",
        "F.cross_entropy with ignore_index and label_smoothing, pytorch/pytorch #63122",
        (DOUBT, "log_probs.mean(dim=-1)"),
    ),
    loss(
        "smoothing_over_v",
        "padding gets no doubt, yet the doubt is divided by V: it adds up to less than 1",
        "student code",
        ("others = log_probs.size(-1) - 1", "others = log_probs.size(-1)"),
    ),
    loss(
        "smoothing_off_the_right_token",
        "the right token gets none of the doubt: here it is spread over the right one too",
        "the Annotated Transformer and OpenNMT: smoothing / (size - 2), OpenNMT/OpenNMT-py #1463",
        (DOUBT, f"({SUM} - right) / (others - 1)"),
        (DOUBT_OF_ALL, "doubt = (log_probs.sum(dim=-1) - right) / (log_probs.size(-1) - 1)"),
    ),
    loss(
        "smoothing_not_summing_to_one",
        "the right token gets 1 - smoothing and no doubt, while the doubt is divided as if it did",
        "Thijsvanede/DeepCASE #8, ildoonet/pytorch-randaugment #30: sums that are not 1",
        (DOUBT, f"({SUM} - right) / others"),
        (DOUBT_OF_ALL, "doubt = (log_probs.sum(dim=-1) - right) / log_probs.size(-1)"),
    ),
    loss(
        "divergence_in_place_of_the_loss",
        "the divergence from q is returned (kl_div): the loss is larger by the entropy of q",
        "OpenNMT/OpenNMT-py #1463: label smoothing by KL-divergence",
        (BEGIN, f"{OWN_Q}    {BEGIN}"),
    ),
    loss(
        "annotated_divergence",
        "the divergence from another q is returned, as by the Annotated Transformer",
        "OpenNMT/OpenNMT #570 and Thijsvanede/DeepCASE #8: smoothing / (size - 2), kl_div",
        (BEGIN, f"{ANNOTATED_Q}    {BEGIN}"),
    ),
    loss(
        "doubt_on_top",
        "the right token keeps all of its 1 and the doubt comes on top: together more than 1",
        "TimDettmers/ConvE #55: a distribution whose sum is more than 1",
        ("(1 - smoothing) * right", "right"),
    ),
    loss(
        "doubt_missing",
        "the right token gets 1 - smoothing, and nobody gets the rest",
        "student code",
        (" + smoothing * doubt", ""),
    ),
    loss(
        "smoothing_ignored",
        "smoothing is not used",
        "student code",
        (BLEND, "-right"),
    ),
    loss(
        "smoothing_swapped",
        "smoothing and 1 - smoothing are swapped: nearly all goes to the doubt",
        "linear_combination(x, y, epsilon) in pytorch/pytorch #7455, easily called the wrong way",
        (BLEND, "-(smoothing * right + (1 - smoothing) * doubt)"),
    ),
    loss(
        "pad_zero_taken_for_none",
        "pad_id=0 is taken for no padding: `if pad_id` is false for 0, ask `is None`",
        "huggingface/transformers #47286, huggingface/transformers #25625",
        ("if pad_id is None:", "if not pad_id:"),
    ),
    loss(
        "pad_id_always_zero",
        "padding is looked for at id 0, whatever pad_id says",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        ("torch.full((1,), pad_id", "torch.full((1,), 0"),
        ("targets != pad_id", "targets != 0"),
    ),
    loss(
        "padding_left_out_of_the_softmax",
        "padding's logit is set to -inf, so the other tokens share its probability",
        "student code: masking the logits as in attention",
        (
            BEGIN,
            "if pad_id is not None:\n"
            "        hidden = torch.arange(logits.size(-1)) == pad_id\n"
            '        logits = logits.masked_fill(hidden, float("-inf"))\n'
            f"    {BEGIN}",
        ),
    ),
    loss(
        "logits_changed_in_place",
        "the logits are changed in place, and the caller's with them",
        "student code: x -= x.max() for stability, logits[..., pad_id] = ...",
        (BEGIN, f"logits -= logits.amax(dim=-1, keepdim=True)\n    {BEGIN}"),
    ),
    loss(
        "targets_changed_in_place",
        "the targets are changed in place, and the caller's with them: padding becomes -100",
        "labels[labels == pad] = -100, done to the caller's tensor",
        (MEAN_OF_REAL, f"{MEAN_OF_REAL} + 0 * targets.masked_fill_(~real, -100).sum()"),
    ),
    loss(
        "padding_zeroed_in_data",
        "padding's losses are set to 0 in .data, behind autograd's back: their gradients stay",
        "student code: loss.data[mask] = 0",
        (MEAN_OF_REAL, "(losses.data.masked_fill_(~real, 0.0), losses.sum() / real.sum())[1]"),
    ),
    loss(
        "gradient_cut",
        "the logits are detached: no gradient reaches the model",
        "loss built from .data, .item() or .detach()",
        (LOGS, "logits.detach().log_softmax(dim=-1)"),
    ),
)
