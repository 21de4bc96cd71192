from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.flavors.modes import Possibility
from controlplane.kueue.gates import Gates
from controlplane.kueue.preemption.candidates import Rules, ordered
from controlplane.kueue.preemption.expectations import Expectations
from controlplane.kueue.preemption.fair_sharing import BOTH
from controlplane.kueue.preemption.issue import message
from controlplane.kueue.preemption.preemptor import PreemptionOracle, Preemptor
from controlplane.kueue.workload.info import new_info
from tests.kueue.objects import START, admitted, cache, cluster_queue, evicted, workload

PAIR = FlavorResource("default", "cpu")
GATES = Gates()
LOWER = {"withinClusterQueue": "LowerPriority"}
RECLAIM = {"reclaimWithinCohort": "Any"}


def targets(tree, queues, workloads, amount, *, strategies=None, queue="a"):
    """Keys and reasons of the workloads to preempt; the snapshot must be as before."""
    snapshot = cache(queues, workloads).snapshot()
    before = state(snapshot)
    info = replace(new_info(tree, GATES), cluster_queue=queue)
    preemptor = Preemptor(Rules(GATES, strategies), START)
    found = preemptor.targets_for(info, PAIR, amount * 1000, snapshot)
    assert state(snapshot) == before
    return [(each.info.name, each.reason) for each in found]


def state(snapshot):
    return {
        name: (
            {pair: amount for pair, amount in node.usage.items() if amount},
            sorted(getattr(node, "workloads", ())),
        )
        for nodes in (snapshot.queues, snapshot.cohorts)
        for name, node in nodes.items()
    }


def running(name, queue="a", cpu=1, ago=60, **fields):
    return admitted(workload(name, requests={"cpu": str(cpu)}, **fields), queue, ago=ago)


def test_the_lowest_and_youngest_go_first() -> None:
    queues = [cluster_queue("a", {"default/cpu": 3}, preemption=LOWER)]
    rest = [
        running("low", priority=1, ago=90),
        running("young", priority=1, ago=30),
        running("high", priority=9),
    ]
    found = targets(workload("w", priority=5), queues, rest, 1)
    assert found == [("young", "InClusterQueue")]
    found = targets(workload("w", priority=5), queues, rest, 2)
    assert sorted(found) == [("low", "InClusterQueue"), ("young", "InClusterQueue")]
    assert targets(workload("w", priority=5), queues, rest, 3) == []


def test_what_is_evicted_already_goes_before_all_others() -> None:
    queues = [cluster_queue("a", {"default/cpu": 2}, preemption=LOWER)]
    rest = [running("low", priority=1), evicted(running("going", priority=4))]
    assert targets(workload("w", priority=5), queues, rest, 1) == [("going", "InClusterQueue")]


def test_no_more_go_than_needed() -> None:
    queues = [cluster_queue("a", {"default/cpu": 5}, preemption=LOWER)]
    rest = [running("small", cpu=1, priority=0), running("large", cpu=4, priority=1)]
    assert targets(workload("w", priority=5), queues, rest, 4) == [("large", "InClusterQueue")]


def test_only_queues_that_borrow_are_reclaimed_from() -> None:
    queues = [
        cluster_queue("a", {"default/cpu": 2}, "team", preemption=RECLAIM),
        cluster_queue("b", {"default/cpu": 2}, "team"),
        cluster_queue("c", {"default/cpu": 2}, "team"),
    ]
    rest = [running("b-1", "b", 2), running("b-2", "b", 2, ago=30), running("c-1", "c", 2)]
    assert targets(workload("w"), queues, rest, 2) == [("b-2", "InCohortReclamation")]


def test_equal_workloads_go_only_if_they_are_newer_and_the_policy_says_so() -> None:
    policy = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
    queues = [cluster_queue("a", {"default/cpu": 2}, preemption=policy)]
    rest = [running("older", age=300), running("newer", age=10)]
    assert targets(workload("w", age=100), queues, rest, 1) == [("newer", "InClusterQueue")]


def test_borrowing_within_the_cohort_spares_what_is_above_the_threshold() -> None:
    borrow = {"policy": "LowerPriority", "maxPriorityThreshold": 3}
    queues = [
        cluster_queue(
            "a", {"default/cpu": 1}, "team", preemption={**RECLAIM, "borrowWithinCohort": borrow}
        ),
        cluster_queue("b", {"default/cpu": 3}, "team"),
    ]
    rest = [running("low", "b", 2, priority=2), running("mid", "b", 2, priority=4)]
    found = targets(workload("w", priority=5), queues, rest, 2)
    assert found == [("low", "InCohortReclaimWhileBorrowing")]


