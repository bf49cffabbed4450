"""Treasure hunts follow their notes, and the verifier and best of n agree with a search by hand."""

import torch

from course_lib.tasks.hunts import BOXES, accepted, draw_hunts, examples

PROMPTS, PATHS = draw_hunts(20, torch.Generator().manual_seed(0), notes_to_read=9)


def test_a_path_reads_one_note_after_another_and_returns_to_no_box():
    for prompt, path in zip(PROMPTS.tolist(), PATHS.tolist(), strict=True):
        *notes, box = prompt
        for following in path:
            assert following == notes[box]
            box = following
        assert sorted([prompt[-1], *path]) == list(range(BOXES))


def test_the_ways_differ_in_what_they_read_and_predict():
    rows = {
        way: examples(way, PROMPTS, PATHS) for way in ("at once", "dots", "dots, all five", "steps")
    }
    for way, (read, targets) in rows.items():
        assert torch.equal(read[:, : BOXES + 1], PROMPTS) and read.shape == targets.shape
        assert torch.equal(targets[:, -1], PATHS[:, -1])
        graded = 1 if way in ("at once", "dots") else 9
        assert (targets != -100).sum(dim=1).tolist() == [graded] * 20
    assert torch.equal(rows["dots, all five"][0], rows["dots"][0])
    assert torch.equal(rows["dots, all five"][1], rows["steps"][1])
    assert rows["at once"][0].shape == PROMPTS.shape
    read, targets = rows["steps"]
    assert torch.equal(read[:, BOXES + 1 :], targets[:, BOXES:-1]), (
        "each step is predicted, then read"
    )


def test_the_verifier_accepts_a_path_only_if_every_step_is_right():
    assert accepted(PROMPTS, PATHS[None]).all()
    for place in range(9):
        wrong = PATHS.clone()
        wrong[:, place] = (wrong[:, place] + 1) % (BOXES + 1)  # perhaps a dot
        assert not accepted(PROMPTS, wrong[None]).any()
