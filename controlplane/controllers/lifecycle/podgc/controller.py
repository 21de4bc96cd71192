"""Pod garbage collection. Upstream: pkg/controller/podgc/gc_controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import NODES, PODS
from controlplane.controllers.common.controller import Controller, Periodic
from controlplane.controllers.common.effects import Reconcile, RequestFailed, together
from controlplane.controllers.common.pod_status import BY_UID, fail_and_delete
from controlplane.controllers.lifecycle.node_lifecycle import is_ready

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.pod import Pod
    from controlplane.controllers.common.controller import Caches, Host

INTERVAL_NS: Final = 20 * SECOND
QUARANTINE_NS: Final = 40 * SECOND
THRESHOLD: Final = 12_500
"""The number of finished pods that are kept (`--terminated-pod-gc-threshold`); 0 or below keeps all."""
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGCController(Controller):
    """Every 20 seconds: finished pods beyond the threshold, pods of nodes that are out of service or gone, and
    pods that are being deleted without ever having been bound.
    """

    name = "pod-garbage-collector-controller"

    def __init__(self, host: Host, caches: Caches, threshold: int = THRESHOLD) -> None:
        super().__init__(host, caches)
        self._pods = caches.of(PODS)
        self._nodes = caches.of(NODES)
        self._threshold = threshold
        self._quarantine: dict[str, int] = {}

    def periodic(self) -> tuple[Periodic, ...]:
        """One pass every 20 seconds."""
        return (Periodic("podgc", INTERVAL_NS, self.collect),)

    def collect(self) -> Reconcile[None]:
        """One pass over the pods as the cache has them now."""
        pods = [obj.view for obj in self._pods]
        nodes = {obj.name for obj in self._nodes}
        if self._threshold > 0:
            yield from self._delete_all(self._surplus(pods))
        yield from self._delete_all([pod for pod in pods if self._is_out_of_service(pod)])
        yield from self._collect_orphans(pods, nodes)
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
                yield from self._delete(pod)

    def _surplus(self, pods: Sequence[Pod]) -> list[Pod]:
        """Finished pods beyond the threshold: evicted ones first, then the oldest."""
        finished = [
            pod for pod in pods if pod.status.phase not in {"Pending", "Running", "Unknown"}
        ]

        def rank(pod: Pod) -> tuple[bool, int, str]:
            evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
            return not evicted, pod.metadata.creation_timestamp or 0, pod.name

        return sorted(finished, key=rank)[: max(0, len(finished) - self._threshold)]

    def _is_out_of_service(self, pod: Pod) -> bool:
        """Return whether a pod is being deleted on a node with the out-of-service taint."""
        if pod.metadata.deletion_timestamp is None:
            return False
        node = self._nodes.get(pod.spec.node_name)
        if node is None or is_ready(node.view):
            return False
        return any(taint.key == OUT_OF_SERVICE for taint in node.view.spec.taints)

    def _collect_orphans(self, pods: Sequence[Pod], nodes: set[str]) -> Reconcile[None]:
        """Pods of nodes that have been missing for 40 seconds, and are missing at the server too."""
        for pod in pods:
            node = pod.spec.node_name
            if node and node not in nodes:
                self._quarantine.setdefault(node, self.host.now + QUARANTINE_NS)
        gone: set[str] = set()
        due = [node for node, at in self._quarantine.items() if at <= self.host.now]
        for node in due:
            del self._quarantine[node]
            if node not in nodes and (yield from self._is_gone(node)):
                gone.add(node)
        for pod in pods:
            if pod.spec.node_name in gone:
                yield from self._delete(pod, "DeletionByPodGC", "PodGC: node no longer exists")

    def _is_gone(self, node: str) -> Reconcile[bool]:
        try:
            yield from calls.get(NODES, "", node)
        except RequestFailed as error:
            return isinstance(error, ApiError) and is_not_found(error)
        return False

    def _delete_all(self, pods: Sequence[Pod]) -> Reconcile[None]:
        if pods:
            yield from together("podgc.delete", [self._delete(pod) for pod in pods])

    def _delete(self, pod: Pod, reason: str = "", message: str = "") -> Reconcile[None]:
        """Delete a pod; what fails is tried in the next pass."""
        try:
            by_uid = self.host.fixes.fixed(BY_UID)
            yield from fail_and_delete(pod, self.host.now, reason, message, by_uid=by_uid)
        except RequestFailed:
            return
