"""Settings for all tests: one thread, no window, the same examples every time."""

import re
import socket
from pathlib import Path

import matplotlib
import pytest
import torch
from hypothesis import HealthCheck, settings
from random_inputs import make_generator, tiny_transformer
from xdist.scheduler import LoadScopeScheduling

from course_lib.interop.weights import find_weights

matplotlib.use("agg")
torch.set_num_threads(1)  # the models are tiny, and the machine may be shared

settings.register_profile(
    "course",
    derandomize=True,  # the same examples on every machine
    database=None,  # no files
    deadline=None,  # a slow machine is not a bug
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("course")


class Scopes(LoadScopeScheduling):
    """Keep the tests of a file in one process, which builds the file's fixtures once.

    Where the first parameter is an exercise or a textbook, its tests stay together instead.
    """

    def _split_scope(self, nodeid):
        path, _, test = nodeid.partition("::")
        parted = re.search(r"/checking/|/test_textbooks", path) and re.search(r"\[(\w+)", test)
        return parted[1] if parted else path


def pytest_xdist_make_scheduler(config, log):
    """Return the scheduler for ``--dist loadscope``."""
    return Scopes(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture
def generator():
    """Return a fresh random generator, so that no test depends on earlier tests."""
    return make_generator()


@pytest.fixture(scope="session")
def published():
    """Return a function that finds published weights, or skips the test if they are missing."""

    def find(name: str) -> Path:
        try:
            return find_weights(name)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return find


@pytest.fixture
def transformer():
    """Return a tiny model in float64, in training mode, without dropout."""
    return tiny_transformer()


@pytest.fixture(scope="module")
def no_network():
    """Prevent all code in a test module from contacting another computer."""

    def refuse(self, address):
        raise AssertionError(f"a test tried to connect to {address}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        yield
