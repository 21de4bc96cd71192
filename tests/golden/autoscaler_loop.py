"""A provider and a cluster around loops of the autoscaler, as the cases of `runonce` have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import yaml

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget
from controlplane.api.times import format_time, parse_time
from controlplane.autoscaler.deletions import Batch
from controlplane.autoscaler.drain import Controllers
from controlplane.autoscaler.expander import Market
from controlplane.autoscaler.groups import Cloud, Instance, NodeGroup, Template
from controlplane.autoscaler.loop import Autoscaler, View
from controlplane.autoscaler.nodes import DELETION_CANDIDATE, TO_BE_DELETED
from controlplane.autoscaler.options import SECOND, Options
from controlplane.autoscaler.planner import Ongoing
from controlplane.decisions import at_once, immediate

Case = dict[str, Any]
NOT_READY = "node.kubernetes.io/not-ready"


class World:
    """Groups, nodes and pods of a case, and a clock with events."""

    def __init__(self, case: Case, options: Options, controllers: Controllers) -> None:
        self.case = case
        self.now: int = parse_time(case["now"])
        self.groups: dict[str, Case] = {each["id"]: dict(each) for each in case["groups"]}
        self.instances = {
            name: {each: Instance(each) for each in group.get("nodes") or ()}
            for name, group in self.groups.items()
        }
        self.nodes: dict[str, Case] = {}
        for tree in case.get("nodes") or ():
            name = tree["metadata"]["name"]
            self.nodes[name] = {**tree, "spec": {"providerID": name, **tree.get("spec", {})}}
        pods = [*(case.get("pods") or ()), *(case.get("pendingPods") or ())]
        self.pods: dict[str, Case] = {_key(tree): tree for tree in pods}
        self.refusals = dict(case.get("evictionRefusals") or {})
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.calls: list[Case] = []
        self.evictions: list[str] = []
        self.made = dict.fromkeys(self.groups, 0)
        self.empty: dict[str, str] = {}
        self.drained: dict[str, str] = {}
        self._number = 0
        self.controllers = controllers
        self.autoscaler = Autoscaler(options, Calls(self), lambda: Market({}), self.now)

    # -- provider ----------------------------------------------------------------------------------

    def cloud(self) -> Cloud:
        """The groups as they are now."""
        # The provider of the cases knows the group of a node only once there is one.
        members = {
            name: group
            for group, own in self.instances.items()
            for name in own
            if name in self.nodes
        }
        return Cloud(tuple(self._group(name) for name in self.groups), members)

    def _group(self, name: str) -> NodeGroup:
        tree = self.groups[name]
        template = Template(Node.from_tree(tree["template"]))
        return NodeGroup(
            name,
            tree["min"],
            tree["max"],
            tree["target"],
            template,
            tuple(self.instances[name].values()),
        )

    def increase(self, group: str, size: int) -> str:
        """Ask for more nodes."""
        tree = self.groups[group]
        self.calls.append({"call": "increase", "delta": size, "group": group})
        error = str(tree.get("increaseError") or "")
        if error:
            self.calls[-1]["error"] = error
            return error
        tree["target"] += size
        for _ in range(size):
            self.made[group] += 1
            self._create(group, f"{group}-x{self.made[group]}")
        return ""

    def _create(self, group: str, name: str) -> None:
        tree = self.groups[group]
        failed = tree.get("createError")
        if failed:
            self.instances[group][name] = Instance(
                name,
                "Creating",
                failed["errorClass"],
                failed["errorCode"],
                failed["errorMessage"],
            )
            return
        self.instances[group][name] = Instance(name, "Creating")
        if not tree.get("neverRegisters"):
            self.at(self.now + tree["createSeconds"] * SECOND, lambda: self._appear(group, name))

    def _appear(self, group: str, name: str) -> None:
        if name not in self.instances[group]:
            return
        tree, template = self.groups[group], self.groups[group]["template"]
        self.instances[group][name] = Instance(name)
        meta = template["metadata"]
        metadata = {
            **meta,
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(self.now),
            "labels": {**(meta.get("labels") or {}), "kubernetes.io/hostname": name},
        }
        spec = {**template.get("spec", {}), "providerID": name}
        self.nodes[name] = {**template, "metadata": metadata, "spec": spec}
        self._ready(name, "False")
        ready = self.now + tree["readySeconds"] * SECOND
        if ready <= self.now:
            self._ready(name, "True")
        else:
            self.at(ready, lambda: self._ready(name, "True"))

    def _ready(self, name: str, status: str) -> None:
        if name in self.nodes:
            told = {
                "type": "Ready",
                "status": status,
                "lastTransitionTime": format_time(self.now),
            }
            tree = self.nodes[name]
            self.nodes[name] = {**tree, "status": {**tree["status"], "conditions": [told]}}
            self._untaint(name, NOT_READY)
            if status == "False":
                self._taint(name, NOT_READY, "NoSchedule")

    def decrease(self, group: str, size: int) -> str:
        """Ask for fewer of the nodes that are still to come."""
        self.calls.append({"call": "decrease", "delta": -size, "group": group})
        self.groups[group]["target"] -= size
        own = self.instances[group]
        for name in [each for each in own if each not in self.nodes][-size:]:
            del own[name]
        return ""

    def delete(self, group: str, names: Sequence[str]) -> str:
        """Delete nodes or instances."""
        self.calls.append({"call": "delete", "group": group, "nodes": list(names)})
        error = str(self.groups[group].get("deleteError") or "")
        if error:
            self.calls[-1]["error"] = error
            return error
        self.groups[group]["target"] -= len(names)
        for name in names:
            self.instances[group].pop(name, None)
            self.nodes.pop(name, None)
            gone = [key for key, pod in self.pods.items() if pod["spec"].get("nodeName") == name]
            for key in gone:
                self._vanish(key)
        return ""

    # -- clock -------------------------------------------------------------------------------------

    def at(self, time: int, event: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._number += 1
        self.events.append((time, self._number, event))

    def sleep(self, seconds: int) -> None:
        """Let time pass."""
        end = self.now + seconds * SECOND
        while self.events:
            first = min(self.events, key=lambda each: each[:2])
            if first[0] > end:
                break
            self.events.remove(first)
            self.now = max(self.now, first[0])
            first[2]()
        self.now = end

    # -- steps -------------------------------------------------------------------------------------

    def step(self, op: Case, want: Case) -> Case:
        """One step: changes, a loop, and what follows it within eight seconds."""
        self.sleep(op.get("after", 0))
        self.calls.clear()
        self.evictions.clear()
        for key in op.get("deletePods") or ():
            self.pods.pop(key, None)
        for tree in op.get("addPods") or ():
            created = format_time(self.now - 60 * SECOND)
            meta = {**tree["metadata"], "creationTimestamp": created}
            self.pods[_key(tree)] = {**tree, "metadata": meta}
        for key, node in (want.get("bound") or {}).items():
            self._bind(key, node)
        loop = at_once(self.autoscaler.run_once(self._view()))
        for name in loop.unmarked:
            self._untaint(name, DELETION_CANDIDATE)
        for name in loop.marked:
            self._taint(name, DELETION_CANDIDATE, "PreferNoSchedule")
        for batch in loop.deletions:
            self._begin(batch)
        self.sleep(8)
        told: Case = {
            "nodes": {name: _shown(tree) for name, tree in sorted(self.nodes.items())},
            "pending": sorted(
                key for key, tree in self.pods.items() if not tree["spec"].get("nodeName")
            ),
            "status": without_times(loop.status),
            "targets": {name: tree["target"] for name, tree in self.groups.items()},
        }
        if self.calls:
            told["calls"] = list(self.calls)
        if self.evictions:
            told["evictions"] = sorted(self.evictions)
        if want.get("bound"):
            told["bound"] = want["bound"]
        return told

    def _view(self) -> View:
        nodes = [Node.from_tree(tree) for _, tree in sorted(self.nodes.items())]
        pods = [Pod.from_tree(tree) for _, tree in sorted(self.pods.items())]
        by_group: dict[str, int] = {}
        for group in (*self.empty.values(), *self.drained.values()):
            by_group[group] = by_group.get(group, 0) + 1
        budgets = [
            PodDisruptionBudget.from_tree(tree)
            for tree in self.case.get("podDisruptionBudgets") or ()
        ]
        ongoing = Ongoing(tuple(self.empty), tuple(self.drained), by_group)
        return View(
            nodes, pods, self.now, (), budgets, controllers=self.controllers, ongoing=ongoing
        )

    def _bind(self, key: str, node: str) -> None:
        tree = self.pods[key]
        self.pods[key] = {
            **tree,
            "spec": {**tree["spec"], "nodeName": node},
            "status": {"phase": "Running"},
        }

    def _vanish(self, key: str) -> None:
        tree = self.pods.pop(key)
        owners = tree["metadata"].get("ownerReferences") or ()
        if not any(each.get("controller") and each["kind"] != "DaemonSet" for each in owners):
            return
        name = f"{tree['metadata']['name']}-r"
        meta = {**tree["metadata"], "name": name, "uid": f"{tree['metadata'].get('uid')}-r"}
        meta["creationTimestamp"] = format_time(self.now)
        spec = {field: value for field, value in tree["spec"].items() if field != "nodeName"}
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": format_time(self.now),
        }
        status = {"phase": "Pending", "conditions": [condition]}
        made = {**tree, "metadata": meta, "spec": spec, "status": status}
        self.pods[_key(made)] = made

    # -- deletions ---------------------------------------------------------------------------------

    def _begin(self, batch: Batch) -> None:
        names = [node.metadata.name for node in batch.nodes]
        for name in names[-1:] + names[:-1]:  # Go runs the routine that was started last first
            (self.drained if batch.drained else self.empty)[name] = batch.group
            self._taint(name, TO_BE_DELETED, "NoSchedule")
            tree = self.nodes[name]
            self.nodes[name] = {**tree, "spec": {**tree["spec"], "unschedulable": True}}
            later = self.now + 5 * SECOND
            if batch.drained:
                self.at(later, lambda name=name: self._drain(batch.group, name))  # type: ignore[misc]
            else:
                self.at(later, lambda name=name: self._finish(batch.group, name))  # type: ignore[misc]

    def _drain(self, group: str, name: str, keys: Sequence[str] | None = None) -> None:
        """Evict pods; those refused are tried again, and the node goes once all are seen to be gone."""
        if keys is None:
            keys = [key for key, tree in self.pods.items() if tree["spec"].get("nodeName") == name]
        refused, vanished = list[str](), False
        for key in keys:
            if self.refusals.get(key, 0) > 0:
                self.refusals[key] -= 1
                self.evictions.append(f"{key} refused")
                refused.append(key)
                continue
            self.evictions.append(key)
            if key in self.pods:
                self._vanish(key)
                vanished = True
        if refused:
            self.at(self.now + 10 * SECOND, lambda: self._drain(group, name, refused))
        elif vanished:
            self.at(self.now + 5 * SECOND, lambda: self._finish(group, name))
        else:
            self._finish(group, name)

    def _finish(self, group: str, name: str) -> None:
        error = self.delete(group, [name])
        self.empty.pop(name, None)
        self.drained.pop(name, None)
        if error:
            self._untaint(name, TO_BE_DELETED)
            tree = self.nodes[name]
            self.nodes[name] = {**tree, "spec": {**tree["spec"], "unschedulable": False}}

    def _taint(self, name: str, key: str, effect: str) -> None:
        tree = self.nodes[name]
        taint = {"key": key, "value": str(self.now // SECOND), "effect": effect}
        taints = [*(tree["spec"].get("taints") or ()), taint]
        self.nodes[name] = {**tree, "spec": {**tree["spec"], "taints": taints}}

    def _untaint(self, name: str, key: str) -> None:
        tree = self.nodes[name]
        taints = [each for each in tree["spec"].get("taints") or () if each["key"] != key]
        self.nodes[name] = {**tree, "spec": {**tree["spec"], "taints": taints}}


class Calls:
    """The provider of a world: its calls as decisions."""

    def __init__(self, world: World) -> None:
        self.cloud = world.cloud
        self.increase = immediate(world.increase)
        self.decrease = immediate(world.decrease)
        self.delete = immediate(world.delete)


def _key(tree: Case) -> str:
    return f"{tree['metadata'].get('namespace', '')}/{tree['metadata']['name']}"


def _shown(tree: Case) -> Case:
    shown: Case = {}
    taints = [f"{each['key']}:{each['effect']}" for each in tree["spec"].get("taints") or ()]
    if taints:
        shown["taints"] = sorted(taints)
    if tree["spec"].get("unschedulable"):
        shown["unschedulable"] = True
    return shown


def without_times(value: Any) -> Any:
    """A status without the times that the cases leave out."""
    if isinstance(value, dict):
        return {
            name: without_times(each)
            for name, each in value.items()
            if name not in ("time", "lastProbeTime", "lastTransitionTime")
        }
    return [without_times(each) for each in value] if isinstance(value, list) else value


def read_status(want: Case) -> Case:
    """A step of a case with its status as a tree."""
    return {**want, "status": yaml.safe_load(want["status"])} if "status" in want else want
