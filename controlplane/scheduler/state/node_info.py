"""A node with the sums and indexes over its pods.

Upstream: `pkg/scheduler/framework/types.go` (NodeInfo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.state.host_ports import HostPorts, pod_host_ports
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.resources import Resource

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod


class ImageState:
    """An image somewhere in the cluster: its size and the nodes that have it."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes: dict[str, None] = {}


_MANY = 64
"""From this number of pods on, changes are recorded for the followers of a node."""
_LONG = 4096
"""A node whose record grows longer than this is followed no more."""


class NodeInfo:
    """State of one node. `node` None marks a ghost: pods are known, the node is not."""

    __slots__ = (
        "_followed",
        "_journal",
        "_journal_start",
        "_places",
        "_position",
        "allocatable",
        "generation",
        "image_states",
        "name",
        "node",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "pods_with_affinity",
        "pods_with_required_anti_affinity",
        "pvc_ref_counts",
        "requested",
        "substance",
        "used_ports",
    )

    def __init__(self, *pods: PodInfo) -> None:
        self.node: Node | None = None
        self.name = ""
        """Name of the node, "" for a ghost."""
        self.pods: list[PodInfo] = []
        self.pods_with_affinity: list[PodInfo] = []
        self.pods_with_required_anti_affinity: list[PodInfo] = []
        self.used_ports = HostPorts()
        self.requested = Resource()
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        self.allocatable = Resource()
        self.image_states: dict[str, tuple[int, int]] = {}
        """Normalised name -> (size in bytes, number of nodes that have the image)."""
        self.pvc_ref_counts: dict[str, int] = {}
        """`namespace/claim` -> pods that use it directly."""
        self.generation = 0
        self.substance = 0
        """Generation of the last change that may change an answer about the node."""
        self._no_journal()
        for pod in pods:
            self.add_pod(pod)

    def _no_journal(self) -> None:
        self._journal: list[PodInfo | int] | None = None
        """Latest changes of `pods`: an info was appended, or the one at an index removed."""
        self._journal_start = 0
        self._followed: NodeInfo | None = None
        self._position = 0
        self._places: dict[str, int] | None = None
        """Index of each pod of a node with many pods, once a pod was looked up."""

    def set_node(self, node: Node) -> None:
        """Take a (new) node object."""
        self.node = node
        self.name = node.metadata.name
        self.allocatable = Resource.from_requests(node.status.allocatable)

    def remove_node(self) -> None:
        """Turn into a ghost; pods stay until they are deleted."""
        self.node = None
        self.name = ""

    def add_pod(self, info: PodInfo) -> None:
        """Count a pod in."""
        self._append(info)
        if self._journal is not None:
            self._note(info)
        self._list(info)
        self._count(info, 1)

    def _append(self, info: PodInfo) -> None:
        if self._places is not None:
            self._places[info.pod.metadata.uid] = len(self.pods)
        self.pods.append(info)

    def _place(self, uid: str) -> int | None:
        """Return the index of a pod in `pods`."""
        if self._places is None:
            if len(self.pods) < _MANY:
                return _find(self.pods, uid)
            self._places = {info.pod.metadata.uid: at for at, info in enumerate(self.pods)}
        return self._places.get(uid)

    def _note(self, change: PodInfo | int) -> None:
        journal = self._journal
        assert journal is not None
        journal.append(change)
        if len(journal) > _LONG:
            self._journal_start += len(journal)
            self._journal = None

    def _list(self, info: PodInfo) -> None:
        if info.has_affinity:
            self.pods_with_affinity.append(info)
        if info.has_required_anti_affinity:
            self.pods_with_required_anti_affinity.append(info)

    def remove_pod(self, pod: Pod) -> None:
        """Count a pod out, found by UID. Raises KeyError when it is not here."""
        uid = pod.metadata.uid
        at = self._place(uid)
        if at is None:
            raise KeyError(f"no corresponding pod {pod.name} in pods of node {self.name}")
        if self._journal is not None:
            self._note(at)
        self._count(self._unlist(at), -1)

    def replace_pod(self, info: PodInfo) -> None:
        """Take a newer object of a pod that counts as the one that is here.

        As taking it out and counting it in again, without the sums. Raises KeyError when it is not here.
        """
        pod = info.pod
        at = self._place(pod.metadata.uid)
        if at is None:
            raise KeyError(f"no corresponding pod {pod.name} in pods of node {self.name}")
        if self._journal is not None:
            self._note(at)
        self._unlist(at)
        self._append(info)
        if self._journal is not None:
            self._note(info)
        self._list(info)

    def _unlist(self, at: int) -> PodInfo:
        info = _swap_remove(self.pods, at)
        uid = info.pod.metadata.uid
        if self._places is not None:
            self._places.pop(uid, None)
            if at < len(self.pods):  # the last one took its place
                self._places[self.pods[at].pod.metadata.uid] = at
        for infos in (self.pods_with_affinity, self.pods_with_required_anti_affinity):
            listed = _find(infos, uid)
            if listed is not None:
                _swap_remove(infos, listed)
        return info

    def _count(self, info: PodInfo, sign: int) -> None:
        amounts = info.resource
        self.requested.add(amounts.resource, sign)
        self.non_zero_cpu += sign * amounts.non_zero_milli_cpu
        self.non_zero_memory += sign * amounts.non_zero_memory
        pod = info.pod
        for port in pod_host_ports(pod):
            if sign > 0:
                self.used_ports.add(*port)
            else:
                self.used_ports.remove(*port)
        if pod.spec.volumes:
            self._count_claims(pod, sign)

    def _count_claims(self, pod: Pod, sign: int) -> None:
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is None:
                continue
            key = f"{pod.namespace}/{claim.claim_name}"
            count = self.pvc_ref_counts.get(key, 0) + sign
            if count <= 0:
                self.pvc_ref_counts.pop(key, None)
            else:
                self.pvc_ref_counts[key] = count

    def follow(self, other: NodeInfo) -> None:
        """Become a copy of `other` in place, again and again: of many pods only what changed is copied."""
        sums = self.substance != other.substance or not other.substance
        self.generation = other.generation
        journal, behind = other._journal, self._position - other._journal_start
        if journal is None or self._followed is not other or behind < 0:
            self._copy_pods(other)
            if sums:
                self._copy_sums(other)
            if journal is None and len(other.pods) >= _MANY:
                journal = other._journal = []
            if journal is not None:
                self._followed = other
                self._position = other._journal_start + len(journal)
            return
        if sums:
            self._copy_sums(other)
        for change in journal[behind:]:
            if isinstance(change, int):
                self._unlist(change)
            else:
                self._append(change)
                self._list(change)
        other._journal_start += len(journal)
        journal.clear()
        self._position = other._journal_start

    def clone(self) -> NodeInfo:
        """An independent copy (pod infos and the node object are shared)."""
        copy = NodeInfo.__new__(NodeInfo)
        copy._no_journal()
        copy.copy_from(self)
        return copy

    def copy_from(self, other: NodeInfo) -> None:
        """Become a copy of `other` in place, so that references to this object stay valid."""
        self._copy_pods(other)
        self._copy_sums(other)

    def _copy_pods(self, other: NodeInfo) -> None:
        self.pods = other.pods.copy()
        self.pods_with_affinity = other.pods_with_affinity.copy()
        self.pods_with_required_anti_affinity = other.pods_with_required_anti_affinity.copy()
        self._followed = None
        self._places = None

    def _copy_sums(self, other: NodeInfo) -> None:
        self.node = other.node
        self.name = other.name
        self.used_ports = other.used_ports.clone()
        self.requested = other.requested.clone()
        self.non_zero_cpu = other.non_zero_cpu
        self.non_zero_memory = other.non_zero_memory
        self.allocatable = other.allocatable
        self.image_states = other.image_states
        self.pvc_ref_counts = dict(other.pvc_ref_counts)
        self.generation = other.generation
        self.substance = other.substance


def _find(infos: list[PodInfo], uid: str) -> int | None:
    # From the end: news of a pod comes soon after it was put there.
    for index in range(len(infos) - 1, -1, -1):
        if infos[index].pod.metadata.uid == uid:
            return index
    return None


def _swap_remove(infos: list[PodInfo], at: int) -> PodInfo:
    """Remove one; the last element takes the free place, as upstream does."""
    info, last = infos[at], infos.pop()
    if last is not info:
        infos[at] = last
    return info
