"""The disruption controller. Upstream: pkg/controller/disruption/disruption.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.labels import SelectorError, from_label_selector
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_conflict, is_not_found
from controlplane.client.resources import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from controlplane.controllers.common.controller import NORMAL, WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.int_or_percent import BadIntOrPercent, scaled_value
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.pod_status import with_condition
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.common.rest_mapper import NoKindMatch
from controlplane.controllers.workloads.disruption import budget as budgets
from controlplane.controllers.workloads.disruption.go_text import go_map, go_selector
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.meta import OwnerReference
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the "
    "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for "
    'these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class NoBudget(Exception):
    """No budget selects the pod."""


class DisruptionController(Controller):
    """Keeps the status of budgets, from which evictions are allowed, and takes back stale DisruptionTargets."""

    name = "disruption-controller"
    any_kind = True
    component = "controllermanager"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("disruption")
        self.recheck = host.queue("disruption_recheck")
        self.stale = host.queue("stale_pod_disruption")
        self._pods = caches.of(PODS, namespace=namespace_index)
        self._budgets = caches.of(DISRUPTION_BUDGETS, namespace=namespace_index)
        self._sets = caches.of(REPLICA_SETS)
        self._deployments = caches.of(DEPLOYMENTS)
        self._stateful = caches.of(STATEFUL_SETS)
        self._replication = caches.of(REPLICATION_CONTROLLERS)

    def work(self) -> tuple[Work, ...]:
        """Budgets, budgets to be looked at again, and pods whose eviction came to nothing."""
        return (
            Work("disruption", self.sync, workers=1),
            Work("disruption_recheck", immediate(self._look_again), workers=1),
            Work("stale_pod_disruption", self.sync_stale, workers=1),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods tell of the budget that selects them."""
        return {
            PODS: Handlers(
                self._pod_changed,
                lambda _old, new: self._pod_changed(new),
                lambda obj, _unknown: self._budget_of(obj.view),
            ),
            DISRUPTION_BUDGETS: Handlers(
                lambda obj: self.queue.add(obj.key),
                lambda _old, new: self.queue.add(new.key),
                lambda obj, _unknown: self.queue.add(obj.key),
            ),
        }

    # ------------------------------------------------------------------ handlers

    def _pod_changed(self, obj: Object[Pod]) -> None:
        self._budget_of(obj.view)
        after = budgets.stale_after(obj.view, self.host.now)
        if after is not None:
            self.stale.add_after(obj.key, after)

    def budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that select a pod. Raises NoBudget."""
        found = []
        for obj in self._budgets.by_index("namespace", pod.namespace):
            try:
                matcher = from_label_selector(obj.view.spec.selector)
            except SelectorError:
                continue
            if matcher.matches(pod.labels):
                found.append(obj.view)
        if not found:
            raise NoBudget(
                f"could not find PodDisruptionBudget for pod {pod.name} in namespace "
                f"{pod.namespace} with labels: {go_map(pod.labels)}"
            )
        return found

    def _budget_of(self, pod: Pod) -> None:
        """Ask for the budget of a pod; of several it is the first one."""
        try:
            found = self.budgets_of(pod)
        except NoBudget:
            return
        if len(found) > 1:
            text = (
                f'Pod "{pod.namespace}"/"{pod.name}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{found[0].name}" arbitrarily.'
            )
            self.host.event(pod, WARNING, "MultiplePodDisruptionBudgets", text)
        self.queue.add(found[0].key)

    # ------------------------------------------------------------------ reconcile

    def _look_again(self, key: str) -> None:
        self.queue.add_rate_limited(key)

    def sync(self, key: str) -> Reconcile[None]:
        """Bring a budget's status up; if that is not possible it allows nothing."""
        obj = self._budgets.get(key)
        if obj is None:
            return
        try:
            yield from self._try_sync(obj.view)
        except (*RequestFailed, Retry) as error:
            if isinstance(error, ApiError) and is_conflict(error):
                raise
            yield from self._fail_safe(obj.view, str(error))

    def _try_sync(self, budget: PodDisruptionBudget) -> Reconcile[None]:
        try:
            matcher = from_label_selector(budget.spec.selector)
        except SelectorError as error:
            self.host.event(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise Retry(str(error)) from error
        found = self._pods.by_index("namespace", budget.namespace)
        pods = [obj.view for obj in found if matcher.matches(obj.view.labels)]
        if not pods:
            self.host.event(budget, NORMAL, "NoPods", "No matching pods found")
        try:
            expected, desired, unmanaged = yield from self._expected(budget, pods)
        except (*RequestFailed, Retry, NoKindMatch, BadIntOrPercent) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self.host.event(budget, WARNING, "CalculateExpectedPodCountFailed", text)
            if isinstance(error, (NoKindMatch, BadIntOrPercent)):
                raise Retry(str(error)) from error
            raise
        if unmanaged:
            text = UNMANAGED.format(go_selector(budget.spec.selector))
            self.host.event(budget, WARNING, "UnmanagedPods", text)
        now = self.host.now
        left, recheck, overdue = budgets.still_disrupted(pods, budget.status.disrupted_pods, now)
        for pod in overdue:
            place = f"{budget.namespace}/{budget.namespace}"  # upstream names the namespace twice
            text = f"Pod was expected by PDB {place} to be deleted but it wasn't"
            self.host.event(pod, WARNING, "NotDeleted", text)
        current = budgets.healthy(pods, left, now)
        status = budgets.new_status(budget, current, desired, expected, left, now)
        if status is not None:
            yield from self._write(budget, status)
        if recheck is not None:
            self.recheck.add_after(budget.key, recheck - now)

    def _fail_safe(self, budget: PodDisruptionBudget, problem: str) -> Reconcile[None]:
        """Nothing may be evicted while it is not known how much may."""
        status: Tree = budget.tree.get("status") or {}
        generation = budget.status.observed_generation
        conditions = budgets.with_condition(
            status.get("conditions") or (),
            "False",
            "SyncFailed",
            problem,
            generation,
            self.host.now,
        )
        yield from self._write(
            budget, {**status, "disruptionsAllowed": 0, "conditions": conditions}
        )

    def _write(self, budget: PodDisruptionBudget, status: Tree) -> Reconcile[None]:
        yield from calls.update(DISRUPTION_BUDGETS, {**budget.tree, "status": status}, "status")

    # ------------------------------------------------------------------ how many pods there should be

    def _expected(
        self, budget: PodDisruptionBudget, pods: Sequence[Pod]
    ) -> Reconcile[tuple[int, int, list[Pod]]]:
        """Return the expected pods, the required healthy pods, and the unmanaged pods."""
        spec = budget.spec
        if spec.max_unavailable is not None:
            expected, unmanaged = yield from self._scale(pods)
            unavailable = scaled_value(spec.max_unavailable, expected, round_up=True)
            return expected, max(0, expected - unavailable), unmanaged
        if isinstance(spec.min_available, str):
            expected, unmanaged = yield from self._scale(pods)
            return expected, scaled_value(spec.min_available, expected, round_up=True), unmanaged
        if spec.min_available is not None:
            return len(pods), spec.min_available, []
        return 0, 0, []

    def _scale(self, pods: Sequence[Pod]) -> Reconcile[tuple[int, list[Pod]]]:
        """The sum of what the pods' controllers want, and the pods without a controller."""
        scales: dict[str, int] = {}
        unmanaged: list[Pod] = []
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                unmanaged.append(pod)
                continue
            if reference.uid in scales:
                continue
            found = self._known_scale(reference, pod.namespace)
            if found is None:
                found = yield from self._asked_scale(reference, pod.namespace)
            if found is None:
                raise Retry(f'found no controllers for pod "{pod.name}"')
            uid, replicas = found
            scales[uid] = replicas
        return sum(scales.values()), unmanaged

    def _known_scale(self, reference: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """Uid and replicas of a pod's controller, if it is of a kind that the caches hold."""
        group = reference.api_version.rpartition("/")[0]
        key = f"{namespace}/{reference.name}"
        found: Object[Any] | None = None
        if reference.kind == "ReplicationController" and not group:
            found = self._replication.get(key)
        elif reference.kind == "StatefulSet" and group == "apps":
            found = self._stateful.get(key)
        elif reference.kind == "ReplicaSet" and group in {"apps", "extensions"}:
            found = self._sets.get(key)
            if found is not None and found.uid == reference.uid:
                owner = controller_of(found.view)
                if owner is not None and owner.kind == "Deployment":
                    return self._deployment_scale(owner, namespace)
        if found is None or found.uid != reference.uid:
            return None
        return found.uid, _replicas(found)

    def _deployment_scale(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        if owner.api_version.rpartition("/")[0] not in {"apps", "extensions"}:
            return None
        found = self._deployments.get(f"{namespace}/{owner.name}")
        if found is None or found.uid != owner.uid:
            return None
        return found.uid, _replicas(found)

    def _asked_scale(
        self, reference: OwnerReference, namespace: str
    ) -> Reconcile[tuple[str, int] | None]:
        """Uid and replicas by the scale subresource of whatever the controller is."""
        kind = self.host.rest_mapper.of(reference.api_version, reference.kind)
        try:
            scale = (yield from calls.get(kind.resource, namespace, reference.name, "scale")).tree
        except ApiError as error:
            if not is_not_found(error):
                raise
            if kind.scalable:
                return None
            qualified = f"{kind.resource.name}.{kind.resource.group}".rstrip(".")
            text = f"{qualified} does not implement the scale subresource"
            raise Retry(text) from error
        if scale["metadata"].get("uid", "") != reference.uid:
            return None
        return reference.uid, int((scale.get("spec") or {}).get("replicas") or 0)

    # ------------------------------------------------------------------ evictions that came to nothing

    def sync_stale(self, key: str) -> Reconcile[None]:
        """Remove a pod's DisruptionTarget two minutes after it was set if the pod was not deleted."""
        obj = self._pods.get(key)
        if obj is None:
            return
        after = budgets.stale_after(obj.view, self.host.now)
        if after is None:
            return
        if after:
            self.stale.add_after(key, after)
            return
        pod = obj.view
        status: Tree = pod.tree.get("status") or {}
        conditions = with_condition(
            status.get("conditions") or (),
            budgets.TARGET, "False", "", "",
            now=self.host.now, generation=pod.metadata.generation,
        )  # fmt: skip
        tree = {**pod.tree, "status": {**status, "conditions": [_bare(c) for c in conditions]}}
        yield from calls.update(PODS, tree, "status")


def _bare(condition: Tree) -> Tree:
    """A condition without fields that say nothing."""
    return {name: value for name, value in condition.items() if value not in (None, "")}


def _replicas(obj: Object[Any]) -> int:
    """spec.replicas, 1 when absent."""
    replicas = obj.view.spec.replicas
    return 1 if replicas is None else int(replicas)
