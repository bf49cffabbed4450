"""Exercises of chapter 11: trials, known mistakes and right answers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.small_models import small_model
from course_lib.exercises.trial import T, Trial, by_name, function_trial, looks, normal, observe
from course_lib.training import label_smoothed_cross_entropy, translation_loss

V = 7
TARGETS = torch.tensor([[5, 0, 2, 1], [6, 3, 3, 3]])  # (2, T): with pad_id=3, four and one
WITH_ZEROS = torch.tensor([[5, 3, 2, 0], [6, 0, 0, 0]])  # (2, T): with pad_id=0, three and one
SQUARE = torch.tensor([[3, 1, 0], [1, 2, 0], [2, 0, 0]])  # (3, 3), with 4 entries
WARMUP, D_MODEL = 5, 16
LR = 0.5
SMOOTHING = dict(smoothing=0.3)
RATES = (LR, 0.25)
CLIP = "`nn.utils.clip_grad_norm_(model.parameters(), clip_norm)` comes right before the step."
BATCHES = [  # with pad_id=0: source (2, 3) and target (2, 5), from bos 1 to eos 2
    (torch.tensor([[7, 8, 9], [6, 10, 0]]), torch.tensor([[1, 9, 5, 3, 2], [1, 6, 2, 0, 0]])),
    (torch.tensor([[10, 4, 6], [3, 9, 0]]), torch.tensor([[1, 7, 10, 2, 0], [1, 3, 4, 8, 2]])),
]
WITH_THREES = tuple(ids + 3 * (ids == 0).long() - 3 * (ids == 3).long() for ids in BATCHES[0])
FORMULA = (
    "Minus the log-probability of the right token, times 1 - smoothing, and minus the mean "
    "log-probability of all entries that may be written, times smoothing."
)
PADDING = (
    "A target that is padding counts for nothing: not in the sum, and not in the number by which "
    "the sum is divided."
)
EQUATION = "Equation (3): 1/√d_model times the smaller of 1/√step and step / warmup^1.5."
SHIFT = "The loss compares what the model predicts after `tgt[:, :-1]` with `tgt[:, 1:]`."
STEP = (
    "Every weight moves once, against the sum of its gradients of all losses, and the step returns "
    "the sum of the losses."
)


def scores(targets: Tensor = TARGETS, num: int = V, size: float = 2.5) -> dict[str, Tensor]:
    """Make logits for some targets."""
    return {"logits": size * normal("logits", *targets.shape, num), "targets": targets}


def loss(label: str, given: dict | None = None, **options: Any) -> Trial:
    """Compare a loss and its gradients."""
    says = f"{PADDING} {FORMULA}" if "pad_id" in options else FORMULA
    return function_trial(label, given or scores(), ("loss",), options=options, says=says)


@looks(
    "equal scores for all tokens",
    "Every token then has probability 1/V, and the surprise is ln V nats.",
)
def uniform(candidate: Callable) -> dict[str, float]:
    """Ask what a model costs that finds every token equally likely."""
    return {"loss of equal scores": float(candidate(torch.zeros(2, T, V), TARGETS.clone()))}


def rates(label: str, steps: Any, d_model: int, warmup_steps: int) -> Trial:
    """Compare the rates of some steps."""

    @looks(label, EQUATION, "equality")
    def act(candidate: Callable) -> dict[str, float]:
        """Ask for each."""
        return {f"rate of step {n}": float(candidate(n, d_model, warmup_steps)) for n in steps}

    return act


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights."""
    return {name: parameter.detach().clone() for name, parameter in by_name(model).items()}


def shifted(
    label: str,
    batch: tuple[Tensor, ...] = BATCHES[0],
    pad_id: int = 0,
    max_len: int = 6,
    **how: Any,
) -> Trial:
    """Compare the loss of a batch, and the gradients of all weights."""

    def act(candidate: Callable) -> Outcome:
        """Call it on a new model."""
        model = small_model(pad_id, max_len).train()
        call = lambda now: candidate(model, *now.values(), pad_id=pad_id, **how)  # noqa: E731
        given = dict(zip(("src", "tgt"), batch, strict=True))
        return observe(call, given, ("loss",), by_name(model))

    return Trial(label, act, says=f"{SHIFT} {PADDING}")


