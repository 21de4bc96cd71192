"""Kueue: whole conversations of scheduler, queues, cache and reconcilers with a small server."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.client.errors import ApiError
from controlplane.decisions import Point, Spawn, Together
from controlplane.kueue.cache.cache import Cache
from controlplane.kueue.controllers.effects import ApplyStatus, Emit, ReconcileError, Update
from controlplane.kueue.controllers.queue_objects import (
    ClusterQueueController,
    CohortController,
    LocalQueueController,
)
from controlplane.kueue.controllers.workload import WorkloadController
from controlplane.kueue.controllers.workload_events import WorkloadEvents
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.preemption.expectations import Expectations
from controlplane.kueue.queues.cluster_queue import Rules as QueueRules
from controlplane.kueue.queues.manager import FlushRequest, ManagerOptions, QueueManager
from controlplane.kueue.scheduler.scheduler import Scheduler, SchedulerOptions
from controlplane.kueue.topology.cache import TopologyCache
from controlplane.kueue.workload import status, status_checks
from controlplane.kueue.workload.status_evict import finish
from controlplane.kueue.workload.status_patch import admission_patch
from tests.golden.answer_flavor_assignment import strategies_of
from tests.golden.answer_workload_reconcile import pods_ready_of
from tests.golden.answer_workload_state import clean
from tests.golden.kueue_server import Server, without_empty
from tests.golden.kueue_worlds import gates_of
from tests.golden.runner import difference

START = parse_time("2025-03-01T12:00:00Z")
KINDS = ("Cohort", "ClusterQueue", "LocalQueue", "Workload")
AFFECTS_ALL = (
    "init", "advance", "namespaceLabels", "updateCohort", "createClusterQueue",
    "updateClusterQueue", "deleteClusterQueue", "createLocalQueue", "updateLocalQueue",
)  # fmt: skip


class Store(Server):
    """A server that refuses requests when told to, and deletes what has lost its last finalizer."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.failures: dict[str, int] = {}

    def play(self, part: Any) -> Any:
        """Carry a decision out, with everything it starts, before it goes on."""
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = part.send(answer) if failure is None else part.throw(failure)
            except StopIteration as stop:
                return stop.value
            answer, failure = None, None
            if isinstance(effect, Spawn):
                self.play(effect.part)
            elif isinstance(effect, Together):
                answer = [self.play(each) for each in effect.parts]
            elif not isinstance(effect, Point):
                try:
                    answer = self.carry_out(effect)
                except ApiError as error:
                    failure = error

    def carry_out(self, effect: Any) -> Any:
        if isinstance(effect, Emit):
            return super().carry_out(effect)
        metadata = effect.body["metadata"]
        where = (metadata.get("namespace", ""), metadata["name"])
        if isinstance(effect, ApplyStatus):
            key = "/".join(where)
            if self.failures.get(key):
                self.failures[key] -= 1
                raise ApiError(500, {"message": "injected", "reason": "InternalError"})
        if where not in self.objects.get(effect.kind, {}):
            raise ApiError(404, {"message": "not found", "reason": "NotFound"})
        if isinstance(effect, Update) and not effect.subresource:
            return self.update(effect.kind, where, effect.body)
        return super().carry_out(effect)

    def update(self, kind: str, where: tuple[str, str], tree: Any) -> Any:
        """Write a whole object: a changed specification is a new generation."""
        metadata = tree["metadata"]
        if tree.get("spec") != self.objects[kind][where].get("spec"):
            metadata = {**metadata, "generation": metadata.get("generation", 0) + 1}
        stored = self.put(kind, {**tree, "metadata": metadata})
        self.collect(kind, where)
        return stored

    def collect(self, kind: str, where: tuple[str, str]) -> None:
        metadata = self.objects[kind][where]["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[kind][where]

    def delete(self, kind: str, where: tuple[str, str], now: int) -> None:
        tree = self.objects.get(kind, {}).get(where)
        if tree is not None:
            metadata = {**tree["metadata"], "deletionTimestamp": format_time(now)}
            self.objects[kind][where] = {**tree, "metadata": metadata}
            self.collect(kind, where)


class Conversation:
    """All parts of one Kueue, and what was last delivered and recorded of each object."""

    def __init__(self, case: Any) -> None:
        world = case["world"]
        self.now = START
        self.gates = gates_of(world)
        self.store = Store(world)
        self.flushes: dict[FlushRequest, None] = {}
        self.expectations = Expectations()
        topologies = TopologyCache(self.gates) if world.get("topologies") else None
        sharing = world.get("fairSharing") is not None
        self.cache = Cache(self.gates, fair_sharing=sharing, topologies=topologies)
        for topology in world.get("topologies", ()):
            self.cache.add_or_update_topology(topology)
        for node in world.get("nodes", ()):
            if topologies is not None:
                topologies.sync_node(node)
        for flavor in world.get("resourceFlavors", ()):
            self.cache.add_or_update_flavor(flavor)
        for check in world.get("admissionChecks", ()):
            self.cache.add_or_update_check(check)
        self.queues = QueueManager(
            ManagerOptions(QueueRules(self.gates)),
            self.store,
            self,
            self.clock,
            self.cache.cluster_queue_active,
        )
        parts = (self.store, self.queues, self.cache)
        self.cluster_queues = ClusterQueueController(*parts, self.clock)
        self.local_queues = LocalQueueController(*parts, self.clock)
        self.cohorts = CohortController(*parts)
        ready = pods_ready_of(case.get("waitForPodsReady"))
        self.workloads = WorkloadController(*parts, self.clock, self.gates, ready)
        self.events = WorkloadEvents(self.workloads, self.expectations)
        self.scheduler = Scheduler(
            self.queues,
            self.cache,
            self.store,
            self.clock,
            SchedulerOptions(Rules(self.gates, strategies_of(world))),
            self.expectations,
        )
        self.delivered: dict[str, dict[tuple[str, str], Any]] = {kind: {} for kind in KINDS}
        self.recorded: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self.errors: list[str] = []
        self.touched: set[tuple[str, tuple[str, str]]] = set()
        """Objects that were written without a change: an event is delivered all the same."""

    # -- surroundings of the queue manager ---------------------------------------------------------

    def clock(self) -> int:
        return self.now

    def wake(self) -> None: ...

    def flush_later(self, request: FlushRequest) -> None:
        self.flushes[request] = None

    def second_pass_later(self, after: int, workload: Any, iteration: int) -> None: ...

    def evicted_or_gone(self, key: str, uid: str) -> None:
        self.expectations.observed(key, uid)

    # -- settling ----------------------------------------------------------------------------------

    def settle(self, everything: bool) -> None:
        self.deliver(everything)
        for kind in KINDS[:3]:
            for where in sorted(self.store.objects.get(kind, {})):
                self.reconcile(kind, where)
        self.deliver(False)
        requests, self.flushes = self.flushes, {}
        for request in requests:
            self.queues.flush(request)

    def deliver(self, everything: bool) -> None:
        for _ in range(50):
            changed = everything
            for kind in KINDS:
                todo = self.hand_over(kind)
                changed = changed or bool(todo)
                if everything and kind == "Workload":
                    present = sorted(self.store.objects.get(kind, {}))
                    todo = [*present, *(each for each in todo if each not in present)]
                    everything = False
                for where in todo:
                    self.reconcile(kind, where)
            if not changed:
                return

    def hand_over(self, kind: str) -> list[tuple[str, str]]:
        """Deliver the events of a kind; the objects with one, deleted ones last."""
        current, known = self.store.objects.get(kind, {}), self.delivered[kind]
        todo = []
        for where in sorted(current):
            new, old = current[where], known.get(where)
            if (old is new or old == new) and (kind, where) not in self.touched:
                continue
            known[where] = new
            todo.append(where)
            if old is None:
                self.handler(kind, "created", new)
            else:
                self.handler(kind, "updated", old, new)
        gone = sorted(set(known) - set(current))
        for where in gone:
            self.handler(kind, "deleted", known.pop(where))
        self.touched = {each for each in self.touched if each[0] != kind}
        return [*todo, *gone]

    def handler(self, kind: str, name: str, *trees: Any) -> None:
        owner = {
            "ClusterQueue": self.cluster_queues,
            "LocalQueue": self.local_queues,
            "Workload": self.events,
        }.get(kind)
        if owner is not None:
            getattr(owner, name)(*trees)

    def reconcile(self, kind: str, where: tuple[str, str]) -> None:
        part: Any = {
            "Cohort": lambda: self.cohorts.reconcile(where[1]),
            "ClusterQueue": lambda: self.cluster_queues.reconcile(where[1]),
            "LocalQueue": lambda: self.local_queues.reconcile(*where),
            "Workload": lambda: self.workloads.reconcile(*where),
        }[kind]()
        try:
            self.store.play(part)
        except (ReconcileError, ApiError) as error:
            self.errors.append(str(error))

    # -- operations --------------------------------------------------------------------------------

    def do(self, step: Any) -> Any:
        if step["op"] == "cycles":
            return {"cycles": self.run_cycles(step["max"])}
        if step["op"] == "failStatusPatch":
            self.store.failures[step["name"]] = step["fail"]
            return {}
        self.operate(step)
        self.settle(step["op"] in AFFECTS_ALL)
        return self.record()

    def run_cycles(self, most: int) -> list[Any]:
        records = []
        for _ in range(most):
            waiting = any(
                self.queues.cluster_queue(name).workloads.active  # type: ignore[union-attr]
                for name in self.queues.cluster_queues()
                if self.cache.cluster_queue_active(name)
            )
            if not waiting:
                self.queues.heads()
                break
            progress = self.store.play(self.scheduler.cycle())
            self.settle(False)
            record = self.record()
            record["progress"] = progress
            records.append(record)
            if not progress and "workloads" not in record:
                break
        return records

    def operate(self, step: Any) -> None:
        match step["op"]:
            case "init":
                pass
            case "advance":
                self.now += step["seconds"] * SECOND
            case "createWorkload":
                self.store.put("Workload", step["workload"])
            case "deleteWorkload":
                self.store.delete("Workload", where_of(step["name"]), self.now)
            case "createClusterQueue":
                self.store.put("ClusterQueue", step["clusterQueue"])
            case "createLocalQueue":
                self.store.put("LocalQueue", step["localQueue"])
            case "updateClusterQueue":
                self.replace("ClusterQueue", step["clusterQueue"])
            case "updateLocalQueue":
                self.replace("LocalQueue", step["localQueue"])
            case "updateCohort":
                self.replace("Cohort", step["cohort"])
            case "deleteClusterQueue":
                self.store.delete("ClusterQueue", ("", step["name"]), self.now)
            case "namespaceLabels":
                self.label_namespace(step["name"], step.get("labels") or {})
            case "evictionDone":
                for name in step.get("names") or ():
                    self.change(name, self.release)
            case _:
                self.change(step["name"], lambda tree: getattr(self, step["op"])(tree, step))

    def replace(self, kind: str, new: Any) -> None:
        metadata = new["metadata"]
        old = self.store.get(kind, metadata.get("namespace", ""), metadata["name"])
        if old is None:
            if kind == "Cohort":
                self.store.put(kind, new)
            return
        kept = {**old["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
        self.store.put(kind, {**old, "metadata": kept, "spec": new.get("spec", {})})

    def change(self, name: str, operation: Any) -> None:
        tree = self.store.get("Workload", *where_of(name))
        if tree is not None:
            new = operation(tree)
            if new is not None:
                self.touched.add(("Workload", where_of(name)))
                self.store.put("Workload", new)

    def label_namespace(self, name: str, labels: Any) -> None:
        old = self.store.get("Namespace", "", name)
        if old is None:
            return
        before = self.cache.matching_cluster_queues(old["metadata"].get("labels") or {})
        self.store.put("Namespace", {**old, "metadata": {**old["metadata"], "labels": labels}})
        now = self.cache.matching_cluster_queues(labels)
        self.queues.notify([queue for queue in now if queue not in before])

    def patched(self, copy: Any) -> None:
        self.store.carry_out(
            ApplyStatus("Workload", admission_patch(copy, strict=False), "kueue-admission")
        )

    def release(self, tree: Any) -> None:
        evicted = status.find(tree, status.EVICTED)
        if not status.is_evicted(tree) or not status.has_quota_reservation(tree):
            return
        copy = status.working_copy(tree)
        reason, message = evicted["reason"], evicted.get("message", "")
        again = reason in ("Preempted", "NodeFailures")
        status.set_requeued(copy, reason, message, self.now, status=again)
        status.unset_quota_reservation(copy, "PendingEvaluation", message, self.now, self.gates)
        self.patched(copy)

    def finish(self, tree: Any, _step: Any) -> None:
        if not status.is_finished(tree):
            copy = status.working_copy(tree)
            finish(copy, "Succeeded", "Job finished successfully", self.now)
            self.patched(copy)

    def check(self, tree: Any, step: Any) -> Any:
        copy = status.working_copy(tree)
        checks = copy["status"].setdefault("admissionChecks", [])
        status_checks.set_check_state(checks, step["check"], self.now)
        return copy

    def reclaim(self, tree: Any, step: Any) -> Any:
        known = {**tree.get("status", {}), "reclaimablePods": step["reclaimablePods"]}
        return {**tree, "status": known}

    def podsReady(self, tree: Any, step: Any) -> Any:
        copy = status.working_copy(tree)
        ready = step["status"] == "True"
        new = status.condition(copy, "PodsReady", step["reason"], "pods", self.now, status=ready)
        status.set_condition(copy, new)
        return copy

    def setPriority(self, tree: Any, step: Any) -> Any:
        return with_spec(tree, priority=step["priority"])

    def setActive(self, tree: Any, step: Any) -> Any:
        return with_spec(tree, active=step["active"])

    def setQueue(self, tree: Any, step: Any) -> Any:
        return with_spec(tree, queueName=step["queueName"])

    # -- records -----------------------------------------------------------------------------------

    def record(self) -> Any:
        record: dict[str, Any] = {}
        if self.store.events:
            record["events"], self.store.events = sorted(self.store.events), []
        names = {
            "Workload": "workloads",
            "ClusterQueue": "clusterQueues",
            "LocalQueue": "localQueues",
        }
        for kind, name in names.items():
            if changed := self.changed(kind):
                record[name] = changed
        queues = {name: self.queues.cluster_queue(name) for name in self.queues.cluster_queues()}
        parts: dict[str, Any] = {"heap": {}, "inadmissible": {}, "preemptor": {}, "inflight": {}}
        for name, queue in queues.items():
            assert queue is not None
            pending = queue.workloads
            parts["heap"][name] = [info.key for info in pending.active.sorted()]
            parts["inadmissible"][name] = sorted(pending.inadmissible)
            if queue.preemptor is not None:
                parts["preemptor"][name] = queue.preemptor.key
            if pending.inflight is not None:
                parts["inflight"][name] = pending.inflight.key
        snapshot = self.cache.snapshot()
        parts["cached"] = {name: sorted(each.workloads) for name, each in snapshot.queues.items()}
        for name, found in parts.items():
            if kept := {queue: each for queue, each in found.items() if each}:
                record[name] = kept
        if self.errors:
            record["errors"], self.errors = self.errors, []
        return record

    def changed(self, kind: str) -> Any:
        known = self.recorded[kind]
        current = {
            name_of(where): shown_object(kind, tree)
            for where, tree in self.store.objects.get(kind, {}).items()
        }
        found: dict[str, Any] = {
            name: shown for name, shown in current.items() if known.get(name, {}) != shown
        }
        found |= dict.fromkeys((name for name in known if name not in current), "gone")
        self.recorded[kind] = current
        return found


def where_of(name: str) -> tuple[str, str]:
    namespace, _, own = name.rpartition("/")
    return namespace, own


def name_of(where: tuple[str, str]) -> str:
    return "/".join(each for each in where if each)


def with_spec(tree: Any, **fields: Any) -> Any:
    if all(tree["spec"].get(name) == value for name, value in fields.items()):
        return tree
    metadata = {**tree["metadata"], "generation": tree["metadata"].get("generation", 0) + 1}
    return {**tree, "metadata": metadata, "spec": {**tree["spec"], **fields}}


def shown_object(kind: str, tree: Any) -> Any:
    if kind == "Workload":
        shown = clean(tree)
        return shown if status.is_active(tree) else {**shown, "active": False}
    return clean(tree).get("status", {})


def answer(case: Any) -> Any:
    conversation = Conversation(case)
    return {"steps": [conversation.do(step) for step in case["steps"]]}


def compare(want: Any, got: Any) -> str | None:
    return difference(without_empty(want), without_empty(got))
