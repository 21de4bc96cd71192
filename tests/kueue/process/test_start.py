"""The process hears of nothing before all its informers have listed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlplane.api.object import Object
from controlplane.controllers.common.controller import Caches
from controlplane.gates import FixGates
from controlplane.kueue.process.controller import FLUSH, START, Kueue
from controlplane.kueue.process.kinds import KINDS
from tests.kueue import objects

WORKLOAD: Any = {
    "metadata": {"name": "first", "namespace": "default", "uid": "1"},
    "spec": {"queueName": "team", "podSets": []},
}


class Keys:
    """A work queue that keeps its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}

    def add(self, key: str, *_: Any, **__: Any) -> None:
        self.keys[key] = None

    add_after = add_rate_limited = add

    def relax(self, key: str) -> None:
        self.keys.pop(key, None)

    forget = relax


class Process:
    """A Kueue with nothing around it."""

    def __init__(self) -> None:
        queues: dict[str, Keys] = {}
        host: Any = SimpleNamespace(
            fixes=FixGates(), now=objects.START, queue=lambda name: queues.setdefault(name, Keys())
        )
        self.queues, self.caches = queues, Caches()
        self.kueue = Kueue(host, self.caches)
        self._handlers = self.kueue.handlers()

    def listed(self, kind: str, tree: Any) -> None:
        """The informer knows an object, and tells of it."""
        found: Any = Object(tree)
        self.caches.stores[KINDS[kind]].put(found)
        self._handlers[KINDS[kind]].added(found)

    def start(self) -> None:
        """The workers start."""
        work = next(each for each in self.kueue.work() if each.queue == START)
        for key in self.queues[START].keys:
            assert list(work.reconcile(key)) == []


def test_changes_wait_until_the_workers_start() -> None:
    process = Process()
    process.listed("ClusterQueue", objects.cluster_queue("team", {"default/cpu": 1}))
    assert process.kueue.manager.cluster_queues() == []
    process.start()
    assert process.kueue.manager.cluster_queues() == ["team"]
    process.listed("ClusterQueue", objects.cluster_queue("other", {"default/cpu": 1}))
    assert sorted(process.kueue.manager.cluster_queues()) == ["other", "team"]


def test_a_local_queue_that_is_listed_before_its_workloads_knows_them() -> None:
    process = Process()
    process.listed("ClusterQueue", objects.cluster_queue("team", {"default/cpu": 1}))
    process.listed("LocalQueue", objects.local_queue("team", "team"))
    conditions = [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}]
    admission = {"clusterQueue": "team", "podSetAssignments": []}
    status = {"conditions": conditions, "admission": admission}
    process.listed("Workload", WORKLOAD | {"status": status})
    process.start()
    process.queues[FLUSH].keys.clear()
    process.kueue.manager.release("default/first")
    assert list(process.queues[FLUSH].keys) == ["team/"]