def stepped(
    label: str, steps: list, rates: tuple = (LR,), groups: int = 1, says: str = STEP, **options: Any
) -> Trial:
    """Compare losses and weights after some steps; tell why where nothing moves.

    Args:
        label: What is special about it.
        steps: For each step the batches of its losses: one in a list, several from a generator.
        rates: The learning rate of each step.
        groups: Parameter groups of the optimizer.
        says: What a wrong value means here.
        options: Arguments given by name.
    """

    def act(candidate: Callable) -> Outcome:
        """Make the steps."""
        model = small_model().train()
        before, calls = weights_of(model), set()
        parts = [{"params": [*model.parameters()][first::groups]} for first in range(groups)]
        optimizer = torch.optim.SGD(parts, lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: calls.add("optimizer.step"))
        next(model.parameters()).register_hook(lambda _: calls.add("loss.backward"))
        shown: dict[str, Any] = {}
        for n, (batches, rate) in enumerate(zip(steps, rates, strict=True), start=1):
            losses = (translation_loss(model, *batch, pad_id=0) for batch in batches)
            losses = losses if batches[1:] else [*losses]
            value = candidate(model, optimizer, losses, rate, **options)
            shown[f"loss of step {n}"] = value.detach() if isinstance(value, Tensor) else value
        modes = [model.training, *sum(model.modes.values(), [])]
        shown["the model stays in training mode"] = all(modes)
        shown["weights"] = weights_of(model)
        if all(torch.equal(old, shown["weights"][name]) for name, old in before.items()):
            left = any(parameter.grad is not None for parameter in model.parameters())
            shown["nothing moves"] = {"calls": " ".join(sorted(calls)), "gradients left": left}
        return Outcome(shown)

    return Trial(label, act, says=says)


@looks("the returned loss", "Detach the losses, so that nobody who keeps them keeps their graphs.")
def graph_kept(candidate: Callable) -> dict[str, bool]:
    """Look whether the loss still holds on to its graph."""
    model = small_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    value = candidate(model, optimizer, [translation_loss(model, *BATCHES[0], pad_id=0)], LR)
    return {"the loss keeps its graph": isinstance(value, Tensor) and value.requires_grad}


