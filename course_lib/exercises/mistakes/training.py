"""What goes wrong in chapter 11."""

from course_lib.exercises.mistake_catalogue import ignored, known

loss = known("training", "label_smoothed_cross_entropy")
paper = known("training", "warmup_inverse_sqrt")
batch_loss = known("training", "translation_loss")
step = known("training", "training_step")

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

RATE = "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)"

SHIFT = "tgt_in = tgt[:, :-1]  # (B, T)\n    tgt_out = tgt[:, 1:]  # (B, T)"
CALL = "logits = model(src, tgt_in)"
HANDED_ON = "logits, tgt_out, pad_id=pad_id, smoothing=smoothing"

ZERO = "    optimizer.zero_grad()\n"
BACK = "        loss.backward()\n"
ADDED = "        total = total + loss.detach()\n"
SET = '        group["lr"] = rate\n'
MOVE = "    optimizer.step()\n"
LIMIT = "if clip_norm < math.inf"


LOSSES = (
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
        "logits handed to nll_loss",
        (LOGS, "logits * 1.0"),
    ),
    loss(
        "log_of_softmax",
        "log and softmax are taken one after the other: a probability of 0 becomes -inf",
        "torch.log(torch.softmax(x)), which torch's documentation warns of",
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
        "padding is added up with the rest (masked_fill returns a new tensor: was it kept?), "
        "though the mean divides by the real tokens only",
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
        "reduction='sum' or size_average=False, as in The Annotated Transformer's KLDivLoss",
        (MEAN_OF_ALL, f"return {BLEND}.sum()"),
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).sum()"),
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
        "the V of the plain formula kept",
        ("others = log_probs.size(-1) - 1", "others = log_probs.size(-1)"),
    ),
    loss(
        "smoothing_sums_padding",
        "the doubt is divided by V - 1, yet padding's log-probability is still in the sum",
        "one of two places changed: the divisor, not the sum",
        (DOUBT, "log_probs.sum(dim=-1) / others"),
    ),
    loss(
        "smoothing_off_the_right_token",
        "the right token gets none of the doubt: here it is spread over the right one too",
        "The Annotated Transformer and OpenNMT: smoothing / (size - 2), OpenNMT/OpenNMT-py #1463",
        (DOUBT, f"({SUM} - right) / (others - 1)"),
        (DOUBT_OF_ALL, "doubt = (log_probs.sum(dim=-1) - right) / (log_probs.size(-1) - 1)"),
    ),
    loss(
        "divergence_in_place_of_the_loss",
        "the divergence from q is returned (kl_div): the loss is larger by the entropy of q",
        "OpenNMT/OpenNMT-py #1463: label smoothing by KL-divergence",
        (BEGIN, f"{OWN_Q}    {BEGIN}"),
    ),
    loss(
        "annotated_divergence",
        "the divergence from another q is returned, as by The Annotated Transformer",
        "OpenNMT/OpenNMT #570 and Thijsvanede/DeepCASE #8: smoothing / (size - 2), kl_div",
        (BEGIN, f"{ANNOTATED_Q}    {BEGIN}"),
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
    *ignored(loss, ("smoothing", (BLEND, "-right"))),
)

RATES = (
    paper(
        "step_counted_from_zero",
        "the first step is taken for step 0: the formula gets step - 1",
        "google-research/bert #1293: a first step at rate zero",
        (RATE, RATE.replace("step**", "(step - 1)**").replace("step *", "(step - 1) *")),
    ),
    paper(
        "step_counted_from_two",
        "the formula gets step + 1, as if steps were counted from 0",
        "tugstugi/pytorch-saltnet #7, espnet/espnet #2088: step += 1 for schedulers from 0",
        (RATE, RATE.replace("step**", "(step + 1)**").replace("step *", "(step + 1) *")),
    ),
    paper(
        "line_to_one",
        "the line is step / warmup_steps, which does not meet the other curve at its peak",
        "the usual linear warm-up, for a rate that is multiplied by it",
        ("step * warmup_steps**-1.5", "step / warmup_steps"),
    ),
    paper(
        "warmup_missing",
        "there is no warm-up: the rate falls from the first step on",
        "one of the two curves forgotten",
        ("min(step**-0.5, step * warmup_steps**-1.5)", "step**-0.5"),
    ),
    paper(
        "d_model_without_the_root",
        "the rate is divided by d_model instead of its root, √d_model",
        "the exponent -0.5 forgotten",
        ("d_model**-0.5", "d_model**-1.0"),
    ),
    paper(
        "d_model_ignored",
        "d_model is not used",
        "ports that scale by a base rate instead: Kyubyong/transformer #89, espnet/espnet #1519",
        ("d_model**-0.5 * ", ""),
    ),
)

