"""What goes wrong in the two schedules."""

from course_lib.exercises.mistake_catalogue import known

paper = known("training", "warmup_inverse_sqrt")
short = known("training", "warmup_cooldown")

RATE = "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)"
COOLING = "min(1.0, (steps + 1 - step) / cooldown_steps)"
PRODUCT = "scale * cooling * warmup_inverse_sqrt(step, d_model, warmup_steps)"

MISTAKES = (
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
        "max_in_place_of_min",
        "the larger of the two curves is taken: max in place of min",
        "student code",
        ("* min(step**", "* max(step**"),
    ),
    paper(
        "warmup_to_the_minus_half",
        "the line is step * warmup_steps**-0.5: its exponent is -1.5",
        "student code: one exponent for both",
        ("**-1.5", "**-0.5"),
    ),
    paper(
        "warmup_to_the_plus",
        "the line is step * warmup_steps**1.5: the minus of the exponent is missing",
        "student code",
        ("**-1.5", "**1.5"),
        tells=r"\*\*\s*\(?\s*1\.5|pow\([^)]*,\s*1\.5",
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
        "student code",
        ("min(step**-0.5, step * warmup_steps**-1.5)", "step**-0.5"),
    ),
    paper(
        "decay_missing",
        "the rate stays at its peak after the warm-up instead of falling",
        "warm-up followed by a constant rate",
        ("min(step**-0.5,", "min(warmup_steps**-0.5,"),
    ),
    paper(
        "decay_without_the_root",
        "the rate falls as 1/step instead of 1/√step",
        "student code",
        ("min(step**-0.5,", "min(step**-1.0,"),
    ),
    paper(
        "d_model_missing",
        "d_model is not used",
        "ports that scale by a base rate instead: Kyubyong/transformer #89, espnet/espnet #1519",
        ("d_model**-0.5 * ", ""),
    ),
    paper(
        "d_model_without_the_root",
        "the rate is divided by d_model instead of √d_model",
        "student code",
        ("d_model**-0.5", "d_model**-1.0"),
    ),
    paper(
        "d_model_multiplied",
        "the rate is multiplied by √d_model instead of divided by it",
        "student code: the minus of the exponent lost",
        ("d_model**-0.5", "d_model**0.5"),
    ),
    short(
        "zero_at_the_last_step",
        "the rate is zero in the last step already, which then changes nothing",
        "pytorch/torchtitan #1010, wangkaihong/Unsup_Recycle_GAN #14",
        ("steps + 1 - step", "steps - step"),
    ),
    short(
        "cooldown_starts_late",
        "the cooldown starts a step too late: its last step still has two parts of the rate",
        "off by one at the end of a schedule, as in pytorch/torchtitan #1261",
        ("steps + 1 - step", "steps + 2 - step"),
    ),
    short(
        "cooldown_of_one_more",
        "the cooldown starts a step too early: divided by cooldown_steps + 1",
        "pytorch/torchtitan #1261: decay_steps + 1",
        ("/ cooldown_steps", "/ (cooldown_steps + 1)"),
    ),
    short(
        "cooldown_from_the_first_step",
        "the rate is led down over the whole training instead of the last cooldown_steps",
        "schedules with a linear decay over all steps",
        ("/ cooldown_steps", "/ steps"),
    ),
    short(
        "cooldown_missing",
        "there is no cooldown",
        "student code",
        (COOLING, "1.0"),
    ),
    short(
        "cooldown_never_clipped",
        "what is left is not kept at 1: early steps get several times the rate",
        "student code: min(1, …) forgotten",
        (COOLING, "(steps + 1 - step) / cooldown_steps"),
    ),
    short(
        "cooldown_max",
        "max is taken in place of min: early steps get several times the rate, late ones all of it",
        "student code",
        (COOLING, COOLING.replace("min", "max")),
    ),
    short(
        "cooldown_cosine",
        "the rate goes down along a cosine instead of a line",
        "cosine schedules, the habit of today",
        (COOLING, f"0.5 - 0.5 * math.cos(math.pi * {COOLING})"),
    ),
    short(
        "cooldown_from_where_it_was",
        "the cooldown is a line from the rate at its start, while the paper's curve falls on",
        "warm-up, stable, decay schedules: a line from the last full rate",
        (
            PRODUCT,
            "scale * cooling * warmup_inverse_sqrt(\n"
            "        min(step, max(1, steps + 1 - cooldown_steps)), d_model, warmup_steps\n"
            "    )",
        ),
    ),
    short(
        "scale_missing",
        "scale is not used",
        "student code",
        (PRODUCT, PRODUCT.removeprefix("scale * ")),
    ),
    short(
        "scale_divides",
        "the rate is divided by scale instead of multiplied by it",
        "student code",
        (PRODUCT, "1 / " + PRODUCT),
    ),
    short(
        "step_counted_from_zero",
        "the paper's schedule gets step - 1, as if steps were counted from 0",
        "student code",
        ("warmup_inverse_sqrt(step,", "warmup_inverse_sqrt(step - 1,"),
    ),
    short(
        "step_counted_from_two",
        "the paper's schedule gets step + 1, as if steps were counted from 0",
        "student code",
        ("warmup_inverse_sqrt(step,", "warmup_inverse_sqrt(step + 1,"),
    ),
)
