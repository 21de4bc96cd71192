"""kr8s."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("kr8s")

PROGRAM = Path(__file__).parent / "kr8s_scenarios.py"
SCENARIOS = re.findall(
    r"^    (\w+),$", PROGRAM.read_text().partition("SCENARIOS = (")[2], re.MULTILINE
)


@pytest.fixture(scope="module")
def results(kubeconfig: Path, namespaces) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(kubeconfig), namespaces()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(results: dict[str, str], scenario: str) -> None:
    said = results[scenario]
    assert said == "ok", ast.literal_eval(said)
