"""The schedule explorer shows recorded runs, and agrees with the answers in its side trip."""

import re

from figure_asserts import answer_of_chapter

from course_lib.training import warmup_inverse_sqrt
from course_lib.viz.schedule_explorer import ScheduleExplorer

RUNS = {run["warmup_steps"]: run for run in ScheduleExplorer().runs}
LAST = {
    warmup_steps: [losses[-1] for losses in RUNS[warmup_steps]["losses"]] for warmup_steps in RUNS
}


def test_the_question_of_the_side_trip_has_the_printed_answer():
    answer = answer_of_chapter(ScheduleExplorer)
    said = re.findall(
        r"warm-up of ([\d,]+)(?:(?!warm-up of).)*?(\d\.\d+) to (\d\.\d+) nats", answer
    )
    for warmup_steps, low, high in said:
        reached = LAST[int(warmup_steps.replace(",", ""))]
        assert (low, high) == (f"{min(reached):.2f}", f"{max(reached):.2f}")
    assert [warmup_steps for warmup_steps, *_ in said] == ["800", "1", "4,000"]
    assert all(max(LAST[800]) < min(LAST[other]) for other in LAST if other != 800)
    assert all(losses[-5] - losses[-1] > 0.3 for losses in RUNS[4000]["losses"])
    assert f"rate of {warmup_inverse_sqrt(1, 128, 1):.3f}" in answer
    assert f"only reached {warmup_inverse_sqrt(450, 128, 4000):.5f}" in answer
    text = answer.partition("</details>")[2]
    peak = warmup_inverse_sqrt(50, 128, 50)
    assert f"{peak:.4f} becomes {0.15 * peak:.4f}" in text
