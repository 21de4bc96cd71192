"""All gates together: the scheduler of today holds its invariants, that of a release runs with its bugs."""

from __future__ import annotations

import pytest

from controlplane.gates import fix_gates
from controlplane.races import catalogue
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling import pods
from controlplane.scenarios.search.exploring import Campaign

NOT_YET = ("139162", "139450", "141255", "141645", "142294")
"""Fixes that no release up to ours has."""
CHURN = catalogue.find("138324").scenario
PREEMPTION = catalogue.find("142294").scenario


def broken(schedules, **asked):
    found = Campaign(plan_of(CHURN, **asked)).explore(schedules)
    return found.findings[0].result.reason if found.findings else ""


@pytest.mark.slow
@pytest.mark.parametrize("fixes", [(), NOT_YET], ids=["default", "with fixes to come"])
def test_the_queue_holds_its_invariants(fixes):
    assert not broken(60, fix=fixes, all_invariants=True)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.10", "1.19", "1.22", "1.27", "1.30", "1.33"])
def test_the_scheduler_of_an_older_release_runs_with_its_bugs(release):
    gates = fix_gates(release)
    leaks = [number for number in ("126962", "138324") if not gates.fixed(number)]
    found = broken(20, release=release, queueing_hints=True)
    assert not found or (leaks and "is in flight for ever" in found) or "marker" in found
    run = Campaign(plan_of(PREEMPTION, release=release), "fifo").under(0)
    assert run.result.verdict == "quiescent", run.result.reason
    assert pods(run)["high"].spec.node_name == "node-1"