EXERCISES = (
    Exercise(
        "label_smoothed_cross_entropy",
        "training",
        30,
        core={
            "formula": (loss("every target real, and the smoothing of 0.1"), uniform),
            "padding": (
                loss("pad_id=3", pad_id=3),
                loss("pad_id=0", scores(WITH_ZEROS), pad_id=0),
                loss("sizes that are all equal", scores(SQUARE, 4), pad_id=0),
            ),
        },
        hints=(
            "Turn the logits into log-probabilities over the last axis. One term reads them at the "
            "right token, the other averages them over all entries that may be written.",
            "`log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` reads the right tokens. "
            "The doubt goes to all V entries without `pad_id`; with it, to the V - 1 that are not "
            "padding, the right one included.",
            "With `pad_id`, set the losses where `targets == pad_id` to 0, add up the rest, and "
            "divide by how many targets are real. (`pad_id` may be 0: ask `is None`.)",
        ),
        extras={
            "smoothing": (
                loss("pad_id=3 and smoothing=0.3", pad_id=3, smoothing=0.3),
                loss("pad_id=0 and smoothing=0", scores(WITH_ZEROS), pad_id=0, smoothing=0.0),
            ),
            "large logits": (loss("logits in the hundreds", scores(size=150), pad_id=3),),
            "single token": (loss("a single token", scores(torch.tensor(5)), pad_id=3),),
        },
        unnamed=("smoothing * doubt)", "2 * smoothing * doubt)"),
    ),
    Exercise(
        "warmup_inverse_sqrt",
        "training",
        10,
        core={
            "warm-up": (rates("the steps of the warm-up", range(1, 6), D_MODEL, WARMUP),),
            "decay": (rates("the steps behind the peak", range(6, 12), D_MODEL, WARMUP),),
            "d_model": (
                rates("a wider model", (1, 2, 3, 6), 25, 2),
                rates("a warm-up of one step", (1, 2, 3), 4, 1),
            ),
        },
        hints=(
            "Two curves, and the rate is the smaller of them: a line through 0, and 1/√step.",
            "`d_model**-0.5 * min(…, …)`; the line is `step * warmup_steps**-1.5`.",
        ),
        unnamed=("step**-0.5", "step**-0.6"),
    ),
    Exercise(
        "translation_loss",
        "training",
        5,
        core={
            "shift": (shifted("a padded batch"), shifted("the next batch", BATCHES[1])),
            "padding": (shifted("pad_id=3", WITH_THREES, pad_id=3),),
            "max_len": (shifted("a target of max_len + 1", max_len=4),),
        },
        hints=(
            "Cut `tgt` twice: the model reads all but the last column, and it must predict all but "
            "the first.",
            "`label_smoothed_cross_entropy` needs `pad_id=pad_id` and `smoothing=smoothing`.",
        ),
        extras={"smoothing": (shifted("smoothing=0.3", **SMOOTHING),)},
        unnamed=("model(src, tgt_in)", "model(src, tgt_in).sin()"),
    ),
    Exercise(
        "training_step",
        "training",
        10,
        core={
            "one step": (stepped("one loss", [BATCHES[:1]]),),
            "two steps": (
                stepped("another rate in the second step", [[b] for b in BATCHES], RATES),
            ),
            "several losses": (stepped("two losses from a generator", [BATCHES]),),
        },
        hints=(
            "Old gradients go first (`optimizer.zero_grad()`). Then each loss adds its own, by "
            "`loss.backward()`.",
            'Each of `optimizer.param_groups` is a dict; write the rate to `group["lr"]`. Then '
            "call `optimizer.step()` once.",
        ),
        extras={
            "parameter groups": (stepped("two parameter groups", [BATCHES[:1]], groups=2),),
            "clip_norm": (
                stepped("clip_norm=0.2", [BATCHES[:1]], says=CLIP, clip_norm=0.2),
                stepped("a clip_norm that is not reached", [BATCHES[:1]], clip_norm=1e3),
            ),
            "detached loss": (graph_kept,),
        },
        unnamed=("optimizer.step()", "optimizer.step() or optimizer.step()"),
    ),
)


# known mistakes

loss_mistake = known("training", "label_smoothed_cross_entropy")
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

SHIFT_LINES = "tgt_in = tgt[:, :-1]  # (B, T)\n    tgt_out = tgt[:, 1:]  # (B, T)"
CALL = "logits = model(src, tgt_in)"
HANDED_ON = "logits, tgt_out, pad_id=pad_id, smoothing=smoothing"

ZERO = "    optimizer.zero_grad()\n"
BACK = "        loss.backward()\n"
ADDED = "        total = total + loss.detach()\n"
SET = '        group["lr"] = rate\n'
MOVE = "    optimizer.step()\n"
LIMIT = "if clip_norm < math.inf"


