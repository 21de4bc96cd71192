"""The events a run leaves in its log: their names, what they say, and what their `data` holds.

One entry per event name; from them the published JSON Schema is made (`schema`). A line whose event is
none of these is a step: its event is the name of the point from which the task ran on, and it has no
`data`. A new event needs an entry here: a test compares the logs of real runs with the schema.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

VERSION: Final = 2
"""Of the vocabulary; it grows when an event's data changes its meaning, not when events join.

Version 2: an object has one name in every event (kind/namespace/name), and events have levels.
"""
LEVELS: Final = ("trace", "debug", "info", "warning", "error")

TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
NUMBER: Final = {"type": "integer"}
TEXTS: Final = {"type": "array", "items": TEXT}
SCORES: Final = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": NUMBER},
}
AMOUNTS: Final = {
    "type": "object",
    "required": ["cpu_milli", "memory"],
    "additionalProperties": False,
    "properties": {"cpu_milli": COUNT, "memory": COUNT},
}
REFUSALS: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["plugin", "message", "count", "nodes"],
        "additionalProperties": False,
        "properties": {"plugin": TEXT, "message": TEXT, "count": COUNT, "nodes": TEXTS},
    },
}


@frozen
class Kind:
    """One kind of event: what it says, the schemas of its data by key, and its level.

    Keys with "?" may be absent. A step has level trace.
    """

    says: str
    data: dict[str, dict[str, Any]] = field(factory=dict)
    level: str = "info"

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of `data`."""
        return {
            "description": self.says,
            "type": "object",
            "required": sorted(key for key in self.data if not key.endswith("?")),
            "additionalProperties": False,
            "properties": {key.removesuffix("?"): schema for key, schema in self.data.items()},
        }


MESSAGE: Final = {"message": TEXT}

