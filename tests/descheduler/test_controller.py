"""The descheduler in a whole cluster: evictions go through the API server, and the Deployment makes the pods anew."""

from __future__ import annotations

import pytest

from actors import Context
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


def tainted(kind, *, budget: int | None = None):
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