LOSSES = (
    loss_mistake(
        "double_softmax",
        "the logits go through a softmax before the loss takes its own",
        (LOGS, "logits.softmax(dim=-1).log_softmax(dim=-1)"),
        seen="vinhkhuc/PyTorch-Mini-Tutorials #1, DSKSD/DeepNLP-models-Pytorch #2",
    ),
    loss_mistake(
        "log_missing",
        "probabilities stand where their logarithms belong: softmax in place of log_softmax",
        (LOGS, "logits.softmax(dim=-1)"),
    ),
    loss_mistake(
        "log_softmax_missing",
        "logits are read as if they were log-probabilities: log_softmax is missing",
        (LOGS, "logits * 1.0"),
    ),
    loss_mistake(
        "log_of_softmax",
        "log and softmax are taken one after the other: a probability of 0 becomes -inf",
        (LOGS, "logits.softmax(dim=-1).log()"),
    ),
    loss_mistake(
        "softmax_over_positions",
        "log_softmax runs over axis 1, the positions, instead of the last one, the vocabulary",
        (LOGS, "logits.log_softmax(dim=1)"),
        seen="pytorch/pytorch #27626, stanford-cs336/spring2024-assignment2-systems #4",
    ),
    loss_mistake(
        "vocabulary_on_the_wrong_axis",
        "F.cross_entropy gets (B, T, V) and takes axis 1 for the vocabulary: it wants (B, V, T)",
        (
            BEGIN,
            "ignored = -100 if pad_id is None else pad_id\n"
            "    return F.cross_entropy(\n"
            "        logits, targets, ignore_index=ignored, label_smoothing=smoothing\n"
            "    )\n"
            f"    {BEGIN}",
        ),
        seen="markhliu/DGAI #7, bentrevett/pytorch-seq2seq #166",
    ),
    loss_mistake(
        "padding_counted",
        "padding counts as if it were a token, in the sum and in the mean",
        (MEAN_OF_REAL, "losses.mean()"),
        seen="DaoyuanLi2816/Molecule-Generator #20, voidism/DiffCSE #25",
    ),
    loss_mistake(
        "padding_in_the_denominator",
        "padding is left out of the sum, but still counted when the mean divides",
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).mean()"),
        seen="tensorflow/docs #1460, eladhoffer/utils.pytorch #4",
    ),
    loss_mistake(
        "padding_in_the_sum",
        "padding is added up with the rest (masked_fill returns a new tensor: was it kept?), "
        "though the mean divides by the real tokens only",
        (MEAN_OF_REAL, "losses.sum() / real.sum()"),
        seen="pytorch/pytorch #73205",
    ),
    loss_mistake(
        "doubt_at_padding",
        "padding is left out of the first term only: its doubt is still added up",
        (BLEND + "  # (...)", "-((1 - smoothing) * right * real + smoothing * doubt)"),
        (MEAN_OF_REAL, "losses.sum() / real.sum()"),
        seen="pytorch/pytorch #7455 (a comment), pytorch/pytorch #73205",
    ),
    loss_mistake(
        "mean_over_sentences",
        "each sentence is averaged first: tokens of a short sentence weigh more",
        (
            MEAN_OF_REAL,
            "(losses.masked_fill(~real, 0.0).sum(-1) / real.sum(-1).clamp(min=1)).mean()",
        ),
        seen="d2l-ai/d2l-en #2707: a mean for each sentence first",
    ),
    loss_mistake(
        "sum_in_place_of_mean",
        "the losses are added up and not divided",
        (MEAN_OF_ALL, f"return {BLEND}.sum()"),
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).sum()"),
    ),
    loss_mistake(
        "smoothing_on_padding",
        "the doubt is spread over all V entries, padding among them, as F.cross_entropy does",
        (DOUBT, "log_probs.mean(dim=-1)"),
        seen="F.cross_entropy with ignore_index and label_smoothing, pytorch/pytorch #63122",
    ),
    loss_mistake(
        "smoothing_over_v",
        "padding gets no doubt, yet the doubt is divided by V: it adds up to less than 1",
        ("others = log_probs.size(-1) - 1", "others = log_probs.size(-1)"),
    ),
    loss_mistake(
        "smoothing_sums_padding",
        "the doubt is divided by V - 1, yet padding's log-probability is still in the sum",
        (DOUBT, "log_probs.sum(dim=-1) / others"),
    ),
    loss_mistake(
        "smoothing_off_the_right_token",
        "the right token gets none of the doubt: here it is spread over the right one too",
        (DOUBT, f"({SUM} - right) / (others - 1)"),
        (DOUBT_OF_ALL, "doubt = (log_probs.sum(dim=-1) - right) / (log_probs.size(-1) - 1)"),
        seen="OpenNMT/OpenNMT-py #1463",
    ),
    loss_mistake(
        "divergence_in_place_of_the_loss",
        "the divergence from q is returned (kl_div): the loss is larger by the entropy of q",
        (BEGIN, f"{OWN_Q}    {BEGIN}"),
        seen="OpenNMT/OpenNMT-py #1463: label smoothing by KL-divergence",
    ),
    loss_mistake(
        "annotated_divergence",
        "the divergence from another q is returned, as by The Annotated Transformer",
        (BEGIN, f"{ANNOTATED_Q}    {BEGIN}"),
        seen="OpenNMT/OpenNMT #570 and Thijsvanede/DeepCASE #8: smoothing / (size - 2), kl_div",
    ),
    loss_mistake(
        "pad_zero_taken_for_none",
        "pad_id=0 is taken for no padding: `if pad_id` is false for 0, ask `is None`",
        ("if pad_id is None:", "if not pad_id:"),
        seen="huggingface/transformers #47286, huggingface/transformers #25625",
    ),
    loss_mistake(
        "pad_id_always_zero",
        "padding is looked for at id 0, whatever pad_id says",
        ("torch.full((1,), pad_id", "torch.full((1,), 0"),
        ("targets != pad_id", "targets != 0"),
        seen="INK-USC/MHGRN #8, hallerite/ludic #11",
    ),
    *ignored(loss_mistake, ("smoothing", (BLEND, "-right"))),
    loss_mistake(
        "sum_over_sentences",
        "the losses are added up and divided by the number of sentences instead of the number "
        "of real tokens",
        (MEAN_OF_ALL, f"return {BLEND}.sum() / targets.shape[:1].numel()"),
        (MEAN_OF_REAL, "losses.masked_fill(~real, 0.0).sum() / targets.shape[:1].numel()"),
    ),
    *ignored(loss_mistake, ("pad_id", ("if pad_id is None:", "if True:"))),
)

