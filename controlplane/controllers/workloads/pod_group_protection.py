"""Pod groups stay while pods are in them. Upstream: pkg/controller/scheduling/podgroupprotection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import POD_GROUPS, PODS, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup
    from controlplane.controllers.common.controller import Caches, Host

FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"
_ENDED = ("Succeeded", "Failed")


def active_member_index(obj: Object[Pod]) -> tuple[str, ...]:
    """Index pods that have not ended by their group."""
    member = obj.view.spec.scheduling_group
    if member is None or obj.view.status.phase in _ENDED:
        return ()
    return (f"{obj.namespace}/{member.pod_group_name}",)


class PodGroupProtectionController(Controller):
    """Lets a group that is being deleted go once all pods in it have ended or are gone."""

    name = "podgroup-protection-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("podgroupprotection")
        self._groups = caches.of(POD_GROUPS)
        self._pods = caches.of(PODS, active_member=active_member_index)

    def work(self) -> tuple[Work, ...]:
        """One queue of groups."""
        return (Work("podgroupprotection", self.sync),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Groups that are being deleted, and pods that ended, are gone, or gave their name to another."""

        def group_changed(obj: Object[PodGroup]) -> None:
            if _is_leaving(obj):
                self.queue.add(obj.key)

        def of_pod(obj: Object[Pod], *_: Any) -> None:
            member = obj.view.spec.scheduling_group
            if member is not None:
                self.queue.add(f"{obj.namespace}/{member.pod_group_name}")

        def pod_added(obj: Object[Pod]) -> None:
            if obj.view.status.phase in _ENDED:
                of_pod(obj)

        def pod_updated(old: Object[Pod], new: Object[Pod]) -> None:
            pod_added(new)
            if old.uid != new.uid:
                of_pod(old)

        return {
            POD_GROUPS: Handlers(group_changed, lambda _old, new: group_changed(new), ignore),
            PODS: Handlers(pod_added, pod_updated, of_pod),
        }

    def sync(self, key: str) -> Reconcile[None]:
        """Take the finalizer off a group that is being deleted and has no active pod."""
        obj = self._groups.get(key)
        if obj is None or not _is_leaving(obj):
            return
        if any(True for _ in self._pods.by_index("active_member", key)):
            return
        metadata = obj.tree["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        rest = {name: value for name, value in metadata.items() if name != "finalizers"}
        tree = {**obj.tree, "metadata": {**rest, "finalizers": others} if others else rest}
        try:
            yield from calls.update(POD_GROUPS, tree)
        except ApiError as error:
            if not is_not_found(error):
                raise


def _is_leaving(obj: Object[PodGroup]) -> bool:
    metadata = obj.view.metadata
    return metadata.deletion_timestamp is not None and FINALIZER in metadata.finalizers
