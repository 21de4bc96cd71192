"""The limits of a pass, and the words of refused evictions."""

from __future__ import annotations

from contextlib import suppress

import pytest

from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.descheduler.evictions import (
    NODE_LIMIT,
    EvictionError,
    Limits,
    NodeLimitReached,
    Note,
    PodEvictor,
    Refusal,
    TotalLimitReached,
)


def pod(name: str, node: str = "node-1") -> Pod:
    tree = {
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"nodeName": node},
    }
    return Pod.from_tree(tree)


def test_a_node_gives_no_more_pods_than_its_limit_until_the_next_pass() -> None:
    evictor = PodEvictor(Limits(per_node=1), lambda note: None)
    at_once(evictor.evict(pod("a"), "default", "PodLifeTime"))
    with pytest.raises(NodeLimitReached):
        at_once(evictor.evict(pod("b"), "default", "PodLifeTime"))
    at_once(evictor.evict(pod("c", "node-2"), "default", "PodLifeTime"))
    evictor.reset()
    at_once(evictor.evict(pod("b"), "default", "PodLifeTime"))
    assert evictor.total == 1


def test_a_total_limit_of_zero_evicts_nothing() -> None:
    evictor = PodEvictor(Limits(total=0), lambda note: None)
    with pytest.raises(TotalLimitReached):
        at_once(evictor.evict(pod("a"), "default", "PodLifeTime"))


def test_a_budget_refuses_and_the_failure_is_an_event_when_asked_for() -> None:
    notes: list[Note] = []
    evictor = PodEvictor(Limits(), notes.append, notify_failures=True)
    with pytest.raises(EvictionError, match=r'^error when evicting pod \(ignoring\) "a": no$'):
        at_once(evictor.evict(pod("a"), "default", "X"), lambda asked: Refusal(429, "no"))
    assert [(note.type, note.reason) for note in notes] == [("Warning", "EvictionFailed")]
    assert evictor.total == 0


def test_a_dry_run_writes_no_event() -> None:
    notes: list[Note] = []
    at_once(PodEvictor(Limits(), notes.append, dry_run=True).evict(pod("a"), "default", "X"))
    assert notes == []


def test_each_result_is_counted_for_metrics_and_outlives_the_pass():
    evictor = PodEvictor(Limits(per_node=1), lambda note: None)
    refused = iter([None, Refusal(500, "no")])
    for number in range(2):
        evictor.reset()
        for name in "ab":
            with suppress(EvictionError):
                at_once(evictor.evict(pod(f"{name}{number}"), "p", "s"), lambda _: next(refused))
            if number:
                break
    (old, family) = evictor.families()
    assert (old.name, family.name) == ("descheduler_pods_evicted", "descheduler_pods_evicted_total")
    counted = {dict(each.labels)["result"]: each.value for each in family.samples}
    assert counted == {"success": 1, NODE_LIMIT: 1, "error": 1}
    assert dict(family.samples[0].labels).keys() == {
        *("result", "strategy", "profile", "namespace", "node")
    }