EVENTS: Final[dict[str, Kind]] = {
    # the runtime
    "log": Kind(
        "The first line: versions of the lines and of the vocabulary, what was run, and the time at which it began;"
        " of a part of a limited log the step with which it begins.",
        {
            "format": COUNT,
            "vocabulary": COUNT,
            "package": TEXT,
            "epoch_ns": COUNT,
            "scenario?": TEXT,
            "seed?": NUMBER,
            "first_step?": COUNT,
        },
        level="debug",
    ),
    "task": Kind(
        "A task was born; `no` is its number in the packed log, `inc` its actor's incarnation.",
        {"no": COUNT, "actor": TEXT, "task": TEXT, "inc": COUNT},
        level="trace",
    ),
    "message": Kind(
        "A message was taken from a mailbox.", {"from": TEXT, "message": TEXT}, level="trace"
    ),
    "choice": Kind(
        "Actor code drew a choice.",
        {"kind": TEXT, "n": COUNT, "value": COUNT, "label": TEXT},
        level="debug",
    ),
    "fault": Kind(
        "A fault struck, or ended: crash, restart, cut, heal, delay, lose, break, intercept; or a line of a plan did.",
        {
            "fault": TEXT,
            "plan?": TEXT,
            "in_time?": {"type": "boolean"},
            "actor?": TEXT,
            "a?": TEXT,
            "b?": TEXT,
            "ns?": COUNT,
            "count?": COUNT,
            "answer?": TEXT,
            "lost_writes?": COUNT,
            "incarnation?": COUNT,
        },
        level="warning",
    ),
    "verdict": Kind("How the run ended, and why.", {"verdict": TEXT, "reason": TEXT}),
    # users
    "user.refused": Kind(
        "A user's request was refused, and the user went on.", MESSAGE, level="warning"
    ),
    "benchmark.churn": Kind("The benchmark's churn met an error.", MESSAGE),
    # the API server
    "apiserver.write": Kind(
        "A write was answered. `verb` is verb, resource and subresource, `by` the user agent, `based_on`"
        " the version that the client had read and wrote with. Of pods phase and readiness, of a binding the node,"
        " of Kueue's Workloads the state and the object that asks for it, of a job that it is suspended.",
        {
            "verb": TEXT,
            "code": COUNT,
            "by?": TEXT,
            "reason?": TEXT,
            "based_on?": COUNT,
            "owner?": TEXT,
            "node?": TEXT,
            "phase?": TEXT,
            "ready?": {"type": "boolean"},
            "state?": TEXT,
            "terminating?": {"type": "boolean"},
            "audit?": {"type": "object", "additionalProperties": TEXT},
        },
    ),
    "apiserver.changed": Kind(
        "Which fields the write before it changed, by their paths.",
        {"fields": TEXTS},
        level="trace",
    ),
    "apiserver.removed": Kind(
        "With the write before it the object is gone from the store: nothing kept it any more.",
        level="trace",
    ),
    "apiserver.audited": Kind(
        "A request was answered: what an audit log keeps of it. `began_ns` is when it came, in virtual time; `uid`"
        " and `resource_version` are of the object that it sent. A watch has a number, and is told once more when it"
        " has `ended`.",
        {
            "verb": TEXT,
            "uri": TEXT,
            "user": TEXT,
            "groups": TEXTS,
            "agent": TEXT,
            "group?": TEXT,
            "version": TEXT,
            "resource": TEXT,
            "namespace?": TEXT,
            "name?": TEXT,
            "subresource?": TEXT,
            "uid?": TEXT,
            "resource_version?": TEXT,
            "watch?": COUNT,
            "ended?": {"type": "boolean"},
            "code": COUNT,
            "began_ns": COUNT,
            "annotations?": {"type": "object", "additionalProperties": TEXT},
        },
        level="trace",
    ),
    "apiserver.panic": Kind(
        "A defect of the server's own was answered with 500.",
        {"request": TEXT, "error": TEXT, "function": TEXT, "traceback": TEXTS},
        level="error",
    ),
    "apiserver.unwritten": Kind(
        "A request was answered with 500, for the store could not write.",
        {"request": TEXT, "message": TEXT},
        level="error",
    ),
    "apiserver.unconverted": Kind(
        "An event of a watch waits: the conversion webhook failed.",
        {"message": TEXT},
        level="warning",
    ),
    "apiserver.oom": Kind(
        "The server ran out of memory.", {"held": COUNT, "limit": COUNT}, level="warning"
    ),
    "apiserver.relisted": Kind(
        "A watch cache began anew with a list.", {"resource": TEXT, "rv": COUNT}
    ),
    "apiserver.compacted": Kind(
        "History was compacted up to a revision.", {"revision": COUNT}, level="debug"
    ),
    # clients
    "client.connected": Kind("A process connected to one of several servers.", {"server": TEXT}),
    "client.read": Kind(
        "A component read an object from the server; `uid` and `rv` say which.", level="trace"
    ),
    "client.listed": Kind(
        "A component listed objects from the server; `rv` is the list's version.",
        {"resource": TEXT, "count": COUNT, "namespace?": TEXT},
        level="trace",
    ),
    "informer.read": Kind(
        "A component read an object from its cache; `uid` and `rv` say which. Of one that is not there the key.",
        {"resource?": TEXT, "key?": TEXT, "found?": {"type": "boolean"}},
        level="trace",
    ),
    "informer.told": Kind(
        "A handler is told of an object; `was` is the uid that it had under this name before.",
        {"listener": TEXT, "kind": TEXT, "was?": TEXT},
        level="trace",
    ),
    "informer.synced": Kind(
        "The first list reached the cache and all handlers.", {"resource": TEXT}, level="debug"
    ),
    "reflector.error": Kind(
        "A list or watch failed and will be tried again.", MESSAGE, level="warning"
    ),
    "events.dropped": Kind(
        "An Event could not be written.", {"reason": TEXT, "message": TEXT}, level="warning"
    ),
    "election.leading": Kind("The process leads now.", {"lease": TEXT, "transitions": COUNT}),
    "election.lost": Kind("The process leads no more.", {"lease": TEXT}, level="warning"),
    "election.failed": Kind(
        "An attempt to lead failed.", {"message": TEXT, "lease?": TEXT}, level="debug"
    ),
    "election.released": Kind("The process gave the lease up.", {"lease": TEXT}),
    # the scheduler
    "scheduler.assumed": Kind(
        "An attempt chose a node, and the cache assumes the pod there.",
        {
            "node": TEXT,
            "evaluated": COUNT,
            "feasible": COUNT,
            "attempt": COUNT,
            "scores?": SCORES,
            "taint_rules?": TEXTS,
        },
    ),
    "scheduler.believed": Kind(
        "What the scheduler's snapshot said of the node that it chose; `rv` is the version of the pod.",
        {
            "node": TEXT,
            "node_rv": COUNT,
            "pods": TEXTS,
            "requested": AMOUNTS,
            "allocatable": AMOUNTS,
        },
        level="trace",
    ),
    "scheduler.failed": Kind(
        "An attempt failed: which plugin refused which nodes, and what becomes of the pod.",
        {
            "reason": TEXT,
            "message": TEXT,
            "outcome": TEXT,
            "attempt": COUNT,
            "nodes?": COUNT,
            "refused?": REFUSALS,
            "claims?": {"type": "array", "items": {"type": "object"}},
            "note?": TEXT,
        },
    ),
    "scheduler.group": Kind(
        "The cycle of a pod group ended: its members, how many of them are to be bound, and the condition it gets.",
        {"members": COUNT, "bound": COUNT, "status": TEXT, "reason": TEXT, "message": TEXT},
    ),
    "scheduler.popped": Kind(
        "The queue gave a pod out; `uid` and `rv` say which object.", level="trace"
    ),
    "scheduler.read": Kind(
        "After a failed attempt the pod was read by its name; `popped` is the uid that had been popped.",
        {"popped": TEXT, "found": {"type": "boolean"}},
        level="trace",
    ),
    "scheduler.gated": Kind(
        "A plugin holds a pod back before it is queued; nothing is written of that.",
        {"plugin": TEXT, "message": TEXT},
    ),
    "scheduler.skip": Kind("An attempt ended before it began.", {"reason": TEXT}),
    "scheduler.preemption": Kind("Victims are deleted.", {"node": TEXT, "victims": TEXTS}),
    "scheduler.expired": Kind("An assumed pod was given up.", {"node": TEXT}),
    "scheduler.explained": Kind(
        "What every plugin said about a pod.",
        {
            "node?": TEXT,
            "scores?": {"type": "object"},
            "refused?": {"type": "object"},
            "prefilter?": {"type": "object"},
            "finalscores?": {"type": "object"},
        },
    ),
    "scheduler.error": Kind("The scheduler met an error and went on.", MESSAGE, level="warning"),
    # kubelets
    "kubelet.admitted": Kind("A pod was admitted; its worker begins.", level="debug"),
    "kubelet.heard": Kind(
        "The sync loop takes up what a source says of a pod, or that its containers changed (PLEG).",
        {"operation": TEXT, "source?": TEXT},
        level="trace",
    ),
    "kubelet.worker": Kind(
        "A pod's worker is at something else: sync, terminating, terminated or finished.",
        {"phase": TEXT},
        level="trace",
    ),
    "kubelet.container": Kind(
        "A container has started, or has ended.",
        {"container": TEXT, "change": {"enum": ["started", "ended"]}, "id": TEXT},
        level="trace",
    ),
    "kubelet.assigned": Kind(
        "A manager gave a container CPUs or memory of its own, or took them back: what it has, and had."
        " `container` is * for a pod as a whole.",
        {"file": TEXT, "container": TEXT, "has": TEXT, "had": TEXT},
        level="trace",
    ),
    "kubelet.rejected": Kind("A pod was refused for good.", {"reason": TEXT, "message": TEXT}),
    "kubelet.pressure": Kind(
        "The node came under pressure, or is no longer.",
        {"conditions": TEXTS},
    ),
    "kubelet.evicted": Kind(
        "The kubelet ends a pod to get something back.", {"signal": TEXT, "message": TEXT}
    ),
    "kubelet.synced": Kind("The first list of pods was taken in.", {"pods": COUNT}, level="debug"),
    "kubelet.fatal": Kind(
        "The kubelet ended: what it had written does not fit.", MESSAGE, level="error"
    ),
    "kubelet.error": Kind("A request failed.", MESSAGE, level="warning"),
    # controllers
    "controller.popped": Kind(
        "A controller's queue gave a key out.", {"controller": TEXT, "key": TEXT}, level="trace"
    ),
    "controller.retry": Kind(
        "Reconciling failed and is tried again.",
        {"controller": TEXT, "key": TEXT, "error": TEXT},
        level="debug",
    ),
    "controller.dropped": Kind(
        "Reconciling failed too often and is given up.",
        {"controller": TEXT, "key": TEXT, "error": TEXT},
        level="warning",
    ),
    "deployment.scale": Kind(
        "A replica set is resized.", {"replica_set": TEXT, "from": COUNT, "to": COUNT}
    ),
    "node.silent": Kind("A node's conditions were set to Unknown."),
    "node.disruption": Kind("All nodes fell silent, or some came back.", MESSAGE, level="warning"),
    "node.error": Kind("The node controller met an error.", MESSAGE, level="warning"),
    "csi.call": Kind("A CSI driver answers a call.", {"method": TEXT, "code": TEXT}),
    "autoscaler.told": Kind(
        "The cluster autoscaler reports about a pod or a node; a repeated report is left out.",
        {"reason": TEXT, "message": TEXT},
    ),
    "descheduler.failed": Kind(
        "Plugins of a descheduler profile ended with an error.",
        {"profile": TEXT, "message": TEXT},
        level="warning",
    ),
    "cloud.call": Kind(
        "The emulated cloud answers a request about a node group.",
        {"call": TEXT, "group": TEXT, "count": COUNT, "error": TEXT},
    ),
    "cloud.instance": Kind(
        "An instance of the emulated cloud runs, or is gone.", {"node": TEXT, "state": TEXT}
    ),
    "dra.call": Kind(
        "A DRA driver answers a call.",
        {"driver": TEXT, "method": TEXT, "claims": TEXT, "error": TEXT},
    ),
    "dra.error": Kind("A DRA driver could not publish a slice.", MESSAGE, level="warning"),
    "kubelet.claims": Kind(
        "The claims of a pod were prepared, or unprepared; or that failed.",
        {"change": TEXT, "error": TEXT},
    ),
    "kubelet.plugin": Kind(
        "A device plugin has listed its devices, or is away.", {"resource": TEXT, "is": TEXT}
    ),
    "plugin.call": Kind(
        "A device plugin has served a call.",
        {"resource": TEXT, "method": TEXT, "devices": TEXT, "error": TEXT},
    ),
    "topology-updater.error": Kind(
        "A node's report of its NUMA zones could not be published.", MESSAGE, level="warning"
    ),
    "kubelet.dra": Kind("A DRA driver is connected, or away.", {"driver": TEXT, "is": TEXT}),
    "pod.written": Kind(
        "A program of a pod has written to a volume.",
        {"volume": TEXT, "number": COUNT},
        level="debug",
    ),
    "pod.evicted": Kind("Taint eviction deletes a pod."),
    "taint-eviction.error": Kind("Taint eviction met an error.", MESSAGE, level="warning"),
}

LEVEL_OF: Final = {name: kind.level for name, kind in EVENTS.items()}
"""The level of each event, as log.jsonl has it."""


def schema() -> dict[str, Any]:
    """JSON Schema of what depends on the event: the `data` of each one. The envelope's is `actors.jsonl.schema`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The events of log.jsonl and their data, version {VERSION}",
        "type": "object",
        "allOf": [
            {
                "if": {"properties": {"event": {"const": name}}},
                "then": {
                    "properties": {"data": kind.schema()},
                    **({"required": ["data"]} if kind.schema()["required"] else {}),
                },
            }
            for name, kind in EVENTS.items()
        ],
        "if": {"not": {"properties": {"event": {"enum": list(EVENTS)}}}},
        "then": {"not": {"required": ["data"]}, "description": "A step."},
    }
