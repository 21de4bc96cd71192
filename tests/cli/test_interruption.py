"""Ctrl-C, full disks and closed pipes: what was reached is told, what was found is kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
                sent.append(os.kill(os.getpid(), signal.{signal}))
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


def interrupted(*arguments: object, run: int = 1, step: int = 400, signal: str = "SIGINT"):
    return program(*arguments, text=INTERRUPTED.format(run=run, step=step, signal=signal))


@pytest.mark.slow
def test_a_terminated_run_tells_what_was_reached_and_keeps_its_files(tmp_path):
    out = tmp_path / "out"
    done = interrupted("run", SHOP, "--nodes", 3, "--out", out, signal="SIGTERM")
    assert done.returncode == 143, done.stderr
    assert "stopped: interrupted" in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "objects.yaml", "run.rec"]


@pytest.mark.slow
def test_a_terminated_search_tells_what_it_found(tmp_path):
    search = ("explore", LOST_UPDATE, "--all", "--jobs", 1, "--out", tmp_path / "out")
    done = interrupted(*search, run=20, step=3, signal="SIGTERM")
    assert done.returncode == 143, done.stderr
    assert re.search(r"this is what \d+ schedules showed", done.stderr)
    assert (tmp_path / "out" / "run.rec").exists()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(told: Callable[[], object], seconds: float = 120) -> object:
    end = time.monotonic() + seconds
    while not (found := told()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_workers_of_a_killed_search_end(number):
    code = "from controlplane.cli.main import main; main()"
    command = ("explore", LOST_UPDATE, "--all", "--seconds", 600, "--jobs", 2)
    search = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    workers: list[int] = []
    try:
        assert until(lambda: len(children(search.pid)) >= 2)
        workers = children(search.pid)
        if number == signal.SIGTERM:
            time.sleep(0.5)
        search.send_signal(number)
        out, _ = search.communicate(timeout=60)
        assert search.returncode == (143 if number == signal.SIGTERM else -number)
        assert number == signal.SIGKILL or "schedules" in out
        assert until(lambda: not any(map(runs, workers)))
    finally:
        for pid in (search.pid, *workers):
            if runs(pid):
                os.kill(pid, signal.SIGKILL)


def test_an_interrupted_measurement_keeps_its_table():
    from controlplane.races import power

    done = []
    rows = power.measure(
        ("", "98829"), 2, strategy="random-walk", seeds=1, jobs=1,
        progress=lambda *_: done.append(1), over=lambda: len(done) >= 1,
    )  # fmt: skip
    assert [each.gate for each in rows] == [""]


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
    assert re.search(r"interrupted: this is what \d+ schedules showed", done.stderr)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_place_for_results_that_is_a_file_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    done = program("run", SHOP, "--out", tmp_path / "file" / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_pipe_without_a_reader_loses_no_finding(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = program(
            "explore", LOST_UPDATE, "--jobs", 1, "--out", tmp_path / "out", stdout=closed
        )
    assert done.returncode == 1
    assert done.stderr == ""
    assert {"run.rec", "story.txt"} <= {path.name for path in (tmp_path / "out").iterdir()}