def test_fair_sharing_takes_from_the_queue_with_the_greatest_share() -> None:
    queues = [
        cluster_queue("a", {"default/cpu": 3}, "team", preemption=RECLAIM),
        cluster_queue("b", {"default/cpu": 3}, "team"),
        cluster_queue("c", {"default/cpu": 3}, "team"),
    ]
    rest = [running(f"b-{at}", "b", 1, ago=at) for at in range(5)]
    rest += [running(f"c-{at}", "c", 1, ago=at) for at in range(4)]
    found = targets(workload("w"), queues, rest, 1, strategies=BOTH)
    assert found == [("b-0", "InCohortReclamation")]


def test_fair_sharing_does_not_trade_places() -> None:
    """Preempting would only make the other queue preempt back."""
    queues = [
        cluster_queue("a", {"default/cpu": 0}, "team", preemption=RECLAIM),
        cluster_queue("b", {"default/cpu": 4}, "team", preemption=RECLAIM),
    ]
    assert targets(workload("w"), queues, [running("b-1", "b", 4)], 1, strategies=BOTH) == []


@pytest.mark.parametrize(
    ("preemption", "possibility"),
    [
        ({}, Possibility.NO_CANDIDATES),
        (RECLAIM, Possibility.RECLAIM),
        ({**RECLAIM, **LOWER}, Possibility.PREEMPT),
    ],
)
def test_the_oracle_tells_what_preemption_could_do(preemption, possibility) -> None:
    queues = [
        cluster_queue("a", {"default/cpu": 3}, "team", preemption=preemption),
        cluster_queue("b", {"default/cpu": 1}, "team"),
    ]
    snapshot = cache(queues, [running("own", "a", 2), running("other", "b", 2)]).snapshot()
    info = replace(new_info(workload("w", priority=5), GATES), cluster_queue="a")
    oracle = PreemptionOracle(Preemptor(Rules(GATES), START), snapshot)
    amount = 3000 if "withinClusterQueue" in preemption else 1000
    assert oracle.simulate(snapshot.queues["a"], info, PAIR, amount)[0] is possibility


def test_the_message_names_both_paths() -> None:
    queues = [cluster_queue("a", {"default/cpu": 1}, "team", preemption=LOWER)]
    snapshot = cache(queues, [running("old")]).snapshot()
    info = replace(new_info(workload("w", priority=5), GATES), cluster_queue="a")
    found = Preemptor(Rules(GATES), START).targets_for(info, PAIR, 1000, snapshot)
    assert message(info, snapshot.queues["a"], found[0]) == (
        "Preempted to accommodate a workload (UID: uid-w, JobUID: UNKNOWN) due to prioritization "
        "in the ClusterQueue; preemptor path: /team/a; preemptee path: /team/a"
    )


def test_a_preemption_is_expected_until_all_its_uids_are_seen() -> None:
    expectations = Expectations()
    expectations.expect("ns/w", "one")
    expectations.expect("ns/w", "two")
    expectations.observed("ns/w", "one")
    assert not expectations.satisfied("ns/w")
    expectations.observed("ns/w", "two")
    expectations.observed("ns/other", "three")
    assert expectations.satisfied("ns/w")


def test_admission_fair_sharing_takes_from_the_local_queue_that_used_most() -> None:
    infos = [
        replace(new_info(running(name, priority=at, queue="a"), GATES), local_queue_usage=usage)
        for at, (name, usage) in enumerate([("low", 1.0), ("mid", 5.0), ("high", 9.0)])
    ]
    other = [
        replace(info, obj={**info.obj, "spec": {**info.obj["spec"], "queueName": name}})
        for info, name in zip(infos, ("one", "two", "three"), strict=True)
    ]
    plain = ordered(other, "a", START, Rules(GATES))
    assert [info.name for info in plain] == ["low", "mid", "high"]
    shared = ordered(other, "a", START, Rules(GATES, admission_fair_sharing=True))
    assert [info.name for info in shared] == ["high", "mid", "low"]
    same = ordered(infos, "a", START, Rules(GATES, admission_fair_sharing=True))
    assert [info.name for info in same] == ["low", "mid", "high"]
