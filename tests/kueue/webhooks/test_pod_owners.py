"""Deployments and StatefulSets under Kueue's webhooks."""

from __future__ import annotations

from copy import deepcopy

from controlplane.apiserver.schema.field_errors import aggregate
from controlplane.kueue.jobs.stateful_sets import find_workload
from controlplane.kueue.webhooks.pod_owners import (
    default_deployment,
    default_stateful_set,
    validate_deployment,
    validate_stateful_set,
)
from tests.kueue.surroundings import around, deployment, stateful_set, store

QUEUE = "kueue.x-k8s.io/queue-name"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


def test_pods_of_a_deployment_bear_its_queue():
    made = default_deployment(deployment(), around())["spec"]["template"]["metadata"]
    assert made["labels"] == {"app": "a", "kueue.x-k8s.io/managed": "true", QUEUE: "user"}
    assert made["annotations"] == {PARENT: "deployment"}


def test_without_a_queue_nothing_changes_unless_the_namespace_has_a_default():
    plain = deployment(queue="")
    assert default_deployment(plain, around()) == plain
    made = default_deployment(plain, around(default_queue=True))
    assert made["metadata"]["labels"] == {QUEUE: "default"}
    assert made["spec"]["template"]["metadata"]["labels"][QUEUE] == "default"


def test_pods_of_a_stateful_set_get_their_queue_later():
    made = default_stateful_set(stateful_set(), around())["spec"]["template"]["metadata"]
    assert made == {"labels": {"app": "a"}, "annotations": {PARENT: "statefulset"}}


def test_the_queue_of_ready_pods_stays():
    old = {**deployment(), "status": {"readyReplicas": 1}}
    errors = validate_deployment(deployment(queue="other"), old, around())
    assert "metadata.labels[kueue.x-k8s.io/queue-name]" in aggregate(errors)
    assert not validate_deployment(deployment(queue="other"), deployment(), around())


def test_a_stateful_set_goes_to_zero_and_back_only():
    two, three, none = (stateful_set(replicas=each) for each in (2, 3, 0))
    assert "spec.replicas" in aggregate(validate_stateful_set(three, two, around()))
    assert not validate_stateful_set(none, two, around())
    assert not validate_stateful_set(three, none, around())
    busy = {**three, "status": {"replicas": 1}}
    errors = validate_stateful_set(busy, none, around())
    assert "scaling down is still in progress" in aggregate(errors)
    name, _ = find_workload(none, around())
    left = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
    errors = validate_stateful_set(three, none, around(store(Workload=[left])))
    assert "still being deleted" in aggregate(errors)


def test_requests_of_a_stateful_set_stay():
    old = stateful_set()
    new = deepcopy(old)
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    errors = validate_stateful_set(new, old, around())
    assert "spec.template.spec.containers[0].resources.requests.cpu" in aggregate(errors)
    assert not validate_stateful_set({**new, "metadata": old["metadata"]}, new, around())
