"""The wheel holds all that the commands need, and nothing is written where it is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("course_lib", "notebooks", "figures", "pyproject.toml", "README.md")
TRAIN = "train --size smoke --steps 3 --to fr --out kept"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the wheel into an environment that borrows the libraries of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in (*SOURCES, *(path.name for path in ROOT.glob("LICENSE*"))):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tree / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(tree)]
    subprocess.run([*pip, *build], check=True)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    own = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    site = Path(own.strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "-I", wheel], check=True)
    shutil.rmtree(tree)
    return python.parent, site / "course_lib"


def run(installed, command, folder):
    """Run a command of the installed package in a folder, and return what it printed."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    outside |= {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        [installed[0] / command[0], *command[1:]],
        cwd=folder,
        env=outside,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_works_from_the_wheel_and_writes_nothing_beside_it(installed, tmp_path):
    before = sorted(installed[1].rglob("*"))
    assert (installed[1] / "py.typed").exists()
    for command in (
        f"course {TRAIN}",
        "course lab chapters --copy-only",
        "course workbook mine",
        "course grade mine",
    ):
        assert run(installed, command.split(), tmp_path)
    pictures = {path.name for path in tmp_path.glob("chapters/figures/*.svg")}
    assert pictures == {path.name for path in ROOT.glob("figures/*.svg")}
    where = "from course_lib.tasks.numbers import checkpoints_folder; print(checkpoints_folder())"
    kept = run(installed, ["python", "-c", where], tmp_path)
    assert not Path(kept.strip()).is_relative_to(installed[1].parent)
    assert sorted(installed[1].rglob("*")) == before


def test_importing_the_package_alone_imports_no_torch(installed, tmp_path):
    code = "import sys, course_lib; print(course_lib.__file__, 'torch' in sys.modules)"
    where, torch = run(installed, ["python", "-c", code], tmp_path).split()
    assert Path(where).parent == installed[1] and torch == "False"
