"""The JavaScript is formatted and linted by biome."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIOME = ROOT / "node_modules" / ".bin" / "biome"
pytestmark = pytest.mark.skipif(not BIOME.exists(), reason="biome is missing; run: npm ci")


def test_our_scripts_are_formatted_and_without_errors():
    command = [BIOME, "ci", "--colors=off", "--error-on-warnings"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{printed}\nTo format them, run: npx biome check --write"
