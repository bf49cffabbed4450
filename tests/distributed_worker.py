"""The command line in float64, for tests that start several processes and kill some."""

import os
import signal
import sys
from pathlib import Path

import torch

from course_lib.cli.main import main
from course_lib.trainer import loop

MAKE_STEP = loop.make_step


def dying(run):
    """Make a step, or kill the process if this is the step at which it has to die."""
    order = os.environ["COURSE_TEST_KILL"]
    if f"{run.world.rank} {run.step + 1}" == order:
        os.kill(os.getpid(), signal.SIGKILL)
    MAKE_STEP(run)


def course(words, environment, log):
    """Run a command in a forked process, with an environment and a file for its output."""
    os.environ.update(environment)
    with Path(log).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    in_float64(words)


def in_float64(words=None):
    """Run a command in float64 on one thread, and end the process."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    loop.SAVE_EVERY = 3  # a checkpoint between two measurements
    if "COURSE_TEST_KILL" in os.environ:
        loop.make_step = dying
    sys.exit(main(words))
