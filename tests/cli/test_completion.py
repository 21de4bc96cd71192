"""`controlplane completion SHELL`: the script, and what it is answered."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from controlplane.cli.main import COMMANDS
from tests.cli.test_run import ROOT, controlplane


@pytest.mark.parametrize(("shell", "asks"), [("bash", "bash_complete"), ("fish", "fish_complete")])
def test_the_script_asks_this_program(shell, asks):
    done = controlplane("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_CONTROLPLANE_COMPLETE={asks}" in done.stdout


def test_an_unknown_shell_is_refused_in_one_line():
    done = controlplane("completion", "csh")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("controlplane s", {"serve", "shrink"}), ("controlplane time s", {"show", "step", "speed"})],
)
def test_commands_are_completed(words, expected):
    asked = {"_CONTROLPLANE_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['controlplane']; from controlplane.cli.main import main; main()",
        ],
        env={**os.environ, **asked, "COMP_CWORD": str(len(words.split()) - 1)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected
    assert "serve" in COMMANDS
