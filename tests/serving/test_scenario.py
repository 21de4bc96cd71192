"""The nodes of a session over a store that another session left."""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.apiserver.storage.store import Entry, Store
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.serving.scenario import NODES, _still_there

GIVEN = [node_tree(f"node-{number}") for number in (1, 2, 3)]


def test_a_new_store_gets_the_nodes_that_are_asked_for():
    assert _still_there(GIVEN, Store()) == GIVEN


def test_a_node_that_was_deleted_does_not_come_back():
    cluster = Cluster(ClusterConfig(nodes=GIVEN[:2], controllers=False))
    cluster.world.run(until_ns=2_000_000_000, driver="bare")
    assert len(cluster.objects(NODES)) == 2
    made = {"metadata": {"name": "node-3"}, "status": {"capacity": {"cpu": "1"}}}
    cluster.store.keyspace(NODES).entries["node-3"] = Entry(Object(made), 1)
    left = _still_there(GIVEN, cluster.store)
    assert [tree["metadata"]["name"] for tree in left] == ["node-1", "node-2"]
