"""The node lifecycle controller: zones, NoSchedule taints, and its passes over nodes that report or fall silent."""

from __future__ import annotations

from typing import Any

from controlplane.api.coordination import Lease
from controlplane.api.node import Node
from controlplane.api.object import Object
from controlplane.api.pod import Pod
from controlplane.api.request import Request, Response
from controlplane.api.times import format_micro_time, format_time
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.controllers.lifecycle import node_lifecycle as lifecycle
from controlplane.controllers.lifecycle.node_zones import (
    INITIAL,
    INTERVAL_NS,
    reduced_interval,
    zone_state,
)
from controlplane.controllers.loops.node_lifecycle import NodeController
from tests.golden.controller_world import complete
from tests.golden.plain_context import START, PlainContext, Silent, finish

SECOND = 1_000_000_000
RENEWALS = 10
MONITOR = 5
PASSES = 10


class _Server:
    """Nodes and leases, which the controller sees at once."""

    def __init__(self) -> None:
        self.nodes: Indexer[Node] = Indexer()
        self.leases: Indexer[Lease] = Indexer()
        self.pods: Indexer[Pod] = Indexer(node=lambda obj: (obj.view.spec.node_name,))
        self.patches = 0
        self.version = 100

    def put_node(self, tree: Any) -> Object[Node]:
        self.version += 1
        metadata = {**tree["metadata"], "resourceVersion": str(self.version)}
        made: Object[Node] = Object(complete("Node", {**tree, "metadata": metadata}))
        self.nodes.put(made)
        return made

    def serve(self, request: Request) -> Response:
        obj = self.nodes.get(request.name)
        assert obj is not None
        assert request.resource == "nodes"
        if request.verb == "get":
            return Response(200, obj.tree, obj)
        body = request.body
        if request.verb == "update":
            assert request.subresource == "status"
            made = self.put_node({**obj.tree, "status": body["status"]})
        else:
            assert request.verb == "patch"
            self.patches += 1
            spec = {**(obj.tree.get("spec") or {}), **body["spec"]}
            made = self.put_node({**obj.tree, "spec": spec})
        return Response(200, made.tree, made)


class _Run:
    def __init__(self) -> None:
        self.server = _Server()
        self.ctx: Any = PlainContext(self.server.serve)
        self.controller = NodeController(
            self.ctx, START, IN_CLUSTER, self.server.nodes, self.server.pods, self.server.leases
        )
        silent: Any = Silent()
        self.controller._recorder = silent

    @property
    def now(self) -> int:
        return START + int(self.ctx.now)


def answer(case: Any) -> Any:
    if "node" in case:
        return _noschedule(case["node"])
    return _monitor(case) if "length" in case else _zone(case)


def _zone(case: Any) -> Any:
    missing = case["notReady"] + case["withoutCondition"]
    ready = [True] * case["ready"] + [False] * missing
    slow = reduced_interval(len(ready), case["largeClusterThreshold"])
    return {
        "healthyQPS": f"{SECOND / INTERVAL_NS:g}",
        "reducedQPS": "0" if slow is None else f"{SECOND / slow:g}",
        "state": zone_state(ready, case["unhealthyZoneThreshold"]),
        "unhealthy": missing,
    }


def _noschedule(tree: Any) -> Any:
    run = _Run()
    run.server.put_node(tree)
    finish(run.controller.sync(run.ctx, tree["metadata"]["name"]))
    obj = run.server.nodes.get(tree["metadata"]["name"])
    assert obj is not None
    taints = [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        for taint in (obj.tree.get("spec") or {}).get("taints") or ()
    ]
    ordered = sorted(taints, key=lambda each: (each["key"], each["effect"]))
    return {"error": None, "patches": run.server.patches, "taints": ordered}


def _first(case: Any) -> Any:
    """A node as it stands at the start."""
    labels = {
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": case["zone"],
    }
    if case.get("excludeFromDisruption"):
        labels[lifecycle.EXCLUDED] = ""
    created = format_time(START - case["createdSecondsBefore"] * SECOND)
    conditions = [_ready(case["ready"], START, START)] if case["ready"] else []
    return {
        "metadata": {"name": case["name"], "creationTimestamp": created, "labels": labels},
        "spec": {},
        "status": {"conditions": conditions},
    }


def _ready(status: str, now: int, since: int) -> Any:
    times = {"lastHeartbeatTime": format_time(now), "lastTransitionTime": format_time(since)}
    return {"type": "Ready", "status": status, **times}


def _report(run: _Run, name: str, status: str) -> None:
    obj = run.server.nodes.get(name)
    assert obj is not None
    conditions = (obj.tree.get("status") or {}).get("conditions") or []
    others = [each for each in conditions if each["type"] != "Ready"]
    made = _ready(status, run.now, run.now)
    run.server.put_node({**obj.tree, "status": {"conditions": [made, *others]}})


def _renew(run: _Run, name: str) -> None:
    tree = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": lifecycle.LEASE_NAMESPACE},
        "spec": {"renewTime": format_micro_time(run.now)},
    }
    run.server.leases.put(Object(tree))


class _Timeline:
    def __init__(self, run: _Run, names: list[str]) -> None:
        self.entries: list[Any] = []
        self._run = run
        self._nodes: dict[str, Any] = dict.fromkeys(names)
        self._zones: dict[str, str] = {}

    def look(self) -> None:
        """Note what is news."""
        seconds = self._run.ctx.now / SECOND
        at = int(seconds) if seconds == int(seconds) else seconds
        for name, before in self._nodes.items():
            obj = self._run.server.nodes.get(name)
            assert obj is not None
            state = _state(obj.view)
            if state != before:
                self._nodes[name] = state
                self.entries.append({"node": name, "t": at, **state})
        zones = {
            zone: state
            for zone, state in self._run.controller._zones.states.items()
            if state != INITIAL
        }
        if zones != self._zones:
            self._zones = zones
            self.entries.append({"t": at, "zones": zones})


def _state(node: Node) -> Any:
    found = lifecycle.ready_condition(node)
    ready = "none" if found is None else found.status
    if found is not None and found.reason:
        ready = f"{ready}/{found.reason}"
    taints = sorted(taint.key for taint in node.spec.taints if taint.effect == "NoExecute")
    return {"ready": ready, "noExecute": taints}


def _monitor(case: Any) -> Any:
    run = _Run()
    for each in case["nodes"]:
        run.server.put_node(_first(each))
        if each["lease"]:
            _renew(run, each["name"])
    timeline = _Timeline(run, [each["name"] for each in case["nodes"]])
    client = Client(run.ctx, IN_CLUSTER)
    for second in range(case["length"] + 1):
        run.ctx.now = second * SECOND
        for each in case["nodes"]:
            for report in each["reports"]:
                if report["at"] == second:
                    _report(run, each["name"], report["ready"])
            renews = each["lease"] and second % RENEWALS == 0
            if renews and any(first <= second <= last for first, last in each["leaseRenewed"]):
                _renew(run, each["name"])
        if second % MONITOR == 0:
            finish(run.controller._monitor(run.ctx))
            timeline.look()
        for tenth in range(PASSES):
            run.ctx.now = second * SECOND + tenth * SECOND // PASSES
            finish(run.controller._taint_pass(run.ctx, client))
            timeline.look()
    return {"timeline": timeline.entries}