RATE_MISTAKES = (
    paper(
        "step_counted_from_zero",
        "the first step is taken for step 0: the formula gets step - 1",
        (RATE, RATE.replace("step**", "(step - 1)**").replace("step *", "(step - 1) *")),
        seen="google-research/bert #1293: a first step at rate zero",
    ),
    paper(
        "step_counted_from_two",
        "the formula gets step + 1, as if steps were counted from 0",
        (RATE, RATE.replace("step**", "(step + 1)**").replace("step *", "(step + 1) *")),
        seen="tugstugi/pytorch-saltnet #7, espnet/espnet #2088: step += 1 for schedulers from 0",
    ),
    paper(
        "line_to_one",
        "the line is step / warmup_steps, which does not meet the other curve at its peak",
        ("step * warmup_steps**-1.5", "step / warmup_steps"),
    ),
    paper(
        "warmup_missing",
        "there is no warm-up: the rate falls from the first step on",
        ("min(step**-0.5, step * warmup_steps**-1.5)", "step**-0.5"),
    ),
    paper(
        "d_model_without_the_root",
        "the rate is divided by d_model instead of its root, √d_model",
        ("d_model**-0.5", "d_model**-1.0"),
    ),
    paper(
        "d_model_ignored",
        "d_model is not used",
        ("d_model**-0.5 * ", ""),
        seen="Kyubyong/transformer #89, espnet/espnet #1519",
    ),
)

