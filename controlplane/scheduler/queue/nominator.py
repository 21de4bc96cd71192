"""Nominations: the pods that are expected on each node before they are bound.

Upstream: `pkg/scheduler/backend/queue/nominator.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from controlplane.gates import FixGates
from controlplane.scheduler.framework.nominating import NominatingInfo
from controlplane.scheduler.state.listers import Lister
from controlplane.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


@attrs.frozen
class PodRef:
    """Identity of a nominated pod."""

    namespace: str
    name: str
    uid: str


class Nominator:
    """Nominations by node (in order of arrival) and by pod UID."""

    __slots__ = (
        "_compares_uids",
        "_drops_bound",
        "_drops_missing",
        "_find",
        "_pods",
        "by_node",
        "by_uid",
    )

    def __init__(
        self,
        pods: Lister[Pod],
        find: Callable[[str], PodInfo | None],
        fixes: FixGates | None = None,
    ) -> None:
        fixes = fixes or FixGates()
        self._drops_missing = fixes.fixed("102498")
        self._compares_uids = fixes.variant("102498") == "by-uid"
        self._drops_bound = fixes.fixed("109245")
        self._pods = pods
        self._find = find
        self.by_node: dict[str, dict[str, PodRef]] = {}
        """Node -> UID -> reference, in order of arrival."""
        self.by_uid: dict[str, str] = {}

    def add(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Record the nomination of `pod`: the given one, or else that of its status.

        Gate 102498. Unfixed, a preemptor that was deleted while it was being scheduled is still
        nominated: nothing ever takes that back, and the node looks full to pods of its priority and
        below. Fixed, a pod that the lister does not have is not nominated.

        Gate 109245. Unfixed, the same befalls a pod that has been bound when a late failure or update
        nominates it. Fixed, a pod that the lister has with a node is not nominated.

        The checks compare no UID: a pod that was recreated vouches for the one that is gone. In the
        form "by-uid" of 102498 (proposed here) it does not.
        """
        self.delete(pod.uid)
        if nominating is not None and nominating.override:
            node = nominating.nominated_node_name
        else:
            node = pod.status.nominated_node_name
            if not node:
                return
        current = self._pods.get(pod.namespace, pod.name)
        if current is None or (self._compares_uids and current.uid != pod.uid):
            if self._drops_missing:
                return
        elif current.spec.node_name and self._drops_bound:
            return
        self.by_uid[pod.uid] = node
        refs = self.by_node.setdefault(node, {})
        refs[pod.uid] = PodRef(pod.namespace, pod.name, pod.uid)

    def delete(self, uid: str) -> None:
        """Forget the nomination of the pod."""
        node = self.by_uid.pop(uid, None)
        if node is None:
            return
        refs = self.by_node[node]
        del refs[uid]
        if not refs:
            del self.by_node[node]

    def update(self, old: Pod, new: Pod) -> None:
        """Follow an update of the object.

        An update that carries no nomination often arrives just after one was made in memory;
        the one in memory then stays.
        """
        nominating: NominatingInfo | None = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            node = self.by_uid.get(old.uid)
            if node is not None:
                nominating = NominatingInfo(override=True, nominated_node_name=node)
        self.delete(old.uid)
        self.add(new, nominating)

    def pods_for_node(self, node: str) -> list[PodInfo]:
        """Pods nominated to `node`; a pod in no queue is a stub without priority and requests."""
        refs = self.by_node.get(node)
        if not refs:
            return []
        out: list[PodInfo] = []
        for ref in refs.values():
            info = self._find(f"{ref.namespace}/{ref.name}")
            if info is None:
                info = PodInfo(_stub(ref))
            out.append(info)
        return out


def _stub(ref: PodRef) -> Pod:
    from controlplane.api.pod import Pod

    return Pod.from_tree(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid},
        }
    )
