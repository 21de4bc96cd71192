"""Pods leave devices with NoExecute taints. Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go.

Taints come from ResourceSlices and, with gate DRADeviceTaintRules, from DeviceTaintRules, whose status tells of
progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import format_time
from controlplane.client import calls
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import (
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from controlplane.controllers.common.controller import NORMAL, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.pod_status import status_patch, with_condition
from controlplane.controllers.devices.resourceclaim.indexes import members
from controlplane.controllers.devices.resourceclaim.templates import groups_have_claims
from controlplane.controllers.devices.tainteviction.metrics import EvictionMetrics
from controlplane.controllers.devices.tainteviction.rule_status import (
    PERIOD_NS,
    condition_for,
    existing,
    wait_before,
)
from controlplane.controllers.devices.tainteviction.state import DeviceTaints, PodRef, RuleRef
from controlplane.controllers.devices.uid_cache import UidCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.devices.tainteviction.evictions import Eviction
    from controlplane.metrics.family import Family

__all__ = ["TAINT_RULES", "DeviceTaintEvictionController"]

TAINT_RULES: Final = "DRADeviceTaintRules"
APPLY: Final = "application/apply-patch+yaml"
EVENT: Final = "DeviceTaintManagerEviction"
REASON: Final = "DeletionByDeviceTaintManager"
MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
QUEUE: Final = "device-taint-eviction-controller"
POD, RULE = "pod", "rule"


class DeviceTaintEvictionController(Controller):
    """One queue for pods to delete and rules to report on; keys are `pod:NAMESPACE/NAME/UID` and `rule:NAME/UID`."""

    name = QUEUE

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        groups = groups_have_claims(host.features)
        self.queue = host.queue(QUEUE)
        self._pods = caches.of(PODS, pod_group=members) if groups else caches.of(PODS)
        self._evicted = UidCache()
        self.metrics = EvictionMetrics()
        self.taints = DeviceTaints(self._pods, self, groups=groups)
        caches.of(RESOURCE_CLAIMS)
        caches.of(RESOURCE_SLICES)
        self._rules: Indexer[Any] | None = None
        if host.features.get(TAINT_RULES, False):
            self._rules = caches.of(DEVICE_TAINT_RULES)

    def work(self) -> tuple[Work, ...]:
        """One queue; what fails is tried again without end."""
        return (Work(QUEUE, self.sync),)

    def families(self) -> Iterable[Family]:
        """Return a snapshot of its metrics."""
        return self.metrics.families()

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Everything that decides about evictions."""
        taints = self.taints
        found = {
            RESOURCE_CLAIMS: _handlers(taints.claim_changed),
            PODS: _handlers(taints.pod_changed),
            RESOURCE_SLICES: _handlers(taints.slice_changed),
        }
        if self._rules is not None:
            found[DEVICE_TAINT_RULES] = _handlers(taints.rule_changed)
        return found

    # ------------------------------------------------------------------ tasks of the memory

    def evict(self, pod: PodRef, eviction: Eviction) -> None:
        """Delete a pod when its time has come."""
        key, delay = f"{POD}:{pod.key}/{pod.uid}", eviction.when - self.host.now
        if delay <= 0:
            self.queue.add(key)
        else:
            self.queue.add_after(key, delay)

    def cancelled(self, pod: PodRef) -> None:
        """Report that a pod may stay."""
        self._report(pod, "Cancelling deletion")

    def look_at_rule(self, rule: RuleRef, *, soon: bool) -> None:
        """Queue a rule whose status may have to change."""
        key = f"{RULE}:{rule.name}/{rule.uid}"
        if soon:
            self.queue.add_after(key, PERIOD_NS)
        else:
            self.queue.add(key)

    def _report(self, pod: PodRef, message: str) -> None:
        namespace, _, name = pod.key.partition("/")
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "namespace": namespace,
            "uid": pod.uid,
        }
        self.host.event(about, NORMAL, EVENT, message)

    # ------------------------------------------------------------------ syncs

    def sync(self, key: str) -> Reconcile[None]:
        """Delete a pod that is due, or report on a rule; queue it for later where it is too early.

        Raises Retry, ApiError or ConnectionLost.
        """
        again = yield from self.process(key)
        if again > 0:
            self.queue.add_after(key, again)

    def process(self, key: str) -> Reconcile[int]:
        """As `sync`; return the time in nanoseconds after which the key is to be looked at again, 0 for never."""
        kind, _, place = key.partition(":")
        name, _, uid = place.rpartition("/")
        if kind == POD:
            return (yield from self._delete_if_due(PodRef(name, uid)))
        return (yield from self._report_on(RuleRef(name, uid)))

    def _delete_if_due(self, pod: PodRef) -> Reconcile[int]:
        eviction = self.taints.delete_at.get(pod)
        if eviction is None or pod.uid in self._evicted:
            return 0
        early = eviction.when - self.host.now
        if early > 0:
            return early
        try:
            yield from self._mark_and_delete(pod)
        except ApiError as error:
            if not is_not_found(error):
                raise
        else:
            self.metrics.deleted(self.host.now - eviction.when)
            for taint in eviction.reason:
                if taint.rule is not None:
                    rule = taint.rule
                    counts = self.taints.evicted_by_rule
                    counts[rule.uid] = counts.get(rule.uid, 0) + 1
                    self.look_at_rule(RuleRef(rule.name, rule.uid), soon=True)
        self.taints.delete_at.pop(pod, None)
        self._evicted.add(pod.uid)
        return 0

    def _mark_and_delete(self, ref: PodRef) -> Reconcile[None]:
        """Delete a pod; one of another uid is gone already, one that is being deleted needs nothing."""
        namespace, _, name = ref.key.partition("/")
        pod = (yield from calls.get(PODS, namespace, name)).view
        if pod.uid != ref.uid:
            status = {"code": 404, "reason": "NotFound", "message": f'pods "{name}" not found'}
            raise ApiError(404, status)
        if pod.metadata.deletion_timestamp is not None:
            return
        self._report(ref, "Marking for deletion")
        old = pod.tree.get("status") or {}
        conditions = with_condition(
            old.get("conditions") or (),
            "DisruptionTarget", "True", REASON, MESSAGE, now=self.host.now,
        )  # fmt: skip
        patch = status_patch(pod, {**old, "conditions": conditions})
        if patch is not None:
            try:
                yield from calls.patch(PODS, namespace, name, patch, subresource="status")
            except (
                RequestFailed
            ) as error:  # also when the pod is gone: only the next try finds that
                text = f'failed to patch status for pod "{namespace}"/"{name}": {error}'
                raise Retry(text) from error
        yield from calls.delete(PODS, namespace, name, calls.delete_options(uid=ref.uid))

    def _report_on(self, ref: RuleRef) -> Reconcile[int]:
        """Write the condition of a rule unless it says so already; not sooner than 10 s after the last time."""
        rule = None if self._rules is None else self._rules.get(ref.name)
        if rule is None or rule.uid != ref.uid:
            return 0
        early = wait_before(rule, self.host.now)
        if early > 0:
            return early
        condition, known = condition_for(rule, self.taints), existing(rule)
        since = known.get("lastTransitionTime")
        if known and {**condition, "lastTransitionTime": since} == known:
            return 0
        condition["lastTransitionTime"] = format_time(self.host.now)
        try:
            yield _apply_condition(rule, condition)
        except RequestFailed as error:
            text = f"add condition to DeviceTaintRule status: {error}"
            raise Retry(text) from error
        return 0


def _apply_condition(rule: Object[Any], condition: dict[str, Any]) -> Call:
    body = {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule.name, "uid": rule.uid},
        "status": {"conditions": [condition]},
    }
    query = {"fieldManager": QUEUE, "force": "true"}
    return Call(
        "patch", DEVICE_TAINT_RULES, "", rule.name, "status",
        query=query, body=body, content_type=APPLY,
    )  # fmt: skip


def _handlers(changed: Callable[[Any, Any], None]) -> Handlers:
    return Handlers(
        lambda obj: changed(None, obj), changed, lambda obj, _unknown: changed(obj, None)
    )
