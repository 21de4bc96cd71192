"""Budgets in a world: evictions are allowed as far as they go, and refused beyond."""

from __future__ import annotations

from controlplane.api.request import Request
from controlplane.client.errors import ApiError
from controlplane.client.resources import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, STATEFUL_SETS
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "web"}


def test_of_three_pods_one_may_be_evicted_at_a_time():
    async def evict(client, _ctx):
        for pod in (await client.list(PODS, "default")).items:
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": "default"},
            }
            request = Request(
                "create", "", "v1", "pods", "default", pod.name, "eviction", body=eviction
            )
            try:
                await client.call(request)
            except ApiError as error:
                answers.append(error.code)
            else:
                answers.append(201)

    answers: list[int] = []
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template(LABELS)}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    small = Small(
        ("disruption",),
        workload(DEPLOYMENTS, "Deployment", "web", spec),
        workload(DISRUPTION_BUDGETS, "PodDisruptionBudget", "web", budget),
        30,
        evict,
    ).run()
    assert answers == [201, 429, 429]
    status = small.one("poddisruptionbudgets").status
    assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (3, 2, 1)
    assert dict(status.disrupted_pods) == {}


def test_a_pod_of_a_predecessor_of_its_owner_leaves_the_budget_unsynced():
    """The cache holds another StatefulSet of the name, so the scale is asked for, and has another uid."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "gone"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "db-7",
            "namespace": "default",
            "labels": LABELS,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": template(LABELS)["spec"],
    }
    spec = {
        "replicas": 0,
        "serviceName": "db",
        "selector": {"matchLabels": LABELS},
        "template": template(LABELS),
    }
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    small = Small(
        ("disruption",),
        workload(STATEFUL_SETS, "StatefulSet", "db", spec),
        (PODS, pod),
        workload(DISRUPTION_BUDGETS, "PodDisruptionBudget", "web", budget),
        10,
    ).run()
    (condition,) = small.one("poddisruptionbudgets").tree["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "SyncFailed",
        'found no controllers for pod "db-7"',
    )
