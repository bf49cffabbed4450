"""The command line in float64, for tests that start several processes, and kill one of them."""

import os
import signal
import sys
from pathlib import Path

import torch

from course_lib.cli import main
from course_lib.trainer import loop
from course_lib.trainer.distributed import is_restarted

MAKE_STEP = loop.make_step


def dying(run):
    """Make a step, or die without a word in the one that was ordered; a restart lives on."""
    rank, step, note = os.environ["COURSE_TEST_KILL"].split(maxsplit=2)
    if (run.world.rank, run.step + 1) == (int(rank), int(step)) and not is_restarted():
        Path(note).write_text(f"rank {rank} died at step {step}")
        os.kill(os.getpid(), signal.SIGKILL)
    MAKE_STEP(run)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if "COURSE_TEST_KILL" in os.environ:
        loop.make_step = dying
    sys.exit(main())
