"""Settings of nbval: outputs that it does not compare, cells that it skips, and fast kernels."""

import multiprocessing
import os
import signal
import sys
import time

import pytest

LIBRARIES = ["torch", "matplotlib.pyplot", "ipykernel.kernelapp", "ipywidgets", "course_lib.viz"]
LIBRARIES += ["course_lib.exercises", "course_lib.tasks.numbers", "course_lib.interop.llama"]
LIBRARIES += ["torch._dynamo"]  # which every optimizer loads


class ForkedKernel:
    """A fork of a process that has imported the libraries, which takes a kernel seconds.

    It has the attributes of ``subprocess.Popen`` that jupyter_client uses.
    """

    stdin = stdout = stderr = None

    def __init__(self, command, cwd, **_):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LIBRARIES)
        self.process = context.Process(target=serve, args=(command, cwd))
        self.process.start()
        self.pid = self.process.pid
        self.kill, self.terminate = self.process.kill, self.process.terminate
        while os.getpgid(self.pid) != self.pid:  # or a signal would reach this process, too
            time.sleep(0.01)

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)


def serve(command, cwd):
    """Run a kernel in a folder with the arguments of a command that would start it."""
    from ipykernel.kernelapp import launch_new_instance

    os.setpgrp()
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    launch_new_instance(argv=command[command.index("-f") :])


def pytest_configure(config):
    """Let nbval fork its kernels, if this system can."""
    if sys.platform == "linux" and getattr(config.option, "nbval", False):
        from jupyter_client.provisioning import local_provisioner

        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # read at the import
        local_provisioner.launch_kernel = ForkedKernel


def pytest_collectstart(collector):
    """Skip the comparison of figures, because their pixels are not part of the contract."""
    if getattr(collector, "path", None) and collector.path.suffix == ".ipynb":
        collector.skip_compare += (
            "text/html",
            "image/svg+xml",
            "application/javascript",
            "stderr",
        )


def pytest_collection_modifyitems(items):
    """Skip the cells that need published weights if the weights are missing."""
    metadata = ((item, getattr(getattr(item, "cell", None), "metadata", {})) for item in items)
    tagged = [item for item, about in metadata if "needs-weights" in about.get("tags", [])]
    if tagged:
        from course_lib.interop.weights import missing_weights  # loads torch

        names = " and ".join(missing_weights())
        reason = f"the cell needs the weights of {names}, which `make weights` installs"
        for item in tagged if names else ():
            item.add_marker(pytest.mark.skip(reason=reason))
