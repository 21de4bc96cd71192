"""The files of a served session with --out, written while it runs."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
import trio

from actors.log import EventLog
from actors.pace import MAX, Pacer
from actors.recording import load
from controlplane.errors import UsageError
from controlplane.logs.reading import RunLog
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import replaying
from controlplane.serving.scenario import SCENARIO
from controlplane.serving.session import Rim, serve_async
from controlplane.serving.session_files import SessionFiles
from tests.cli.test_run import controlplane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def prepared(**options) -> Execution:
    options.setdefault("controllers", "namespace")
    return Execution(plan_of(SCENARIO, nodes=1, **options), log=EventLog())


async def session(
    run: Execution, leaving: SessionFiles, *, writes: int, until=lambda: True, query=""
) -> None:
    """Serve, write config maps, and stop."""
    stop = trio.Event()

    async def use(url):
        for number in range(writes):
            body = {"metadata": {"name": f"c{number}"}, "data": {"k": "x" * 1000}}
            await trio.to_thread.run_sync(post, f"{url}{CONFIG_MAPS}{query}", body)
        with trio.fail_after(120):
            while not until():
                await trio.sleep(0.02)
        stop.set()

    async with trio.open_nursery() as nursery:

        def ready(address):
            nursery.start_soon(use, address.url)

        await serve_async(run, Rim(tls=False), Pacer(MAX), ready, stop, True, leaving)


def post(url: str, body: dict) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()


def lines_of(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
async def test_the_log_grows_with_the_session_and_memory_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("actors.log.NAMES_KEPT", 80)
    run = prepared()
    out = tmp_path / "out"
    leaving = SessionFiles(run, out)
    log = out / "log.jsonl"
    await session(run, leaving, writes=130, until=lambda: log.read_text().count('"c129"') > 0)
    assert sum(map(len, run.world.log.chunks())) < log.stat().st_size / 20
    assert len(run.result.inputs) < 10
    left = leaving.finish()
    leaving._tail.news()
    assert len(leaving._tail._names) < 100, "names of the tasks that answered are forgotten"
    assert set(left) == {"log.jsonl", "run.rec", "objects.yaml"}
    assert {each.name for each in out.iterdir()} == set(left)
    assert {stat.S_IMODE(each.stat().st_mode) for each in out.iterdir()} == {0o600}
    recording = load(out / "run.rec")
    assert len(recording.inputs) > 130
    again = replaying.replayed(run.plan, recording, log=EventLog())
    assert again.execute("bare").trace_hash == run.result.trace_hash
    again.save(tmp_path / "again", recording)
    header, *events = lines_of(log)
    other_header, *others = lines_of(tmp_path / "again" / "log.jsonl")
    assert header["data"] == other_header["data"]
    # The verdict stands behind what the last step read, or before it.
    told = [
        [{**each, "run": ""} for each in lines if each["event"] != "verdict"]
        for lines in (events, others)
    ]
    assert told[0] == told[1]
    assert len(events) == len(others)


async def test_with_a_limit_old_parts_of_the_log_go_and_the_log_says_so(tmp_path):
    run = prepared()
    said = []
    leaving = SessionFiles(run, tmp_path, limit=200_000, tell=said.append)
    await session(run, leaving, writes=150)
    left = leaving.finish()
    assert set(left) == {"log.jsonl", "log.1.jsonl", "objects.yaml"}
    assert said == [f"{tmp_path / 'run.rec'}: given up: it came to more than half of --out-limit"]
    logs = [tmp_path / name for name in ("log.1.jsonl", "log.jsonl")]
    assert sum(path.stat().st_size for path in logs) < 200_000
    older, newer = (lines_of(path) for path in logs)
    assert newer[0]["data"]["first_step"] == newer[1]["step"] >= older[-1]["step"]
    assert "verdict" in [each["event"] for each in newer]
    log = RunLog(tmp_path / "log.jsonl", "out")
    first = newer[0]["data"]["first_step"]
    assert log.damage == [
        f"out: it was limited: its events begin at step {first:,}; {logs[0]} has those before"
    ]


async def test_a_log_that_a_page_reads_is_written_and_kept(tmp_path):
    run = prepared()
    leaving = SessionFiles(run, tmp_path / "out", forget=False)
    await session(run, leaving, writes=3)
    left = leaving.finish()
    assert set(left) == {"log.jsonl", "run.rec", "objects.yaml"}
    assert load(tmp_path / "out" / "run.rec").trace_hash == run.result.trace_hash
    lines = lines_of(tmp_path / "out" / "log.jsonl")
    assert len(lines) == 1 + len(list(run.world.log))


@pytest.mark.parametrize("show_secrets", [False, True])
async def test_tokens_are_left_out_of_a_log_that_is_written_as_it_goes(tmp_path, show_secrets):
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln"
    run = prepared()
    leaving = SessionFiles(run, tmp_path / "out", show_secrets=show_secrets)
    await session(run, leaving, writes=1, query=f"?fieldManager={token}")
    leaving.finish()
    assert (token in (tmp_path / "out" / "log.jsonl").read_text()) is show_secrets


async def test_a_full_disk_is_told_once_and_the_session_goes_on(tmp_path):
    run = prepared()
    said = []
    leaving = SessionFiles(run, tmp_path / "out", tell=said.append)

    class Full:
        def write(self, _text):
            raise OSError(28, "No space left on device")

        def flush(self):
            pass

        def close(self):
            pass

    leaving._file.close()
    leaving._file = Full()
    await session(run, leaving, writes=20, until=lambda: bool(said))
    assert said == [f"{tmp_path / 'out'}: cannot be written: No space left on device"]
    assert run.result.verdict == "stopped"
    assert run.world.log.chunks() == []
    with pytest.raises(UsageError, match="No space left"):
        leaving.finish()


@contextmanager
def process(tmp_path, *arguments):
    """A session in a process of its own, and its URL."""
    program = [sys.executable, "-c", "from controlplane.cli.main import main; main()"]
    places = ["--kubeconfig", str(tmp_path / "config"), "--out", str(tmp_path / "out")]
    served = subprocess.Popen(
        [*program, "serve", "--nodes", "1", "--no-tls", "--token", "", *places, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        yield served, served.stdout.readline().split("# ", 1)[1].split(",", 1)[0]
    finally:
        served.kill()
        served.communicate()


@pytest.mark.slow
def test_what_was_written_can_be_read_after_kill_9(tmp_path):
    log = tmp_path / "out" / "log.jsonl"
    with process(tmp_path) as (served, url):
        post(f"{url}{CONFIG_MAPS}", {"metadata": {"name": "kept"}})
        end = time.monotonic() + 120
        while "ConfigMap/default/kept" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(served.pid, signal.SIGKILL)
        served.wait()
    with log.open("ab") as file:  # as if it had been cut amid a line
        file.write(b'{"actor":"apis')
    told = controlplane("logs", "timeline", "configmap/kept", "--log", tmp_path / "out")
    assert (told.returncode, told.stderr) == (0, "")
    assert "created" in told.stdout
    told = controlplane("logs", "summary", tmp_path / "out")
    assert told.returncode == 0
    assert "the log does not say how it ended" in told.stdout
    assert "it ends in the middle of line" in told.stderr


@pytest.mark.slow
def test_sigterm_ends_a_session_in_order_and_in_time(tmp_path):
    with process(tmp_path) as (served, url):
        post(f"{url}{CONFIG_MAPS}", {"metadata": {"name": "kept"}})
        served.terminate()
        assert served.wait(timeout=10) == 0
    left = {each.name for each in (tmp_path / "out").iterdir()}
    assert left == {"log.jsonl", "run.rec", "objects.yaml"}
    assert load(tmp_path / "out" / "run.rec").reason == "SIGTERM"


@pytest.mark.slow
def test_a_limit_without_a_folder_is_refused(tmp_path):
    done = controlplane("serve", "--out-limit", 1, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "controlplane: --out-limit is of what a served session leaves with --out\n"
    )
