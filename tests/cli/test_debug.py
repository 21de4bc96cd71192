"""`controlplane replay --break STEP` opens the debugger at a step."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.test_run import ROOT, controlplane

START = "from controlplane.cli.main import main; main()"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    assert controlplane("race", "run", "138324", "--out", out).returncode == 0
    return out


def debugged(recording, commands, step=50):
    return subprocess.run(
        [sys.executable, "-c", START, "replay", str(recording), "--break", str(step)],
        input=commands,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_debugger_sees_the_world_at_the_step_and_goes_on_as_recorded(recording):
    done = debugged(recording, "p ('at', step, world.so_far('now').steps)\nc\n")
    assert "('at', 50, 49)" in done.stdout
    assert "the same as recorded" in done.stdout, done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_leaving_the_debugger_ends_the_run(recording):
    done = debugged(recording, "q\n")
    assert "left in the debugger before step 50" in done.stdout, done.stderr
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_step_that_the_recording_does_not_have_is_refused(recording):
    done = controlplane("replay", recording, "--break", 99999)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--break 99999: the recording has " in done.stderr
