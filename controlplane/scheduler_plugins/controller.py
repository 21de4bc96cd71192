"""The controllers of PodGroups and ElasticQuotas, one process with two queues: statuses and events.

A PodGroup is reconciled for each change of it or of a pod that names it; an ElasticQuota for each change of it or of
any pod of its namespace, under that object's key. Where upstream takes the first item of a list from its cache, whose
order is that of a map, any item can be it.

Points: those of `controllers.loops.worker` for each queue, and one for every request. Follows `cmd/controller` and
`pkg/controllers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import MERGE_PATCH
from controlplane.client import calls
from controlplane.client.indexer import label_index
from controlplane.client.resources import PODS, Resource
from controlplane.controllers.common.controller import NORMAL, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.decisions import Choose
from controlplane.scheduler.community.capacity_scheduling import ELASTIC_QUOTA
from controlplane.scheduler.community.coscheduling import LABEL, POD_GROUP
from controlplane.scheduler.community.statuses import (
    TOO_LATE,
    group_expired,
    group_status,
    owners,
    quota_used,
    same_amounts,
)

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.controllers.common.controller import Caches, Host

__all__ = ["SchedulerPluginsController", "merge_difference"]

GROUPS: Final = "podgroup"
QUOTAS: Final = "elasticquota"
_GROUPS: Final = POD_GROUP.resource
_QUOTAS: Final = ELASTIC_QUOTA.resource


_groups_of = label_index(LABEL)
"""Indexes pods of all namespaces by the group that they name."""


class SchedulerPluginsController(Controller):
    """Keeps the statuses of PodGroups and ElasticQuotas."""

    name = "scheduler-plugins-controller"
    component = "ElasticQuotaController"
    client_rate = (5, 10)
    """Requests a second, and a burst, as upstream's options have it by default."""

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._group_queue = host.queue(GROUPS)
        self._quota_queue = host.queue(QUOTAS)
        self._groups = caches.of(_GROUPS)
        self._quotas = caches.of(_QUOTAS, namespace=namespace_index)
        self._pods = caches.of(PODS, group=_groups_of, namespace=namespace_index)

    def work(self) -> tuple[Work, ...]:
        """One worker for each kind."""
        return (
            Work(GROUPS, self.sync_group, workers=1),
            Work(QUOTAS, self.sync_quota, workers=1),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Every change of groups, quotas and pods."""

        def of_group(*told: Any) -> None:
            self._group_queue.add(changed_object(told).key)

        def of_quota(*told: Any) -> None:
            self._quota_queue.add(changed_object(told).key)

        def of_pod(*told: Any) -> None:
            objects = [each for each in told if not isinstance(each, bool)]
            for name, key in dict.fromkeys((_group_key(each), each.key) for each in objects):
                if name:
                    self._group_queue.add(name)
                self._quota_queue.add(key)

        return {
            _GROUPS: Handlers(of_group, of_group, of_group),
            _QUOTAS: Handlers(of_quota, of_quota, of_quota),
            PODS: Handlers(of_pod, of_pod, of_pod),
        }

    # -- groups ------------------------------------------------------------------------------------

    def sync_group(self, key: str) -> Reconcile[None]:
        """Bring the status of a group up to its pods: two patches, also where nothing changed."""
        obj = self._groups.get(key)
        if obj is None:
            return
        group = obj.tree
        if group_expired(group):
            self.host.event(obj.view, *TOO_LATE)
            return
        pods = [each.view for each in self._pods.by_index("group", obj.name)]
        if (group.get("status") or {}).get("phase") == "Pending":
            first = yield from _any_of(dict.fromkeys(owners(pod) for pod in pods), "owners of pods")
            pods.sort(key=lambda pod: owners(pod) != first)
        status = group_status(group, pods)
        if status is None:
            return
        told = {name: value for name, value in status.items() if value}
        wanted = {**group, "status": told} if told or "status" in group else group
        body = merge_difference(_marshalled(group), wanted)
        namespace, name = obj.namespace, obj.name
        written = yield from calls.patch(
            _GROUPS, namespace, name, body, subresource="status", kind=MERGE_PATCH
        )
        body = merge_difference(_marshalled(group), written.tree)
        yield from calls.patch(_GROUPS, namespace, name, body, kind=MERGE_PATCH)

    # -- quotas ------------------------------------------------------------------------------------

    def sync_quota(self, key: str) -> Reconcile[None]:
        """Bring the status of the quota of a namespace up to its running pods; `key` names what changed there."""
        namespace = key.partition("/")[0]
        found = {each.name: each for each in self._quotas.by_index("namespace", namespace)}
        if not found:
            return
        obj: Object[View] = found[(yield from _any_of(found, "elastic quotas"))]
        pods = [each.view for each in self._pods.by_index("namespace", namespace)]
        used = quota_used(obj.tree, pods)
        if same_amounts(obj.tree, used):
            return
        old = (obj.tree.get("status") or {}).get("used") or {}
        new = {name: str(each) for name, each in used.items()}
        body = {"status": {"used": merge_difference(old, new)}}
        yield from calls.patch(
            _QUOTAS, namespace, obj.name, body, subresource="status", kind=MERGE_PATCH
        )
        told = f"Elastic Quota {key} synced successfully"
        self.host.event(obj.view, NORMAL, "Synced", told)


def changed_object(told: Sequence[Any]) -> Object[Any]:
    """Return the object of an informer event from a handler's arguments, the new one of an update."""
    found: Object[Any] = [each for each in told if not isinstance(each, bool)][-1]
    return found


def _group_key(obj: Object[Pod]) -> str:
    names = _groups_of(obj)
    return f"{obj.namespace}/{names[0]}" if names else ""


def _any_of(names: Mapping[str, Any], what: str) -> Reconcile[str]:
    """Return one of these names; the choice is the run's."""
    options = list(names)
    if len(options) < 2:
        return options[0] if options else ""
    chosen: int = yield Choose("cache order", len(options), what)
    return options[chosen]


def _marshalled(group: Tree) -> Tree:
    """A group without what its Go type leaves out when it is zero."""
    status = group.get("status")
    if status is None:
        return group
    return {**group, "status": {name: value for name, value in status.items() if value}}


def merge_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch that makes `new` of `old`."""
    made: dict[str, Any] = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_difference(before, value)
            if inner:
                made[name] = inner
        elif name not in old or before != value:
            made[name] = value
    return made
