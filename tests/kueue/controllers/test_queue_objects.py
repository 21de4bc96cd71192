"""Reconcilers of ClusterQueues and LocalQueues."""

from __future__ import annotations

import pytest

from controlplane.kueue.controllers.observer import Observer
from controlplane.kueue.controllers.queue_objects import (
    ClusterQueueController,
    LocalQueueController,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.cluster_queue import Rules
from controlplane.kueue.queues.manager import ManagerOptions, QueueManager
from tests.golden.kueue_server import Server
from tests.kueue.objects import START, cache, cluster_queue, local_queue, workload
from tests.kueue.surroundings import Quiet


class Gone(Observer):
    """Remembers what is gone."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def cluster_queue_gone(self, name: str) -> None:
        self.names.append(name)

    def local_queue_gone(self, namespace: str, name: str) -> None:
        self.names.append(f"{namespace}/{name}")


class World:
    """A store, queues, cache, and the two controllers."""

    def __init__(self) -> None:
        self.server = Server({})
        self.cache = cache([])
        self.manager = QueueManager(
            ManagerOptions(Rules(Gates())), self.server, Quiet(), lambda: START,
            self.cache.cluster_queue_active,
        )  # fmt: skip
        self.gone = Gone()
        parts = (self.server, self.manager, self.cache, lambda: START)
        self.cluster_queues = ClusterQueueController(*parts, observer=self.gone)
        self.local_queues = LocalQueueController(*parts, observer=self.gone)
        queue, local = cluster_queue("queue", {"default/cpu": 4}), local_queue("user", "queue")
        self.server.put("ClusterQueue", queue)
        self.server.put("LocalQueue", local)
        self.server.put("Workload", workload("one"))
        self.cluster_queues.created(queue)
        self.local_queues.created(local)

    def reconciled(self, kind: str, name: str):
        if kind == "ClusterQueue":
            self.server.run(self.cluster_queues.reconcile(name))
            return self.server.get(kind, "", name)
        self.server.run(self.local_queues.reconcile("default", name))
        return self.server.get(kind, "default", name)


def active(tree) -> tuple[str, str]:
    (found,) = tree["status"]["conditions"]
    return found["status"], found["reason"]


@pytest.fixture
def world():
    return World()


def test_a_cluster_queue_gets_a_finalizer_and_its_status(world):
    found = world.reconciled("ClusterQueue", "queue")
    assert found["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    assert active(found) == ("True", "Ready")
    assert found["status"]["pendingWorkloads"] == 1


def test_a_local_queue_follows_its_cluster_queue(world):
    assert active(world.reconciled("LocalQueue", "user")) == ("False", "ClusterQueueIsInactive")
    world.reconciled("ClusterQueue", "queue")
    assert active(world.reconciled("LocalQueue", "user")) == ("True", "Ready")
    lost = world.server.put("LocalQueue", local_queue("lost", "nowhere"))
    world.local_queues.created(lost)
    assert active(world.reconciled("LocalQueue", "lost")) == ("False", "ClusterQueueDoesNotExist")


def test_a_stopped_local_queue_leaves_its_cluster_queue(world):
    old, new = local_queue("user", "queue"), local_queue("user", "queue")
    new["spec"]["stopPolicy"] = "Hold"
    world.server.put("LocalQueue", new)
    world.local_queues.updated(old, new)
    assert world.manager.pending("queue") == 0
    assert active(world.reconciled("LocalQueue", "user")) == ("False", "Stopped")
    assert world.gone.names == ["default/user"]
    world.local_queues.updated(new, old)
    assert world.manager.pending("queue") == 1


def test_a_deleted_cluster_queue_waits_for_its_workloads(world):
    queue = world.reconciled("ClusterQueue", "queue")
    marked = {**queue["metadata"], "deletionTimestamp": "2025-03-01T12:00:00Z"}
    world.server.put("ClusterQueue", {**queue, "metadata": marked})
    found = world.reconciled("ClusterQueue", "queue")
    assert not found["metadata"].get("finalizers")
    assert world.cache.cluster_queue_terminating("queue")
    world.cluster_queues.deleted(found)
    assert world.gone.names == ["queue"]