ONE_BATCH = (
    batch_loss(
        "target_not_shifted",
        "the model reads `tgt[:, 1:]`, the very tokens that it has to predict",
        (SHIFT_LINES, "tgt_in, tgt_out = tgt[:, 1:], tgt[:, 1:]"),
        seen="Kyubyong/transformer #94: a model that copies its input and fails at test time",
    ),
    batch_loss(
        "labels_not_shifted",
        "the model must predict `tgt[:, :-1]`, the very tokens that it reads",
        (SHIFT_LINES, "tgt_in, tgt_out = tgt[:, :-1], tgt[:, :-1]"),
        seen="jadore801120/attention-is-all-you-need-pytorch #123 asks where the shift is",
    ),
    batch_loss(
        "whole_target_on_both_sides",
        "the model reads the whole target and must predict the whole target: nothing is shifted",
        (SHIFT_LINES, "tgt_in, tgt_out = tgt, tgt"),
        seen="IpsumDominum/Pytorch-Simple-Transformer #3: a fine loss, and no translation",
    ),
    batch_loss(
        "padding_not_handed_on",
        "the loss is not told what padding is: pad_id is missing",
        (HANDED_ON, "logits, tgt_out, smoothing=smoothing"),
        seen="BrianPulfer/PapersReimplementations #17, DaoyuanLi2816/Molecule-Generator #20",
    ),
    batch_loss(
        "pad_id_always_zero",
        "the loss is told that padding is id 0, whatever pad_id says",
        ("pad_id=pad_id", "pad_id=0"),
        seen="INK-USC/MHGRN #8, hallerite/ludic #11",
    ),
    batch_loss(
        "softmax_before_the_loss",
        "the logits go through a softmax before the loss takes its own",
        (CALL, f"{CALL}.softmax(dim=-1)"),
        seen="bowang-lab/Transformer-GCN-QA #32, lansinuote/Huggingface_Toturials #6",
    ),
    *ignored(batch_loss, ("smoothing", (HANDED_ON, "logits, tgt_out, pad_id=pad_id"))),
    batch_loss(
        "sum_over_sentences",
        "the losses are added up and divided by the number of sentences instead of the number "
        "of real tokens",
        ("return ", "return (tgt_out != pad_id).sum() / len(tgt_out) * "),
    ),
)

ONE_STEP = (
    step(
        "zero_grad_missing",
        "old gradients are not cleared: those of all steps pile up",
        (ZERO, ""),
        seen="udacity/deep-learning-v2-pytorch #160, pytorch/pytorch #47175",
    ),
    step(
        "zero_grad_after_backward",
        "zero_grad stands between backward and step: the new gradients are cleared, nothing moves",
        (ZERO, ""),
        (MOVE, ZERO + MOVE),
        seen="rll/deepul #12 and patrickloeber/pytorchTutorial #19 ask about the order",
    ),
    step(
        "zero_grad_for_every_loss",
        "zero_grad is called for every loss, so only the gradients of the last one remain",
        (ZERO, ""),
        (BACK, f"    {ZERO}{BACK}"),
    ),
    step(
        "step_missing",
        "optimizer.step() is never called: gradients come, and no weight moves",
        (MOVE, ""),
    ),
    step(
        "backward_missing",
        "loss.backward() is never called: the optimizer has no gradients to go by",
        (BACK, ""),
    ),
    step(
        "step_before_backward",
        "optimizer.step() stands before backward, when the gradients have just been cleared",
        (MOVE, ""),
        (BACK, f"    {MOVE}{BACK}"),
        seen="a question under inyeoplee77/SAGPool #15",
    ),
    step(
        "loss_not_detached",
        "the loss is returned with its graph, which then stays in memory",
        (ADDED, "        total = total + loss\n"),
        seen="horovod/horovod #641, BatsResearch/labelmodels #4",
    ),
    step(
        "loss_as_number",
        "the loss is returned as a Python number: a tensor is asked for, detached",
        ("return total", "return total.item()"),
    ),
    step(
        "gradients_clipped",
        "the gradients are clipped although no limit is given",
        ("clip_norm: float = math.inf", "clip_norm: float = 1.0"),
    ),
    step(
        "eval_mode",
        "`model.eval()` is called, so dropout is off in training; a training step keeps the "
        "mode of the model",
        (ZERO, f"    model.eval()\n{ZERO}"),
    ),
    *ignored(step, ("rate", (SET, "        pass\n")), ("clip_norm", (LIMIT, "if clip_norm == 0"))),
)


