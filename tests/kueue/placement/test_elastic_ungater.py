"""Pods of elastic jobs are let go, as many as there is quota for."""

from __future__ import annotations

import pytest

from controlplane.decisions import Together
from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ELASTIC_JOB, POD_SET
from controlplane.kueue.placement.elastic_ungater import ElasticUngater
from controlplane.kueue.placement.pods import SLICE_NAME
from tests.kueue.jobs.test_slices import FLAVOR, elastic, reconciled
from tests.kueue.objects import admitted, evicted
from tests.kueue.surroundings import store


def pod(name: str, *, held: bool = True, phase: str = "Pending", **spec):
    gates = [{"name": ELASTIC_JOB}] if held else []
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "work",
        "uid": "uid-work",
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "ownerReferences": [owner],
    }
    metadata |= {"labels": {POD_SET: "main"}, "annotations": {SLICE_NAME: "first"}}
    return {
        "metadata": metadata,
        "spec": {"schedulingGates": gates, **spec},
        "status": {"phase": phase},
    }


@pytest.fixture
def server():
    """A store with an admitted slice of three pods, the first of its job."""
    made = store(Job=[elastic(3)], ResourceFlavor=[FLAVOR])
    (slice_,) = reconciled(made).values()
    annotations = {**slice_["metadata"]["annotations"], SLICE_NAME: "first"}
    slice_ = {**slice_, "metadata": {**slice_["metadata"], "annotations": annotations}}
    made.put("Workload", admitted(slice_, "queue"))
    return made


def active(server):
    return server.list("Workload")[0]


def key(server) -> str:
    return f"default/{active(server)['metadata']['name']}"


def one_by_one(reconcile):
    """The reconcile with its parts one after the other."""
    answer = None
    while True:
        try:
            effect = reconcile.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(effect, Together):
            answer = []
            for part in effect.parts:
                answer.append((yield from part))
        else:
            answer = yield effect


def let_go(server, ungater=None) -> list[str]:
    """The pods that are let go in one reconcile."""
    ungater = ungater or ElasticUngater(server, Gates())
    before = {
        each["metadata"]["name"]
        for each in server.list("Pod")
        if each["spec"].get("schedulingGates")
    }
    server.run(one_by_one(ungater.reconcile(key(server))))
    after = {
        each["metadata"]["name"]
        for each in server.list("Pod")
        if each["spec"].get("schedulingGates")
    }
    return sorted(before - after)


def test_as_many_pods_run_as_the_slice_has_quota_for(server):
    for each in (pod("a", held=False, phase="Running"), *map(pod, "dcbe")):
        server.put("Pod", each)
    assert let_go(server) == ["b", "c"]


def test_pods_that_have_ended_take_no_room(server):
    for each in (pod("a", held=False, phase="Succeeded"), *map(pod, "bcd")):
        server.put("Pod", each)
    assert let_go(server) == ["b", "c", "d"]


def test_nothing_is_let_go_for_an_evicted_slice(server):
    server.put("Pod", pod("a"))
    server.put("Workload", evicted(active(server)))
    assert let_go(server) == []


def test_what_was_let_go_is_seen_before_the_next_look(server):
    server.put("Pod", pod("a"))
    ungater = ElasticUngater(server, Gates())
    assert let_go(server, ungater) == ["a"]
    with pytest.raises(ReconcileError, match="pending elastic ungate operations"):
        let_go(server, ungater)
    assert ungater.pod_changed(None, pod("a", held=False)) == key(server)
    assert let_go(server, ungater) == []


def test_a_pod_with_the_node_of_an_earlier_admission_stays(server):
    update = {"name": "main", "nodeSelector": {"zone": "b"}}
    tree = active(server)
    checks = [{"name": "check", "state": "Ready", "podSetUpdates": [update]}]
    server.put("Workload", {**tree, "status": {**tree["status"], "admissionChecks": checks}})
    server.put("Pod", pod("a", nodeSelector={"zone": "a"}))
    server.put("Pod", pod("b"))
    assert let_go(server) == ["b"]
    assert server.get("Pod", "default", "b")["spec"]["nodeSelector"] == {"zone": "b"}


def test_pods_of_other_jobs_do_not_concern_it(server):
    plain = pod("a")
    plain["metadata"]["annotations"] = {}
    assert ElasticUngater(server, Gates()).pod_changed(None, plain) is None
    without = Gates({"ElasticJobsViaWorkloadSlices": False})
    assert ElasticUngater(server, without).workload_changed(active(server)) is None
