"""The examples run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "actors"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ping_pong.py", "quiescent after 11 steps"),
        ("lost_update.py", "same trace: True"),
    ],
)
def test_an_example_of_the_runtime_runs(name, expected):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in done.stdout
