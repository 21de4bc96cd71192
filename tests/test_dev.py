"""The front door: what `dev.py` says before it has set anything up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "dev.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_unknown_verb_is_one_line_and_status_2():
    done = dev("nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dev.py: no verb 'nope'; try python3 dev.py --help\n"


def test_help_names_every_verb():
    done = dev("--help")
    assert done.returncode == 0
    for verb in ("run", "test", "check", "bench", "controlplane", "golden", "set-up"):
        assert f"python3 dev.py {verb}" in done.stdout
