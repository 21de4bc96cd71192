"""A user's kind of job, which the example defines, under the generic reconciler."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from controlplane.errors import UsageError
from controlplane.kueue.jobs import GenericJob, Kind, PermanentError, PodSetInfo
from controlplane.kueue.jobs.generic import check_class
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.workload import status
from controlplane.user_code import classes_of, load_module
from tests.kueue.objects import START, admitted, evicted
from tests.kueue.surroundings import around, named, store, template

EXAMPLE = Path(__file__).parents[3] / "examples" / "kueue" / "jobset" / "jobset.py"
(JobSet,) = list(classes_of(load_module(str(EXAMPLE), "kind of job"), GenericJob))
FLAVOR = {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "a"}}}


def replicated(name: str, replicas: int, parallelism: int):
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template()}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def jobset(**fields):
    jobs = [replicated("driver", 1, 1), replicated("workers", 2, 3)]
    spec = {"suspend": True, "replicatedJobs": jobs, **fields}
    return {"metadata": named("train", "user"), "spec": spec}


def surroundings(server):
    made = around(server)
    return evolve(made, frameworks={**made.frameworks, "jobset.x-k8s.io/jobset": JobSet.kind})


def reconciled(server):
    """The Workload after some reconciles."""
    there = surroundings(server)
    controller = JobController(there, lambda: START)
    for _ in range(3):
        server.run(controller.reconcile(JobSet(there, START), "default", "train"))
    found = server.list("Workload")
    return found[0] if found else None


def templates(server):
    jobs = server.get("JobSet", "default", "train")["spec"]["replicatedJobs"]
    return [each["template"]["spec"]["template"] for each in jobs]


def test_each_part_of_a_job_is_a_pod_set_of_one_workload():
    found = reconciled(store(JobSet=[jobset()]))
    assert found["metadata"]["name"].startswith("jobset-train-")
    assert found["metadata"]["ownerReferences"][0]["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    sizes = {each["name"]: each["count"] for each in found["spec"]["podSets"]}
    assert sizes == {"driver": 1, "workers": 6}
    assert found["spec"]["podSets"][1]["topologyRequest"]["subGroupCount"] == 2


def test_an_admitted_job_starts_with_its_flavors_and_an_evicted_one_is_as_before():
    server = store(JobSet=[jobset()], ResourceFlavor=[FLAVOR])
    before = templates(server)
    server.put("Workload", admitted(reconciled(server), "queue"))
    reconciled(server)
    assert server.get("JobSet", "default", "train")["spec"]["suspend"] is False
    assert [each["spec"]["nodeSelector"] for each in templates(server)] == [{"pool": "a"}] * 2
    server.put("Workload", evicted(server.list("Workload")[0]))
    found = reconciled(server)
    assert server.get("JobSet", "default", "train")["spec"]["suspend"] is True
    assert templates(server) == before
    assert not status.has_quota_reservation(found)


def test_quota_is_kept_while_pods_of_an_evicted_job_run():
    server = store(JobSet=[jobset()], ResourceFlavor=[FLAVOR])
    server.put("Workload", admitted(reconciled(server), "queue"))
    reconciled(server)
    running = server.get("JobSet", "default", "train")
    rows = [{"name": "driver", "active": 1}]
    server.put("JobSet", {**running, "status": {"replicatedJobsStatus": rows}})
    server.put("Workload", evicted(server.list("Workload")[0]))
    assert status.has_quota_reservation(reconciled(server))


def test_a_finished_part_gives_its_quota_back_before_the_rest():
    server = store(JobSet=[jobset()], ResourceFlavor=[FLAVOR])
    server.put("Workload", admitted(reconciled(server), "queue"))
    reconciled(server)
    running = server.get("JobSet", "default", "train")
    rows = [{"name": "workers", "succeeded": 1}]
    server.put("JobSet", {**running, "status": {"replicatedJobsStatus": rows}})
    assert reconciled(server)["status"]["reclaimablePods"] == [{"name": "workers", "count": 3}]


def test_an_admission_of_other_pod_sets_never_starts_the_job():
    job = JobSet(surroundings(store()), START, jobset())
    with pytest.raises(PermanentError, match="expecting 2 podset, got 1"):
        next(job.run([PodSetInfo()], "Admitted"))


def test_templates_stay_where_the_workload_has_other_pod_sets():
    job = JobSet(surroundings(store()), START, jobset(suspend=False))
    effect = next(job.stop([PodSetInfo(labels={"other": "label"})], "Stopped", ""))
    assert effect.body["spec"] == {**jobset()["spec"], "suspend": True}


class NoMethods(GenericJob):
    kind = Kind("example.com", "v1", "Batch")
    plural = "batches"


class NoKind(GenericJob):
    pass


class Named(NoMethods):
    kind = Kind("batch.example.com", "v1", "Job")


class NoPlural(NoMethods):
    plural = ""


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (NoKind, r"kind: expected Kind\(GROUP, VERSION, KIND\)"),
        (Named, "kind: Kueue has an integration of a kind Job already"),
        (NoPlural, "plural: expected the name of a resource"),
        (NoMethods, "pod_sets: expected a method"),
    ],
)
def test_an_incomplete_class_is_refused(cls, said):
    with pytest.raises(UsageError, match=f"^f.py: class {cls.__name__}: {said}"):
        check_class(cls, "f.py", ["Job"])


def test_a_complete_class_is_taken():
    check_class(JobSet, "f.py", ["Job"])
