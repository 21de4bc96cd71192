"""The loop of the ReplicaSet controller. Upstream: pkg/controller/replicaset/replica_set.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from controlplane.api.labels import from_label_selector
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.expectations import Expectations
from controlplane.client.loops.clientset import PODS, REPLICA_SETS, Client
from controlplane.controllers import replicaset as replicasets
from controlplane.controllers.loops.base import Controller, namespace_is_terminating
from controlplane.controllers.ownership import controller_of
from controlplane.controllers.pods import SECOND, is_active, is_ready, is_terminating

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.apps import ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.connection import RestConfig

STATUS_RETRIES = 1
Failure = ApiError | LinkBroken


class ReplicaSetController(Controller):
    """Keeps as many pods as each ReplicaSet wants.

    `pods` needs index "controller", `sets` indexes "controller" and "namespace".
    """

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        server: RestConfig,
        pods: Indexer[Pod],
        sets: Indexer[ReplicaSet],
    ) -> None:
        super().__init__(ctx, "replicaset", epoch_ns, server)
        self._pods = pods
        self._sets = sets
        self._expectations = Expectations()

    # ------------------------------------------------------------------ handlers

    def set_handlers(self) -> tuple[Callable[..., None], ...]:
        """For ReplicaSets."""

        def updated(old: Object[ReplicaSet], new: Object[ReplicaSet]) -> None:
            if old.uid != new.uid:
                self._expectations.forget(new.key)
            self.workers.add(new.key)

        def deleted(obj: Object[ReplicaSet], _unknown: bool) -> None:
            self._expectations.forget(obj.key)
            self.workers.add(obj.key)

        return (lambda obj: self.workers.add(obj.key)), updated, deleted

    def pod_handlers(self) -> tuple[Callable[..., None], ...]:
        """For pods."""
        return self._pod_added, self._pod_updated, self._pod_deleted

    def _owner(self, pod: Pod) -> Object[ReplicaSet] | None:
        """The replica set that controls a pod, by name and uid."""
        reference = controller_of(pod)
        if reference is None or reference.kind != "ReplicaSet":
            return None
        owner = self._sets.get(f"{pod.namespace}/{reference.name}")
        return owner if owner is not None and owner.uid == reference.uid else None

    def _pod_added(self, obj: Object[Pod]) -> None:
        pod = obj.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(obj, unknown=False)
            return
        if controller_of(pod) is None:
            self._orphan(pod)
        elif (owner := self._owner(pod)) is not None:
            self._expectations.creation_observed(owner.key)
            self.workers.add(owner.key)

    def _orphan(self, pod: Pod) -> None:
        """Whoever selects a pod without a controller may adopt it."""
        for obj in self._sets.by_index("namespace", pod.namespace):
            candidate = obj.view
            if from_label_selector(candidate.spec.selector).matches(pod.labels):
                self.workers.add(obj.key)

    def _pod_updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        if old.resource_version == new.resource_version:
            return
        before = old.view
        pod = new.view
        relabelled = before.labels != pod.labels
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(new, unknown=False)
            if relabelled:
                self._pod_deleted(old, unknown=False)
            return
        moved = controller_of(before) != controller_of(pod)
        if moved and (former := self._owner(before)) is not None:
            self.workers.add(former.key)
        if controller_of(pod) is None:
            if relabelled or moved:
                self._orphan(pod)
            return
        owner = self._owner(pod)
        if owner is None:
            return
        self.workers.add(owner.key)
        found = owner.view
        if found.spec.min_ready_seconds and is_ready(pod) and not is_ready(before):
            wait = (found.spec.min_ready_seconds + 1) * SECOND
            self.workers.add_after(owner.key, self._ctx.now + wait)

    def _pod_deleted(self, obj: Object[Pod], unknown: bool) -> None:
        pod = obj.view
        owner = self._owner(pod)
        if owner is not None:
            self._expectations.deletion_observed(owner.key, pod.key)
            self.workers.add(owner.key)

    # ------------------------------------------------------------------ reconcile

    async def sync(self, ctx: Context, key: str) -> None:
        """Bring the number of pods, then the status, to what the ReplicaSet wants."""
        obj = self._sets.get(key)
        if obj is None:
            self._expectations.forget(key)
            return
        found = obj.view
        client = Client(ctx, self._server)
        may_act = self._expectations.satisfied(key, self._now())
        related = [
            pod.view
            for index in (found.uid, f"{found.namespace}/")
            for pod in self._pods.by_index("controller", index)
        ]
        active = await self._claim(client, PODS, found, [pod for pod in related if is_active(pod)])
        selector = from_label_selector(found.spec.selector)
        terminating = [
            pod
            for pod in related
            if is_terminating(pod) and controller_of(pod) and selector.matches(pod.labels)
        ]
        failed: Failure | None = None
        if may_act and found.metadata.deletion_timestamp is None:
            failed = await self._manage(ctx, found, active)
        problem = _problem(failed, found, active)
        status = replicasets.new_status(found, active, len(terminating), problem, self._now())
        if replicasets.status_differs(found, status):
            await self._write_status(client, found, status)
        if failed is not None:
            raise failed
        due = replicasets.next_available(found, active, status, self._now())
        if due is not None:
            self.workers.add_after(key, due - self._epoch)

    async def _manage(self, ctx: Context, found: ReplicaSet, active: list[Pod]) -> Failure | None:
        plan = replicasets.manage_replicas(found, active, self._related(found), self._now())
        if plan.create:
            return await self._create(ctx, found, plan.create)
        if plan.delete:
            return await self._delete(ctx, found, plan.delete)
        return None

    async def _write_status(
        self, client: Client, found: ReplicaSet, status: dict[str, Any]
    ) -> None:
        """Write the status; once more over a live read when that fails."""
        tree = found.tree
        for attempt in range(STATUS_RETRIES + 1):
            try:
                await client.update(REPLICA_SETS, {**tree, "status": status}, "status")
            except ApiError:
                if attempt == STATUS_RETRIES:
                    raise
                tree = (await client.get(REPLICA_SETS, found.namespace, found.name)).tree
            else:
                return

    def _related(self, found: ReplicaSet) -> dict[str, int]:
        """Active pods per node of all ReplicaSets with the same owner; nothing without an owner."""
        owner = controller_of(found)
        counts: dict[str, int] = {}
        if owner is None:
            return counts
        for related in self._sets.by_index("controller", owner.uid):
            for obj in self._pods.by_index("controller", related.uid):
                pod = obj.view
                if is_active(pod):
                    counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
        return counts

    async def _create(self, ctx: Context, found: ReplicaSet, count: int) -> Failure | None:
        """Create pods in growing batches; after a batch with an error no further one is begun."""
        self._expectations.expect_creations(found.key, count, self._now())
        left = count
        failed: Failure | None = None
        for batch in replicasets.slow_start(count):
            tasks = [
                ctx.spawn(self._create_one, found, name="replicaset.create") for _ in range(batch)
            ]
            errors = [error for task in tasks if (error := await ctx.join(task)) is not None]
            left -= batch - len(errors)
            if errors:
                failed = errors[0]
                break
        for _ in range(left):
            self._expectations.creation_observed(found.key)
        return failed

    async def _create_one(self, ctx: Context, found: ReplicaSet) -> Failure | None:
        try:
            pod = await Client(ctx, self._server).create(PODS, replicasets.new_pod(found))
        except (ApiError, LinkBroken) as error:
            if isinstance(error, ApiError) and namespace_is_terminating(error):
                return None
            self._recorder.event(found, "Warning", "FailedCreate", f"Error creating: {error}")
            return error
        self._recorder.event(found, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")
        return None

    async def _delete(self, ctx: Context, found: ReplicaSet, pods: list[Pod]) -> Failure | None:
        self._expectations.expect_deletions(found.key, [pod.key for pod in pods], self._now())
        tasks = [ctx.spawn(self._delete_one, found, pod, name="replicaset.delete") for pod in pods]
        errors = [error for task in tasks if (error := await ctx.join(task)) is not None]
        return errors[0] if errors else None

    async def _delete_one(self, ctx: Context, found: ReplicaSet, pod: Pod) -> Failure | None:
        try:
            await Client(ctx, self._server).delete(PODS, pod.namespace, pod.name)
        except (ApiError, LinkBroken) as error:
            self._expectations.deletion_observed(found.key, pod.key)
            if isinstance(error, ApiError) and is_not_found(error):
                return None
            self._recorder.event(found, "Warning", "FailedDelete", f"Error deleting: {error}")
            return error
        self._recorder.event(found, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None


def _problem(failed: Failure | None, found: ReplicaSet, active: list[Pod]) -> str | None:
    """What condition ReplicaFailure says."""
    if failed is None:
        return None
    deleting = len(active) > replicasets.wanted(found)
    return f"unable to delete pods: {failed}" if deleting else str(failed)
