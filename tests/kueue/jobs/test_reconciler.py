"""The generic reconciler with batch/Jobs."""

from __future__ import annotations

from controlplane.kueue.jobs.batch import BatchJob
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.workload import status
from tests.kueue.objects import START, admitted, evicted
from tests.kueue.surroundings import around, job, store


def reconciled(server, name="work"):
    """The Workload after some reconciles."""
    surroundings = around(server)
    controller = JobController(surroundings, lambda: START)
    for _ in range(3):
        server.run(controller.reconcile(BatchJob(surroundings, START), "default", name))
    found = server.list("Workload")
    return found[0] if found else None


def the_job(server):
    return server.get("Job", "default", "work")


def test_a_suspended_job_gets_a_workload():
    found = reconciled(server := store(Job=[job()]))
    assert found["spec"]["queueName"] == "user"
    assert found["spec"]["podSets"][0]["count"] == 3
    assert [event[2] for event in server.events] == ["CreatedWorkload"]


def test_a_job_without_queue_is_left_alone():
    assert reconciled(store(Job=[job(queue="", suspend=False)])) is None


def test_an_admitted_job_starts_and_an_evicted_one_stops():
    flavor = {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "a"}}}
    server = store(Job=[job()], ResourceFlavor=[flavor])
    server.put("Workload", admitted(reconciled(server), "queue"))
    reconciled(server)
    assert the_job(server)["spec"]["suspend"] is False
    assert the_job(server)["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    server.put("Workload", evicted(server.list("Workload")[0]))
    found = reconciled(server)
    assert the_job(server)["spec"]["suspend"] is True
    assert "nodeSelector" not in the_job(server)["spec"]["template"]["spec"]
    assert not status.has_quota_reservation(found)
    assert {"Started", "Stopped"} <= {event[2] for event in server.events}


def test_a_finished_job_ends_its_workload():
    server = store(Job=[job()])
    reconciled(server)
    done = {"type": "Complete", "status": "True", "message": "done"}
    server.put("Job", {**job(suspend=False), "status": {"conditions": [done]}})
    assert status.is_finished(reconciled(server))
