"""The desired state: nodes, their volumes, and the pods that want them.

Upstream: pkg/controller/volume/attachdetach/cache/desired_state_of_world.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.controllers.storage.attachdetach.specs import Spec


@define
class Wanted:
    """One volume on one node, and the pods there that want it, by uid."""

    spec: Spec
    node: str
    pods: dict[str, Pod] = field(factory=dict)
    told_of_others: bool = False
    """The pods got the event that the volume is attached elsewhere."""


@define
class DesiredState:
    """The nodes that are looked after (and whether they keep volumes of pods that ended), and what is wanted there."""

    _nodes: dict[str, bool] = field(factory=dict)
    _wanted: dict[tuple[str, str], Wanted] = field(factory=dict)

    def add_node(self, node: str, *, keeps: bool) -> None:
        """Look after a node from now on."""
        self._nodes[node] = keeps

    def delete_node(self, node: str) -> None:
        """Forget a node, if nothing is wanted there."""
        if not any(where == node for _, where in self._wanted):
            self._nodes.pop(node, None)

    def has_node(self, node: str) -> bool:
        """Return whether it is looked after."""
        return node in self._nodes

    def keeps(self, node: str) -> bool:
        """Return whether it keeps the volumes of pods that ended."""
        return self._nodes.get(node, False)

    def add_pod(self, pod: Pod, spec: Spec, node: str) -> bool:
        """A pod wants a volume; whether that was not known."""
        wanted = self._wanted.setdefault((spec.unique, node), Wanted(spec, node))
        known = pod.uid in wanted.pods
        wanted.pods[pod.uid] = pod
        return not known

    def delete_pod(self, uid: str, volume: str, node: str) -> bool:
        """A pod wants a volume no more; whether it had."""
        wanted = self._wanted.get((volume, node))
        if wanted is None or wanted.pods.pop(uid, None) is None:
            return False
        if not wanted.pods:
            del self._wanted[volume, node]
        return True

    def has(self, volume: str, node: str) -> bool:
        """Return whether a pod wants the volume there."""
        return (volume, node) in self._wanted

    def wanted(self) -> list[Wanted]:
        """Everything that is to be attached."""
        return list(self._wanted.values())

    def get(self, volume: str, node: str) -> Wanted | None:
        """One of them, as it is by now."""
        return self._wanted.get((volume, node))

    def pods(self) -> list[tuple[Pod, str, str]]:
        """Every pod with a volume that it wants, and where."""
        return [
            (pod, volume, node)
            for (volume, node), wanted in self._wanted.items()
            for pod in wanted.pods.values()
        ]

    def pods_on(self, nodes: Iterable[str], volume: str) -> list[Pod]:
        """The pods that want a volume on one of these nodes."""
        found = [self._wanted.get((volume, node)) for node in nodes]
        return [pod for wanted in found if wanted is not None for pod in wanted.pods.values()]
