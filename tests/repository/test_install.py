"""The package declares its imports, and the pinned versions are installed and in range."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from test_architecture import FILES, imports

from course_lib.exercises import check_installation
from course_lib.exercises.workbook import environment_check

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M
    )
}
# The first copy is imported: setuptools, once imported, adds copies of its own at the end.
FOUND = {canonicalize_name(each.name): each for each in reversed(list(distributions()))}
INSTALLED = {name: FOUND[name] for name in PINS if name in FOUND}  # some Pythons need fewer
NEEDED = {canonicalize_name(Requirement(text).name): text for text in PROJECT["dependencies"]}
COME_WITH = dict.fromkeys(("numpy", "pillow"), "matplotlib")
COME_WITH |= dict.fromkeys(("ipython", "traitlets"), "ipywidgets")


def test_the_installed_versions_are_the_pinned_ones():
    versions = {name: found.version.partition("+")[0] for name, found in INSTALLED.items()}
    assert versions == {name: PINS[name] for name in INSTALLED}
    assert len(INSTALLED) > 100


def test_every_pin_runs_on_the_oldest_supported_python():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    needs = {name: found.metadata["Requires-Python"] or "" for name, found in INSTALLED.items()}
    assert not {name: need for name, need in needs.items() if oldest not in SpecifierSet(need)}


def test_every_requirement_is_pinned_to_a_version_in_its_range():
    extras = PROJECT["optional-dependencies"].values()
    for text in (*PROJECT["dependencies"], *(text for extra in extras for text in extra)):
        requirement = Requirement(text)
        assert PINS[canonicalize_name(requirement.name)] in requirement.specifier, text


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_container_runs_makefile_commands_on_the_oldest_supported_python():
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    container = json.loads(text)
    assert container["image"].endswith(":" + PROJECT["requires-python"].removeprefix(">="))
    found = re.findall(r"make [^&|()]+", container["postCreateCommand"])
    dry = ["--dry-run", "--always-make"]
    run = partial(subprocess.run, cwd=ROOT, check=True, capture_output=True, text=True)
    printed = [run([*command.split(), *dry]).stdout for command in found]
    assert "pip install --quiet torch==2" in printed[0] and "whl/cpu" in printed[0]
    assert "course workbook workbook" in printed[1]
    python = container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python.endswith("/.venv/bin/python"), "the container must use the Makefile's environment"


def test_actions_and_npm_packages_are_pinned_by_their_content():
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob(".github/workflows/*.yml")]
    used = [line for text in texts for line in re.findall(r"\buses: *(.*)", text)]
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", u) for u in used)
    packages = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    others = [about for name, about in packages.items() if name]  # the first is the course itself
    assert others and all(about["integrity"].startswith("sha512-") for about in others)


def test_the_package_depends_on_exactly_what_it_and_its_chapters_import():
    modules = {name.partition(".")[0] for path in FILES for name in imports(path)}
    chapters = [path.read_text(encoding="utf-8") for path in ROOT.glob("notebooks/*.ipynb")]
    lines = re.compile(r'^ +"(?:from (\w+)[.\w]* import |import (\w+)[. ,"\\])', re.M)
    modules |= {one or other for text in chapters for one, other in lines.findall(text)}
    modules -= {*sys.stdlib_module_names, "course_lib", "notebooks"}
    providers = packages_distributions()
    imported = {canonicalize_name(providers[module][0]) for module in modules}
    assert imported - COME_WITH.keys() == NEEDED.keys()
    assert set(COME_WITH.values()) <= NEEDED.keys()


def test_the_installation_check_knows_the_pinned_versions():
    pins = {**PINS, "course-lib": PROJECT["version"]}
    assert all(
        pins[name].startswith(f"{tested}.") for name, tested in environment_check.TESTED.items()
    )


def test_the_installation_check_warns_about_other_versions_and_names_what_cannot_work(monkeypatch):
    assert "everything is installed" in check_installation()
    monkeypatch.setitem(environment_check.TESTED, "torch", "2.1")
    with pytest.warns(UserWarning, match=r"torch 2\.\d+\S* instead of 2\.1: the course should run"):
        assert "everything is installed" in check_installation()
    monkeypatch.setitem(environment_check.TESTED, "torch", "9.1")
    monkeypatch.setitem(environment_check.TESTED, "no-such-library", "3")
    message = r"torch 9\.1 or newer, not .*no-such-library 3, which is not installed: "
    message += r"run `.*pip install .*torch==9\.1\.\*.* .*no-such-library==3\.\*.*`, then restart"
    with pytest.raises(ValueError, match=message):
        check_installation()
