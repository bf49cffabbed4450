"""Run chapters of a workbook, each in a fork of a process that has imported torch.

A kernel for each chapter would load torch, which takes seconds. A fork isolates each chapter.
"""

import io
import json
import os
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from course_lib.exercises.checking.exercise import exercises
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library import export


class Runner:
    """The process that forks; as a context manager, it ends the process on exit."""

    def __enter__(self) -> "Runner":
        own = {"MPLBACKEND": "Agg", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.communicate()

    def run(self, cells: list[dict[str, Any]], folder: Path) -> list[dict[str, str]]:
        """Run cells in a folder, even after errors; return the output and error of each cell."""
        self.process.stdin.write(json.dumps([str(folder), cells]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def run_cells(folder: str, sources: list[str]) -> list[dict[str, str]]:
    """Run code cells like a kernel that can only show text."""
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(folder)
    sys.path.insert(0, "")  # the current folder, as in a kernel
    export.examine_apart = lambda package, asked, limit, texts: {
        name: Report(name, True) for names in asked.values() for name in names
    }  # another test covers the separate process
    shell, outputs = InteractiveShell.instance(), []
    for source in sources:
        with redirect_stdout(io.StringIO()) as shown, redirect_stderr(io.StringIO()):
            result = shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        said = "".join(traceback.format_exception_only(error)) if error else ""
        outputs.append({"shown": shown.getvalue(), "error": said})
    return outputs


def main() -> None:
    """Answer lines of JSON until the input ends, each from its own fork."""
    import IPython.core.interactiveshell  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch._dynamo  # noqa: F401  # which every optimizer loads

    import course_lib.interop
    import course_lib.tasks.numbers
    import course_lib.viz  # noqa: F401

    exercises()
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                channel.write(json.dumps(run_cells(*json.loads(line))) + "\n")
                channel.flush()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
