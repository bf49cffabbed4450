"""Exercises for chapter 11: trials, known mistakes and correct answers."""

import torch

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.training_trials import (
    BATCHES,
    CLIP,
    LR,
    SQUARE,
    TARGETS,
    WITH_THREES,
    WITH_ZEROS,
    graph_kept,
    loss,
    loss_in_float16,
    rates,
    scores,
    shifted,
    stepped,
    uniform,
    updates,
)

EXERCISES = (
    Exercise(
        "label_smoothed_cross_entropy",
        30,
        core={
            "formula": (loss("no padding and smoothing=0.1"), uniform),
            "padding": (
                loss("pad_id=3", pad_id=3),
                loss("pad_id=0", scores(WITH_ZEROS), pad_id=0),
                loss("axes of equal size", scores(SQUARE, 4), pad_id=0),
            ),
        },
        hints=(
            "Turn the logits into log-probabilities over the last axis. One term of the loss uses "
            "the log-probability of the correct token, and the other averages all of them.",
            "`log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` selects the "
            "log-probabilities of the correct tokens. Without `pad_id`, the mass is spread over "
            "all V tokens. With it, the mass is spread over the V - 1 tokens that are not padding, "
            "including the correct one.",
            "With `pad_id`, set the losses where `targets == pad_id` to 0, add up all losses, and "
            "divide by the number of real targets. (`pad_id` may be 0, so test `is None`.)",
        ),
        extras={
            "smoothing": (
                loss("pad_id=3 and smoothing=0.3", pad_id=3, smoothing=0.3),
                loss("pad_id=0 and smoothing=0", scores(WITH_ZEROS), pad_id=0, smoothing=0.0),
            ),
            "large logits": (loss("logits in the hundreds", scores(size=150), pad_id=3),),
            "single token": (
                loss("a single token", scores(torch.tensor(5)), pad_id=3),
                loss("one token in each sentence", scores(TARGETS[:, :1]), pad_id=3),
            ),
            "only padding": (loss("only padding", scores(torch.tensor([3, 3])), pad_id=3),),
            "half precision": (loss_in_float16,),
        },
        rejects=(
            "(torch.ones(2, 5), torch.tensor([1, 2, 3]))",
            "(torch.ones(2, 5), torch.tensor([1, 5]))",
            "(torch.ones(2, 5), torch.tensor([1, 2]), smoothing=1.5)",
            "(torch.ones(2, 5), torch.tensor([1, 2]), pad_id=5)",
        ),
    ),
    Exercise(
        "translation_loss",
        5,
        core={
            "shift": (shifted("a padded batch"), shifted("the next batch", BATCHES[1])),
            "padding": (shifted("pad_id=3", WITH_THREES, pad_id=3),),
            "max_len": (shifted("a target of max_len + 1 tokens", max_len=4),),
        },
        hints=(
            "The model reads all columns of `tgt` but the last, and predicts all but the first.",
            "Pass `pad_id=pad_id` and `smoothing=smoothing` to `label_smoothed_cross_entropy`.",
        ),
        extras={"smoothing": (shifted("smoothing=0.3", smoothing=0.3),)},
    ),
    Exercise(
        "adam_update",
        15,
        core={
            "first step": (updates("the first step", [1]),),
            "later steps": (updates("four steps", range(1, 5)),),
            "tiny gradients": (updates("gradients of about 0.0001", [1, 2], size=1e-4),),
        },
        hints=(
            "There are three stages: update both moving averages, correct them, and divide.",
            "`m = beta1 * m + (1 - beta1) * gradient`, and `v` is updated in the same way with "
            "`beta2` and `gradient**2`. The corrected `m_hat` is `m / (1 - beta1**step)`.",
            "Return `m_hat / (v_hat.sqrt() + eps), m, v`, because the next step needs `m` and `v`.",
        ),
        extras={
            "betas": (updates("betas=(0.5, 0.7)", range(1, 4), betas=(0.5, 0.7)),),
            "eps": (updates("eps=0.1", [400], eps=0.1),),
        },
        rejects=("(torch.ones(3), torch.ones(3), torch.ones(3), step=0)",),
    ),
    Exercise(
        "warmup_inverse_sqrt",
        10,
        core={
            "warm-up": (rates("warm-up steps", range(1, 6), 16, 5),),
            "decay": (rates("steps after the peak", (*range(6, 12), 450), 16, 5),),
            "d_model": (
                rates("a wider model", (1, 2, 3, 6), 25, 2),
                rates("a warm-up of one step", (1, 2, 3), 4, 1),
            ),
        },
        hints=(
            "There are two curves: a line through 0, and 1/√step. Return the smaller value.",
            "Write `d_model**-0.5 * min(…, …)`, where the line is `step * warmup_steps**-1.5`.",
        ),
        rejects=("(0, 512, 4000)", "(1, 0, 4000)", "(1, 512, 0)"),
    ),
    Exercise(
        "training_step",
        10,
        core={
            "one step": (stepped("one loss", [BATCHES[:1]]),),
            "two steps": (stepped("two learning rates", [[b] for b in BATCHES], (LR, 0.25)),),
            "several losses": (stepped("two losses from a generator", [BATCHES]),),
        },
        hints=(
            "Call `optimizer.zero_grad()` first. Each `loss.backward()` then adds its gradients.",
            'Each group in `optimizer.param_groups` is a dict. Set `group["lr"]` to the rate, and '
            "then call `optimizer.step()` once.",
        ),
        extras={
            "parameter groups": (stepped("two parameter groups", [BATCHES[:1]], groups=2),),
            "clip_norm": (
                stepped("clip_norm=0.2", [BATCHES[:1]], says=CLIP, clip_norm=0.2),
                stepped("clip_norm=0.2 and two losses", [BATCHES], says=CLIP, clip_norm=0.2),
                stepped("a clip_norm above the norm", [BATCHES[:1]], clip_norm=1e3),
            ),
            "detached loss": (graph_kept,),
        },
        rejects=("(nn.Linear(1, 1), None, [], 0.1, clip_norm=0.0)",),
    ),
)


