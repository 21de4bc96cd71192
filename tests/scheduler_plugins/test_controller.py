"""The controllers of PodGroups and ElasticQuotas in a whole cluster."""

from __future__ import annotations

from actors import Context
from controlplane.client.loops.clientset import NAMESPACES, PODS, Client
from controlplane.scheduler_plugins.controller import merge_difference
from tests.scheduler_plugins.worlds import (
    POD_GROUPS,
    QUOTAS,
    coscheduling,
    events,
    group,
    member,
    quota,
    world,
)
from tests.test_cluster import SECOND, run


def test_the_phase_of_a_group_follows_its_pods():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for number in range(2):
            tree = member(f"red-{number}", "red", restartPolicy="Never")
            tree["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "30"}
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
            tree["metadata"]["ownerReferences"] = [owner]
            trees.append(tree)
        await client.create(POD_GROUPS, group("red", 2))
        await ctx.sleep(5 * SECOND)
        seen.append(status())
        for tree in trees:
            await client.create(PODS, tree)
        await ctx.sleep(15 * SECOND)
        seen.append(status())

    def status() -> dict:
        (found,) = cluster.objects("/registry/scheduling.x-k8s.io/podgroups/")
        return found.tree["status"]

    trees: list[dict] = []
    seen: list[dict] = []
    cluster = world(
        user, coscheduling(), enabled_controllers=("*", "-garbage-collector-controller")
    )
    run(cluster)
    assert seen == [
        {"phase": "Pending"},
        {"phase": "Running", "running": 2, "occupiedBy": "default/owner"},
    ]
    assert status() == {"phase": "Finished", "succeeded": 2, "occupiedBy": "default/owner"}


def test_the_status_of_a_quota_tells_what_running_pods_of_its_namespace_use():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await client.create(NAMESPACES, tree)
        await client.create(QUOTAS, quota("team", {"cpu": "4", "memory": "1Gi"}))
        for namespace in ("team", "default"):
            tree = member("one", "", "500m")
            tree["metadata"] = {"name": "one", "namespace": namespace}
            await client.create(PODS, tree)

    cluster = world(user, {})
    run(cluster)
    (found,) = cluster.objects("/registry/scheduling.x-k8s.io/elasticquotas/")
    assert found.tree["status"] == {"used": {"cpu": "500m", "memory": "0"}}
    assert set(events(cluster, "Synced")) == {
        "Elastic Quota team/team synced successfully",
        "Elastic Quota team/one synced successfully",
    }


def test_a_merge_patch_tells_what_goes_what_comes_and_what_changes():
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": 3}
    new = {"a": 1, "b": {"c": 2, "f": 4}, "g": {"h": 5}}
    assert merge_difference(old, new) == {
        "b": {"c": 2, "d": None, "f": 4},
        "e": None,
        "g": {"h": 5},
    }
