"""Ctrl-C, full disks and closed pipes: what was reached is told, what was found is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop.yaml"
LOST_UPDATE = ROOT / "examples" / "lost_update.py"

INTERRUPTED = """
import os, signal
from controlplane.scenarios.engine.execution import Execution

made = Execution.__init__
runs = 0

def init(self, *args, **kwargs):
    global runs
    made(self, *args, **kwargs)
    runs += 1
    if runs == {run}:
        sent = []
        def look():
            if self.world.steps >= {step} and not sent:
                sent.append(os.kill(os.getpid(), signal.SIGINT))
        self.world.invariant("nobody is in a hurry", look, after="apiserver")

Execution.__init__ = init
from controlplane.cli.main import main
main()
"""


def program(*arguments: object, text: str = "", stdout=subprocess.PIPE):
    code = text or "from controlplane.cli.main import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
    )


def interrupted(*arguments: object, run: int = 1, step: int = 400):
    return program(*arguments, text=INTERRUPTED.format(run=run, step=step))


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["trio", "bare"])
def test_an_interrupted_run_tells_what_was_reached_and_replays(tmp_path, driver):
    out = tmp_path / "out"
    done = interrupted(
        "run", SHOP, "--nodes", 3, "--driver", driver, "--out", out, "--format", "json"
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "controlplane: interrupted: this is what was reached\n"
    told = json.loads(done.stdout)
    assert (told["verdict"], told["reason"]) == ("stopped", "interrupted")
    assert 400 <= told["steps"] < 1000
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "objects.yaml", "run.rec"]
    again = program("replay", out, "--format", "json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["same_trace"]


@pytest.mark.slow
def test_an_interrupted_search_tells_what_it_found(tmp_path):
    search = ("explore", LOST_UPDATE, "--all", "--jobs", 1, "--out", tmp_path / "out")
    done = interrupted(*search, run=40, step=3)
    assert done.returncode == 130, done.stderr
    assert "broken in" in done.stdout
    assert "controlplane: interrupted: this is what 40 schedules showed" in done.stderr
    assert (tmp_path / "out" / "run.rec").exists()
    again = program("replay", tmp_path / "out", "--allow-code", LOST_UPDATE)
    assert again.returncode == 1


@pytest.mark.slow
def test_a_search_on_several_processes_ends_with_what_they_were_at(tmp_path):
    from controlplane.scenarios.engine.plan import plan_of
    from controlplane.scenarios.search import loading, parallel

    plan = plan_of(loading.from_file(LOST_UPDATE))
    heard = []
    tally = parallel.explore(
        plan,
        "random-walk",
        parallel.Limits(1 << 40, None, lambda: len(heard) >= 3, lambda: len(heard) >= 3),
        jobs=2,
        heard=lambda tally, seen: heard.append(seen.schedules),
    )
    assert tally.schedules >= sum(heard)
    assert all(each == parallel.BATCH for each in heard)
    assert tally.failures


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = program("run", SHOP, "--nodes", 1, "--node-cpu", 1, stdout=full)
    assert done.returncode == 2
    assert (
        done.stderr == "controlplane: standard output: cannot be written: No space left on device\n"
    )


FULL = """
import errno, os
from pathlib import Path

def full(self, *args, **kwargs):
    if {name!r} in self.name:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return opened(self, *args, **kwargs)

opened = Path.open
Path.open = full
from controlplane.cli.main import main
main()
"""


def test_a_full_disk_under_out_leaves_the_recording_and_the_summary(tmp_path):
    out = tmp_path / "out"
    done = program("run", SHOP, "--nodes", 2, "--out", out, text=FULL.format(name="log.jsonl"))
    assert done.returncode == 2
    assert "quiescent: only periodic work is left" in done.stdout
    assert (
        done.stderr
        == f"controlplane: {out}/log.jsonl: cannot be written: No space left on device\n"
    )
    assert [path.name for path in out.iterdir()] == ["run.rec"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused_before_anything_runs(tmp_path):
    tmp_path.chmod(0o500)
    done = program("run", SHOP, "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"controlplane: {tmp_path}/run.rec: cannot be written: Permission denied\n"
    )


def test_a_place_for_results_that_is_a_file_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    done = program("run", SHOP, "--out", tmp_path / "file" / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_pipe_that_nobody_reads_loses_no_finding(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = program(
            "explore", LOST_UPDATE, "--jobs", 1, "--out", tmp_path / "out", stdout=closed
        )
    assert done.returncode == 1
    assert done.stderr == ""
    assert {"run.rec", "story.txt"} <= {path.name for path in (tmp_path / "out").iterdir()}
