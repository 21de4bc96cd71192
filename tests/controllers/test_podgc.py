"""Pod garbage collection in a world."""

from __future__ import annotations

from controlplane.client.resources import NODES, PODS
from tests.controllers.worlds import SECOND, Small


def test_pods_of_a_node_that_is_gone_fail_and_are_deleted():
    async def lose(client, _ctx):
        await client.delete(NODES, "", "node-1")

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "nodeName": "node-1"},
    }
    small = Small(("podgc", "-taint-eviction"), (PODS, pod), 5, lose, 120, kubelets=False)
    small.cluster.world.run("bare", until_ns=200 * SECOND)
    assert small.objects("pods") == []
