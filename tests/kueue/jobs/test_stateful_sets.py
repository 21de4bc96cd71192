"""StatefulSets: one Workload for all pods, on hold at zero."""

from __future__ import annotations

from controlplane.kueue.jobs.stateful_sets import StatefulSetController, find_workload
from controlplane.kueue.workload import status
from tests.kueue.objects import START, admitted
from tests.kueue.surroundings import around, stateful_set, store

GROUP = "kueue.x-k8s.io/pod-group-name"


def reconciled(server, name="db"):
    controller = StatefulSetController(around(server), lambda: START)
    server.run(controller.reconcile("default", name))
    (found,) = server.list("Workload")
    return found


def test_a_workload_for_all_pods():
    found = reconciled(server := store(StatefulSet=[stateful_set()]))
    assert found["metadata"]["name"].startswith("statefulset-db-")
    assert [(each["name"], each["count"]) for each in found["spec"]["podSets"]] == [("main", 2)]
    assert found["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    assert found["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true"
    assert [event[2] for event in server.events] == ["CreatedWorkload"]


def test_scaled_to_zero_it_is_put_on_hold_and_comes_back():
    server = store(StatefulSet=[stateful_set()])
    server.put("Workload", admitted(reconciled(server), "queue"))
    server.put("StatefulSet", stateful_set(replicas=0))
    found = reconciled(server)
    assert status.is_on_hold(found)
    assert not status.has_quota_reservation(found)
    server.put("StatefulSet", stateful_set(replicas=2))
    found = reconciled(server)
    assert not status.is_on_hold(found)
    assert "no longer on hold" in status.find(found, "QuotaReserved")["message"]


def test_without_pods_there_is_no_workload():
    server = store(StatefulSet=[stateful_set(replicas=0)])
    controller = StatefulSetController(around(server), lambda: START)
    server.run(controller.reconcile("default", "db"))
    assert not server.list("Workload")


def test_its_pods_become_a_group():
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    pod = {
        "metadata": {
            "name": "db-0",
            "namespace": "default",
            "annotations": {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"},
            "ownerReferences": [owner],
        },
        "spec": {},
    }
    server = store(StatefulSet=[stateful_set()], Pod=[pod])
    controller = StatefulSetController(around(server), lambda: START)
    server.run(controller.reconcile_pod("default", "db-0"))
    (found,) = server.list("Pod")
    name, _ = find_workload(stateful_set(), around(server))
    known = {**found["metadata"]["labels"], **found["metadata"]["annotations"]}
    assert known[GROUP] == name
    assert known["kueue.x-k8s.io/pod-group-total-count"] == "2"
    assert known["kueue.x-k8s.io/queue-name"] == "user"
    before = found
    server.run(controller.reconcile_pod("default", "db-0"))
    assert server.list("Pod") == [before]
