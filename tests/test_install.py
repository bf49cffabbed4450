"""What is pinned is what is installed, and runs on every Python that the course promises."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from course_lib.exercises import check_installation, environment_check

ROOT = Path(__file__).resolve().parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROMISED = tomllib.loads(PROJECT)["project"]["requires-python"]
FILES = [PROJECT, (ROOT / "requirements.txt").read_text(), (ROOT / "constraints.txt").read_text()]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r'^ *"?([\w.-]+)==([\w.]+)', "\n".join(FILES), re.M)
}
# The first one found is imported: setuptools, once imported, adds copies of its own at the end.
FOUND = {canonicalize_name(each.name): each for each in reversed(list(distributions()))}
INSTALLED = {name: FOUND[name] for name in PINS if name in FOUND}  # some Pythons need fewer


def test_what_is_installed_is_what_is_pinned():
    versions = {name: found.version.partition("+")[0] for name, found in INSTALLED.items()}
    assert versions == {name: PINS[name] for name in INSTALLED}
    assert len(INSTALLED) > 100


def test_every_pin_runs_on_the_oldest_python_promised():
    oldest = PROMISED.removeprefix(">=")
    needs = {name: found.metadata["Requires-Python"] or "" for name, found in INSTALLED.items()}
    assert not {name: need for name, need in needs.items() if oldest not in SpecifierSet(need)}


def test_the_check_of_the_installation_names_everything_that_does_not_fit(monkeypatch):
    assert "everything is installed" in check_installation()
    monkeypatch.setitem(environment_check.LIBRARIES, "torch", "1.0")
    monkeypatch.setitem(environment_check.LIBRARIES, "no-such-library", "3")
    with pytest.raises(ValueError, match=r"torch 1\.0 .*no-such-library 3 \(not installed\).*make"):
        check_installation()
