"""What goes wrong in many steps."""

from course_lib.exercises.mistake_catalogue import known

many = known("training", "train")

SET_RATE = """        for group in optimizer.param_groups:
            group["lr"] = rate(step)
"""
TAKE = "        src, tgt = make_batch(step)\n"
STEP = "        losses.append(training_step(model, optimizer, src, tgt, smoothing))\n"
TELL = "        after_step(step, losses[-1])\n"
STEPS = "range(first_step, steps + 1)"
BAR = f"    bar = tqdm({STEPS}"
RETURN = "return [loss.item() for loss in losses]"
OPEN_STEP = """        logits = model(src, tgt[:, :-1])
        loss = label_smoothed_cross_entropy(
            logits, tgt[:, 1:], pad_id=model.config.pad_id, smoothing=smoothing
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
"""

MISTAKES = (
    many(
        "train_mode_missing",
        "model.train() is missing: a model that comes in eval mode learns without dropout",
        "pytorch/tutorials #1624, tk-rusch/coRNN #1",
        ("    model.train()\n", ""),
    ),
    many(
        "eval_mode",
        "the model is put into eval mode while it learns",
        "student code",
        ("model.train()", "model.eval()"),
    ),
    many(
        "rate_never_set",
        "the rate is never set: every step is made at the optimizer's own",
        "student code: a schedule that is computed and not used",
        (SET_RATE, ""),
    ),
    many(
        "rate_set_once",
        "the rate is set once, before the loop, and never again",
        "student code",
        (SET_RATE, ""),
        (
            BAR,
            "    for group in optimizer.param_groups:\n"
            f'        group["lr"] = rate(first_step)\n{BAR}',
        ),
    ),
    many(
        "rate_of_the_step_before",
        "the schedule gets step - 1, as if steps were counted from 0",
        "enumerate and schedulers that count from 0",
        ("rate(step)", "rate(step - 1)"),
    ),
    many(
        "rate_set_after_the_step",
        "the rate is set after the step, so that it acts one step late",
        "scheduler.step() after optimizer.step(), as torch's schedulers want it",
        (SET_RATE, ""),
        (STEP, STEP + SET_RATE),
    ),
    many(
        "rate_of_one_group",
        "only the first group of the optimizer gets the rate",
        'optimizer.param_groups[0]["lr"] = ...',
        ("in optimizer.param_groups:", "in optimizer.param_groups[:1]:"),
    ),
    many(
        "last_step_missing",
        "the loop ends before the last step: range(first_step, steps) leaves steps out",
        "Python's range, whose end is not included",
        (BAR, BAR.replace("steps + 1", "steps")),
    ),
    many(
        "steps_from_zero",
        "the steps are counted from 0 to steps - 1",
        "for step in range(steps)",
        (BAR, BAR.replace(STEPS, "range(first_step - 1, steps)")),
    ),
    many(
        "first_step_ignored",
        "first_step is ignored: a training that goes on starts again at step 1",
        "resumed trainings that count from the beginning",
        (BAR, BAR.replace(STEPS, "range(1, steps + 1)")),
    ),
    many(
        "steps_counted_from_first_step",
        "steps is taken for how many steps to make: it is the last one",
        "range(first_step, first_step + steps)",
        (BAR, BAR.replace(STEPS, "range(first_step, first_step + steps)")),
    ),
    many(
        "always_the_first_batch",
        "make_batch is always asked for step 1, and the model sees one batch only",
        "student code",
        ("make_batch(step)", "make_batch(1)"),
    ),
    many(
        "batch_taken_once",
        "the batch is taken once, before the loop, and never changes",
        "student code; next(iter(loader)) before the loop",
        (TAKE, ""),
        (BAR, f"    src, tgt = make_batch(first_step)\n{BAR}"),
    ),
    many(
        "batch_of_the_step_before",
        "make_batch gets step - 1, as if steps were counted from 0",
        "student code",
        ("make_batch(step)", "make_batch(step - 1)"),
    ),
    many(
        "after_step_missing",
        "after_step is never called",
        "student code",
        (TELL, ""),
    ),
    many(
        "after_step_before_the_step",
        "after_step is called before the weights have moved: what it saves is one step old",
        "student code: a checkpoint written between backward and step",
        (
            STEP,
            OPEN_STEP.replace("        optimizer.step()\n        losses.append(loss)\n", "")
            + "        after_step(step, loss.detach())\n        optimizer.step()\n"
            "        losses.append(loss.detach())\n",
        ),
        (TELL, ""),
    ),
    many(
        "after_step_at_the_end",
        "after_step is called once, after the last step",
        "student code: a line indented too little",
        (TELL, ""),
        (f"    {RETURN}", f"    after_step(step, losses[-1])\n    {RETURN}"),
    ),
    many(
        "after_step_counts_from_zero",
        "after_step is told step - 1, as if steps were counted from 0",
        "student code: enumerate",
        ("after_step(step,", "after_step(step - 1,"),
    ),
    many(
        "after_step_now_and_then",
        "after_step is called only where the progress bar shows the loss",
        "student code: a line indented too far",
        (TELL, ""),
        ('.3f}")\n', '.3f}")\n            after_step(step, losses[-1])\n'),
    ),
    many(
        "losses_as_tensors",
        "the losses are returned as tensors: numbers are asked for, `loss.item()`",
        "student code",
        (RETURN, "return losses"),
    ),
    many(
        "losses_with_their_graphs",
        "the losses are kept with their graphs: memory grows with every step",
        "TRI-ML/packnet-sfm #51, pytorch/pytorch #17568",
        (STEP, OPEN_STEP),
        (RETURN, "return losses"),
    ),
    many(
        "last_loss_only",
        "only the last loss is returned",
        "student code",
        (RETURN, "return losses[-1].item()"),
    ),
    many(
        "mean_loss_only",
        "the mean of all losses is returned instead of each of them",
        "student code",
        (RETURN, "return sum(loss.item() for loss in losses) / len(losses)"),
    ),
    many(
        "smoothing_not_handed_on",
        "smoothing is not handed on: every step smooths by 0.1",
        "student code",
        ("src, tgt, smoothing)", "src, tgt, 0.1)"),
    ),
)
