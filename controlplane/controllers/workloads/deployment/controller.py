"""The loop of the Deployment controller. Upstream: pkg/controller/deployment.

Like upstream, a turn works on one copy of the deployment and writes it possibly several times under
the resource version it began with: a second write of one turn meets a conflict, and the turn is
tried again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Work,
    ignore,
)
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.ref_manager import (
    claim_objects,
    controller_index,
    controller_keys,
    namespace_index,
)
from controlplane.controllers.common.settling import HORIZON_NS
from controlplane.controllers.workloads.deployment import progress, rollout
from controlplane.controllers.workloads.deployment import replica_sets as deployments
from controlplane.controllers.workloads.deployment.rollout import Resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.apps import Deployment, ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

MAX_RETRIES = 15
RENEWS_NOTES = "138036"
ROLLBACK_NOT_FOUND = "DeploymentRollbackRevisionNotFound"
SELECTING_ALL = "This deployment is selecting all pods. A non-empty selector is required."


class DeploymentController(Controller):
    """Rolls each Deployment's template out over ReplicaSets."""

    name = "deployment-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("deployment")
        self._pods = caches.of(PODS, controller=controller_index)
        self._sets = caches.of(REPLICA_SETS, controller=controller_index)
        self._deployments = caches.of(DEPLOYMENTS, namespace=namespace_index)
        self._owners = Owners("Deployment", self._deployments, self.queue.add)
        self._set_owners = Owners("ReplicaSet", self._sets, ignore)

    def work(self) -> tuple[Work, ...]:
        """One queue of Deployments."""
        return (Work("deployment", self._process, max_retries=MAX_RETRIES),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """ReplicaSets tell of their owners; a Recreate deployment waits for the last old pod to go."""
        return {
            PODS: Handlers(ignore, ignore, self._pod_deleted),
            REPLICA_SETS: Handlers(self._set_added, self._set_updated, self._set_deleted),
            DEPLOYMENTS: Handlers(
                lambda obj: self.queue.add(obj.key),
                lambda _old, new: self.queue.add(new.key),
                lambda obj, _unknown: self.queue.add(obj.key),
            ),
        }

    # ------------------------------------------------------------------ handlers

    def _set_added(self, obj: Object[ReplicaSet]) -> None:
        if obj.view.metadata.deletion_timestamp is not None:
            self._set_deleted(obj, False)
        elif controller_of(obj.view) is None:
            self._owners.ask_adopters(obj.view)
        else:
            self._owners.ask_owner(obj.view)

    def _set_updated(self, old: Object[ReplicaSet], new: Object[ReplicaSet]) -> None:
        if old.resource_version != new.resource_version:
            self._owners.changed(old.view, new.view)

    def _set_deleted(self, obj: Object[ReplicaSet], _unknown: bool) -> None:
        self._owners.ask_owner(obj.view)

    def _pod_deleted(self, obj: Object[Pod], _unknown: bool) -> None:
        owner = self._set_owners.of(obj.view)
        if owner is None:
            return
        found = self._owners.of(owner.view)
        if found is not None and _is_recreate(found.view) and not self._has_pods(found):
            self.queue.add(found.key)

    def _has_pods(self, obj: Object[Deployment]) -> bool:
        return any(
            self._pods.by_index("controller", controller_keys(owned.view)[0])
            for owned in self._sets.by_index("controller", controller_keys(obj.view)[0])
        )

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Scale or roll one deployment out."""
        obj = self._deployments.get(key)
        if obj is not None:
            yield from _Turn(self, obj.view).run()

    def _process(self, key: str) -> Reconcile[None]:
        """One turn; when the namespace is going away nothing can be done, and nothing is tried again."""
        try:
            yield from self.sync(key)
        except ApiError as error:
            if not namespace_is_terminating(error):
                raise


def _is_recreate(deployment: Deployment) -> bool:
    return bool(deployment.spec.strategy.type == "Recreate")


class _Turn:
    """One look at one deployment. `found` is this turn's copy of it."""

    def __init__(self, controller: DeploymentController, found: Deployment) -> None:
        self._of = controller
        self.found = found

    def run(self) -> Reconcile[None]:
        """Claim replica sets, then scale or roll out."""
        found = self.found
        selector = found.spec.selector
        if selector is not None and not selector.match_labels and not selector.match_expressions:
            self._event(WARNING, "SelectingAll", SELECTING_ALL)
            if found.status.observed_generation < found.metadata.generation:
                status = progress.status_of(found)
                yield from self._write(
                    **{**status, "observedGeneration": found.metadata.generation}
                )
            return
        candidates = [
            owned.view
            for index in controller_keys(found)
            for owned in self._of._sets.by_index("controller", index)
        ]
        owned = yield from claim_objects(
            REPLICA_SETS, DEPLOYMENTS, found, found.spec.selector, candidates
        )
        if found.metadata.deletion_timestamp is not None:
            new, old = yield from self._split(owned)
            yield from self._report(new, old, judge=False)
            return
        paused = progress.paused_status(found, self._now())
        if paused is not None:
            yield from self._write(**paused)
        if self.found.spec.paused:
            yield from self._scale(owned)
            return
        to = deployments.rollback_to(self.found)
        if to is not None:
            yield from self._roll_back(owned, to)
            return
        new, old = yield from self._split(owned)
        if rollout.is_scaling(self.found, _all(new, old)):
            yield from self._scale(owned)
        elif _is_recreate(self.found):
            yield from self._recreate(owned)
        else:
            yield from self._roll(owned)

    def _scale(self, owned: list[ReplicaSet]) -> Reconcile[None]:
        """Follow spec.replicas without going on with a rollout."""
        new, old = yield from self._split(owned)
        renews = self._of.host.fixes.fixed(RENEWS_NOTES)
        for move in rollout.follow_scale(self.found, new, old, renews=renews):
            yield from self._resize(move)
        if self.found.spec.paused and deployments.rollback_to(self.found) is None:
            yield from self._clean_up(old)
        yield from self._report(new, old, judge=False)

    def _roll(self, owned: list[ReplicaSet]) -> Reconcile[None]:
        new, old = yield from self._split(owned)
        if new is None:
            new = yield from self._create(old)
        moves = rollout.scale_new(self.found, new, _all(new, old))
        for move in moves:
            yield from self._resize(move)
        if not moves:
            with suppress(*RequestFailed):  # upstream goes on as if nothing had been moved
                moves = yield from self._shrink(new, rollout.active(old))
        if not moves:
            yield from self._clean_up_when_complete(old)
        yield from self._report(new, old)

    def _shrink(self, new: ReplicaSet, old: list[ReplicaSet]) -> Reconcile[list[Resize]]:
        """Scale old replica sets down; what was moved."""
        moves, go_on = rollout.drop_unhealthy(self.found, new, old)
        sizes = {found.uid: found for found in old}
        for move in moves:
            sizes[move.replica_set.uid] = yield from self._resize(move)
        more = rollout.drop_available(self.found, new, list(sizes.values())) if go_on else []
        for move in more:
            yield from self._resize(move)
        return [*moves, *more]

    def _roll_back(self, owned: list[ReplicaSet], to: int) -> Reconcile[None]:
        """Take a revision's template again, 0 meaning the last one before. Upstream: rollback.go."""
        new, old = yield from self._split(owned)
        if new is None:
            new = yield from self._create(old)
        everything = _all(new, old)
        if to == 0:
            to = deployments.last_revision(everything)
            if to == 0:
                self._event(WARNING, ROLLBACK_NOT_FOUND, "Unable to find last revision.")
                yield from self._roll_back_to(None)
                return
        for candidate in everything:
            if deployments.revision_of(candidate.annotations) != to:
                continue
            if deployments.same_template(self.found, candidate):
                text = (
                    "The rollback revision contains the same template as current deployment "
                    f'"{self.found.name}"'
                )
                self._event(WARNING, "DeploymentRollbackTemplateUnchanged", text)
                yield from self._roll_back_to(None)
                return
            yield from self._roll_back_to(candidate)
            text = f'Rolled back deployment "{self.found.name}" to revision {to}'
            self._event(NORMAL, "DeploymentRollback", text)
            return
        self._event(WARNING, ROLLBACK_NOT_FOUND, "Unable to find the revision to rollback to.")
        yield from self._roll_back_to(None)

    def _roll_back_to(self, target: ReplicaSet | None) -> Reconcile[None]:
        """Write the deployment without the wish to roll back, with the template of `target` if there is one."""
        tree = deployments.rolled_back(self.found, target)
        self.found = type(self.found).from_tree(tree)
        yield from calls.update(DEPLOYMENTS, tree)

    def _recreate(self, owned: list[ReplicaSet]) -> Reconcile[None]:
        new, old = yield from self._split(owned)
        moves = [Resize(found, 0) for found in rollout.active(old)]
        for move in moves:
            yield from self._resize(move)
        if moves or self._old_pods_run(new, old):
            yield from self._report(new, old)
            return
        if new is None:
            new = yield from self._create(old)
        yield from self._resize(Resize(new, deployments.wanted(self.found)), only_size=True)
        yield from self._clean_up_when_complete(old)
        yield from self._report(new, old)

    def _old_pods_run(self, new: ReplicaSet | None, old: list[ReplicaSet]) -> bool:
        if any(found.status.replicas for found in old):
            return True
        for found in old:
            for obj in self._of._pods.by_index("controller", controller_keys(found)[0]):
                pod = obj.view
                if pod.status.phase not in {"Failed", "Succeeded"}:
                    return True
        return False

    # ------------------------------------------------------------------ parts of a turn

    def _split(
        self, owned: Sequence[ReplicaSet]
    ) -> Reconcile[tuple[ReplicaSet | None, list[ReplicaSet]]]:
        """The new replica set, brought up to the deployment's annotations, and the old ones."""
        new = deployments.find_new(self.found, owned)
        old = [each for each in owned if new is None or each.uid != new.uid]
        if new is None:
            return None, old
        tree = deployments.updated_new(self.found, new, old)
        if tree is not None:
            updated = yield from calls.update(REPLICA_SETS, tree)
            return updated.view, old
        noted = self._note_revision(new.annotations.get(deployments.REVISION, ""))
        status = progress.status_of(self.found)
        if (
            progress.has_deadline(self.found)
            and progress.get_condition(status, progress.PROGRESSING) is None
        ):
            text = f'Found new replica set "{new.name}"'
            status = self._progressing(status, "True", "FoundNewReplicaSet", text)
            noted = True
        if noted:
            yield from self._write(**status)
        return new, old

    def _note_revision(self, revision: str) -> bool:
        """Put the new replica set's revision into the deployment's annotations; whether that changed them."""
        if self.found.annotations.get(deployments.REVISION) == revision:
            return False
        tree = self.found.tree
        annotations = {**self.found.annotations, deployments.REVISION: revision}
        metadata = {**tree["metadata"], "annotations": annotations}
        self.found = type(self.found).from_tree({**tree, "metadata": metadata})
        return True

    def _progressing(self, status: Tree, value: str, reason: str, text: str) -> Tree:
        return progress.with_condition(
            status, progress.PROGRESSING, value, reason, text, self._now()
        )

    def _create(self, old: list[ReplicaSet]) -> Reconcile[ReplicaSet]:
        """Make the new replica set."""
        tree = deployments.new_replica_set(self.found, old)
        name = tree["metadata"]["name"]
        try:
            made = (yield from calls.create(REPLICA_SETS, self.found.namespace, tree)).view
        except ApiError as error:
            if is_already_exists(error):
                made = yield from self._collided(name, error)
                existed = True
            else:
                yield from self._creation_failed(name, error)
                raise
        else:
            existed = False
            size = deployments.size(made)
            if size:
                message = f"Scaled up replica set {made.name} from 0 to {size}"
                self._event(NORMAL, "ScalingReplicaSet", message)
        noted = self._note_revision(tree["metadata"]["annotations"][deployments.REVISION])
        status = progress.status_of(self.found)
        if not existed and progress.has_deadline(self.found):
            text = f'Created new replica set "{made.name}"'
            status = self._progressing(status, "True", "NewReplicaSetCreated", text)
            noted = True
        if noted:
            yield from self._write(**status)
        return made

    def _collided(self, name: str, error: ApiError) -> Reconcile[ReplicaSet]:
        """The name is taken: by our own replica set, not seen yet, or by a collision of the hash."""
        cached = self._of._sets.get(f"{self.found.namespace}/{name}")
        if cached is None:
            raise Retry(f'replicaset.apps "{name}" not found') from error
        known = cached.view
        owner = controller_of(known)
        if (
            owner is not None
            and owner.uid == self.found.uid
            and deployments.same_template(self.found, known)
        ):
            return known
        count = (self.found.status.collision_count or 0) + 1
        with suppress(*RequestFailed):  # that the name is taken is what counts
            yield from self._write(**{**progress.status_of(self.found), "collisionCount": count})
        raise error

    def _creation_failed(self, name: str, error: ApiError) -> Reconcile[None]:
        if namespace_is_terminating(error):
            return
        text = f'Failed to create new replica set "{name}": {error}'
        if progress.has_deadline(self.found):
            status = progress.status_of(self.found)
            status = self._progressing(status, "False", "ReplicaSetCreateError", text)
            with suppress(*RequestFailed):  # what went wrong first is what counts
                yield from self._write(**status)
        self._event(WARNING, "ReplicaSetCreateError", text)

    def _resize(self, move: Resize, *, only_size: bool = False) -> Reconcile[ReplicaSet]:
        """Carry a move out; the replica set afterwards."""
        target = move.replica_set
        before = deployments.size(target)
        notes = deployments.sizing_annotations(self.found)
        renewed = {**target.annotations, **notes}
        if before == move.replicas and (only_size or renewed == target.annotations):
            return target
        tree = {
            **target.tree,
            "metadata": {**target.tree["metadata"], "annotations": renewed},
            "spec": {**target.tree["spec"], "replicas": move.replicas},
        }
        scaled = (yield from calls.update(REPLICA_SETS, tree)).view
        if before != move.replicas:
            direction = "up" if move.replicas > before else "down"
            message = (
                f"Scaled {direction} replica set {target.name} from {before} to {move.replicas}"
            )
            self._event(NORMAL, "ScalingReplicaSet", message)
            self._of.host.log(
                "deployment.scale",
                self.found,
                {"replica_set": target.name, "from": before, "to": move.replicas},
            )
        replica_set: ReplicaSet = scaled
        return replica_set

    def _clean_up_when_complete(self, old: list[ReplicaSet]) -> Reconcile[None]:
        if progress.is_complete(self.found, progress.status_of(self.found)):
            yield from self._clean_up(old)

    def _clean_up(self, old: list[ReplicaSet]) -> Reconcile[None]:
        """Delete old replica sets beyond the revision history limit."""
        for surplus in deployments.surplus_history(self.found, old):
            try:
                yield from calls.delete(REPLICA_SETS, surplus.namespace, surplus.name)
            except ApiError as error:
                if not is_not_found(error):
                    raise

    def _report(
        self, new: ReplicaSet | None, old: list[ReplicaSet], *, judge: bool = True
    ) -> Reconcile[None]:
        """Write the status if it changed; `judge` says whether progress is looked at."""
        make = progress.rollout_status if judge else progress.new_status
        status = make(self.found, new, _all(new, old), self._now())
        if progress.status_of(self.found) != status:
            yield from self._write(**status)
        elif judge:
            self._recheck(status)

    def _recheck(self, status: Tree) -> None:
        """Look again when the progress deadline has passed: a run waits for it unless it is far away."""
        at = progress.recheck_at(self.found, status, self._now())
        queue = self._of.queue
        if at == 0:
            # Upstream turns in a circle here, ten times a second, until pods are ready again.
            queue.add_rate_limited(self.found.key, idle=True)
        elif at is not None:
            wait = at - self._now()
            queue.add_after(self.found.key, wait, idle=wait > HORIZON_NS)

    def _write(self, **status: Any) -> Reconcile[None]:
        """Write the status, and annotations with it; this turn's copy keeps its resource version."""
        self.found = type(self.found).from_tree({**self.found.tree, "status": status})
        yield from calls.update(DEPLOYMENTS, self.found.tree, "status")

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._of.host.event(self.found, kind, reason, message)

    def _now(self) -> int:
        return self._of.host.now


def _all(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return [*old, new] if new is not None else list(old)
