"""What goes wrong in the two schedules."""

from course_lib.exercises.mistake_catalogue import known

paper = known("training", "warmup_inverse_sqrt")

RATE = "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)"

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
)