# known mistakes


LOGS = "logits.log_softmax(dim=-1)"
BEGIN = f"log_probs = {LOGS}  # (..., V)"
SUM = "log_probs.index_fill(-1, pad, 0.0).sum(dim=-1)"
SMOOTHED = f"{SUM} / others"
SMOOTHED_OVER_ALL = "average = log_probs.mean(dim=-1)"
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
WITHOUT_TRANSPOSE = f"""kept = -100 if pad_id is None else pad_id
    return F.cross_entropy(logits, targets, ignore_index=kept, label_smoothing=smoothing)
    {BEGIN}"""
SUM_OF_BOTH = "-((1 - smoothing) * right + smoothing * average)"
REAL = "losses.masked_fill(~real, 0.0)"
MEAN_OF_REAL = f"{REAL}.sum() / real.sum().clamp(min=1)"
RATE = "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)"
SHIFT_LINES = "tgt_in = tgt[:, :-1]  # (B, T)\n    tgt_out = tgt[:, 1:]  # (B, T)"
ARGUMENTS = "logits, tgt_out, pad_id=pad_id, smoothing=smoothing"
ZERO = "    optimizer.zero_grad()\n"
BACK = "        loss.backward()\n"
MOVE = "    optimizer.step()\n"
SET = 'group["lr"] = rate'
LIMIT = "if clip_norm < math.inf"


M = "beta1 * m + (1 - beta1) * gradient"
V_LINE = "beta2 * v + (1 - beta2) * gradient**2"
M_HAT, V_HAT = "m / (1 - beta1**step)", "v / (1 - beta2**step)"
QUOTIENT = "m_hat / (v_hat.sqrt() + eps)"


