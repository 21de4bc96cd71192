"""Decisions of probes that run commands."""

from __future__ import annotations

from controlplane.api.containers import Probe
from controlplane.api.times import SECOND, format_time
from controlplane.kubelet.pod.container_runtime import LIVENESS, Program
from controlplane.kubelet.pod.prober import ProbeWorker, Results
from controlplane.shell.running import Outcome

NOW = 1_800_000_000 * SECOND
GOOD = Outcome(0, "")


def status():
    running = {"running": {"startedAt": format_time(NOW)}}
    return {"containerID": "c1", "state": running, "started": True}


def prober(outcomes, **more):
    probe = Probe(exec={"command": ["a", "b"]}, period_seconds=10, **more)
    return ProbeWorker(LIVENESS, "c", probe, Program(), NOW, lambda: outcomes.pop(0))


def test_an_outcome_counts_as_often_as_its_threshold_says_and_then_rests():
    worker, results = prober([GOOD, *[Outcome(1, "no")] * 3], failure_threshold=3), Results()
    told = []
    for at in range(4):
        _, said = worker.look(status(), results, NOW + at * 10 * SECOND)
        told.append((said, results.get(LIVENESS, "c1"), worker.rests))
    assert told == [
        ("", True, True),
        ("Liveness probe failed: no", True, False),
        ("Liveness probe failed: no", True, False),
        ("Liveness probe failed: no", False, True),
    ]


def test_a_command_is_run_each_period_although_it_rests():
    worker, results = prober([GOOD, GOOD]), Results()
    worker.look(status(), results, NOW)
    assert worker.rests
    assert worker.next_look(status(), NOW) == NOW + 10 * SECOND


def test_changed_files_end_the_rest_until_the_next_look():
    worker, results = prober([GOOD, GOOD]), Results()
    worker.look(status(), results, NOW)
    worker.files_changed()
    assert not worker.rests
    worker.look(status(), results, NOW + 10 * SECOND)
    assert worker.rests


def test_a_command_that_timed_out_failed_whatever_its_code():
    worker = prober([Outcome(0, "late", timed_out=True)])
    _, said = worker.look(status(), Results(), NOW)
    assert said == 'Liveness probe failed: command "a b" timed out'


def test_where_nothing_runs_the_command_the_program_answers():
    worker, results = prober([None]), Results()
    worker.look(status(), results, NOW)
    assert results.get(LIVENESS, "c1") is True
    assert not worker.rests
    assert worker.next_look(status(), NOW) is None
