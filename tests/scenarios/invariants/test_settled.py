"""Invariants of a world at rest: each breaks when a number that a controller keeps is old, and holds otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.object import Object
from controlplane.scenarios.invariants.settled import (
    budgets_count_their_pods,
    no_pod_stays_on_a_node_that_evicts_it,
    slices_have_the_pods_of_their_service,
    statuses_count_their_pods,
)
from tests.scenarios.invariants.stored import made, owned, said

WEB = {"labels": {"app": "web"}}


def pod(name: str, phase: str = "Running", node: str = "", **metadata: Any) -> Object:
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    status = {"phase": phase, "conditions": ready, "podIPs": [{"ip": "10.0.0.1"}]}
    return made("Pod", name, {"nodeName": node} if node else {}, status, **metadata)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_status_with_another_number_of_pods_is_found(kind) -> None:
    law = statuses_count_their_pods()
    pods = owned(kind, "web", "a"), owned(kind, "web", "b", "Pending")
    good = made(kind, "web", status={"replicas": 2, "readyReplicas": 1})
    assert said(law, good, *pods) is None
    assert said(law, made(kind, "web", status={"replicas": 1, "readyReplicas": 1}), *pods) == (
        f"{kind} default/web: status.replicas is 1, and there are 2"
    )
    assert said(law, made(kind, "web", status={"replicas": 2}), *pods) == (
        f"{kind} default/web: status.readyReplicas is 0, and there are 1"
    )


def test_slices_with_a_pod_too_many_twice_or_missing_are_found() -> None:
    law = slices_have_the_pods_of_their_service()
    service = made("Service", "web", {"selector": {"app": "web"}})
    labels = {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "web",
    }

    def slice_of(name: str, *uids: str) -> Object:
        tree = made("EndpointSlice", name, labels=labels).tree
        return Object({**tree, "endpoints": [{"targetRef": {"uid": uid}} for uid in uids]})

    pods = pod("a", **WEB), pod("b", "Succeeded", **WEB), pod("c")
    assert said(law, service, *pods, slice_of("one", "a")) is None
    for shown in (("a", "b"), ("a", "a"), ()):
        assert said(law, service, *pods, slice_of("one", *shown)) == (
            f"the slices of Service default/web have pods {sorted(shown)}, and not ['a']"
        )
    assert said(law, service, *pods, slice_of("one", "a"), slice_of("two", "a")) is not None


def test_a_budget_with_another_number_of_healthy_pods_is_found() -> None:
    law = budgets_count_their_pods()
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    pods = pod("a", **WEB), pod("b", "Pending", **WEB), pod("c")
    budget = "PodDisruptionBudget"
    assert said(law, made(budget, "web", spec, {"currentHealthy": 1}), *pods) is None
    assert said(law, made(budget, "web", spec, {"currentHealthy": 2}), *pods) == (
        "budget default/web counts 2 healthy pods, and there are 1"
    )
    waiting = {"currentHealthy": 1, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}}
    assert said(law, made(budget, "web", spec, waiting), *pods) == (
        "budget default/web still waits for the disruption of gone"
    )
    failed = {"conditions": [{"type": "DisruptionAllowed", "reason": "SyncFailed"}]}
    assert said(law, made(budget, "web", spec, failed), *pods) is None


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ([], False),
        ([{"key": "down", "operator": "Exists"}], True),
        ([{"key": "down", "operator": "Exists", "tolerationSeconds": 20}], False),
    ],
    ids=["intolerant", "tolerant", "tolerant for a time"],
)
def test_a_pod_that_a_taint_evicts_is_found(toleration, stays) -> None:
    law = no_pod_stays_on_a_node_that_evicts_it()
    node = made("Node", "n0", {"taints": [{"key": "down", "effect": "NoExecute"}]})
    tree = pod("a", node="n0").tree
    found = Object({**tree, "spec": {**tree["spec"], "tolerations": toleration}})
    told = None if stays else "default/a is on n0, whose taint evicts it"
    assert said(law, node, found) == told
    assert said(law, made("Node", "n0"), found) is None
