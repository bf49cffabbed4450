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
COMMANDS = (
    "course train --size smoke --steps 3 --to fr",
    "course lab chapters --copy-only",
    "course workbook mine",
    "course learn mine --copy-only",
    "course grade mine",
)


@pytest.fixture
def installed(tmp_path):
    """Install the wheel into an environment that borrows the libraries of this one."""
    tree, environment = tmp_path / "tree", tmp_path / "environment"
    tree.mkdir()
    for name in (*SOURCES, *(path.name for path in ROOT.glob("LICENSE*"))):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tree / name)
    venv.create(environment, with_pip=False)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pip += ["--python", environment / "bin" / "python", "install", "--no-build-isolation"]
    subprocess.run([*pip, "--no-deps", "-I", tree], check=True)
    shutil.rmtree(tree)
    return environment / "bin", site / "course_lib"


def test_every_command_works_from_the_wheel_and_writes_nothing_beside_it(installed, tmp_path):
    programs, package = installed
    ours = {"PYTHONPATH", "COURSE_CHECKPOINTS"}
    outside = {name: value for name, value in os.environ.items() if name not in ours}
    outside |= {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    outside |= {"XDG_DATA_HOME": str(tmp_path / "data")}

    def run(program, *words):
        """Run it outside of the checkout, and return what it printed."""
        done = subprocess.run(
            [programs / program, *words], cwd=tmp_path, env=outside, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = sorted(package.parent.rglob("*"))
    assert (package / "py.typed").exists()
    for command in COMMANDS:
        assert run(*command.split())
    pictures = {path.name for path in tmp_path.glob("chapters/figures/*.svg")}
    assert pictures == {path.name for path in ROOT.glob("figures/*.svg")}
    assert list(tmp_path.glob("data/**/*.safetensors")), "what was trained is the user's own"
    code = "import sys, course_lib; print(course_lib.__file__, 'torch' in sys.modules)"
    where, torch = run("python", "-c", code).split()
    assert Path(where).parent == package and torch == "False"
    assert sorted(package.parent.rglob("*")) == before