MISTAKES = (*LOSSES, *RATE_MISTAKES, *ONE_BATCH, *ONE_STEP)


# right answers


def loss_by_torch(
    scores: Tensor, right: Tensor, *, pad_id: int | None = None, smoothing: float = 0.1
) -> Tensor:
    """Let torch do what it does right: without padding all of it, with padding the first term."""
    scores, right = scores.reshape(-1, scores.size(-1)), right.reshape(-1)
    if pad_id is None:
        return F.cross_entropy(scores, right, label_smoothing=smoothing)
    sure = F.cross_entropy(scores, right, ignore_index=pad_id)
    log_probs = F.log_softmax(scores[right != pad_id], dim=1)
    allowed = torch.arange(scores.size(-1)) != pad_id
    return (1 - smoothing) * sure - smoothing * log_probs[:, allowed].mean()


def loss_of_a_short_signature(logits, target, pad_id=None):
    """Fix the smoothing at 0.1, and pick the real tokens first: the core and no more."""
    logits, target = logits.reshape(-1, logits.size(-1)), target.reshape(-1)
    if pad_id is not None:
        logits, target = logits[target != pad_id], target[target != pad_id]
    log_probs = F.log_softmax(logits, dim=-1)
    q = torch.full_like(log_probs, 0.1 / (logits.size(-1) - (pad_id is not None)))
    if pad_id is not None:
        q[:, pad_id] = 0
    q[torch.arange(len(target)), target] += 0.9
    return -(q * log_probs).sum(dim=-1).mean()


def rate_by_cases(step, d_model, warmup_steps):
    """Climb before the peak, fall behind it."""
    peak = 1 / math.sqrt(d_model * warmup_steps)
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * math.sqrt(warmup_steps / step)


def noam_rate(step, model_size, warmup, factor=1.0):
    """Write it as The Annotated Transformer does, under its names."""
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


def loss_by_encode_and_decode(model, src, tgt, *, pad_id, smoothing=0.1):
    """Call both halves of the model, and cut with narrow."""
    logits = model.decode(tgt.narrow(1, 0, tgt.size(1) - 1), model.encode(src), src)
    return loss_by_torch(
        logits, tgt.narrow(1, 1, tgt.size(1) - 1), pad_id=pad_id, smoothing=smoothing
    )


def loss_by_the_book(net, src, tgt, pad_id):
    """Write it under short names, with the smoothing of the paper: the core and no more."""
    x, y = tgt[:, :-1], tgt[:, 1:]
    return label_smoothed_cross_entropy(net(src, x), y, pad_id=pad_id)


def step_that_clears_behind_itself(model, optimizer, losses, rate, *, clip_norm=math.inf):
    """Clear the gradients after the step, in time for the next one; add up numbers at the end."""
    parts = []
    for loss in losses:
        loss.backward()
        parts.append(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimizer.param_groups:
        group.update(lr=rate)
    optimizer.step()
    optimizer.zero_grad()
    return torch.stack(parts).sum()


def step_by_the_book(net, opt, losses, lr):
    """Write the lines of every tutorial, under their short names, for a single group."""
    opt.param_groups[0]["lr"] = lr
    opt.zero_grad(set_to_none=True)
    total = sum(losses)
    total.backward()
    opt.step()
    return total.data


ANSWERS = {
    "label_smoothed_cross_entropy": (loss_by_torch, loss_of_a_short_signature),
    "warmup_inverse_sqrt": (rate_by_cases, noam_rate),
    "translation_loss": (loss_by_encode_and_decode, loss_by_the_book),
    "training_step": (step_that_clears_behind_itself, step_by_the_book),
}
