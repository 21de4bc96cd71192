"""When past usage of local queues is sampled, and what becomes of penalties."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.quantity import parse
from controlplane.api.times import SECOND
from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.controllers.past_usage import PastUsage
from controlplane.kueue.queues.usage import Entry, FairSharing, Ledger, Resources
from tests.kueue.objects import START, admitted, cache, cluster_queue, local_queue, workload

KEY = "default/user"
SHARING = FairSharing(half_life=60, sampling_interval=300)
BY_USAGE = {"admissionMode": "UsageBasedAdmissionFairSharing"}


def cpu(text: str) -> Resources:
    return {"cpu": parse(text)}


def past(*workloads: Any, sharing: FairSharing = SHARING, scope: Any = BY_USAGE) -> PastUsage:
    known = cache([cluster_queue("one", {"default/cpu": 9}, admissionScope=scope)])
    known.add_local_queue(local_queue("user", "one"))
    for each in workloads:
        known.add_or_update(each)
    return PastUsage(Ledger(), known, sharing, lambda name: None)


def running(amount: int = 4) -> Any:
    return admitted(workload("a", requests={"cpu": str(amount)}), "one")


def sampled(usage: PastUsage, queue: Any, now: int) -> Any:
    tick = usage.sample(queue, now)
    tick.written()
    return tick


def with_history(text: str) -> Any:
    stored = {"consumedResources": {"cpu": text}, "lastUpdate": "2025-03-01T11:00:00Z"}
    sharing = {"weightedShare": 0, "admissionFairSharingStatus": stored}
    return {**local_queue("user", "one"), "status": {"fairSharing": sharing}}


def test_the_first_sample_starts_the_clock_and_later_ones_add_what_runs():
    usage, queue = past(running()), local_queue("user", "one")
    first = sampled(usage, queue, START)
    assert first.status == {
        "consumedResources": {"cpu": "0"},
        "lastUpdate": "2025-03-01T12:00:00Z",
    }
    assert sampled(usage, queue, START + 60 * SECOND).status is None
    later = sampled(usage, queue, START + 300 * SECOND)
    assert later.status["consumedResources"] == {"cpu": "3875m"}
    assert later.requeue_after == 300 * SECOND


def test_a_sample_before_its_time_waits_for_the_rest_unless_a_penalty_is_pending():
    usage, queue = past(running()), local_queue("user", "one")
    sampled(usage, queue, START)
    assert usage.sample(queue, START + 100 * SECOND).requeue_after == 200 * SECOND
    usage.ledger.push_penalty(KEY, "default/b", cpu("1"), START)
    assert usage.sample(queue, START + 100 * SECOND).status is not None


def test_the_history_in_the_status_counts_once():
    usage, queue = past(), with_history("8")
    assert sampled(usage, queue, START).status["consumedResources"] == {"cpu": "8"}
    assert sampled(usage, queue, START + 300 * SECOND).status["consumedResources"] == {
        "cpu": "250m"
    }


def test_history_joins_what_was_settled_before_the_first_sample():
    usage = past(running())
    usage.settle(running(), START)
    assert usage.sample(with_history("8"), START + SECOND).status is None
    entry = usage.ledger.get(KEY)
    assert entry is not None and entry.accounted
    assert str(entry.consumed["cpu"]) == "8"


def test_the_usage_changes_only_when_the_status_is_written():
    usage, queue = past(running()), local_queue("user", "one")
    sampled(usage, queue, START)
    usage.sample(queue, START + 300 * SECOND)
    entry = usage.ledger.get(KEY)
    assert entry is not None and entry.last_update == START


def test_without_a_half_life_nothing_is_remembered():
    usage = past(running(), sharing=FairSharing(half_life=0))
    tick = sampled(usage, with_history("8"), START)
    assert tick.status["consumedResources"] == {}
    entry = usage.ledger.get(KEY)
    assert entry is not None and entry.consumed == {}


def test_a_local_queue_that_the_cache_does_not_know_is_tried_again():
    with pytest.raises(ReconcileError):
        past().sample(local_queue("other", "one"), START)


def test_the_penalty_of_an_admitted_workload_becomes_usage():
    usage = past(running())
    usage.ledger.put(KEY, Entry(cpu("2"), last_update=START))
    usage.ledger.push_penalty(KEY, "default/a", cpu("3"), START)
    usage.ledger.push_penalty(KEY, "default/b", cpu("1"), START)
    usage.settle(running(), START + 60 * SECOND)
    entry = usage.ledger.get(KEY)
    assert entry is not None
    assert str(entry.consumed["cpu"]) == "6"
    assert {name: str(each["cpu"]) for name, each in entry.penalties.items()} == {"default/b": "1"}


@pytest.mark.parametrize(("scope", "queue"), [(None, "user"), (BY_USAGE, "unknown")])
def test_a_penalty_stays_where_usage_does_not_count_or_is_unknown(scope, queue):
    usage = past(running(), scope=scope)
    tree = running()
    tree["spec"]["queueName"] = queue
    usage.settle(tree, START)
    assert usage.ledger.get(f"default/{queue}") is None


def test_a_dropped_penalty_and_a_queue_that_is_gone_leave_nothing():
    usage = past()
    usage.ledger.push_penalty(KEY, "default/a", cpu("3"), START)
    usage.drop(KEY, "default/a")
    assert not usage.ledger.has_penalty(KEY)
    usage.local_queue_changed(local_queue("user", "one"), None)
    assert usage.ledger.get(KEY) is None
