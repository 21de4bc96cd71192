"""The nodes of a session over a store that another session left."""

from __future__ import annotations

import time

import pytest

from controlplane.api.object import Object
from controlplane.api.times import SECOND
from controlplane.apiserver.storage.store import Entry, Store
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.serving.scenario import EPOCH, NODES, _still_there

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


def test_virtual_time_may_begin_in_the_past(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_767_225_600_500_000_000)
    day = 86_400 * SECOND
    assert EPOCH.convert("now") == 1_767_225_600 * SECOND
    assert EPOCH.convert("now-30d") == 1_767_225_600 * SECOND - 30 * day
    assert EPOCH.convert("now-90m") == (1_767_225_600 - 5400) * SECOND
    assert EPOCH.convert("now-999999999d") == 0
    for text in ("now-", "now-3w", "now+1d", "yesterday"):
        with pytest.raises(ValueError, match="or now-30d"):
            EPOCH.convert(text)
