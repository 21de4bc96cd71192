"""The ReplicaSet controller. Upstream: pkg/controller/replicaset/replica_set.go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.api.labels import from_label_selector
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.expectations import Expectations
from controlplane.client.resources import PODS, REPLICA_SETS
from controlplane.controllers.common.controller import NORMAL, WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import (
    Failure,
    Reconcile,
    RequestFailed,
    Retry,
    together,
)
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.overdue import look_again
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.pods import (
    available_later_ns,
    is_active,
    is_terminating,
)
from controlplane.controllers.common.ref_manager import (
    claim_objects,
    controller_index,
    controller_keys,
    controller_uid_index,
    namespace_index,
)
from controlplane.controllers.common.slow_start import slow_start_batch
from controlplane.controllers.workloads.deployment.replica_sets import HASH_LABEL
from controlplane.controllers.workloads.replicaset import replicas

if TYPE_CHECKING:
    from controlplane.api.apps import ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

STATUS_RETRIES = 1


def template_hash_index(obj: Object[Pod]) -> tuple[str, ...]:
    """Index pods by namespace and the template of a Deployment that they were made from."""
    hashed = obj.view.labels.get(HASH_LABEL)
    return () if hashed is None else (f"{obj.namespace}/{hashed}",)


class ReplicaSetController(Controller):
    """Keeps as many pods as each ReplicaSet wants."""

    name = "replicaset-controller"
    kind: ClassVar[str] = "ReplicaSet"
    resource: ClassVar[Resource[Any]] = REPLICA_SETS
    queue_name: ClassVar[str] = "replicaset"
    counts_terminating: ClassVar[bool] = True
    """The status counts pods that are being deleted."""

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue(self.queue_name)
        self.expectations = Expectations()
        self._pods = caches.of(
            PODS,
            controller=controller_index,
            namespace=namespace_index,
            template_hash=template_hash_index,
        )
        self._sets = caches.of(
            self.resource, controller_uid=controller_uid_index, namespace=namespace_index
        )
        self._owners = Owners(
            self.kind, self._sets, self.queue.add, lambda obj: self.set_of(obj).spec.selector
        )

    def work(self) -> tuple[Work, ...]:
        """One queue of ReplicaSets."""
        return (Work(self.queue_name, self.sync),)

    def set_of(self, obj: Object[Any]) -> ReplicaSet:
        """Return the cached object as a ReplicaSet."""
        found: ReplicaSet = obj.view
        return found

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods tell of their owners."""
        return {
            PODS: Handlers(self._pod_added, self._pod_updated, self._pod_deleted),
            self.resource: Handlers(self._added, self._updated, self._deleted),
        }

    # ------------------------------------------------------------------ handlers

    def _added(self, obj: Object[ReplicaSet]) -> None:
        self.queue.add(obj.key)

    def _updated(self, old: Object[ReplicaSet], new: Object[ReplicaSet]) -> None:
        if old.uid != new.uid:
            self.expectations.forget(new.key)
        self.queue.add(new.key)

    def _deleted(self, obj: Object[ReplicaSet], _unknown: bool) -> None:
        self.expectations.forget(obj.key)
        self.queue.add(obj.key)

    def _pod_added(self, obj: Object[Pod]) -> None:
        pod = obj.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(obj, False)
            return
        if controller_of(pod) is None:
            self._owners.ask_adopters(pod)
        elif (owner := self._owners.of(pod)) is not None:
            self.expectations.creation_observed(owner.key)
            self.queue.add(owner.key)

    def _pod_updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        if old.resource_version == new.resource_version:
            return
        before = old.view
        pod = new.view
        relabelled = before.labels != pod.labels
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(new, False)
            if relabelled:
                self._pod_deleted(old, False)
            return
        owner = self._owners.changed(before, pod)
        if owner is not None:
            seconds = self.set_of(owner).spec.min_ready_seconds
            later = available_later_ns(seconds, before, pod)
            if later is not None:
                self.queue.add_after(owner.key, later)

    def _pod_deleted(self, obj: Object[Pod], _unknown: bool) -> None:
        pod = obj.view
        owner = self._owners.of(pod)
        if owner is not None:
            self.expectations.deletion_observed(owner.key, pod.key)
            self.queue.add(owner.key)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Bring the number of pods, then the status, to what the ReplicaSet wants."""
        obj = self._sets.get(key)
        if obj is None:
            self.expectations.forget(key)
            return
        found = self.set_of(obj)
        may_act = self.expectations.satisfied(key, self.host.now)
        if not may_act:
            look_again(self.host.fixes, self.queue, self.expectations, key, self.host.now)
        related = [
            pod.view
            for index in controller_keys(found)
            for pod in self._pods.by_index("controller", index)
        ]
        selector = found.spec.selector
        candidates = [pod for pod in related if is_active(pod)]
        active = yield from claim_objects(PODS, self.resource, found, selector, candidates)
        matcher = from_label_selector(selector)
        terminating = [
            pod
            for pod in related
            if is_terminating(pod) and controller_of(pod) and matcher.matches(pod.labels)
        ]
        failed: Exception | None = None
        if may_act and found.metadata.deletion_timestamp is None:
            failed = yield from self._manage(found, active)
        problem = None if failed is None else str(failed)
        now = self.host.now
        status = replicas.new_status(found, active, len(terminating), problem, now)
        if not self.counts_terminating:
            del status["terminatingReplicas"]
        if replicas.status_differs(found, status):
            yield from self._write_status(obj, status)
        if failed is not None:
            raise failed
        due = replicas.next_available(found, active, status, self.host.now)
        if due is not None:
            self.queue.add_after(key, due - self.host.now)

    def _manage(self, found: ReplicaSet, active: list[Pod]) -> Reconcile[Exception | None]:
        surplus = len(active) - replicas.wanted(found)
        related = self._related(found) if surplus > 0 else {}
        plan = replicas.manage_replicas(found, active, related, self.host.now)
        if plan.create:
            return (yield from self._create(found, plan.create))
        if plan.delete:
            return (yield from self._delete(found, plan.delete))
        return None

    def _write_status(self, found: Object[Any], status: Tree) -> Reconcile[None]:
        """Write the status; once more over a live read when that fails."""
        tree = found.tree
        for attempt in range(STATUS_RETRIES + 1):
            try:
                yield from calls.update(self.resource, {**tree, "status": status}, "status")
            except ApiError:
                if attempt == STATUS_RETRIES:
                    raise
                live = yield from calls.get(self.resource, found.namespace, found.name)
                tree = live.tree
            else:
                return

    def _related(self, found: ReplicaSet) -> dict[str, int]:
        """Active pods per node that ReplicaSets with the same controller select; none without a controller."""
        owner = controller_of(found)
        pods: dict[str, Pod] = {}
        if owner is None:
            return {}
        for obj in self._sets.by_index("controller_uid", owner.uid):
            related = self.set_of(obj)
            selector = related.spec.selector
            matcher = from_label_selector(selector)
            index, key = "namespace", related.namespace
            hashed = selector.match_labels.get(HASH_LABEL) if selector is not None else None
            if hashed is not None:  # those of Deployments; their namespace may be full of others
                index, key = "template_hash", f"{related.namespace}/{hashed}"
            for candidate in self._pods.by_index(index, key):
                if matcher.matches(candidate.view.labels):
                    pods[candidate.uid] = candidate.view
        return Counter(pod.spec.node_name for pod in pods.values() if is_active(pod))

    def _create(self, found: ReplicaSet, count: int) -> Reconcile[Exception | None]:
        """Create pods in growing batches; after a batch with an error no further one is begun."""
        self.expectations.expect_creations(found.key, count, self.host.now)
        made, failed = yield from slow_start_batch(
            "replicaset.create", count, lambda _: self._create_one(found)
        )
        for _ in range(count - made):
            self.expectations.creation_observed(found.key)
        return failed

    def _create_one(self, found: ReplicaSet) -> Reconcile[Failure | None]:
        try:
            pod = yield from calls.create(PODS, found.namespace, replicas.new_pod(found))
        except RequestFailed as error:
            if isinstance(error, ApiError) and namespace_is_terminating(error):
                return None
            self.host.event(found, WARNING, "FailedCreate", f"Error creating: {error}")
            return error
        self.host.event(found, NORMAL, "SuccessfulCreate", f"Created pod: {pod.name}")
        return None

    def _delete(self, found: ReplicaSet, pods: list[Pod]) -> Reconcile[Exception | None]:
        keys = [pod.key for pod in pods]
        self.expectations.expect_deletions(found.key, keys, self.host.now)
        results = yield from together(
            "replicaset.delete", [self._delete_one(found, pod) for pod in pods]
        )
        error = next((error for error in results if error is not None), None)
        return None if error is None else Retry(f"unable to delete pods: {error}")

    def _delete_one(self, found: ReplicaSet, pod: Pod) -> Reconcile[Failure | None]:
        try:
            yield from calls.delete(PODS, pod.namespace, pod.name)
        except RequestFailed as error:
            self.expectations.deletion_observed(found.key, pod.key)
            if isinstance(error, ApiError) and is_not_found(error):
                return None
            self.host.event(found, WARNING, "FailedDelete", f"Error deleting: {error}")
            return error
        self.host.event(found, NORMAL, "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None
