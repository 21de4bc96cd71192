"""How the controller manager lives: shared informers, one work queue and some workers per controller.

Points: those of `client.informer` and `controllers.worker`, and one for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.log import INFO
from controlplane.api.labels import from_label_selector
from controlplane.client.clientset import DEPLOYMENTS, PODS, REPLICA_SETS, Client
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.events import EventRecorder
from controlplane.client.expectations import Expectations
from controlplane.client.indexer import Indexer
from controlplane.client.informer import Informer, handler
from controlplane.controllers import deployment as deployments
from controlplane.controllers import replicaset as replicasets
from controlplane.controllers.ownership import (
    adopt_patch,
    claim,
    controller_of,
    release_patch,
)
from controlplane.controllers.pods import is_active
from controlplane.controllers.worker import Retry, Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.apps import Deployment, ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod

WORKERS = 5


def _namespace(obj: Object) -> tuple[str, ...]:
    return (obj.namespace,)


def _controller(obj: Object) -> tuple[str, ...]:
    """Index by controller uid; objects without a controller stand under "namespace/" for adoption."""
    owner = controller_of(obj.view)
    return (owner.uid,) if owner is not None else (f"{obj.namespace}/",)


async def run(
    ctx: Context, epoch_ns: int, *, server: str = "apiserver", workers: int = WORKERS
) -> None:
    """Main task of the controller manager."""
    pods = Informer(ctx, PODS, Indexer(controller=_controller), server=server)
    sets = Informer(
        ctx, REPLICA_SETS, Indexer(controller=_controller, namespace=_namespace), server=server
    )
    wanted = Informer(ctx, DEPLOYMENTS, Indexer(namespace=_namespace), server=server)
    recorder = EventRecorder(ctx, "controller-manager", epoch_ns, server=server)
    replica_set = ReplicaSetController(ctx, epoch_ns, server, pods.store, sets.store, recorder)
    deployment = DeploymentController(
        ctx, epoch_ns, server, pods.store, sets.store, wanted.store, recorder
    )
    pods.add_handler(handler(*replica_set.pod_handlers()), "replicaset")
    sets.add_handler(handler(*replica_set.set_handlers()), "replicaset")
    sets.add_handler(handler(*deployment.set_handlers()), "deployment")
    pods.add_handler(handler(*deployment.pod_handlers()), "deployment")
    wanted.add_handler(handler(*deployment.deployment_handlers()), "deployment")
    for informer in (pods, sets, wanted):
        informer.start()
    for informer in (pods, sets, wanted):
        await informer.wait_synced()
    replica_set.workers.start(workers)
    deployment.workers.start(workers)


class _Controller:
    """What both controllers share."""

    def __init__(
        self, ctx: Context, name: str, epoch_ns: int, server: str, recorder: EventRecorder
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._server = server
        self._recorder = recorder
        self.workers = Workers(ctx, name, self.sync)

    async def sync(self, ctx: Context, key: str) -> None:
        """Reconcile one key."""
        raise NotImplementedError

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    async def _claim(
        self, client: Client, resource: Any, owner: Any, candidates: list[Any]
    ) -> list[Any]:
        """The candidates that belong to `owner`, after adopting and releasing."""
        selector = from_label_selector(owner.spec.selector)
        decided = claim(owner, candidates, lambda found: selector.matches(found.labels))
        mine = decided.mine
        if decided.adopt:
            await self._can_adopt(client, owner)
        for found in decided.adopt:
            patch = adopt_patch(owner, found.uid)
            mine.append((await client.patch(resource, found.namespace, found.name, patch)).view)
        for found in decided.release:
            try:
                await client.patch(
                    resource, found.namespace, found.name, release_patch(owner, found.uid)
                )
            except ApiError as error:
                if not is_not_found(error):
                    raise
        return mine

    async def _can_adopt(self, client: Client, owner: Any) -> None:
        """A live look at the owner before anything is adopted: same uid, not being deleted."""
        resource = REPLICA_SETS if owner.kind == "ReplicaSet" else DEPLOYMENTS
        fresh = (await client.get(resource, owner.namespace, owner.name)).view
        if fresh.uid != owner.uid:
            raise Retry(
                f"original {owner.kind} {owner.key} is gone: got uid {fresh.uid}, wanted {owner.uid}"
            )
        if fresh.metadata.deletion_timestamp is not None:
            raise Retry(f"{owner.key} has just been deleted")


class ReplicaSetController(_Controller):
    """Keeps as many pods as each ReplicaSet wants."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        server: str,
        pods: Indexer,
        sets: Indexer,
        recorder: EventRecorder,
    ) -> None:
        super().__init__(ctx, "replicaset", epoch_ns, server, recorder)
        self._pods = pods
        self._sets = sets
        self._expectations = Expectations()

    # ------------------------------------------------------------------ handlers

    def set_handlers(self) -> tuple[Callable[..., None], ...]:
        """For ReplicaSets."""
        return (
            lambda obj: self.workers.add(obj.key),
            lambda _old, new: self.workers.add(new.key),
            lambda obj, _unknown: self._set_deleted(obj),
        )

    def _set_deleted(self, obj: Object) -> None:
        self._expectations.forget(obj.key)
        self.workers.add(obj.key)

    def pod_handlers(self) -> tuple[Callable[..., None], ...]:
        """For pods."""
        return self._pod_added, self._pod_updated, self._pod_deleted

    def _owner_key(self, pod: Pod) -> str | None:
        reference = controller_of(pod)
        if reference is None or reference.kind != "ReplicaSet":
            return None
        key = f"{pod.namespace}/{reference.name}"
        owner = self._sets.get(key)
        return key if owner is not None and owner.uid == reference.uid else None

    def _pod_added(self, obj: Object) -> None:
        pod: Any = obj.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(obj, unknown=False)
            return
        key = self._owner_key(pod)
        if key is not None:
            self._expectations.creation_observed(key)
            self.workers.add(key)
        elif controller_of(pod) is None:
            self._orphan(pod)

    def _orphan(self, pod: Pod) -> None:
        for obj in self._sets.by_index("namespace", pod.namespace):
            candidate: Any = obj.view
            if from_label_selector(candidate.spec.selector).matches(pod.labels):
                self.workers.add(obj.key)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if old.resource_version == new.resource_version:
            return
        before: Any = old.view
        pod: Any = new.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(new, unknown=False)
            return
        old_key, key = self._owner_key(before), self._owner_key(pod)
        if old_key is not None and old_key != key:
            self.workers.add(old_key)
        if key is not None:
            self.workers.add(key)
        elif controller_of(pod) is None and (before.labels != pod.labels or old_key is not None):
            self._orphan(pod)

    def _pod_deleted(self, obj: Object, unknown: bool) -> None:
        pod: Any = obj.view
        key = self._owner_key(pod)
        if key is not None:
            self._expectations.deletion_observed(key, pod.key)
            self.workers.add(key)

    # ------------------------------------------------------------------ reconcile

    async def sync(self, ctx: Context, key: str) -> None:
        """Bring the number of pods, then the status, to what the ReplicaSet wants."""
        obj = self._sets.get(key)
        if obj is None:
            self._expectations.forget(key)
            return
        found: Any = obj.view
        client = Client(ctx, self._server)
        may_act = self._expectations.satisfied(key, self._now())
        candidates = [
            pod.view
            for index in (found.uid, f"{found.namespace}/")
            for pod in self._pods.by_index("controller", index)
        ]
        pods = await self._claim(client, PODS, found, candidates)
        active = [pod for pod in pods if is_active(pod)]
        problem: str | None = None
        failed: ApiError | None = None
        plan = replicasets.Plan(0, [])
        if may_act and found.metadata.deletion_timestamp is None:
            plan = replicasets.manage_replicas(found, active, self._related(found), self._now())
            if plan.create:
                failed = await self._create(ctx, found, plan.create)
            elif plan.delete:
                failed = await self._delete(ctx, found, plan.delete)
            problem = str(failed) if failed is not None else None
        status = replicasets.new_status(found, pods, problem, plan.create > 0, self._now())
        if replicasets.status_differs(found, status):
            await self._write_status(client, found, status)
        if failed is not None:
            raise failed
        due = replicasets.next_available(found, pods, self._now())
        if due is not None:
            self.workers.add_after(key, due - self._epoch)

    async def _write_status(
        self, client: Client, found: ReplicaSet, status: dict[str, Any]
    ) -> None:
        try:
            await client.update(REPLICA_SETS, {**found.tree, "status": status}, "status")
        except ApiError as error:
            if is_not_found(error):
                return
            live = await client.get(REPLICA_SETS, found.namespace, found.name)
            await client.update(REPLICA_SETS, {**live.tree, "status": status}, "status")

    def _related(self, found: ReplicaSet) -> dict[str, int]:
        """Active pods per node of all ReplicaSets with the same owner."""
        owner = controller_of(found)
        sets = [found.uid]
        if owner is not None:
            sets = [other.uid for other in self._sets.by_index("controller", owner.uid)]
        counts: dict[str, int] = {}
        for uid in sets:
            for obj in self._pods.by_index("controller", uid):
                pod: Any = obj.view
                if is_active(pod):
                    counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
        return counts

    async def _create(self, ctx: Context, found: ReplicaSet, count: int) -> ApiError | None:
        """Create pods in growing batches; after a batch with an error no further one is begun."""
        key = found.key
        self._expectations.expect_creations(key, count, self._now())
        left = count
        for batch in replicasets.slow_start(count):
            tasks = [
                ctx.spawn(self._create_one, found, name="replicaset.create") for _ in range(batch)
            ]
            errors = [error for task in tasks if (error := await ctx.join(task)) is not None]
            left -= batch
            if errors:
                for _ in range(left):
                    self._expectations.creation_observed(key)
                first: ApiError = errors[0]
                return first
        return None

    async def _create_one(self, ctx: Context, found: ReplicaSet) -> ApiError | None:
        try:
            pod = await Client(ctx, self._server).create(PODS, replicasets.new_pod(found))
        except ApiError as error:
            self._expectations.creation_observed(found.key)
            if any(cause.get("reason") == "NamespaceTerminating" for cause in _causes(error)):
                return None
            self._recorder.event(found, "Warning", "FailedCreate", f"Error creating: {error}")
            return error
        self._recorder.event(found, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")
        return None

    async def _delete(self, ctx: Context, found: ReplicaSet, pods: list[Pod]) -> ApiError | None:
        self._expectations.expect_deletions(found.key, [pod.key for pod in pods], self._now())
        tasks = [ctx.spawn(self._delete_one, found, pod, name="replicaset.delete") for pod in pods]
        errors = [error for task in tasks if (error := await ctx.join(task)) is not None]
        return errors[0] if errors else None

    async def _delete_one(self, ctx: Context, found: ReplicaSet, pod: Pod) -> ApiError | None:
        try:
            await Client(ctx, self._server).delete(PODS, pod.namespace, pod.name)
        except ApiError as error:
            self._expectations.deletion_observed(found.key, pod.key)
            if is_not_found(error):
                return None
            self._recorder.event(found, "Warning", "FailedDelete", f"Error deleting: {error}")
            return error
        self._recorder.event(found, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None


def _causes(error: ApiError) -> list[dict[str, Any]]:
    causes: list[dict[str, Any]] = (error.status.get("details") or {}).get("causes") or []
    return causes


class DeploymentController(_Controller):
    """Rolls each Deployment's template out over ReplicaSets."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        server: str,
        pods: Indexer,
        sets: Indexer,
        wanted: Indexer,
        recorder: EventRecorder,
    ) -> None:
        super().__init__(ctx, "deployment", epoch_ns, server, recorder)
        self._pods = pods
        self._sets = sets
        self._deployments = wanted

    # ------------------------------------------------------------------ handlers

    def deployment_handlers(self) -> tuple[Callable[..., None], ...]:
        """For Deployments."""
        return (
            lambda obj: self.workers.add(obj.key),
            lambda _old, new: self.workers.add(new.key),
            lambda obj, _unknown: self.workers.add(obj.key),
        )

    def set_handlers(self) -> tuple[Callable[..., None], ...]:
        """For ReplicaSets: their owner is to be looked at."""

        def updated(old: Object, new: Object) -> None:
            if old.resource_version != new.resource_version:
                self._owner(new)

        return self._owner, updated, lambda obj, _unknown: self._owner(obj)

    def pod_handlers(self) -> tuple[Callable[..., None], ...]:
        """For pods: a Recreate deployment waits for the last old one to go."""

        def deleted(obj: Object, _unknown: bool) -> None:
            reference = controller_of(obj.view)
            owner = (
                self._sets.get(f"{obj.namespace}/{reference.name}")
                if reference is not None
                else None
            )
            if owner is None or reference is None or owner.uid != reference.uid:
                return
            above = controller_of(owner.view)
            found = (
                self._deployments.get(f"{obj.namespace}/{above.name}")
                if above is not None
                else None
            )
            if (
                found is not None
                and found.tree["spec"].get("strategy", {}).get("type") == "Recreate"
            ):
                self.workers.add(found.key)

        return (lambda _obj: None), (lambda _old, _new: None), deleted

    def _owner(self, obj: Object) -> None:
        reference = controller_of(obj.view)
        if reference is not None:
            key = f"{obj.namespace}/{reference.name}"
            owner = self._deployments.get(key)
            if reference.kind == "Deployment" and owner is not None and owner.uid == reference.uid:
                self.workers.add(key)
            return
        for candidate in self._deployments.by_index("namespace", obj.namespace):
            view: Any = candidate.view
            if from_label_selector(view.spec.selector).matches(obj.view.labels):
                self.workers.add(candidate.key)

    # ------------------------------------------------------------------ reconcile

    async def sync(self, ctx: Context, key: str) -> None:
        """One turn: find or make the new ReplicaSet, move pods over, write the status."""
        obj = self._deployments.get(key)
        if obj is None:
            return
        found: Any = obj.view
        client = Client(ctx, self._server)
        candidates = [
            owned.view
            for index in (found.uid, f"{found.namespace}/")
            for owned in self._sets.by_index("controller", index)
        ]
        owned = await self._claim(client, REPLICA_SETS, found, candidates)
        new = deployments.find_new(found, owned)
        old = [each for each in owned if new is None or each.uid != new.uid]
        if found.metadata.deletion_timestamp is not None:
            await self._status(client, found, new, owned)
            return
        if found.spec.paused or deployments.is_scaling(found, owned):
            await self._resize(client, found, deployments.scale(found, new, old))
            await self._status(client, found, new, owned)
            return
        if new is None and not (self._is_recreate(found) and self._still_running(old)):
            if not self._is_recreate(found) or not any(deployments.size(each) for each in old):
                new, found = await self._create_new(client, found, owned)
                owned = [*old, new]
        moves = (
            deployments.recreate(found, new, old, self._still_running(old))
            if self._is_recreate(found)
            else deployments.rolling_update(found, new, old)
        )
        await self._resize(client, found, moves)
        if not moves and deployments.is_complete(found):
            for surplus in deployments.surplus_history(found, old):
                await client.delete(REPLICA_SETS, surplus.namespace, surplus.name)
        await self._status(client, found, new, owned)
        deadline = deployments.progress_deadline(found)
        if deadline is not None and deadline > self._now():
            self.workers.add_after(key, deadline - self._epoch)

    def _is_recreate(self, found: Deployment) -> bool:
        return found.spec.strategy.type == "Recreate"

    def _still_running(self, old: list[ReplicaSet]) -> bool:
        for each in old:
            for obj in self._pods.by_index("controller", each.uid):
                pod: Any = obj.view
                if pod.status.phase not in {"Failed", "Succeeded"}:
                    return True
        return False

    async def _create_new(self, client: Client, found: Deployment, owned: list[ReplicaSet]) -> tuple[Any, Any]:
        tree = deployments.new_replica_set(found, owned)
        try:
            made = await client.create(REPLICA_SETS, tree)
        except ApiError as error:
            if not is_already_exists(error):
                raise
            made = await client.get(REPLICA_SETS, found.namespace, tree["metadata"]["name"])
            owner = controller_of(made.view)
            if owner is None or owner.uid != found.uid:
                count = (found.status.collision_count or 0) + 1
                status = {**(found.tree.get("status") or {}), "collisionCount": count}
                await client.update(DEPLOYMENTS, {**found.tree, "status": status}, "status")
                raise Retry(
                    f"name {tree['metadata']['name']} is taken, collision count {count}"
                ) from error
            return made.view, found
        size = tree["spec"]["replicas"]
        if size:
            message = f"Scaled up replica set {made.name} from 0 to {size}"
            self._recorder.event(found, "Normal", "ScalingReplicaSet", message)
        revision = tree["metadata"]["annotations"][deployments.REVISION]
        if found.annotations.get(deployments.REVISION) != revision:
            patch = {"metadata": {"annotations": {deployments.REVISION: revision}}}
            noted = await client.patch(DEPLOYMENTS, found.namespace, found.name, patch)
            return made.view, noted.view
        return made.view, found

    async def _resize(
        self, client: Client, found: Deployment, moves: list[deployments.Resize]
    ) -> None:
        for move in moves:
            target = move.replica_set
            before = deployments.size(target)
            annotations = deployments.sizing_annotations(found)
            tree = {
                **target.tree,
                "metadata": {
                    **target.tree["metadata"],
                    "annotations": {
                        **target.tree["metadata"].get("annotations", {}),
                        **annotations,
                    },
                },
                "spec": {**target.tree["spec"], "replicas": move.replicas},
            }
            await client.update(REPLICA_SETS, tree)
            message = f"Scaled {move.direction} replica set {target.name} from {before} to {move.replicas}"
            self._recorder.event(found, "Normal", "ScalingReplicaSet", message)
            self._ctx.log(
                "deployment.scale",
                level=INFO,
                obj=f"Deployment/{found.key}",
                uid=found.uid,
                data={"replica_set": target.name, "from": before, "to": move.replicas},
            )

    async def _status(self, client: Client, found: Deployment, new: Any, owned: list[Any]) -> None:
        status = deployments.new_status(found, new, owned, self._now())
        if (found.tree.get("status") or {}) != status:
            await client.update(DEPLOYMENTS, {**found.tree, "status": status}, "status")
