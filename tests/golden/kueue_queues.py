"""A queue manager for golden cases: objects in dicts, requests and timers collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.cluster_queue import Rules
from controlplane.kueue.queues.manager import FlushRequest, ManagerOptions, QueueManager
from controlplane.kueue.queues.usage import FairSharing

SECOND = 1_000_000_000
START = parse_time("2025-03-01T12:00:00Z")


class Objects:
    """The objects of a world by kind."""

    def __init__(self, world: Any) -> None:
        fields = {
            "Namespace": "namespaces",
            "LocalQueue": "localQueues",
            "LimitRange": "limitRanges",
            "RuntimeClass": "runtimeClasses",
        }
        self.stored: dict[str, dict[str, Tree]] = {
            kind: {key(each): each for each in world.get(field, ())}
            for kind, field in fields.items()
        }
        self.stored["Workload"] = {}

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        return self.stored[kind].get(f"{namespace}/{name}")

    def list(self, kind: str, namespace: str = "") -> list[Tree]:
        found = self.stored[kind]
        return [
            found[each]
            for each in sorted(found)
            if not namespace or each.startswith(f"{namespace}/")
        ]


class Surroundings:
    """Collects what the manager asks for."""

    def __init__(self) -> None:
        self.flushes: dict[FlushRequest, None] = {}
        self.second_passes: list[tuple[int, Tree, int]] = []
        self.seen: Callable[[str, str], None] = lambda key, uid: None

    def wake(self) -> None:
        pass

    def flush_later(self, request: FlushRequest) -> None:
        self.flushes[request] = None

    def second_pass_later(self, after: int, workload: Tree, iteration: int) -> None:
        self.second_passes.append((after, workload, iteration))

    def evicted_or_gone(self, key: str, uid: str) -> None:
        self.seen(key, uid)


class Queues:
    """A manager with the cohorts, cluster queues and local queues of a world, flushed once."""

    def __init__(
        self,
        world: Any,
        gates: Gates,
        *,
        by_eviction: bool = True,
        sharing: FairSharing | None = None,
    ) -> None:
        self.now = START
        self.objects = Objects(world)
        self.around = Surroundings()
        self.manager = QueueManager(
            ManagerOptions(Rules(gates, by_eviction), fair_sharing=sharing),
            self.objects,
            self.around,
            lambda: self.now,
        )
        for each in world.get("cohorts", ()):
            self.manager.add_or_update_cohort(each)
        for each in world.get("clusterQueues", ()):
            self.manager.add_cluster_queue(each)
        for each in world.get("localQueues", ()):
            self.manager.add_local_queue(each)
        self.flush()

    def flush(self) -> int:
        """Work the requests off; how many workloads were moved."""
        moved = 0
        while self.around.flushes:
            request = next(iter(self.around.flushes))
            del self.around.flushes[request]
            moved += self.manager.flush(request)
        return moved

    def state(self) -> dict[str, Any]:
        """Heaps in order, inadmissible workloads, preemptors and workloads in the scheduler's hands."""
        found: dict[str, dict[str, Any]] = {}
        for name in self.manager.cluster_queues():
            queue = self.manager.cluster_queue(name)
            assert queue is not None
            held = queue.workloads
            for field, value in (
                ("heap", [each.key for each in held.active.sorted()]),
                ("inadmissible", sorted(held.inadmissible)),
                ("preemptor", queue.preemptor.key if queue.preemptor else ""),
                ("inflight", [held.inflight.key] if held.inflight else []),
            ):
                if value:
                    found.setdefault(field, {})[name] = value
        return found


def key(tree: Tree) -> str:
    meta = tree["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"
