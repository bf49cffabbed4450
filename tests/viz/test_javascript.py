"""The JavaScript is formatted and linted by biome."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIOME = ROOT / "node_modules" / ".bin" / "biome"
pytestmark = pytest.mark.skipif(not BIOME.exists(), reason="biome is missing; run: npm ci")


def check(folder: Path) -> tuple[int, str]:
    """Return biome's exit status for a folder, and what it prints."""
    command = [BIOME, "ci", "--colors=off", "--error-on-warnings"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_our_scripts_are_formatted_and_without_errors():
    status, printed = check(ROOT)
    assert status == 0, f"{printed}\nTo format them, run: npx biome check --write"


@pytest.mark.parametrize("script", ["export const  a = 1;\n", "export const f = (a) => a == 1;\n"])
def test_a_script_that_is_not_formatted_or_has_an_error_is_found(tmp_path, script):
    shutil.copy(ROOT / "biome.json", tmp_path)
    folder = tmp_path / "course_lib" / "viz"
    folder.mkdir(parents=True)
    (folder / "planted.js").write_text(script, encoding="utf-8")
    status, printed = check(tmp_path)
    assert status != 0 and "planted.js" in printed
