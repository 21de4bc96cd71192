"""Rules over histories that are written down here: courses, cycles, activity, words."""

from __future__ import annotations

import pytest

from controlplane.api.times import SECOND
from controlplane.scenarios.check.cycles import cycle_in
from controlplane.scenarios.check.history import Change
from controlplane.scenarios.check.patience import is_activity
from controlplane.scenarios.check.recorder import part_of
from controlplane.scenarios.check.timeline import courses_of, pending
from controlplane.scenarios.check.words import actor_of, span


def replica_set(replicas=2):
    return {"metadata": {"name": "web", "uid": "rs"}, "spec": {"replicas": replicas}}


def pod(node="", *, ready=False, ends=False, phase="Running", conditions=(), kind="ReplicaSet"):
    metadata = {"ownerReferences": [{"kind": kind, "name": "web", "uid": "rs", "controller": True}]}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    states = [{"type": "Ready", "status": "True" if ready else "False"}, *conditions]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": states},
    }


EVICTED = ({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},)


def goes_round(times):
    """A pod that is evicted, made and put back, so often, a minute apart."""
    changes = [Change(0, "user/main", "replicasets", "default/web", None, replica_set(1))]
    for number in range(times + 1):
        name, at = f"default/web-{number}", 60 * number * SECOND
        changes += [
            Change(at, "controller-manager/replicaset", "pods", name, None, pod()),
            Change(at, "scheduler/bind", "pods", name, pod(), pod("node-1")),
        ]
        if number < times:
            gone = pod("node-1", ends=True, conditions=EVICTED)
            by = "descheduler/descheduler"
            changes.append(Change(at + 60 * SECOND, by, "pods", name, pod("node-1"), gone))
    return changes


def test_a_course_counts_what_is_wanted_and_ready():
    changes = [
        Change(0, "user/main", "replicasets", "default/web", None, replica_set()),
        Change(1, "controller-manager/replicaset", "pods", "default/a", None, pod()),
        Change(2, "scheduler/bind", "pods", "default/a", pod(), pod("node-1")),
        Change(
            3,
            "node-1/status-manager",
            "pods",
            "default/a",
            pod("node-1"),
            pod("node-1", ready=True),
        ),
    ]
    course = courses_of(changes)["ReplicaSet/default/web"]
    assert [(each.wanted, len(each.pods), each.ready) for each in course.moments] == [
        (2, 0, 0),
        (2, 1, 0),
        (2, 1, 0),
        (2, 1, 1),
    ]
    assert len(course.makings) == len(course.bindings) == 1
    assert course.at(0).pods == ()
    assert list(pending(changes, 1)) == ["default/a"]
    assert list(pending(changes, 3)) == []


def test_a_pod_that_ends_lives_no_more():
    changes = [*goes_round(1)]
    course = courses_of(changes)["ReplicaSet/default/web"]
    assert [change.key for change in course.endings] == ["default/web-0"]


def test_three_returns_make_a_cycle():
    course = courses_of(goes_round(3))["ReplicaSet/default/web"]
    cycle = cycle_in(course, 0, 3600 * SECOND, {"default/web-0": "RemoveDuplicates"})
    assert cycle.says == "ReplicaSet/default/web comes back to the same state 3 times in 3 min"
    assert set(cycle.lines) == {
        "the ReplicaSet controller makes a pod: 3 times",
        "the scheduler binds it to node node-1: 3 times",
        "the descheduler evicts a pod from node node-1 (RemoveDuplicates): once",
        "the descheduler evicts a pod from node node-1 (EvictionByEvictionAPI): 2 times",
    }


def test_two_returns_make_none():
    course = courses_of(goes_round(2))["ReplicaSet/default/web"]
    assert cycle_in(course, 0, 3600 * SECOND) is None


def test_a_cycle_before_the_phase_is_another_matter():
    course = courses_of(goes_round(5))["ReplicaSet/default/web"]
    assert cycle_in(course, 200 * SECOND, 3600 * SECOND) is None


@pytest.mark.parametrize(
    ("old", "new", "is_one"),
    [
        (None, pod(), True),
        (pod(), pod("node-1"), True),
        (pod("node-1"), pod("node-1", ready=True), True),
        (pod("node-1"), pod("node-1", conditions=({"type": "Other", "status": "True"},)), False),
        (None, pod(kind="Job"), False),
    ],
)
def test_activity_is_what_moves_pods(old, new, is_one):
    assert is_activity(Change(0, "someone/else", "pods", "default/a", old, new)) is is_one


def test_a_heartbeat_is_no_activity():
    old = {
        "metadata": {},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    new = {
        **old,
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}]},
    }
    assert not is_activity(Change(0, "node-1/status", "nodes", "node-1", old, new))
    cordoned = {**new, "spec": {"unschedulable": True}}
    assert is_activity(Change(0, "user/main", "nodes", "node-1", new, cordoned))


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("controller-manager/replicaset.create#5", "the ReplicaSet controller"),
        (
            "controller-manager/horizontalpodautoscaler.worker",
            "the HorizontalPodAutoscaler controller",
        ),
        ("controller-manager-2/job.untrack", "the job controller"),
        ("descheduler/descheduler.worker", "the descheduler"),
        ("node-3/status-manager", "the kubelet of node-3"),
        ("user/main", "the user"),
        ("kueue/workload.worker", "kueue"),
    ],
)
def test_authors_have_their_names(label, told):
    assert actor_of(part_of(label)) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (65, "65 s"), (119.6, "2 min"), (1500, "25 min"), (9000, "2 h")],
)
def test_times_are_told_in_one_unit(seconds, told):
    assert span(round(seconds * SECOND)) == told
