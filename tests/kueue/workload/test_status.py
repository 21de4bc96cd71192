"""Conditions of Workloads, their eviction, and the body of a status write."""

from __future__ import annotations

import pytest

from controlplane.api.times import SECOND, format_time
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_evict import finish, prepare_eviction
from controlplane.kueue.workload.status_patch import admission_patch, replace_owned
from tests.kueue.objects import START, admitted, evicted, workload

GATES = Gates()
ADMISSION = {"clusterQueue": "queue", "podSetAssignments": [{"name": "main", "count": 1}]}


def conditions(tree) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in tree["status"]["conditions"]}


def test_a_workload_without_checks_is_admitted_with_its_quota():
    copy = status.working_copy(workload("one"))
    assert status.set_quota_reservation(copy, ADMISSION, START)
    assert status.sync_admitted(copy, START, GATES)
    assert status.has_quota_reservation(copy)
    assert status.is_admitted(copy)
    assert not status.sync_admitted(copy, START, GATES)


def test_a_working_copy_leaves_the_workload_alone():
    tree = workload("one")
    status.set_quota_reservation(status.working_copy(tree), ADMISSION, START)
    assert "status" not in tree


def test_quota_that_is_given_back_ends_the_admission_and_adds_up_the_time_it_ran():
    copy = status.working_copy(admitted(workload("one"), "queue", ago=60))
    assert status.unset_quota_reservation(copy, "Pending", "later", START, GATES)
    assert "admission" not in copy["status"]
    assert conditions(copy)["QuotaReserved"] == ("False", "Pending")
    assert conditions(copy)["Admitted"][0] == "False"
    assert copy["status"]["accumulatedPastExecutionTimeSeconds"] == 60


def test_a_check_that_is_not_ready_holds_the_admission_back():
    copy = status.working_copy(workload("one"))
    copy["status"]["admissionChecks"] = [{"name": "budget", "state": "Pending"}]
    status.set_quota_reservation(copy, ADMISSION, START)
    status.sync_admitted(copy, START, GATES)
    assert not status.is_admitted(copy)


def test_an_eviction_counts_once_per_reason():
    copy = status.working_copy(admitted(workload("one"), "queue"))
    first = prepare_eviction(copy, "Preempted", "to make room", START)
    again = prepare_eviction(copy, "Preempted", "to make room", START)
    assert (first.first, again.first) == (True, False)
    assert first.event == ("Normal", "EvictedDueToPreempted", "to make room")
    assert copy["status"]["schedulingStats"]["evictions"][0]["count"] == 2


def test_an_eviction_resets_checks_and_keeps_the_quota():
    tree = admitted(workload("one"), "queue")
    tree["status"]["admissionChecks"] = [{"name": "budget", "state": "Ready"}]
    copy = status.working_copy(tree)
    prepare_eviction(copy, "Deactivated", "enough", START, cause="RequeuingLimitExceeded")
    (check,) = copy["status"]["admissionChecks"]
    assert check["state"] == "Pending"
    assert check["message"].endswith("Previously: Ready")
    assert status.has_quota_reservation(copy)
    assert conditions(copy)["Evicted"][1] == "DeactivatedDueToRequeuingLimitExceeded"


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (lambda tree: tree, "pending"),
        (lambda tree: admitted(tree, "queue"), "admitted"),
        (lambda tree: evicted(admitted(tree, "queue")), "admitted"),
    ],
)
def test_states(make, state):
    assert status.state_of(make(workload("one"))) == state


def test_a_finished_workload_ran_from_its_admission_to_its_end():
    copy = status.working_copy(admitted(workload("one"), "queue", ago=30))
    assert finish(copy, "Succeeded", "done", START)
    assert status.is_finished(copy)
    assert status.total_execution_time(copy) == 30 * SECOND


def test_a_status_write_takes_over_what_kueue_owns_and_leaves_the_rest():
    tree = admitted(workload("one"), "queue")
    tree["metadata"]["resourceVersion"] = "7"
    patch = admission_patch(tree)
    assert patch["metadata"]["resourceVersion"] == "7"
    assert "resourceRequests" not in patch["status"]
    other = {"type": "Other", "status": "True", "reason": "Mine", "message": ""}
    stored = {"resourceRequests": [{"name": "main"}], "reclaimablePods": [], "conditions": [other]}
    merged = replace_owned(
        stored | {"reclaimablePods": [{"name": "main", "count": 1}]}, patch["status"]
    )
    assert {each["type"] for each in merged["conditions"]} == {"QuotaReserved", "Admitted", "Other"}
    assert merged["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert "resourceRequests" not in merged


def test_the_order_of_a_queue_is_that_of_creation_or_of_the_eviction():
    tree = evicted(admitted(workload("one", age=100), "queue"), "PodsReadyTimeout")
    assert status.queue_order_time(tree, GATES) == START
    assert status.queue_order_time(tree, GATES, by_eviction=False) == START - 100 * SECOND
    assert status.created_at(tree) == START - 100 * SECOND
    assert format_time(status.created_at(tree)) == tree["metadata"]["creationTimestamp"]
