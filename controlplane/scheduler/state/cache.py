"""The scheduler's picture of the cluster: nodes with their pods, assumed pods included.

Upstream: `pkg/scheduler/backend/cache/cache.go`. Pods are keyed by UID.

Gate 106412 (issue 106361). A pod whose binding succeeded is assumed until the informer shows it
bound. Unfixed, the assumption expires 30 s after the bind call returned: where the news takes
longer, the room is given away twice. Fixed, that takes 15 minutes ("fifteen-minutes", 1.23; two in
the releases that got a cherry-pick) or never comes ("never", PR 110925; 1.36 has only this).

Gate 129532. A pod on a node counts with the largest of what it asks for and what it has. Unfixed, what its
kubelet has promised is left out: a resize that is taken back while it is under way shows less than the
kubelet counts, and the next pod is refused there. Fixed (1.33), that counts too.

Gate 135107 (open; upstream says that it works as intended). A deferred resize counts with what it wants, and so
withholds free room from all other pods. With the repair ("as-promised", ours) it counts with what is allocated to
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.gates import FixGates
from controlplane.scheduler.state.node_info import ImageState, NodeInfo
from controlplane.scheduler.state.node_tree import NodeTree
from controlplane.scheduler.state.pod_groups import PodGroupStates
from controlplane.scheduler.state.pod_info import PodInfo, PodInfoAsPromised, PodInfoBefore129532
from controlplane.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.node import Node
    from controlplane.api.pod import Pod


class CacheError(Exception):
    """A call that does not fit the pod's state; the text is upstream's."""


class CacheCorruptedError(Exception):
    """Upstream ends the process here: the cache no longer agrees with the API."""


class SnapshotError(Exception):
    """The snapshot had to be repaired; the cycle fails and the next one is right."""


ASSUMED_TTL: Mapping[str | None, int | None] = {
    "never": None,
    "fifteen-minutes": 900 * SECOND,
    "two-minutes": 120 * SECOND,
    None: 30 * SECOND,
}
"""Form of fix 106412 -> nanoseconds from the end of the bind call to the end of the assumption."""

CORRUPTED = (
    "scheduler cache is corrupted and can badly affect scheduling decisions: pod {key} was "
    "updated on a different node than previously added to (old {old}, new {new})"
)


class Cache:
    """Nodes, pods and images, with a log of what changed since a snapshot."""

    def __init__(self, fixes: FixGates | None = None, *, groups: bool = False) -> None:
        fixes = fixes or FixGates()
        self.pod_groups = None
        if groups:
            self.pod_groups = PodGroupStates(adds_unknown=not fixes.fixed("here2"))
        """Members of pod groups, where these are scheduled as such (GenericWorkload)."""
        self._ttl = ASSUMED_TTL[fixes.variant("106412")]
        self._info: type[PodInfo] = PodInfo
        if fixes.fixed("135107"):
            self._info = PodInfoAsPromised
        elif not fixes.fixed("129532"):
            self._info = PodInfoBefore129532
        self._deadlines: dict[str, int] = {}
        self.nodes: dict[str, NodeInfo] = {}
        """In order of last change, the latest last. Includes ghosts."""
        self.node_tree = NodeTree()
        self._pods: dict[str, PodInfo] = {}
        self._assumed: dict[str, None] = {}
        self._images: dict[str, ImageState] = {}
        self._image_names: dict[str, tuple[str, ...]] = {}
        self._image_version = 0
        self._image_summaries: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
        self._generation = 0

    @property
    def generation(self) -> int:
        """Moves whenever a node, or what is counted on one, changes."""
        return self._generation

    # -- pods ----------------------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """Nodes that exist (ghosts excluded)."""
        return self.node_tree.count

    @property
    def pod_count(self) -> int:
        """Pods on nodes, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """Assumed pods."""
        return len(self._assumed)

    def uids(self) -> list[str]:
        """UIDs of all pods in the cache, in the order in which they came."""
        return list(self._pods)

    def get_pod(self, uid: str) -> Pod | None:
        """The pod as the cache has it (an assumed one carries its node), or None."""
        info = self._pods.get(uid)
        return None if info is None else info.pod

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Return whether the pod is assumed: a node was chosen, and the API server has not shown it yet."""
        return pod.metadata.uid in self._assumed

    def assume_pod(self, info: PodInfo) -> None:
        """Count the pod on its node before the API server knows. Raises CacheError."""
        pod = info.pod
        if pod.uid in self._pods:
            raise CacheError(f"pod {_id(pod)} is in the cache, so can't be assumed")
        self._add(info, assume=True)
        self._assumed[pod.uid] = None

    @property
    def expires(self) -> bool:
        """Return whether assumptions expire."""
        return self._ttl is not None

    def finish_binding(self, pod: Pod, now: int) -> None:
        """The bind call returned: from here on an assumption's time runs, if it is limited."""
        if self._ttl is not None and pod.uid in self._assumed:
            self._deadlines[pod.uid] = now + self._ttl

    def next_expiry(self) -> int | None:
        """Return the time at which the first assumption expires; None when none does."""
        return min(
            (at for uid, at in self._deadlines.items() if uid in self._assumed), default=None
        )

    def expire_assumed(self, now: int) -> list[Pod]:
        """Drop the pods whose assumption is over; answers them."""
        over = [uid for uid, at in self._deadlines.items() if at < now]
        out: list[Pod] = []
        for uid in over:
            del self._deadlines[uid]
            if uid in self._assumed:
                info = self._pods[uid]
                self._remove(info, forget=True)
                out.append(info.pod)
        return out

    def forget_pod(self, pod: Pod) -> None:
        """Take an assumption back; a pod that is not there is fine. Raises CacheError."""
        known = self._pods.get(pod.uid)
        if known is None:
            return
        if known.pod.spec.node_name != pod.spec.node_name:
            raise CacheError(
                f"pod {_id(pod)} was assumed on {pod.spec.node_name} "
                f"but assigned to {known.pod.spec.node_name}"
            )
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {_id(pod)} wasn't assumed so cannot be forgotten")
        self._deadlines.pop(pod.uid, None)
        self._remove(known, forget=True)

    def add_pod(self, pod: Pod) -> None:
        """A bound pod was seen; it confirms an assumption. Raises CacheError."""
        known = self._pods.get(pod.uid)
        if known is None:
            self._add(self._info(pod))
        elif pod.uid in self._assumed:
            if self._replaced(known, pod):
                return
            # Another node than assumed is tolerated: the API server is right.
            self._remove(known)
            self._add(self._info(pod))
        else:
            raise CacheError(f"pod {_id(pod)} was already in added state")

    def update_pod(self, old: Pod, new: Pod) -> None:
        """A bound pod changed. Raises CacheError; CacheCorruptedError when its node changed."""
        known = self._pods.get(old.uid)
        if known is None:
            raise CacheError(
                f"pod {_id(old)} is not added to scheduler cache, so cannot be updated"
            )
        if old.uid in self._assumed:
            raise CacheError(f"assumed pod {_id(old)} should not be updated")
        if known.pod.spec.node_name != new.spec.node_name:
            raise CacheCorruptedError(
                CORRUPTED.format(key=new.key, old=known.pod.spec.node_name, new=new.spec.node_name)
            )
        if not self._replaced(known, new):
            self._remove(known)
            self._add(self._info(new))

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone. Raises CacheError; CacheCorruptedError when it was on another node."""
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(
                f"pod {_id(pod)} is not found in scheduler cache, so cannot be removed from it"
            )
        node = pod.spec.node_name
        # An empty name comes from a tombstone that missed the binding.
        if node and known.pod.spec.node_name != node:
            raise CacheCorruptedError(
                CORRUPTED.format(key=pod.key, old=known.pod.spec.node_name, new=node)
            )
        self._remove(known)

    def _replaced(self, known: PodInfo, pod: Pod) -> bool:
        """Replace a pod by a newer object with the same counts; return whether that was possible."""
        name, uid = pod.spec.node_name, pod.uid
        node = self.nodes.get(name)
        if node is None or not known.counts_as(pod, self._info.count):
            return False
        info = known.with_pod(pod)
        self._assumed.pop(uid, None)
        del self._pods[uid]
        self._pods[uid] = info
        node.replace_pod(info)
        self._touch(name, node, changed=False)
        if self.pod_groups is not None:
            self.pod_groups.remove(known.pod)
            self.pod_groups.add(pod)
        return True

    def _add(self, info: PodInfo, *, assume: bool = False) -> None:
        name = info.pod.spec.node_name
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeInfo()
        node.add_pod(info)
        self._pods[info.pod.uid] = info
        self._touch(name, node)
        if self.pod_groups is not None:
            (self.pod_groups.assume if assume else self.pod_groups.add)(info.pod)

    def _remove(self, info: PodInfo, *, forget: bool = False) -> None:
        if self.pod_groups is not None:
            (self.pod_groups.forget if forget else self.pod_groups.remove)(info.pod)
        name = info.pod.spec.node_name
        uid = info.pod.uid
        self._pods.pop(uid, None)
        self._assumed.pop(uid, None)
        node = self.nodes.get(name)
        if node is None:
            return
        node.remove_pod(info.pod)
        if not node.pods and node.node is None:
            del self.nodes[name]
        else:
            self._touch(name, node)

    # -- nodes ---------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared (its ghost may have been here already)."""
        info = self.nodes.get(node.name)
        if info is None:
            info = self.nodes[node.name] = NodeInfo()
        self.node_tree.add(node)
        self._set_images(node)
        info.set_node(node)
        self._touch(node.name, info)

    def update_node(self, old: Node | None, new: Node) -> None:
        """A node changed."""
        info = self.nodes.get(new.name)
        if info is None:
            info = self.nodes[new.name] = NodeInfo()
            self.node_tree.add(new)
        else:
            self.node_tree.update(old, new)
        self._set_images(new)
        info.set_node(new)
        self._touch(new.name, info)

    def remove_node(self, node: Node) -> None:
        """A node is gone; with pods left it stays as a ghost. Raises CacheError."""
        info = self.nodes.get(node.name)
        if info is None:
            raise CacheError(f"node {node.name} is not found")
        info.remove_node()
        if info.pods:
            self._touch(node.name, info)
        else:
            del self.nodes[node.name]
        if not self.node_tree.remove(node):
            raise CacheError(f"node {node.name} is not found in the tree of nodes")
        self._drop_images(node.name)

    def _touch(self, name: str, info: NodeInfo, *, changed: bool = True) -> None:
        self._generation += 1
        info.generation = self._generation
        if changed:
            info.substance = self._generation
        del self.nodes[name]
        self.nodes[name] = info

    # -- images --------------------------------------------------------------------------------

    def _set_images(self, node: Node) -> None:
        sizes: dict[str, int] = {}
        for image in node.status.images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        names = tuple(sizes)
        if self._image_names.get(node.name, ()) == names and all(
            (known := self._images[name]).size == size or len(known.nodes) > 1
            for name, size in sizes.items()
        ):
            return
        self._drop_images(node.name)
        if not names:
            return
        # The size is that of whichever node reported the name first.
        for name, size in sizes.items():
            state = self._images.get(name)
            if state is None:
                state = self._images[name] = ImageState(size)
            state.nodes[node.name] = None
        self._image_names[node.name] = names
        self._image_version += 1

    def _drop_images(self, node_name: str) -> None:
        names = self._image_names.pop(node_name, ())
        for name in names:
            state = self._images[name]
            state.nodes.pop(node_name, None)
            if not state.nodes:
                del self._images[name]
        if names:
            self._image_version += 1

    def _image_summary(self, node_name: str) -> dict[str, tuple[int, int]]:
        names = self._image_names.get(node_name)
        if not names:
            return {}
        version, summary = self._image_summaries.get(node_name, (-1, {}))
        if version != self._image_version:
            summary = {
                name: (self._images[name].size, len(self._images[name].nodes)) for name in names
            }
            self._image_summaries[node_name] = (self._image_version, summary)
        return summary

    # -- snapshot ------------------------------------------------------------------------------

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring `snapshot` up to date, touching only nodes that changed. Raises SnapshotError."""
        rebuild = False
        generation = snapshot.generation
        for name, info in reversed(self.nodes.items()):
            if info.generation <= generation:
                break
            if info.node is None:
                continue
            existing = snapshot.node_info_map.get(name)
            if existing is None:
                rebuild = True
                existing = snapshot.node_info_map[name] = NodeInfo()
            # In place: the lists of the snapshot keep pointing at the same object.
            snapshot.refresh(name, existing, info, self._image_summary(name))
        snapshot.generation = self._generation
        tree = self.node_tree
        if len(snapshot.node_info_map) > tree.count:
            gone = [
                name
                for name in snapshot.node_info_map
                if (info_or_none := self.nodes.get(name)) is None or info_or_none.node is None
            ]
            for name in gone[: len(snapshot.node_info_map) - tree.count]:
                snapshot.drop(name)
            rebuild = True
        if rebuild:
            snapshot.rebuild_list(tree.names())
        if self.pod_groups is not None:
            snapshot.pod_groups.follow(self.pod_groups)
        if len(snapshot.node_info_list) != tree.count:
            message = (
                "snapshot state is not consistent, "
                f"length of NodeInfoList={len(snapshot.node_info_list)} "
                f"not equal to length of nodes in tree={tree.count} , "
                f"length of NodeInfoMap={len(snapshot.node_info_map)}, "
                f"length of nodes in cache={len(self.nodes)}, trying to recover"
            )
            snapshot.rebuild_list(tree.names())
            raise SnapshotError(message)


def _id(pod: Pod) -> str:
    return f"{pod.uid}({pod.key})"
