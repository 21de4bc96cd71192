"""The descheduler in a whole cluster: evictions go through the API server, and the Deployment makes the pods anew."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.api import usage
from controlplane.client.loops.clientset import DEPLOYMENTS, NODES, Client
from controlplane.client.resources import DISRUPTION_BUDGETS
from controlplane.descheduler.controller import descheduler_of
from controlplane.descheduler.policy import policy_of
from tests.test_cluster import SECOND, cluster_with, pods, run
from tests.test_determinism import deployment

TAINTS = "RemovePodsViolatingNodeTaints"


def policy(**more):
    profile = {
        "name": "taints",
        "pluginConfig": [{"name": TAINTS}],
        "plugins": {"deschedule": {"enabled": [TAINTS]}},
    }
    return policy_of(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [profile],
            **more,
        }
    )


def tainted(kind, *, budget: int | None = None, kill: bool = False):
    """A cluster in which one of two nodes is tainted once the replicas run; the counts of its pods before and after."""
    seen = {}

    def on_node(cluster) -> int:
        return sum(pod.spec.node_name == "node-1" for pod in pods(cluster))

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(4))
        if budget is not None:
            spec = {"minAvailable": budget, "selector": {"matchLabels": {"app": "web"}}}
            tree = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": spec,
            }
            await client.create(DISRUPTION_BUDGETS, tree)
        await ctx.sleep(60 * SECOND)
        seen["before"] = on_node(cluster)
        patch = {"spec": {"taints": [{"key": "gone", "effect": "NoSchedule"}]}}
        await client.patch(NODES, "", "node-1", patch)
        if kill:
            ctx.faults.crash("descheduler")
        await ctx.sleep(700 * SECOND)
        seen["after"] = on_node(cluster)

    cluster = cluster_with(user, own_controllers=(kind,))
    result = run(cluster)
    return cluster, seen, result


def reasons(cluster) -> list[str]:
    return [obj.view.reason for obj in cluster.objects("/registry/events/")]


def test_pods_leave_a_node_whose_taint_they_do_not_tolerate_and_are_made_anew():
    cluster, seen, result = tainted(descheduler_of(policy()))
    assert seen == {"before": 2, "after": 0}
    assert sorted(pod.status.phase for pod in pods(cluster)) == ["Running"] * 4
    assert TAINTS in reasons(cluster)
    again = tainted(descheduler_of(policy()))[2]
    assert again.trace_hash == result.trace_hash


def test_a_budget_keeps_the_pods_and_the_failure_is_an_event_where_the_policy_asks_for_it():
    kind = descheduler_of(policy(evictionFailureEventNotification=True))
    cluster, seen, _ = tainted(kind, budget=4)
    assert seen == {"before": 2, "after": 2}
    assert "EvictionFailed" in reasons(cluster)


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (descheduler_of(policy(), dry_run=True), 2),
        (descheduler_of(policy(maxNoOfPodsToEvictTotal=0)), 2),
        (descheduler_of(policy(nodeSelector="pool=spare")), 2),
        (descheduler_of(policy(), interval_ns=1000 * SECOND), 2),
    ],
)
def test_nothing_is_evicted_by_a_dry_run_beyond_the_limit_or_before_the_first_pass(kind, left):
    _, seen, _ = tainted(kind)
    assert seen["after"] == left


def balanced(metrics, thresholds, targets):
    """The policy of a LowNodeUtilization that goes by what is measured."""
    args = {"thresholds": thresholds, "targetThresholds": targets, "metricsUtilization": metrics}
    provider = {"source": metrics["source"]}
    if metrics["source"] == "Prometheus":
        provider["prometheus"] = {"url": "http://prometheus:9090"}
    profile = {
        "name": "usage",
        "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }
    return policy_of(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "metricsProviders": [provider],
            "profiles": [profile],
        }
    )


def busy(kind):
    """A cluster whose second node comes when four pods run on the first that use more than they request."""
    seen = {}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.patch(NODES, "", "node-1", {"spec": {"unschedulable": True}})
        tree = deployment(4)
        notes = {f"{usage.PREFIX}cpu-usage": "900m", f"{usage.PREFIX}memory-usage": "100Mi"}
        tree["spec"]["template"]["metadata"]["annotations"] = notes
        await client.create(DEPLOYMENTS, tree)
        await ctx.sleep(60 * SECOND)
        seen["before"] = [pod.spec.node_name for pod in pods(cluster)]
        await client.patch(NODES, "", "node-1", {"spec": {"unschedulable": False}})
        await ctx.sleep(700 * SECOND)

    cluster = cluster_with(user, own_controllers=(kind,))
    result = run(cluster)
    return cluster, seen, result


@pytest.mark.parametrize(
    ("metrics", "resource"),
    [
        ({"source": "KubernetesMetrics"}, "cpu"),
        ({"source": "Prometheus", "prometheus": {"query": "node:cpu:share"}}, "MetricResource"),
    ],
    ids=["metrics-server", "prometheus"],
)
def test_pods_leave_a_node_by_what_they_use_and_not_by_what_they_request(metrics, resource):
    kind = descheduler_of(balanced(metrics, {resource: 20}, {resource: 50}))
    cluster, seen, _ = busy(kind)
    assert set(seen["before"]) == {"node-2"}
    assert "node-1" in {pod.spec.node_name for pod in pods(cluster)}
    assert "LowNodeUtilization" in reasons(cluster)


def test_metrics_of_an_unknown_resource_end_the_plugin_with_an_error_in_the_log():
    kind = descheduler_of(
        balanced({"source": "KubernetesMetrics"}, {"example.com/gpu": 20}, {"example.com/gpu": 50})
    )
    cluster, seen, _ = busy(kind)
    assert {pod.spec.node_name for pod in pods(cluster)} == set(seen["before"])
    told = [
        each.data["message"] for each in cluster.world.log if each.event == "descheduler.failed"
    ]
    assert told[0] == (
        'plugin "LowNodeUtilization" finished with error: error getting node usage: '
        'unable to find "example.com/gpu" resource for collected "node-1" node metric'
    )


def test_of_two_deschedulers_one_leads_and_the_other_takes_over_when_it_dies():
    kind = descheduler_of(policy(), replicas=2)
    cluster, seen, _ = tainted(kind)
    assert holder(cluster).startswith("descheduler_")
    assert seen == {"before": 2, "after": 0}
    cluster, seen, _ = tainted(kind, kill=True)
    assert holder(cluster).startswith("descheduler-2_")
    assert seen == {"before": 2, "after": 0}


def holder(cluster) -> str:
    leases = cluster.objects("/registry/leases/")
    return next(each for each in leases if each.name == "descheduler").tree["spec"][
        "holderIdentity"
    ]
