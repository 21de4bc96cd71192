"""Caches of NodeResourceTopology objects: what the plugin believes to be available between two reports of a node.

Upstream: pkg/noderesourcetopology/cache. The placement of running containers (the library numaplacement) is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.decisions import at_once, immediate
from controlplane.scheduler.community.numa import (
    Amounts,
    Topology,
    attribute,
    effective_request,
    exclusive,
    read_topology,
    same_manager,
)
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.community.pod_fingerprint import fingerprint
from controlplane.scheduler.framework.custom import Tree

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.effects import Effects

__all__ = ["DiscardReserved", "OverReserve", "Passthrough", "make_cache"]

KIND: Final = "NodeResourceTopology"
_FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
_METHOD: Final = "nodeTopologyPodsFingerprintMethod"
_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"


class Passthrough:
    """No cache: the object as it is now."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def read(self, node: str) -> tuple[Topology | None, bool]:
        """Return what is known of a node, and whether that can be relied on."""
        tree = self._objects.get(KIND, "", node)
        return (None if tree is None else read_topology(tree)), True

    def refused(self, node: str) -> None:
        """Note that a pod was refused: more may be counted there than is used."""

    def reserve(self, node: str, pod: Pod) -> None:
        """Note that a pod was given a node."""

    def unreserve(self, node: str, pod: Pod) -> None:
        """Note that a pod gave its node back."""

    def bound(self, node: str, pod: Pod) -> None:
        """Note that a pod was bound."""


