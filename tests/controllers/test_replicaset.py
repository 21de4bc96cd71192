from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.meta import ObjectMeta
from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.controllers.common import slow_start
from controlplane.controllers.common.pods import by_deletion_rank, is_available
from controlplane.controllers.workloads.replicaset import replicas as replicasets
from tests.controllers.builders import NOW, pod, replica_set


def first(one, other, related=None):
    """Which of two pods is deleted first, whatever their order."""
    names = {
        by_deletion_rank(pair, related or {}, NOW)[0].name for pair in ((one, other), (other, one))
    }
    assert len(names) == 1
    return names.pop()


@pytest.mark.parametrize(
    ("victim", "other"),
    [
        ({"node": ""}, {"ready": False, "phase": "Pending"}),
        ({"phase": "Pending"}, {"phase": "Unknown"}),
        ({"phase": "Unknown"}, {"phase": "Running", "ready": False}),
        ({"ready": False}, {}),
        ({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}, {}),
        ({}, {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}}),
        ({"since": 3}, {"since": 50, "restarts": 9}),
        ({"restarts": 3, "age": 100}, {"restarts": 2, "age": 1}),
        ({"sidecar_restarts": 2}, {"sidecar_restarts": 1}),
        ({"age": 2}, {"age": 900}),
    ],
)
def test_victims_are_chosen_by_rank(victim, other):
    assert first(pod("victim", uid="z", **victim), pod("other", uid="a", **other)) == "victim"


def test_an_invalid_deletion_cost_counts_as_none():
    bad = {"controller.kubernetes.io/pod-deletion-cost": str(2**31)}
    assert first(pod("young", age=1), pod("old", age=900, annotations=bad)) == "young"


def test_a_pod_with_more_related_pods_on_its_node_goes_first():
    assert first(pod("a", node="one"), pod("b", node="two"), {"one": 1, "two": 2}) == "b"


def test_ages_within_a_power_of_two_are_decided_by_uid():
    older, younger = pod("older", uid="a", since=31), pod("younger", uid="b", since=19)
    assert first(older, younger) == "older"


def test_restarts_of_plain_init_containers_do_not_count():
    busy = pod("busy", uid="z", init_policy="", sidecar_restarts=9, age=900)
    assert first(busy, pod("young", age=1)) == "young"


@given(st.integers(0, 12), st.integers(0, 12))
def test_the_plan_makes_up_the_difference(have, want):
    active = [pod(f"p{number}") for number in range(have)]
    plan = replicasets.manage_replicas(replica_set("web", want), active, {}, NOW)
    assert have + plan.create - len(plan.delete) == want
    assert not (plan.create and plan.delete)


def test_at_most_500_pods_are_created_in_one_turn():
    assert replicasets.manage_replicas(replica_set("web", 1200), [], {}, NOW).create == 500


@given(st.integers(0, 600))
def test_slow_start_doubles_and_adds_up(total):
    batches = slow_start.batches(total)
    assert sum(batches) == total
    assert all(size == 1 << number for number, size in enumerate(batches[:-1]))


def test_a_new_pod_carries_the_template_and_its_owner():
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "dropped"},
        "spec": {"containers": []},
    }
    made = replicasets.new_pod(replica_set("web", 1, template=template))
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["labels"] == {"app": "web"}
    assert "name" not in made["metadata"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "web"


def test_status_counts_active_pods():
    pods = [pod("a"), pod("b", ready=False), pod("c", labels={})]
    status = replicasets.new_status(replica_set("web", 3), pods, 2, None, NOW)
    assert status == {
        "replicas": 3,
        "observedGeneration": 1,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 2,
    }


def test_a_failure_stays_as_first_reported_until_a_turn_goes_well():
    status = replicasets.new_status(replica_set("web", 3), [], 0, "no room", NOW)
    (condition,) = status["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedCreate", "no room")
    failing = replica_set("web", 3, status=status)
    again = replicasets.new_status(failing, [], 0, "still no room", NOW + SECOND)
    assert again["conditions"] == [condition]
    assert "conditions" not in replicasets.new_status(failing, [], 0, None, NOW)


def test_a_ready_pod_becomes_available_after_min_ready_seconds():
    young = pod("young", since=3)
    assert not is_available(young, 10, NOW)
    assert is_available(young, 10, NOW + 7 * SECOND)
    wanting = replica_set("web", 1, min_ready_seconds=10)
    status = replicasets.new_status(wanting, [young], 0, None, NOW)
    assert replicasets.next_available(wanting, [young], status, NOW) == NOW + 7 * SECOND
    later = NOW + 7 * SECOND
    status = replicasets.new_status(wanting, [young], 0, None, later)
    assert replicasets.next_available(wanting, [young], status, later) is None


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@given(st.lists(LABELS, min_size=1, max_size=3), LABELS, st.data())
def test_pods_that_share_their_labels_are_counted_as_if_each_had_its_own(kinds, template, data):
    picked = data.draw(st.lists(st.integers(0, len(kinds) - 1), max_size=6))
    pods = [
        Pod(tree={}, metadata=ObjectMeta(name=f"p{at}", labels=kinds[which]))
        for at, which in enumerate(picked)
    ]
    expected = sum(
        all(kinds[which].get(key) == value for key, value in template.items()) for which in picked
    )
    assert replicasets._labelled(pods, template) == expected
