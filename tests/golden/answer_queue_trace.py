"""The scheduling queue, driven operation by operation; every state change is compared.

Kueue's file of the same name goes to `answer_kueue_queue_trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.gates import FixGates
from controlplane.scheduler.config.model import ProfileConfig
from controlplane.scheduler.cycle import failure as failures
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.fit_error import Diagnosis, FitError, NoNodesAvailableError
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Code, NodeToStatus
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.runtime import Framework, PluginSet
from controlplane.scheduler.plugins.priority_sort import PrioritySort
from controlplane.scheduler.plugins.registry import build_framework
from controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from controlplane.scheduler.queue.failed_attempts import AlreadyQueuedError
from controlplane.scheduler.queue.scheduling_queue import (
    PriorityQueue,
    QueueOptions,
)
from controlplane.scheduler.state.listers import Listers, MemoryLister
from controlplane.scheduler.state.pod_info import PodInfo
from tests.golden import answer_kueue_queue_trace

Json = Any
MS = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
PROFILE = "default-scheduler"


class Holder(fwk.PreEnqueuePlugin):
    """Gates a pod while its label `hold` is `yes`."""

    name = "Holder"

    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        return fwk.unschedulable("held") if pod.labels.get("hold") == "yes" else None


def _wants(pod: Pod, old: Any, new: Any) -> ev.Hint:
    other = old if new is None else new
    if other is None:
        return ev.Hint.SKIP
    same = other.labels.get("wants", "") == pod.labels.get("wants", "")
    return ev.Hint.QUEUE if same else ev.Hint.SKIP


def _error(_pod: Pod, _old: Any, _new: Any) -> ev.Hint:
    raise ev.HintError("hint failed")


HINTS: dict[str, ev.HintFn] = {
    "queue": lambda _pod, _old, _new: ev.Hint.QUEUE,
    "skip": lambda _pod, _old, _new: ev.Hint.SKIP,
    "error": _error,
    "wants": _wants,
}


class Synthetic(fwk.EnqueueExtensions):
    """A plugin of a case: nothing but its registrations."""

    def __init__(self, case: Json) -> None:
        self.name = case["plugin"]  # type: ignore[misc]
        self._events = [
            ev.ClusterEventWithHint(
                ev.ClusterEvent(e["resource"], ev.ACTIONS[e["action"]]), HINTS.get(e.get("hint"))
            )
            for e in case["events"]
        ]

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        return self._events


class Trace:
    """One case: the queue, the pod lister, the clock."""

    def __init__(self, case: Json) -> None:
        self.pods: MemoryLister[Pod] = MemoryLister()
        self.now = START
        self.popped: dict[str, QueuedPodInfo] = {}
        handle = Handle(listers=Listers(pods=self.pods))
        if case.get("profile") == "default":
            framework = build_framework(ProfileConfig(), handle)
        else:
            gates: list[fwk.PreEnqueuePlugin] = [SchedulingGates(), Holder()]
            framework = Framework(
                PROFILE,
                handle,
                PluginSet(pre_enqueue=gates, queue_sort=[PrioritySort()]),
                all_plugins=[Synthetic(each) for each in case.get("plugins", ())],
            )
        self.framework = framework
        self.queue = PriorityQueue(
            framework.plugins.queue_sort[0].less,
            self.pods,
            hint_maps={PROFILE: framework.queueing_hints()},
            pre_enqueue={PROFILE: framework.plugins.pre_enqueue},
            options=QueueOptions(
                initial_backoff=case.get("podInitialBackoffSeconds", 1) * SECOND,
                max_backoff=case.get("podMaxBackoffSeconds", 10) * SECOND,
                max_in_unschedulable=case.get("podMaxInUnschedulableSeconds", 300) * SECOND,
            ),
        )

    # -- operations ----------------------------------------------------------------------------

    def add(self, op: Json) -> Json:
        pod = Pod.from_tree(op["pod"])
        self.pods.put(pod)
        if not op.get("listerOnly"):
            at_once(self.queue.add(pod, self.now))
        return {}

    def pop(self, _op: Json) -> Json:
        # Where all that could be popped would be discarded, upstream's Pop would block.
        queue = self.queue
        waiting = [*queue.active_q.heap, *queue.backoff_q.heap]
        if all(info.uid in queue.active_q.in_flight for info in waiting):
            return {"popped": None}
        info = self.queue.pop()
        if info is None:
            return {"popped": None}
        self.popped[info.uid] = info
        return {"popped": self.entry(info)}

    def add_unschedulable(self, op: Json) -> Json:
        info = self.popped.pop(op["uid"])
        info.unschedulable_plugins = dict.fromkeys(op.get("unschedulablePlugins", ()))
        info.pending_plugins = dict.fromkeys(op.get("pendingPlugins", ()))
        if "pod" in op:
            info.pod_info = PodInfo(Pod.from_tree(op["pod"]))
        try:
            at_once(
                self.queue.add_unschedulable_if_not_present(
                    info, self.queue.scheduling_cycle, self.now
                )
            )
        except AlreadyQueuedError as error:
            return {"error": str(error)}
        return {}

    def done(self, op: Json) -> Json:
        self.queue.done(op["uid"])
        return {}

    def move_all(self, op: Json) -> Json:
        old, new = _objects(op)
        at_once(
            self.queue.move_all_to_active_or_backoff_queue(_event(op["event"]), old, new, self.now)
        )
        return {}

    def update(self, op: Json) -> Json:
        old, new = Pod.from_tree(op["oldPod"]), Pod.from_tree(op["pod"])
        self.pods.put(new)
        at_once(self.queue.update(old, new, self.now))
        return {}

    def delete(self, op: Json) -> Json:
        pod = Pod.from_tree(op["pod"])
        self.pods.remove(pod.namespace, pod.name)
        at_once(self.queue.delete(pod))
        return {}

    def assigned_pod_added(self, op: Json) -> Json:
        pod = Pod.from_tree(op["pod"])
        self.pods.put(pod)
        at_once(self.queue.assigned_pod_added(pod, dict, self.now))
        return {}

    def assigned_pod_updated(self, op: Json) -> Json:
        old, new = Pod.from_tree(op["oldPod"]), Pod.from_tree(op["pod"])
        self.pods.put(new)
        at_once(self.queue.assigned_pod_updated(old, new, _event(op["event"]), dict, self.now))
        return {}

    def activate(self, op: Json) -> Json:
        at_once(self.queue.activate([Pod.from_tree(tree) for tree in op["pods"]], self.now))
        return {}

    def advance(self, op: Json) -> Json:
        self.now += op["ms"] * MS
        return {}

    def flush_backoff(self, _op: Json) -> Json:
        at_once(self.queue.flush_backoff(self.now))
        return {}

    def flush_unschedulable(self, _op: Json) -> Json:
        at_once(self.queue.flush_unschedulable(self.now))
        return {}

    def nominate(self, op: Json) -> Json:
        self.queue.add_nominated_pod(Pod.from_tree(op["pod"]), _nominating(op))
        return {}

    def delete_nominated(self, op: Json) -> Json:
        self.queue.delete_nominated_pod_if_exists(Pod.from_tree(op["pod"]))
        return {}

    def failure_handler(self, op: Json) -> Json:
        info = self.popped.pop(op["uid"])
        code, error = _failure(op, info.pod)
        attempt = Attempt(info, self.framework, CycleState(self.now), self.now, info.uid)
        attempt.failure = Failure(code, error, _nominating(op))
        cached = self.pods.get(info.pod.namespace, info.pod.name)
        _, report = failures.handle(self.queue, attempt, cached, FixGates(), self.now)
        if report is None:
            return {}
        event = report.event
        out: Json = {"events": [f"{event.type} {event.reason} {event.note}"]}
        if report.patch is not None:
            out["patches"] = [_patch(report.patch)]
        return out

    # -- what shows ----------------------------------------------------------------------------

    def at(self, time: int) -> int:
        return (time - START) // MS

    def entry(self, info: QueuedPodInfo, *, backoff: bool = False) -> Json:
        out: Json = {"pod": info.key, "uid": info.uid, "timestamp": self.at(info.timestamp)}
        optional = {
            "attempts": info.attempts,
            "unschedulableCount": info.unschedulable_count,
            "consecutiveErrors": info.consecutive_errors_count,
            "unschedulablePlugins": sorted(info.unschedulable_plugins),
            "pendingPlugins": sorted(info.pending_plugins),
            "gatingPlugin": info.gating_plugin,
            "flushed": info.was_flushed_from_unschedulable,
        }
        out |= {key: value for key, value in optional.items() if value}
        if info.initial_attempt_timestamp is not None:
            out["initialAttempt"] = self.at(info.initial_attempt_timestamp)
        if backoff:
            out["backoffExpiration"] = self.at(self.queue.backoff_q.expiration(info))
        return out

    def sections(self) -> Json:
        queue = self.queue
        errors = sorted(
            queue.backoff_q.error_heap, key=lambda i: (queue.backoff_q.expiration(i), i.key)
        )
        pool = sorted(queue.unschedulable, key=lambda info: info.key)
        return {
            "activeQ": [self.entry(info) for info in queue.active_q.heap.sorted()],
            "backoffQ": [self.entry(i, backoff=True) for i in queue.backoff_q.heap.sorted()],
            "errorBackoffQ": [self.entry(info, backoff=True) for info in errors],
            "unschedulable": [self.entry(info) for info in pool],
            "inFlight": sorted(queue.in_flight_uids()),
            "inFlightEvents": [
                f"POD {e.pod_uid}" if e.event is None else f"EVT {e.event.label}"
                for e in queue.active_q.ledger
            ],
            "nominated": {
                node: [f"{ref.namespace}/{ref.name}/{ref.uid}" for ref in refs.values()]
                for node, refs in queue.nominator.by_node.items()
            },
            "schedulingCycle": queue.scheduling_cycle,
        }


OPS: dict[str, Callable[[Trace, Json], Json]] = {
    "add": Trace.add,
    "pop": Trace.pop,
    "addUnschedulable": Trace.add_unschedulable,
    "done": Trace.done,
    "moveAll": Trace.move_all,
    "update": Trace.update,
    "delete": Trace.delete,
    "assignedPodAdded": Trace.assigned_pod_added,
    "assignedPodUpdated": Trace.assigned_pod_updated,
    "activate": Trace.activate,
    "advance": Trace.advance,
    "flushBackoff": Trace.flush_backoff,
    "flushUnschedulable": Trace.flush_unschedulable,
    "nominate": Trace.nominate,
    "deleteNominated": Trace.delete_nominated,
    "failureHandler": Trace.failure_handler,
}


def _event(event: Json) -> ev.ClusterEvent:
    label = event.get("hint", "")
    return ev.ClusterEvent(event["resource"], ev.ACTIONS[event["action"]], label)


def _objects(op: Json) -> tuple[Any, Any]:
    if "node" in op or "oldNode" in op:
        old, new = op.get("oldNode"), op.get("node")
        return old and Node.from_tree(old), new and Node.from_tree(new)
    old, new = op.get("oldPod"), op.get("pod")
    return old and Pod.from_tree(old), new and Pod.from_tree(new)


def _nominating(op: Json) -> NominatingInfo | None:
    if "nominatedNodeName" not in op:
        return None
    return NominatingInfo(override=True, nominated_node_name=op["nominatedNodeName"])


def _failure(op: Json, pod: Pod) -> tuple[Code, Exception]:
    if op["failure"] == "NoNodes":
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NoNodesAvailableError()
    if op["failure"] == "Error":
        return Code.ERROR, SchedulingError(op["message"])
    count = op["numAllNodes"]
    statuses = {f"n{i}": fwk.unschedulable(op["message"]) for i in range(count)}
    diagnosis = Diagnosis(
        NodeToStatus(statuses),
        dict.fromkeys(op.get("unschedulablePlugins", ())),
        dict.fromkeys(op.get("pendingPlugins", ())),
    )
    return Code.UNSCHEDULABLE, FitError(pod, count, diagnosis)


def _patch(patch: Any) -> Json:
    body = patch.patch
    conditions = [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in body["status"].get("conditions", ())
    ]
    if conditions:
        body = {"status": {**body["status"], "conditions": conditions}}
    return {
        "name": patch.name,
        "namespace": patch.namespace,
        "patch": body,
        "subresource": "status",
        "type": "application/strategic-merge-patch+json",
    }


EMPTY = {
    "activeQ": [],
    "backoffQ": [],
    "errorBackoffQ": [],
    "unschedulable": [],
    "inFlight": [],
    "inFlightEvents": [],
    "nominated": {},
    "schedulingCycle": 0,
}


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    if "requeuingTimestamp" in case_in:
        return answer_kueue_queue_trace.answer(case_in)
    trace = Trace(case_in)
    before: Json = EMPTY
    out = []
    for op in case_in["ops"]:
        result = OPS[op["op"]](trace, op)
        after = trace.sections()
        changed = {key: value for key, value in after.items() if value != before[key]}
        before = after
        step = {"now": trace.at(trace.now), **result}
        out.append(step | ({"changed": changed} if changed else {}))
    return out