class DiscardReserved(Passthrough):
    """Nodes with a pod that is not bound yet are not relied on."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._reserved: dict[str, dict[str, None]] = {}

    def read(self, node: str) -> tuple[Topology | None, bool]:
        """Return what is known of a node, and whether that can be relied on."""
        return (None, False) if self._reserved.get(node) else super().read(node)

    def reserve(self, node: str, pod: Pod) -> None:
        """Note that a pod was given a node."""
        self._reserved.setdefault(node, {})[pod.uid] = None

    def unreserve(self, node: str, pod: Pod) -> None:
        """Note that a pod gave its node back."""
        self._reserved.get(node, {}).pop(pod.uid, None)

    def bound(self, node: str, pod: Pod) -> None:
        """Note that a pod was bound."""
        self.unreserve(node, pod)


class OverReserve(Passthrough):
    """The last report of a node, less the pods that were given to it since.

    `pods` lists the pods of the cluster; `profiles` are the names of the schedulers of this process.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        objects: Objects,
        pods: Callable[[], Iterable[Pod]],
        profiles: Sequence[str] = (),
    ) -> None:
        super().__init__(objects)
        self._settings, self._pods, self._profiles = settings, pods, tuple(profiles)
        self._known: dict[str, tuple[Tree, Topology]] = {}
        self._assumed: dict[str, dict[str, Amounts]] = {}
        self._refused: dict[str, None] = {}
        self._foreign: dict[str, None] = {}
        self._reconfigured: dict[str, None] = {}
        self.generation = 0
        """The number of updates of nodes."""
        self.fill(objects.list(KIND))

    def _keep(self, tree: Tree) -> None:
        self._known[tree["metadata"]["name"]] = (tree, read_topology(tree))

    def read(self, node: str) -> tuple[Topology | None, bool]:
        """Return what is known of a node, and whether that can be relied on."""
        if node in self._foreign:
            return None, False
        known = self._known.get(node)
        if known is None:
            return None, True
        return known[1].less(self._assumed.get(node, {}).values()), True

    def refused(self, node: str) -> None:
        """Note that a pod was refused: more may be counted there than is used."""
        self._refused[node] = None

    def reserve(self, node: str, pod: Pod) -> None:
        """Count the pod's request in every zone of its node."""
        if node in self._known:
            self._assumed.setdefault(node, {})[pod.key] = effective_request(pod)

    def unreserve(self, node: str, pod: Pod) -> None:
        """Count the pod's request no longer."""
        self._assumed.get(node, {}).pop(pod.key, None)

    # -- notifications -----------------------------------------------------------------------------

    def pod_seen(self, pod: Pod) -> None:
        """Note a pod that was added, changed or deleted and that no scheduler of this process placed."""
        node, mode = pod.spec.node_name, self._settings["ForeignPodsDetect"]
        if not node or mode == "None" or pod.spec.scheduler_name in self._profiles:
            return
        if mode != "OnlyExclusiveResources" or exclusive(pod, self._names(node)):
            self.has_foreign(node)

    def has_foreign(self, node: str) -> None:
        """Rely on a node no longer, until it reports its pods."""
        if node in self._known:
            self._foreign[node] = None

    def object_changed(self, tree: Tree) -> None:
        """Note a changed configuration of a node's topology manager, unless only resources are followed."""
        known = self._known.get(tree["metadata"]["name"])
        if (self._settings["ResyncScope"] or "All") != "All" or known is None:
            return
        if not same_manager(known[0], tree):
            self._reconfigured[tree["metadata"]["name"]] = None

    # -- bringing nodes up to date -----------------------------------------------------------------

    def dirty(self) -> tuple[list[str], list[str]]:
        """Return the nodes that cannot be relied on, and those that were configured anew; both sorted."""
        return sorted({**self._foreign, **self._refused}), sorted(self._reconfigured)

    def resync(self) -> None:
        """Take over what nodes reported, from the objects that were given."""
        at_once(self.resync_steps(immediate(partial(self._objects.get, KIND, ""))))

    def resync_steps(self, read: Callable[[str], Effects[Tree | None]]) -> Effects[bool]:
        """Take over what nodes reported, if they reported it for the pods that are known here; False for nothing.

        `read` reads a node's object; others may come before each read, and before the nodes are flushed.
        """
        unreliable, reconfigured = self.dirty()
        by_node: dict[str, list[Pod]] = {}
        for pod in self._pods() if unreliable else ():
            if self._counts(pod):
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        found = []
        for node in unreliable:
            tree = yield from read(node)
            if tree is not None and node in by_node and self._agrees(tree, node, by_node[node]):
                found.append(tree)
        for node in reconfigured:
            tree = yield from read(node)
            if tree is not None:
                found.append(tree)
        for tree in found:
            self._flush(tree)
        self.generation += bool(found)
        return bool(found)

    def fill(self, trees: Iterable[Tree]) -> None:
        """Begin with these objects."""
        for tree in trees:
            self._keep(tree)

    def _flush(self, tree: Tree) -> None:
        self._keep(tree)
        node = tree["metadata"]["name"]
        self._assumed.pop(node, None)
        for marks in (self._refused, self._foreign, self._reconfigured):
            marks.pop(node, None)

    def _counts(self, pod: Pod) -> bool:
        if self._settings["InformerMode"] != "Dedicated":
            return pod.status.phase == "Running"
        return pod.status.phase != "Pending" and bool(pod.spec.node_name)

    def _agrees(self, tree: Tree, node: str, pods: Sequence[Pod]) -> bool:
        method = self._settings["ResyncMethod"]
        expected, only_exclusive = attribute(tree, _FINGERPRINT), False
        if expected is None:
            expected = (tree["metadata"].get("annotations") or {}).get(_ANNOTATION) or ""
        elif method == "Autodetect":
            only_exclusive = attribute(tree, _METHOD) == "with-exclusive-resources"
        else:
            only_exclusive = method == "OnlyExclusiveResources"
        if not expected:
            return False
        names = self._names(node)
        counted = [pod for pod in pods if not only_exclusive or exclusive(pod, names)]
        return expected == fingerprint((pod.namespace, pod.name) for pod in counted)

    def _names(self, node: str) -> dict[str, None]:
        """Return the resources in any zone of a node."""
        known = self._known.get(node)
        zones = (known[0].get("zones") or ()) if known is not None else ()
        return {each["name"]: None for zone in zones for each in zone.get("resources") or ()}


def make_cache(
    args: Mapping[str, Any],
    objects: Objects,
    pods: Callable[[], Iterable[Pod]],
    profiles: Sequence[str] = (),
) -> Passthrough:
    """Return the cache that the plugin's arguments ask for; `profiles` are this process's own schedulers."""
    if args["DiscardReservedNodes"]:
        return DiscardReserved(objects)
    if args["CacheResyncPeriodSeconds"] <= 0:
        return Passthrough(objects)
    return OverReserve(args["Cache"], objects, pods, profiles)
