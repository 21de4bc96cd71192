"""Controllers whose clients have a rate limit, as upstream's have."""

from __future__ import annotations

import pytest

from controlplane.client.loops.clientset import REPLICA_SETS, Client
from controlplane.cluster import Cluster, ClusterConfig

SECOND = 1_000_000_000


@pytest.mark.parametrize(("rate", "last_ms"), [(None, 0), ((20, 30), 2500)])
def test_pods_come_at_the_rate_of_their_controllers_client(rate, last_ms):
    config = ClusterConfig(kubelets=False, heartbeats=False, controller_client_rate=rate)
    cluster = Cluster(config)

    async def user(ctx):
        labels = {"app": "a"}
        await Client(ctx, cluster.address("user")).create(
            REPLICA_SETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {
                    "replicas": 80,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
        )

    cluster.user("user", user)
    cluster.world.run("bare", until_ns=20 * SECOND)
    made = [
        event.t_ns
        for event in cluster.world.log
        if event.event == "apiserver.write" and event.data["verb"] == "create pods"
    ]
    assert len(made) == 80
    assert max(made) == last_ms * 1_000_000  # thirty at once, then one every twentieth of a second
