"""A copy of the cluster in which pods are placed by the scheduler's own filters, with undo.

Upstream: `simulator/clustersnapshot` (predicate_snapshot.go, plugin_runner.go, store/delta.go),
`simulator/node_info_utils.go`. Nodes stand in order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.groups import Template
from controlplane.decisions import at_once
from controlplane.scheduler.config.model import ProfileConfig
from controlplane.scheduler.cycle.binding import with_node_name
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Status
from controlplane.scheduler.framework.runtime import Framework
from controlplane.scheduler.plugins.registry import build_framework
from controlplane.scheduler.state.cache import Cache
from controlplane.scheduler.state.listers import Listers
from controlplane.sharing.replacing import replaced

HOSTNAME: Final = "kubernetes.io/hostname"
Acceptable = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Placed:
    """A node of the simulation with its pods."""

    node: Node
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod does not fit: the plugin (empty where no node was found) and its reasons."""

    plugin: str = ""
    reasons: tuple[str, ...] = ()


class Simulation:
    """Nodes with pods; `fork` marks a state, `revert` goes back to it, `commit` keeps what came since."""

    def __init__(self, listers: Listers | None = None) -> None:
        self._handle = Handle(listers=listers or Listers())
        self._framework: Framework | None = None
        self._cache = Cache()
        self._layers: list[dict[str, Placed]] = [{}]
        self._known: dict[str, Placed] = {}
        self._stale: dict[str, None] = {}
        self._entered: dict[tuple[str, int], Pod] = {}
        self._last = 0

    @property
    def _nodes(self) -> dict[str, Placed]:
        return self._layers[-1]

    def get(self, name: str) -> Placed | None:
        """Return a node with its pods."""
        return self._nodes.get(name)

    def names(self) -> list[str]:
        """Return the names of all nodes, sorted."""
        return sorted(self._nodes)

    def nodes(self) -> list[Placed]:
        """Return all nodes in order of their names."""
        return [self._nodes[name] for name in self.names()]

    # -- changes -----------------------------------------------------------------------------------

    def set_cluster(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Begin anew with these nodes and the pods on them; nominated pods stand on their node."""
        for name in self._nodes:
            self._stale[name] = None
        on: dict[str, list[Pod]] = {node.metadata.name: [] for node in nodes}
        self._layers = [{}]
        for pod in pods:
            name = pod.spec.node_name or pod.status.nominated_node_name
            if name in on:
                on[name].append(pod)
        for node in nodes:
            self.put(Placed(node, tuple(on[node.metadata.name])))

    def put(self, placed: Placed) -> None:
        """Add a node, or replace the one of its name."""
        name = placed.node.metadata.name
        self._nodes[name] = placed
        self._stale[name] = None

    def drop(self, name: str) -> None:
        """Remove a node with its pods."""
        if self._nodes.pop(name, None) is not None:
            self._stale[name] = None

    def add_pod(self, pod: Pod, name: str) -> None:
        """Put a pod on a node without asking the filters."""
        placed = self._nodes[name]
        self.put(Placed(placed.node, (*placed.pods, pod)))

    def remove_pod(self, pod: Pod, name: str) -> None:
        """Take a pod off a node; the last pod of the node takes its place, as in the scheduler."""
        placed = self._nodes[name]
        pods = list(placed.pods)
        at = next((i for i, each in enumerate(pods) if each.key == pod.key), None)
        if at is None:
            return
        last = pods.pop()
        if at < len(pods):
            pods[at] = last
        self.put(Placed(placed.node, tuple(pods)))

    def fork(self) -> None:
        """Mark this state."""
        self._layers.append(dict(self._nodes))

    def revert(self) -> None:
        """Return to the state that was marked last."""
        left = self._layers.pop()
        for name in {**left, **self._nodes}:
            if left.get(name) is not self._nodes.get(name):
                self._stale[name] = None

    def commit(self) -> None:
        """Keep this state, and forget the mark."""
        top = self._layers.pop()
        self._layers[-1] = top

    # -- filters -----------------------------------------------------------------------------------

    def check(self, pod: Pod, name: str) -> Refusal | None:
        """Return why a pod does not fit a node, None where it does."""
        framework, state = self._ready(), CycleState()
        outcome = at_once(framework.run_pre_filter(state, pod))
        if outcome.status is not None:
            return _refusal(outcome.status)
        if outcome.node_names is not None and name not in outcome.node_names:
            return Refusal(", ".join(outcome.restricting))
        status = framework.run_filter(state, pod, self._handle.snapshot.node_info_map[name])
        return None if status is None else _refusal(status)

    def schedule(self, pod: Pod, name: str) -> Refusal | None:
        """Put a pod on a node where it fits; return why it does not."""
        refusal = self.check(pod, name)
        if refusal is None:
            self.add_pod(pod, name)
        return refusal

    def schedule_anywhere(self, pod: Pod, acceptable: Acceptable | None = None) -> str:
        """Put a pod on the first node that it fits, after the node found last; return its name, or "".

        Nodes that are cordoned are passed over.
        """
        framework, state = self._ready(), CycleState()
        outcome = at_once(framework.run_pre_filter(state, pod))
        if outcome.status is not None:
            return ""
        infos = self._handle.snapshot.node_info_list
        for step in range(len(infos)):
            at = (step + 1 + self._last) % len(infos)
            info = infos[at]
            if outcome.node_names is not None and info.name not in outcome.node_names:
                continue
            if self._nodes[info.name].node.spec.unschedulable:
                continue
            if acceptable is not None and not acceptable(info.name):
                continue
            if framework.run_filter(state, pod, info) is None:
                self._last = at
                self.add_pod(pod, info.name)
                return info.name
        return ""

    def _ready(self) -> Framework:
        """Bring the scheduler's snapshot up to date."""
        if self._framework is None:
            self._framework = build_framework(ProfileConfig(), self._handle)
        if self._stale:
            stale = list(self._stale)
            self._stale.clear()
            self._tell(stale)
            snapshot = self._handle.snapshot
            self._cache.update_snapshot(snapshot)
            order = self.names()
            if [info.name for info in snapshot.node_info_list] != order:
                snapshot.rebuild_list(order)
            self._handle.columns.sync()
        return self._framework

    def _tell(self, stale: Sequence[str]) -> None:
        cache, known, nodes = self._cache, self._known, self._nodes
        pairs = [(name, known.get(name), nodes.get(name)) for name in stale]
        for name, old, new in pairs:
            for pod in _missing(old, new):
                cache.remove_pod(self._entered.pop((name, id(pod))))
        for name, old, new in pairs:
            if new is None:
                if old is not None:
                    cache.remove_node(old.node)
                    del known[name]
                continue
            if old is None:
                cache.add_node(new.node)
            elif old.node is not new.node:
                cache.update_node(old.node, new.node)
            known[name] = new
        for name, old, new in pairs:
            for pod in _missing(new, old):
                entered = with_node_name(pod, name)
                if cache.get_pod(pod.uid) is not None:  # a pod that moves stands on both nodes
                    other = replaced(pod.metadata, uid=f"{pod.uid}/{name}")
                    entered = replaced(entered, metadata=other)
                self._entered[(name, id(pod))] = entered
                cache.add_pod(entered)


def _missing(here: Placed | None, there: Placed | None) -> list[Pod]:
    """Return the pods of one state of a node that the other does not have."""
    if here is None:
        return []
    if there is None:
        return list(here.pods)
    others = {id(pod) for pod in there.pods}
    return [pod for pod in here.pods if id(pod) not in others]


def _refusal(status: Status) -> Refusal:
    return Refusal(status.plugin, tuple(status.reasons))


def fresh(template: Template, name: str, suffix: str) -> Placed:
    """Return a new node like that of a template, under another name, with pods renamed by the suffix."""
    old = template.node
    labels = {**old.metadata.labels, HOSTNAME: name}
    meta = replaced(old.metadata, name=name, uid=name, labels=labels)
    tree_meta = {**old.tree["metadata"], "name": name, "uid": name, "labels": labels}
    node = replaced(old, tree={**old.tree, "metadata": tree_meta}, metadata=meta)
    return Placed(node, tuple(_renamed(pod, name, suffix) for pod in template.pods))


def _renamed(pod: Pod, node: str, suffix: str) -> Pod:
    placed = with_node_name(pod, node)
    name = f"{pod.metadata.name}-{suffix}"
    uid = f"{pod.metadata.uid}-{node}"
    tree = {**placed.tree, "metadata": {**pod.tree["metadata"], "name": name, "uid": uid}}
    return replaced(placed, tree=tree, metadata=replaced(pod.metadata, name=name, uid=uid))