ONE_BATCH = (
    batch_loss(
        "target_not_shifted",
        "the model reads `tgt[:, 1:]`, the very tokens that it has to predict",
        "Kyubyong/transformer #94: a model that copies its input and fails at test time",
        (SHIFT, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, 1:]"),
    ),
    batch_loss(
        "labels_not_shifted",
        "the model must predict `tgt[:, :-1]`, the very tokens that it reads",
        "jadore801120/attention-is-all-you-need-pytorch #123 asks where the shift is",
        (SHIFT, "tgt_in, tgt_out = tgt[:, :-1], tgt[:, :-1]"),
    ),
    batch_loss(
        "whole_target_on_both_sides",
        "the model reads the whole target and must predict the whole target: nothing is shifted",
        "IpsumDominum/Pytorch-Simple-Transformer #3: a fine loss, and no translation",
        (SHIFT, "tgt_in, tgt_out = tgt, tgt"),
    ),
    batch_loss(
        "padding_not_handed_on",
        "the loss is not told what padding is: pad_id is missing",
        "BrianPulfer/PapersReimplementations #17, DaoyuanLi2816/Molecule-Generator #20",
        (HANDED_ON, "logits, tgt_out, smoothing=smoothing"),
    ),
    batch_loss(
        "pad_id_always_zero",
        "the loss is told that padding is id 0, whatever pad_id says",
        "INK-USC/MHGRN #8, hallerite/ludic #11",
        ("pad_id=pad_id", "pad_id=0"),
    ),
    batch_loss(
        "softmax_before_the_loss",
        "the logits go through a softmax before the loss takes its own",
        "bowang-lab/Transformer-GCN-QA #32, lansinuote/Huggingface_Toturials #6",
        (CALL, f"{CALL}.softmax(dim=-1)"),
    ),
    *ignored(batch_loss, ("smoothing", (HANDED_ON, "logits, tgt_out, pad_id=pad_id"))),
)

ONE_STEP = (
    step(
        "zero_grad_missing",
        "old gradients are not cleared: those of all steps pile up",
        "udacity/deep-learning-v2-pytorch #160, pytorch/pytorch #47175",
        (ZERO, ""),
    ),
    step(
        "zero_grad_after_backward",
        "zero_grad stands between backward and step: the new gradients are cleared, nothing moves",
        "rll/deepul #12 and patrickloeber/pytorchTutorial #19 ask about the order",
        (ZERO, ""),
        (MOVE, ZERO + MOVE),
    ),
    step(
        "zero_grad_for_every_loss",
        "zero_grad is called for every loss, so only the gradients of the last one remain",
        "gradient accumulation with one line inside the loop",
        (ZERO, ""),
        (BACK, f"    {ZERO}{BACK}"),
    ),
    step(
        "step_missing",
        "optimizer.step() is never called: gradients come, and no weight moves",
        "one of three lines forgotten",
        (MOVE, ""),
    ),
    step(
        "backward_missing",
        "loss.backward() is never called: the optimizer has no gradients to go by",
        "one of three lines forgotten",
        (BACK, ""),
    ),
    step(
        "step_before_backward",
        "optimizer.step() stands before backward, when the gradients have just been cleared",
        "a question under inyeoplee77/SAGPool #15",
        (MOVE, ""),
        (BACK, f"    {MOVE}{BACK}"),
    ),
    step(
        "loss_not_detached",
        "the loss is returned with its graph, which then stays in memory",
        "horovod/horovod #641, BatsResearch/labelmodels #4",
        (ADDED, "        total = total + loss\n"),
    ),
    step(
        "loss_as_number",
        "the loss is returned as a Python number: a tensor is asked for, detached",
        "loss.item() out of habit; on a GPU it waits for the device in every step",
        ("return total", "return total.item()"),
    ),
    step(
        "gradients_clipped",
        "the gradients are clipped although no limit is given",
        "nanoGPT and d2l clip in their loops",
        ("clip_norm: float = math.inf", "clip_norm: float = 1.0"),
    ),
    *ignored(step, ("rate", (SET, "        pass\n")), ("clip_norm", (LIMIT, "if clip_norm == 0"))),
)


MISTAKES = (*LOSSES, *RATES, *ONE_BATCH, *ONE_STEP)
