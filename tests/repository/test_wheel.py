"""The wheel contains all that the commands need, and they do not write files next to it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from notebooks import pages

ROOT = Path(__file__).resolve().parents[2]
LAB_SETTINGS = "lab_settings/overrides.d/course_lib.json"
INSTALLED_SETTINGS = "share/jupyter/lab/settings/overrides.d/course_lib.json"
PROJECT = ("pyproject.toml", "setup.py", "README.md", "lab_settings")
SOURCES = ("course_lib", "notebooks", *PROJECT)
COMMANDS = (
    "course train --size smoke --steps 3 --to fr",
    "course lab chapters --copy-only",
    "course learn mine --copy-only",
    "course grade mine",
)


@pytest.fixture
def installed(tmp_path):
    """Install the course into an environment with the current libraries; return both folders."""
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
    return environment, site / "course_lib"


def test_every_command_works_from_the_wheel_and_writes_no_file_next_to_it(installed, tmp_path):
    environment, package = installed
    settings = (environment / INSTALLED_SETTINGS).read_text(encoding="utf-8")
    assert settings == (ROOT / LAB_SETTINGS).read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "tree")
    ours = {"PYTHONPATH", "COURSE_CHECKPOINTS"}
    outside = {name: value for name, value in os.environ.items() if name not in ours}
    outside |= {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    outside |= {"XDG_DATA_HOME": str(tmp_path / "data")}

    def run(program, *words):
        done = subprocess.run(
            [environment / "bin" / program, *words],
            cwd=tmp_path,
            env=outside,
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = sorted(package.parent.rglob("*"))
    assert (package / "py.typed").exists()
    for command in COMMANDS:
        assert run(*command.split())
    chapters = {path.name for path in tmp_path.glob("chapters/notebooks/**/*.ipynb")}
    assert chapters == {path.name for path in pages()}
    trips = {path.name for path in tmp_path.glob("mine/side_trips/*.ipynb")}
    assert trips == {path.name for path in pages() if path.parent.name == "side_trips"} != set()
    assert list(tmp_path.glob("data/**/*.safetensors")), "the trained models belong to the user"
    code = "import sys, course_lib; print(course_lib.__file__, 'torch' in sys.modules)"
    where, torch = run("python", "-c", code).split()
    assert Path(where).parent == package and torch == "False"
    assert sorted(package.parent.rglob("*")) == before
