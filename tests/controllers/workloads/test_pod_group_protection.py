"""A pod group that is deleted stays until all pods in it have ended or are gone."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk
from controlplane.client.loops.clientset import PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.scheduler.loops.pod_groups import POD_GROUPS

SECOND = 1_000_000_000
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "band", "namespace": "default"},
    "spec": {"schedulingPolicy": {"basic": {}}},
}


def member(name):
    container = {"name": "main", "image": "app:1"}
    group = {"podGroupName": "band"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [container],
            "schedulingGroup": group,
            "terminationGracePeriodSeconds": 0,
        },
    }


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_deleted_group_stays_until_its_last_pod_is_gone(seed):
    seen: list[tuple[str, int]] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)

        async def note(what: str) -> None:
            await ctx.sleep(SECOND)
            seen.append((what, len((await client.list(POD_GROUPS, "default")).items)))

        await ctx.sleep(SECOND)
        await client.create(POD_GROUPS, GROUP)
        for name in ("a", "b"):
            await client.create(PODS, member(name))
        await note("made")
        await client.delete(POD_GROUPS, "default", "band")
        await note("deleted")
        await client.delete(PODS, "default", "a")
        await note("one left")
        await client.patch(
            PODS, "default", "b", {"status": {"phase": "Succeeded"}}, subresource="status"
        )
        await note("ended")

    config = ClusterConfig(
        nodes=(node_tree("node-1", cpu="2"),),
        kubelets=False,
        scheduler_features={"GenericWorkload": True},
        enabled_controllers=(),
    )
    strategy = None if seed is None else RandomWalk(seed)
    cluster = Cluster(config, strategy=strategy)
    cluster.user("user", user)
    assert cluster.world.run("bare").verdict == "quiescent"
    assert seen == [("made", 1), ("deleted", 1), ("one left", 1), ("ended", 0)]
