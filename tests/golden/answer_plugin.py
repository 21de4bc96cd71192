"""The plugin DynamicResources with everything that it keeps, extension point by extension point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from controlplane.api.durations import parse_duration
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.resource.selecting import select_device
from controlplane.decisions import Sleep, at_once
from controlplane.scheduler.dra.tracker import allocation_of
from controlplane.scheduler.framework.args import DynamicResourcesArgs
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Filters, NodeToStatus, Status
from controlplane.scheduler.framework.writes import EventIntent
from controlplane.scheduler.plugins.dynamic_resources import DynamicResources
from controlplane.scheduler.state.listers import Listers, MemoryLister
from controlplane.scheduler.state.node_info import NodeInfo
from tests.golden.conversation import START, hidden
from tests.golden.fake_server import Change, FakeServer, perform, refused
from tests.golden.scheduler_world import status_json

Json = Any
FIELDS: Final = {
    "nodes": "nodes",
    "pods": "pods",
    "resourceClaims": "resourceclaims",
    "resourceSlices": "resourceslices",
    "deviceClasses": "deviceclasses",
    "podGroups": "podgroups",
}
LISTERS: Final = {
    "deviceclasses": "device_classes",
    "resourceslices": "resource_slices",
    "podgroups": "pod_groups",
}


class _AllAsked:
    """Every PreFilter was asked."""

    def ended_before(self, _state: CycleState, _name: str) -> bool:
        return False


class PluginWorld:
    """One case: the plugin, its informers' stores and the server."""

    def __init__(self, case: Json) -> None:
        self.now = START + 123_456_789
        self.server = FakeServer()
        self.stores: dict[str, MemoryLister[Any]] = {name: MemoryLister() for name in LISTERS}
        listers: Any = {field: self.stores[name] for name, field in LISTERS.items()}
        handle = Handle(listers=Listers(**listers))
        handle.features = {**handle.features, **(case.get("gates") or {})}
        handle.clock = lambda: self.now
        handle.record = self._record
        handle.dra.select = select_device
        self.handle = handle
        timeout = parse_duration(case.get("bindingTimeout", "10m0s"))
        self.plugin = DynamicResources(DynamicResourcesArgs(binding_timeout=timeout), handle)
        for field, resource in FIELDS.items():
            for tree in case["cluster"].get(field) or ():
                self.server.put(resource, tree)
        self.deliver()
        self.events: list[str] = []
        self.cycles: dict[str, tuple[CycleState, str]] = {}
        self.group: CycleState | None = None
        self.ops: dict[str, Callable[[Json], Json]] = {
            "signPod": self.sign_pod,
            "preEnqueue": lambda op: {
                "preEnqueue": status_json(self.plugin.pre_enqueue(self.pod(op)))
            },
            "cycle": self.cycle,
            "preBind": self.pre_bind,
            "unreserve": self.unreserve,
            "create": self.create,
            "update": self.update,
            "delete": self.delete,
            "fail": self.fail,
        }

    def run(self, ops: Json) -> Json:
        """Our value for `want`."""
        shown: Json = {"assumed": []}
        out = []
        for op in ops:
            self.events, self.server.writes = [], []
            result = self.ops[op["op"]](op)
            self.deliver()
            after = self.sections()
            result |= {name: part for name, part in after.items() if shown.get(name) != part}
            shown = after
            if self.server.writes:
                result["writes"] = [_shown(write) for write in self.server.writes]
            if self.events:
                result["events"] = self.events
            out.append(result)
        return {"ops": out}

    # ------------------------------------------------------------------ operations

    def pod(self, op: Json) -> Pod:
        """The pod of an operation as it is now."""
        found = self.server.objects["pods"][op.get("namespace", "default"), op["pod"]]
        return cast("Pod", found.view)

    def nodes(self) -> list[NodeInfo]:
        """All nodes with their pods."""
        found = []
        for obj in self.server.objects["nodes"].values():
            info = NodeInfo()
            info.set_node(cast("Node", obj.view))
            for pod in self.server.objects["pods"].values():
                view = cast("Pod", pod.view)
                if view.spec.node_name == info.name:
                    from controlplane.scheduler.state.pod_info import PodInfo

                    info.add_pod(PodInfo(view))
            found.append(info)
        return found

    def sign_pod(self, op: Json) -> Json:
        signed = self.plugin.sign_pod(self.pod(op))
        return {"signPod": status_json(signed if isinstance(signed, Status) else None)}

    def cycle(self, op: Json) -> Json:
        pod, plugin = self.pod(op), self.plugin
        state = CycleState(self.now)
        if op.get("group"):
            self.group = self.group or CycleState(self.now)
            state.group = self.group
        else:
            self.group = None
        nodes = self.nodes()
        self.cycles[op["pod"]] = state, ""
        _, status = plugin.pre_filter(state, pod, nodes)
        result: Json = {"preFilter": status_json(status)}
        if status is not None and status.code_name == "Skip":
            return result
        feasible = []
        if status is None:
            result["filter"] = {}
            for node in nodes:
                refused = plugin.filter(state, pod, node)
                result["filter"][node.name] = status_json(refused)
                if refused is None:
                    feasible.append(node)
                elif refused.code_name == "Error":
                    return result
        if status is not None and not status.is_rejected:
            return result
        if not feasible:
            filters = cast("Filters", _AllAsked())
            steps = plugin.post_filter_calls(state, pod, NodeToStatus(), filters)
            _, status = perform(steps, self.server)
            result["postFilter"] = status_json(status)
            return result
        picked = feasible[0].name
        if len(feasible) > 1:
            scores = [plugin.score(state, pod, node) for node in feasible]
            final = list(scores)
            plugin.normalize(state, pod, feasible, final)
            names = [node.name for node in feasible]
            result["score"] = dict(zip(names, scores, strict=True))
            result["normalized"] = dict(zip(names, final, strict=True))
            picked = names[final.index(max(final))]
        result["picked"] = picked
        result["reserve"] = status_json(plugin.reserve(state, pod, picked))
        self.cycles[op["pod"]] = state, picked
        return result

    def pre_bind(self, op: Json) -> Json:
        state, node = self.cycles.get(op["pod"], (CycleState(), ""))
        if not node:
            return {"skipped": True}
        pod = self.pod(op)
        flight = status_json(self.plugin.pre_bind_pre_flight(state, pod, node))
        steps = self.plugin.pre_bind_calls(state, pod, node)
        status = perform(steps, self.server, self.wait)
        return {
            "preBindPreFlight": {**flight, "allowParallel": True},
            "preBind": status_json(status),
        }

    def wait(self, effect: Any) -> None:
        """Time passes, and the informers hear of what was written."""
        if isinstance(effect, Sleep):
            self.now += effect.duration_ns
            self.deliver()

    def unreserve(self, op: Json) -> Json:
        state, node = self.cycles.get(op["pod"], (CycleState(), ""))
        if not node:
            return {"skipped": True}
        perform(self.plugin.unreserve_calls(state, self.pod(op), node), self.server, self.wait)
        return {}

    def create(self, op: Json) -> Json:
        self.server.put(op["resource"], op["object"])
        return {}

    def update(self, op: Json) -> Json:
        tree, resource = op["object"], op["resource"]
        key = tree["metadata"].get("namespace", ""), tree["metadata"]["name"]
        old = self.server.get(resource, key)
        if old is None:
            return {"apiError": _not_found(resource, key[1])}
        if resource == "resourceclaims":
            rest = {name: part for name, part in old.tree.items() if name != "status"}
            tree = rest | ({"status": tree["status"]} if "status" in tree else {})
        self.server.put(resource, tree)
        return {}

    def delete(self, op: Json) -> Json:
        key = op.get("namespace", ""), op["name"]
        if self.server.get(op["resource"], key) is None:
            return {"apiError": _not_found(op["resource"], op["name"])}
        self.server.delete(op["resource"], key)
        return {}

    def fail(self, op: Json) -> Json:
        self.server.failures.setdefault(op["key"], []).extend(op["errors"])
        return {}

    # ------------------------------------------------------------------ what the plugin asks for

    def _record(self, event: EventIntent) -> None:
        self.events.append(f"{event.type} {event.reason} {event.note}")

    def deliver(self) -> None:
        """Let the informers hear of all that was written."""
        dra = self.handle.dra
        while self.server.changes:
            change: Change = self.server.changes.pop(0)
            old = None if change.old is None else change.old.view
            new = None if change.new is None else change.new.view
            if change.resource == "resourceclaims":
                if new is not None:
                    at_once(dra.tracker.cache.put(new))
                elif old is not None:
                    at_once(dra.tracker.cache.remove(old))
                continue
            if change.resource == "pods":
                if old is not None:
                    self.handle.pod_groups.remove(old)
                if new is not None:
                    self.handle.pod_groups.add(new)
            if change.resource == "deviceclasses":
                dra.class_changed(old, new)
            store = self.stores.get(change.resource)
            if store is not None and new is not None:
                store.put(new)
            elif store is not None and old is not None:
                store.remove(old.metadata.namespace, old.metadata.name)

    # ------------------------------------------------------------------ what shows

    def sections(self) -> Json:
        """All that is compared between operations."""
        tracker = self.handle.dra.tracker
        gathered = at_once(tracker.gather())
        allocated: Json = {
            "devices": sorted(map(str, gathered.whole)),
            "shares": sorted(str(device) for device, _ in gathered.shares),
            "consumed": {
                str(device): {name: str(n) for name, n in sorted(amounts.items())}
                for device, amounts in gathered.capacity.by_device.items()
            },
        }
        in_flight = [
            _pruned(
                {
                    "claim": f"{claim['metadata'].get('namespace', '')}/{claim['metadata']['name']}",
                    "uid": uid,
                    "finalizers": claim["metadata"].get("finalizers"),
                    "allocation": allocation_of(claim),
                    "sharers": str(flying.sharers),
                }
            )
            for uid, flying in tracker.in_flight.items()
            for claim in [flying.claim]
        ]
        return {
            "assumed": sorted(
                each.key for each in tracker.cache.list() if tracker.cache.is_assumed(each.key)
            ),
            "inFlight": sorted(in_flight, key=lambda each: (each["claim"], each["uid"])),
            "allocated": {name: part for name, part in allocated.items() if part},
        }


def _not_found(resource: str, name: str) -> str:
    return str(refused(resource, name, 404, "NotFound", "not found"))


def _pruned(value: Any) -> Any:
    """Without what the cases leave out."""
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _pruned(part) for name, part in value.items() if part is not None}
    for name in ("status", "spec", "resources", "metadata", "requests"):
        if found.get(name) in ({}, []):
            del found[name]
    return found


def _shown(write: Tree) -> Tree:
    found: Tree = _pruned(write)
    obj = found.get("object")
    if obj is not None:
        kept = {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}
        meta = kept["metadata"]
        hide = ("resourceVersion", "managedFields")
        kept["metadata"] = {name: part for name, part in meta.items() if name not in hide}
        found["object"] = kept
    return found


def answer(case: Json) -> Json:
    """Our value for `want`."""
    found: Json = hidden(PluginWorld(case).run(case["ops"]))
    return found