def corrected(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return the edits that change the bias correction of both moments in the same way."""
    return (M_HAT, M_HAT.replace(old, new)), (V_HAT, V_HAT.replace(old, new))


MISTAKES = {
    "label_smoothed_cross_entropy": {
        "double_softmax: the logits go through a softmax before the loss applies its own "
        "[vinhkhuc/PyTorch-Mini-Tutorials #1, "
        "DSKSD/DeepNLP-models-Pytorch #2]": (LOGS, "logits.softmax(dim=-1).log_softmax(dim=-1)"),
        "log_missing: softmax is used instead of log_softmax, so the loss is computed from "
        "probabilities instead of log-probabilities": (LOGS, "logits.softmax(dim=-1)"),
        "log_softmax_missing: log_softmax is missing, so the logits are used as if they were "
        "log-probabilities": (LOGS, "logits * 1.0"),
        "log_of_softmax: the log is taken after the softmax, so a probability that is rounded to 0 "
        "becomes -inf": (LOGS, "logits.softmax(dim=-1).log()"),
        "softmax_over_positions: log_softmax runs over axis 1, the positions, instead of the last "
        "axis, the vocabulary [pytorch/pytorch #27626, "
        "stanford-cs336/spring2024-assignment2-systems #4]": (LOGS, "logits.log_softmax(dim=1)"),
        "vocabulary_on_the_wrong_axis: F.cross_entropy gets logits (B, T, V), but it expects the "
        "vocabulary "
        "on axis 1 [markhliu/DGAI #7, bentrevett/pytorch-seq2seq #166]": (BEGIN, WITHOUT_TRANSPOSE),
        "padding_counted: padding counts as a token, both in the sum and in the number that the "
        "sum is divided by [DaoyuanLi2816/Molecule-Generator "
        "#20, voidism/DiffCSE #25]": (MEAN_OF_REAL, "losses.mean()"),
        "padding_in_the_denominator: padding is left out of the sum, but the sum is divided by the "
        "total number of positions "
        "[tensorflow/docs #1460, eladhoffer/utils.pytorch #4]": (MEAN_OF_REAL, f"{REAL}.mean()"),
        "padding_in_the_sum: the losses at padding positions are included in the sum "
        "(`masked_fill` "
        "returns a new tensor, so assign it)": (MEAN_OF_REAL, "losses.sum() / real.sum()"),
        "smoothing_at_padding: padding is left out of the first term only, so its smoothing term "
        "is still in the sum [pytorch/pytorch #73205]": (
            (SUM_OF_BOTH + "  # (...)", "-((1 - smoothing) * right * real + smoothing * average)"),
            (MEAN_OF_REAL, "losses.sum() / real.sum()"),
        ),
        "mean_over_sentences: the loss is averaged within each sentence first, so the tokens of a "
        "short sentence count more [d2l-ai/d2l-en "
        "#2707]": (MEAN_OF_REAL, f"({REAL}.sum(-1) / real.sum(-1).clamp(min=1)).mean()"),
        "sum_in_place_of_mean: the losses are added up, but the sum is not divided by the number "
        "of tokens": (
            (f"return {SUM_OF_BOTH}.mean()", f"return {SUM_OF_BOTH}.sum()"),
            (MEAN_OF_REAL, f"{REAL}.sum()"),
        ),
        "smoothing_on_padding: the smoothing mass is spread over all V tokens including padding, "
        "as in F.cross_entropy [pytorch/pytorch #63122]": (SMOOTHED, "log_probs.mean(dim=-1)"),
        "smoothing_over_v: the smoothing mass is divided by V, but only V - 1 tokens get a share "
        "of it": ("others = log_probs.size(-1) - 1", "others = log_probs.size(-1)"),
        "smoothing_sums_padding: the smoothing term is divided by V - 1, but its sum includes the "
        "log-probability of padding": (SMOOTHED, "log_probs.sum(dim=-1) / others"),
        "smoothing_off_the_right_token: the correct token gets no smoothing mass, but it should "
        "get as much as any other token [OpenNMT/OpenNMT-py #1463]": (
            (SMOOTHED, f"({SUM} - right) / (others - 1)"),
            (
                SMOOTHED_OVER_ALL,
                "average = (log_probs.sum(dim=-1) - right) / (log_probs.size(-1) - 1)",
            ),
        ),
        "divergence_in_place_of_the_loss: the result is the KL divergence, which lacks the entropy "
        "of the smoothed targets [OpenNMT/OpenNMT-py #1463]": (BEGIN, f"{OWN_Q}    {BEGIN}"),
        "annotated_divergence: the loss is The Annotated Transformer's KL divergence, which "
        "smooths over V - 2 tokens "
        "[OpenNMT/OpenNMT #570, Thijsvanede/DeepCASE #8]": (BEGIN, f"{ANNOTATED_Q}    {BEGIN}"),
        "pad_zero_taken_for_none: pad_id=0 is treated like a missing pad_id (`if pad_id` is false "
        "for 0, so test `is None`) [huggingface/transformers #47286, "
        "huggingface/transformers #25625]": ("if pad_id is None:", "if not pad_id:"),
        "pad_id_always_zero: id 0 is treated as padding, whatever pad_id is [INK-USC/MHGRN #8, "
        "hallerite/ludic #11]": (
            ("torch.full((1,), pad_id", "torch.full((1,), 0"),
            ("targets != pad_id", "targets != 0"),
        ),
        "minus_missing: the minus sign is missing, so the loss is negative": (
            SUM_OF_BOTH,
            SUM_OF_BOTH[1:],
        ),
        "right_term_not_reduced: the correct token's term is not multiplied by 1 - smoothing": (
            "(1 - smoothing) * right",
            "right",
        ),
        "smoothing_exchanged: smoothing and 1 - smoothing are swapped": (
            SUM_OF_BOTH,
            "-(smoothing * right + (1 - smoothing) * average)",
        ),
        "unsmoothed_by_default: the default of `smoothing` is 0, so a call without this argument "
        "is not smoothed; it should be 0.1": ("smoothing: float = 0.1", "smoothing: float = 0.0"),
        "squeezed: `squeeze()` removes every axis of size 1, so sentences of one token are mixed "
        "up; use `squeeze(-1)`": (".squeeze(-1)", ".squeeze()"),
        "sum_with_pad_id: with a `pad_id`, the sum of the losses is not divided by the number of "
        "real tokens": (MEAN_OF_REAL, f"{REAL}.sum()"),
        "mean_of_sums: with a `pad_id`, the sum of the losses is divided by the number of "
        "sentences, not of real tokens": (MEAN_OF_REAL, f"{REAL}.sum() / len(targets)"),
        **ignored(("smoothing", (SUM_OF_BOTH, "-right"))),
        "sum_over_sentences: the losses are added up and divided by the number of sentences "
        "instead of the number of real tokens": (
            (
                f"return {SUM_OF_BOTH}.mean()",
                f"return {SUM_OF_BOTH}.sum() / targets.shape[:1].numel()",
            ),
            (MEAN_OF_REAL, f"{REAL}.sum() / targets.shape[:1].numel()"),
        ),
        **ignored(("pad_id", ("if pad_id is None:", "if True:"))),
    },
    "adam_update": {
        "correction_missing: neither moment is corrected for starting at zero, so the first "
        "updates are wrong": ((M_HAT, "m"), (V_HAT, "v")),
        "first_moment_not_corrected: only v is corrected, so the first updates are too small": (
            M_HAT,
            "m",
        ),
        "second_moment_not_corrected: only m is corrected, so the first updates are too large": (
            V_HAT,
            "v",
        ),
        "corrections_exchanged: m is corrected with beta2, and v with beta1": (
            (M_HAT, M_HAT.replace("beta1", "beta2")),
            (V_HAT, V_HAT.replace("beta2", "beta1")),
        ),
        "averages_inverted: beta weights the new gradient, and 1 - beta the moving average": (
            ("beta1 * m + (1 - beta1) * gradient", "(1 - beta1) * m + beta1 * gradient"),
            (V_LINE, "(1 - beta2) * v + beta2 * gradient**2"),
        ),
        "update_negated: the update has a minus sign, but the caller will subtract it": (
            f"return {QUOTIENT}",
            f"return -{QUOTIENT}",
        ),
        "step_counted_from_zero: the correction uses step - 1, but steps are counted from "
        "1": corrected("**step", "**(step - 1)"),
        "step_counted_from_two: the correction uses step + 1, as if steps were counted from "
        "0": corrected("**step", "**(step + 1)"),
        "step_not_used: both moments are divided by 1 - beta, whatever the step is": corrected(
            "**step", ""
        ),
        "corrected_moments_returned: m_hat and v_hat are returned in place of m and v, so the next "
        "step corrects them again": (f"{QUOTIENT}, m, v", f"{QUOTIENT}, m_hat, v_hat"),
        "eps_inside_the_root: eps is added inside the square root, so tiny gradients get updates "
        "that are too small": ("(v_hat.sqrt() + eps)", "(v_hat + eps).sqrt()"),
        "root_missing: the update is divided by v_hat instead of its square root": (
            "v_hat.sqrt()",
            "v_hat",
        ),
        "second_moment_not_squared: v averages the gradient instead of its square": (
            "gradient**2",
            "gradient",
        ),
        "moments_reset: the old moments are dropped, so every step starts from zero": (
            ("beta1 * m + ", ""),
            ("beta2 * v + ", ""),
        ),
        "moments_swapped: v is divided by the square root of m, but m belongs in the numerator and "
        "v in the denominator": (QUOTIENT, "v_hat / (m_hat.abs().sqrt() + eps)"),
        "moments_returned_swapped: v is returned before m, so the next step confuses them": (
            f"{QUOTIENT}, m, v",
            f"{QUOTIENT}, v, m",
        ),
        "betas_swapped: beta2 is used for the first moment and beta1 for the second": (
            "beta1, beta2 = betas",
            "beta2, beta1 = betas",
        ),
        "sums_in_place_of_averages: the factor 1 - beta is missing, so m and v are sums": (
            (M, "beta1 * m + gradient"),
            (V_LINE, "beta2 * v + gradient**2"),
        ),
        "first_moment_is_a_sum: the factor 1 - beta1 is missing, so m is a sum of gradients and "
        "about ten times too large": (M, "beta1 * m + gradient"),
        "absolute_values: v averages the absolute value of the gradient instead of its square, "
        "but its root is taken": ("gradient**2", "gradient.abs()"),
        "in_place: m and v are updated in place, as by `mul_` or `+=`, so the caller's tensors "
        "change, too": ((M, f"m.copy_({M})"), (V_LINE, f"v.copy_({V_LINE})")),
        "gradient_in_place_of_m: the gradient "
        "itself is divided, as in RMSprop, so m has no effect": ("return m_hat", "return gradient"),
        **ignored(("betas", ("= betas", "= 0.9, 0.98")), ("eps", (" + eps", " + 1e-9"))),
    },
    "warmup_inverse_sqrt": {
        "step_counted_from_zero: the first step counts as step 0, so the formula gets step - 1 "
        "[google-research/bert "
        "#1293]": (RATE, RATE.replace("step**", "(step - 1)**").replace("step *", "(step - 1) *")),
        "line_from_zero: only the line counts steps from 0, with step - 1, so the rate of the "
        "first step is 0": ("step * ", "(step - 1) * "),
        "peak_of_one: both curves are divided by their value at the peak, 1/√warmup_steps, so the "
        "rate rises to 1/√d_model": (RATE, f"({RATE}) * warmup_steps**0.5"),
        "step_counted_from_two: the formula gets step + 1, as if steps were counted from 0 "
        "[tugstugi/pytorch-saltnet #7, espnet/espnet #2088]": (
            RATE,
            RATE.replace("step**", "(step + 1)**").replace("step *", "(step + 1) *"),
        ),
        "line_to_one: the line is step / warmup_steps, which does not meet the other curve at "
        "warmup_steps": ("step * warmup_steps**-1.5", "step / warmup_steps"),
        "warmup_exponent: `warmup_steps` is raised to -0.5 instead of -1.5, so the line is too "
        "steep": ("warmup_steps**-1.5", "warmup_steps**-0.5"),
        "warmup_missing: there is no warm-up, so the rate falls from the first step on": (
            "min(step**-0.5, step * warmup_steps**-1.5)",
            "step**-0.5",
        ),
        "product_of_the_curves: the two curves are multiplied, but the smaller one is the rate": (
            RATE,
            "d_model**-0.5 * step**-0.5 * step * warmup_steps**-1.5",
        ),
        "constant_after_warmup: the rate stays at its peak after warmup_steps": (
            "min(step**-0.5",
            "min(warmup_steps**-0.5",
        ),
        "larger_of_the_two: max is called instead of min, so the rate is the larger curve": (
            "min(step**-0.5,",
            "max(step**-0.5,",
        ),
        "d_model_without_the_root: the rate is divided by d_model instead of √d_model": (
            "d_model**-0.5",
            "d_model**-1.0",
        ),
        "d_model_ignored: d_model is not used [Kyubyong/transformer #89, espnet/espnet #1519]": (
            "d_model**-0.5 * ",
            "",
        ),
    },
    "translation_loss": {
        "target_not_shifted: the model reads `tgt[:, 1:]`, the same tokens that it must predict "
        "[Kyubyong/transformer #94]": (SHIFT_LINES, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, 1:]"),
        "labels_not_shifted: the model is trained to predict `tgt[:, :-1]`, the same tokens that "
        "it reads": (SHIFT_LINES, "tgt_in, tgt_out = tgt[:, :-1], tgt[:, :-1]"),
        "shifted_backward: the model reads `tgt[:, 1:]` and must predict `tgt[:, :-1]`, so it "
        "predicts the token before": (SHIFT_LINES, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, :-1]"),
        "whole_target_on_both_sides: nothing is shifted, so the model reads the whole target and "
        "must predict the same tokens "
        "[IpsumDominum/Pytorch-Simple-Transformer #3]": (SHIFT_LINES, "tgt_in, tgt_out = tgt, tgt"),
        "padding_not_passed_on: `pad_id` is not passed to the loss, so padding counts as a token "
        "[BrianPulfer/PapersReimplementations #17, DaoyuanLi2816/Molecule-Generator #20]": (
            ARGUMENTS,
            "logits, tgt_out, smoothing=smoothing",
        ),
        "pad_id_always_zero: the loss gets `pad_id=0`, whatever `pad_id` is [INK-USC/MHGRN #8, "
        "hallerite/ludic #11]": ("pad_id=pad_id", "pad_id=0"),
        "softmax_before_the_loss: the logits go through a softmax before the loss applies its own "
        "[bowang-lab/Transformer-GCN-QA #32, lansinuote/Huggingface_Toturials #6]": (
            "model(src, tgt_in)",
            "model(src, tgt_in).softmax(dim=-1)",
        ),
        "source_shortened: the last column of the source is left out, but only the target loses "
        "one": ("model(src, tgt_in)", "model(src[:, :-1], tgt_in)"),
        "source_and_target_exchanged: the model gets the target first, but it reads the source "
        "first": ("model(src, tgt_in)", "model(tgt_in, src)"),
        **ignored(("smoothing", (ARGUMENTS, "logits, tgt_out, pad_id=pad_id"))),
        "sum_over_sentences: the losses are added up and divided by the number of sentences "
        "instead of the "
        "number of real tokens": ("return ", "return (tgt_out != pad_id).sum() / len(tgt_out) * "),
    },
    "training_step": {
        "zero_grad_missing: zero_grad is never called, so the gradients of all steps add up "
        "[udacity/deep-learning-v2-pytorch #160, pytorch/pytorch #47175]": (ZERO, ""),
        "zero_grad_after_backward: zero_grad is called between backward and step, so it clears the "
        "new gradients": ((ZERO, ""), (MOVE, ZERO + MOVE)),
        "zero_grad_for_every_loss: zero_grad is called for every loss, so only the gradients of "
        "the last loss remain": ((ZERO, ""), (BACK, f"    {ZERO}{BACK}")),
        "step_missing: optimizer.step() is never called, so no weight changes": (MOVE, ""),
        "backward_missing: loss.backward() is never called, so the optimizer has no gradients": (
            BACK,
            "",
        ),
        "step_before_backward: optimizer.step() is called before backward, when the gradients have "
        "just been cleared": ((MOVE, ""), (BACK, f"    {MOVE}{BACK}")),
        "step_for_every_loss: optimizer.step() is called for every loss instead of once at the "
        "end": (
            (MOVE, ""),
            (
                BACK,
                BACK
                + f"        for group in optimizer.param_groups:\n            {SET}\n    {MOVE}",
            ),
        ),
        "rate_set_after_the_step: the learning rate is set after optimizer.step(), so this step "
        "uses the old one": ((MOVE, ""), ("    for group in", f"{MOVE}    for group in")),
        "last_loss_returned: the last loss is returned instead of the sum of all losses": (
            "total + loss.detach()",
            "loss.detach()",
        ),
        "loss_not_detached: the returned loss is not detached, so its graph stays in memory "
        "[horovod/horovod #641, BatsResearch/labelmodels #4]": ("loss.detach()", "loss"),
        "loss_as_number: the loss is returned as a Python number instead of a detached tensor": (
            "return total",
            "return total.item()",
        ),
        "gradients_clipped: the gradients are clipped, even though clip_norm is not set": (
            "clip_norm: float = math.inf",
            "clip_norm: float = 1.0",
        ),
        "first_group_only: only the first parameter group gets the rate, so the others keep their "
        "old one": ("in optimizer.param_groups:", "in optimizer.param_groups[:1]:"),
        "losses_read_twice: `losses` is read once more for the sum, but a generator yields its "
        "losses only once": ("return total", "return sum(loss.detach() for loss in losses)"),
        "clipped_after_the_step: the gradients are clipped after optimizer.step(), which has "
        "already used them": ((MOVE, ""), (f"    {LIMIT}", f"{MOVE}    {LIMIT}")),
        "eval_mode: `model.eval()` is called, so dropout is off during training, but a training "
        "step must not change the model's mode": (ZERO, f"    model.eval()\n{ZERO}"),
        **ignored(("rate", (SET, "pass")), ("clip_norm", (LIMIT, "if clip_norm == 0"))),
    },
}

PATTERNS = {"clipped_after_the_step": r"\.step\(\)(?s:.*)clip_grad_norm_"}


# right answers


TORCH_LOSS = """pairs = logits.reshape(-1, logits.size(-1)), targets.reshape(-1)
        return F.cross_entropy(*pairs, label_smoothing=smoothing)"""

ANSWERS = {
    "label_smoothed_cross_entropy": {
        "by_selection: without padding, torch computes the loss; padding is cut out, not masked": (
            (f"return {SUM_OF_BOTH}.mean()", TORCH_LOSS),
            (SMOOTHED, "log_probs[..., torch.arange(logits.size(-1)) != pad_id].mean(dim=-1)"),
            (MEAN_OF_REAL, "losses[real].mean()"),
        ),
    },
}
