"""Workload slices of elastic jobs."""

from __future__ import annotations

import pytest

from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.jobs.ancestors import JOB
from controlplane.kueue.jobs.batch import BatchJob
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.jobs.slices import (
    ensure_slices,
    latest_active,
    owned_slices,
    prepared,
    scaled_down,
)
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_evict import finish
from tests.kueue.objects import START, admitted, evicted
from tests.kueue.surroundings import around, job, store

ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
FIRST = "kueue.x-k8s.io/workload-slice-name"
FLAVOR = {"metadata": {"name": "default"}, "spec": {}}


def elastic(parallelism: int, generation: int = 1, **fields):
    made = job(parallelism=parallelism, **fields)
    metadata = {**made["metadata"], "generation": generation, "annotations": {ELASTIC: "true"}}
    return {**made, "metadata": metadata}


def reconciled(server, times: int = 2):
    """The Workloads that have not finished, by the number of their pods."""
    there = around(server)
    controller = JobController(there, lambda: START)
    for _ in range(times):
        server.run(controller.reconcile(BatchJob(there, START), "default", "work"))
    return {
        each["spec"]["podSets"][0]["count"]: each
        for each in server.list("Workload")
        if not status.is_finished(each)
    }


def annotations(workload):
    return workload["metadata"]["annotations"]


@pytest.fixture
def running():
    """A store with an elastic job of three pods that is admitted and runs."""
    server = store(Job=[elastic(3)], ResourceFlavor=[FLAVOR])
    server.put("Workload", admitted(reconciled(server)[3], "queue"))
    reconciled(server)
    assert server.get("Job", "default", "work")["spec"]["suspend"] is False
    return server


def scaled(server, parallelism: int, generation: int):
    old = server.get("Job", "default", "work")
    metadata = {**old["metadata"], "generation": generation}
    server.put(
        "Job", {**old, "metadata": metadata, "spec": {**old["spec"], "parallelism": parallelism}}
    )


def test_the_first_slice_names_the_chain():
    (first,) = reconciled(store(Job=[elastic(3)])).values()
    assert annotations(first)[FIRST] == first["metadata"]["name"]
    assert REPLACES not in annotations(first)


def test_a_pending_slice_follows_the_job():
    server = store(Job=[elastic(3)])
    reconciled(server)
    scaled(server, 5, 2)
    assert set(reconciled(server)) == {5}
    assert len(server.list("Workload")) == 1


def test_a_job_that_grows_gets_a_slice_that_replaces_the_one_that_runs(running):
    scaled(running, 5, 2)
    found = reconciled(running)
    old, new = found[3], found[5]
    assert status.is_admitted(old)
    assert annotations(new)[REPLACES] == status.key_of(old)
    assert annotations(new)[FIRST] == old["metadata"]["name"] != new["metadata"]["name"]
    assert running.get("Job", "default", "work")["spec"]["suspend"] is False


def test_a_job_that_shrinks_gives_quota_back_with_the_slice_that_it_has(running):
    scaled(running, 2, 2)
    found = reconciled(running)
    assert set(found) == {2}
    assert status.is_admitted(found[2])
    assert len(running.list("Workload")) == 1


def test_growth_that_is_taken_back_leaves_the_slice_that_runs(running):
    scaled(running, 5, 2)
    reconciled(running)
    scaled(running, 3, 3)
    found = reconciled(running)
    assert set(found) == {3}
    assert status.is_admitted(running.list("Workload")[0]) or status.is_admitted(found[3])


def test_an_admitted_replacement_ends_the_slice_before(running):
    scaled(running, 5, 2)
    running.put("Workload", admitted(reconciled(running)[5], "queue"))
    found = reconciled(running)
    assert set(found) == {5}
    (old,) = (each for each in running.list("Workload") if status.is_finished(each))
    assert status.find(old, "Finished")["reason"] == "WorkloadSliceReplaced"


def test_other_pod_sets_are_matched_as_those_of_any_job(running):
    found = reconciled(running)[3]
    pod_sets = [{**found["spec"]["podSets"][0], "name": "other"}]
    assert running.run(ensure_slices([found], pod_sets, lambda: START)) == (None, False)
    assert running.run(ensure_slices([], pod_sets, lambda: START)) == (None, True)


@pytest.mark.parametrize(
    ("old", "new", "down"),
    [
        ({"a": 2, "b": 2}, {"a": 1, "b": 2}, True),
        ({"a": 2, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 2}, {"a": 2}, False),
        ({"a": 2}, {"a": 3}, False),
    ],
)
def test_a_job_shrinks_if_no_part_of_it_grows(old, new, down):
    assert scaled_down(old, new) is down


def test_the_newest_slice_with_quota_that_is_not_evicted_is_the_active_one():
    made = admitted(reconciled(store(Job=[elastic(3)], ResourceFlavor=[FLAVOR]))[3], "queue")
    later = {**made, "metadata": {**made["metadata"], "name": "later"}}
    assert latest_active([made, later]) is later
    assert latest_active([made, evicted(later)]) is made
    pending = reconciled(store(Job=[elastic(3)]))[3]
    assert latest_active([pending]) is None


def test_a_job_of_several_slices_gets_no_further_one():
    slices = list(reconciled(store(Job=[elastic(3)])).values())
    with pytest.raises(ReconcileError, match="unexpected workload-slices count: 2"):
        prepared(slices[0], slices * 2)


def test_a_finished_slice_does_not_count():
    server = store(Job=[elastic(3)])
    (first,) = reconciled(server, times=1).values()
    copy = status.working_copy(first)
    finish(copy, "Succeeded", "", START)
    assert owned_slices(server, JOB, "default", "work") == [first]
    server.put("Workload", copy)
    assert owned_slices(server, JOB, "default", "work") == []
