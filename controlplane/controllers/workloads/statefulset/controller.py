"""The StatefulSet controller. Upstream: pkg/controller/statefulset/stateful_set.go, stateful_set_control.go.

Points: `statefulset.revisions` (the set was read), `statefulset.pods` (its revisions were adopted),
`statefulset.history` (its pods were claimed), `statefulset.slice` (a batch of pods of a large set was
looked at), `statefulset.conflict` and `history.conflict` (waiting to write again).
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from attrs import define

from controlplane.client import calls
from controlplane.client.errors import ApiError
from controlplane.client.resources import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from controlplane.controllers.common import history
from controlplane.controllers.common.conflicts import RETRY, retry_on_conflict
from controlplane.controllers.common.consistency import ConsistencyStore
from controlplane.controllers.common.controller import Controller, Handlers, Work
from controlplane.controllers.common.effects import (
    Reconcile,
    RequestFailed,
    Retry,
    aggregate,
    together,
)
from controlplane.controllers.common.features import (
    CONSISTENT_STATEFUL_SET,
    MAX_UNAVAILABLE_STATEFUL_SET,
)
from controlplane.controllers.common.int_or_percent import BadIntOrPercent, scaled_value
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.pod_control import is_gone
from controlplane.controllers.common.pods import (
    available_at,
    available_later_ns,
    is_available,
    is_ready,
)
from controlplane.controllers.common.ref_manager import (
    claim_objects,
    controller_index,
    controller_keys,
    live_owner_refusal,
    namespace_index,
)
from controlplane.controllers.common.slow_start import batches
from controlplane.controllers.workloads.statefulset.pod_control import StatefulPodControl
from controlplane.controllers.workloads.statefulset.pods import (
    ON_DELETE,
    PARALLEL,
    ROLLING_UPDATE,
    identity_matches,
    in_range,
    is_created,
    is_running_and_ready,
    is_terminating,
    is_unavailable,
    new_pod,
    ordinal_of,
    parent_and_ordinal,
    partition_of,
    revision_of,
    start_ordinal,
    storage_matches,
    wanted,
)
from controlplane.controllers.workloads.statefulset.replicas import Replicas
from controlplane.controllers.workloads.statefulset.status import Status
from controlplane.decisions import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from controlplane.api.apps import ControllerRevision, StatefulSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

Failed = (*RequestFailed, Retry)
SLICE: Final = 1000
"""The number of pods of a set that a sync handles before other tasks may run."""
AT_ONCE: Final = 512
"""The number of pods of a batch that are processed side by side; upstream's goroutines have no such limit."""


class Revisions(NamedTuple):
    """The current and the update revision of pods; and the collisions met on the way."""

    current: ControllerRevision
    update: ControllerRevision
    collisions: int


@define
class Turn:
    """One turn: the set, its pods by place, and the status so far."""

    found: StatefulSet
    revisions: Revisions
    status: Status
    replicas: Replicas
    condemned: list[Pod]
    first_unavailable: Pod | None = None

    @property
    def ordered(self) -> bool:
        """Return whether each pod waits for those before it."""
        return self.found.spec.pod_management_policy != PARALLEL


class StatefulSetController(Controller):
    """Keeps the pods of each StatefulSet, with their names, in their order, at their revision."""

    name = "statefulset-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("statefulset")
        self._bursts = host.features[MAX_UNAVAILABLE_STATEFUL_SET]
        self._consistency = ConsistencyStore(caches, enabled=host.features[CONSISTENT_STATEFUL_SET])
        self._pods = caches.of(PODS, controller=controller_index, namespace=namespace_index)
        self._sets = caches.of(STATEFUL_SETS, namespace=namespace_index)
        self._owners = Owners("StatefulSet", self._sets, self.queue.add)
        self._revisions = caches.of(CONTROLLER_REVISIONS, namespace=namespace_index)
        self._control = StatefulPodControl(host, self._pods, caches.of(CLAIMS), self._consistency)

    def work(self) -> tuple[Work, ...]:
        """One queue of StatefulSets."""
        return (Work("statefulset", self.sync),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods tell of their sets."""
        return {
            PODS: Handlers(self._pod_added, self._pod_updated, self._pod_deleted),
            STATEFUL_SETS: Handlers(self._seen, lambda _, new: self._seen(new), self._deleted),
        }

    # ------------------------------------------------------------------ handlers

    def _seen(self, obj: Object[StatefulSet]) -> None:
        self.queue.add(obj.key)

    def _deleted(self, obj: Object[StatefulSet], _unknown: bool) -> None:
        self._consistency.forget(obj.key, obj.uid)
        self.queue.add(obj.key)

    def _pod_added(self, obj: Object[Pod]) -> None:
        pod = obj.view
        if controller_of(pod) is not None:
            self._owners.ask_owner(pod)
        elif pod.metadata.deletion_timestamp is None:
            self._owners.ask_adopters(pod)

    def _pod_updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        if old.resource_version == new.resource_version:
            return
        before, pod = old.view, new.view
        owner = self._owners.changed(before, pod)
        if owner is not None:
            later = available_later_ns(owner.view.spec.min_ready_seconds, before, pod)
            if later is not None:
                self.queue.add_after(owner.key, later)

    def _pod_deleted(self, obj: Object[Pod], _unknown: bool) -> None:
        self._owners.ask_owner(obj.view)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Bring pods, claims, revisions and status to what the set wants."""
        obj = self._sets.get(key)
        if obj is None:
            self._consistency.forget(key)
            return
        self._consistency.ensure_ready(key)
        found = obj.view
        yield Point("statefulset.revisions")
        yield from self._adopt_revisions(found)
        yield Point("statefulset.pods")
        pods = yield from self._claim(found)
        yield Point("statefulset.history")
        status = yield from self._update(found, pods)
        seconds = found.spec.min_ready_seconds
        if seconds and status.available_replicas != status.ready_replicas:
            now = self.host.now
            times = [available_at(pod, seconds) for pod in pods if is_ready(pod)]
            due = min((at for at in times if at is not None and at > now), default=None)
            if due is not None:
                self.queue.add_after(key, due - now)

    def _adopt_revisions(self, found: StatefulSet) -> Reconcile[None]:
        revisions = history.list_revisions(self._revisions, found, found.spec.selector)
        orphans = [revision for revision in revisions if controller_of(revision) is None]
        if not orphans:
            return
        refused = yield from live_owner_refusal(STATEFUL_SETS, found)
        if refused is not None:
            raise Retry(f"can't adopt ControllerRevisions: {refused}")
        for revision in orphans:
            yield from history.adopt_revision(found, revision)

    def _claim(self, found: StatefulSet) -> Reconcile[list[Pod]]:
        """The pods that carry the set's name and labels; the others are let go."""
        related = [
            obj.view
            for index in controller_keys(found)
            for obj in self._pods.by_index("controller", index)
        ]
        return (
            yield from claim_objects(
                PODS,
                STATEFUL_SETS,
                found,
                found.spec.selector,
                related,
                member=lambda pod: parent_and_ordinal(pod)[0] == found.name,
            )
        )

    def _update(self, found: StatefulSet, pods: Sequence[Pod]) -> Reconcile[Status]:
        """One update, then as little history as is wanted, also when the update failed."""
        revisions = history.in_order(
            history.list_revisions(self._revisions, found, found.spec.selector)
        )
        live = {revision_of(pod) for pod in pods}
        errors: list[Exception] = []
        status: Status | None = None
        try:
            chosen = yield from self._choose_revisions(found, revisions)
        except Failed as error:
            errors.append(error)
        else:
            live |= {chosen.current.name, chosen.update.name}
            status, failed = yield from self._perform(found, chosen, pods)
            errors += [failed] if failed is not None else []
        try:
            yield from self._truncate(found, revisions, live)
        except Failed as error:
            errors.append(error)
        if errors:
            raise aggregate(errors)
        assert status is not None
        return status

    def _truncate(
        self, found: StatefulSet, revisions: Sequence[ControllerRevision], live: set[str]
    ) -> Reconcile[None]:
        """Delete the oldest revisions that nothing uses, beyond the limit."""
        limit = found.spec.revision_history_limit
        limit = 10 if limit is None else limit
        unused = [revision for revision in revisions if revision.name not in live]
        if limit < 0:
            return
        for revision in unused[: max(0, len(unused) - limit)]:
            yield from calls.delete(CONTROLLER_REVISIONS, revision.namespace, revision.name)

    def _choose_revisions(
        self, found: StatefulSet, revisions: Sequence[ControllerRevision]
    ) -> Reconcile[Revisions]:
        """The revision of the template, made or renumbered where needed, and that which the status names."""
        collisions = found.status.collision_count or 0
        template = found.tree["spec"]["template"]
        update = history.new_revision(found, template, history.next_number(revisions), collisions)
        same = [revision for revision in revisions if history.equal(revision, update)]
        if same and history.equal(revisions[-1], same[-1]):
            update = revisions[-1]
        elif same:
            update = yield from history.renumber(self._revisions, same[-1], update.revision)
        elif revisions and history.means_the_same(revisions[-1], update):
            update = revisions[-1]
        else:
            update, collisions = yield from history.create_revision(found, update, collisions)
        current = next(
            (each for each in revisions if each.name == found.status.current_revision), update
        )
        return Revisions(current, update, collisions)

    def _perform(
        self, found: StatefulSet, revisions: Revisions, pods: Sequence[Pod]
    ) -> Reconcile[tuple[Status, Exception | None]]:
        """Bring the pods forward, then write the status, which is done also when the first failed."""
        status = Status(
            found.metadata.generation,
            revisions.current.name,
            revisions.update.name,
            revisions.collisions,
        )
        failed: Exception | None = None
        try:
            yield from self._move(found, revisions, status, pods)
        except Failed as error:
            failed = error
        try:
            yield from self._write_status(found, status)
        except Failed as error:
            failed = failed or error
        return status, failed

    def _write_status(self, found: StatefulSet, status: Status) -> Reconcile[None]:
        status.complete_rolling_update(found)
        if not status.differs(found):
            return
        current = found

        def attempt() -> Reconcile[None]:
            nonlocal current
            body = {**current.tree, "status": status.tree()}
            try:
                written = yield from calls.update(STATEFUL_SETS, body, "status")
            except ApiError:
                known = self._sets.get(found.key)
                if known is not None:
                    current = known.view
                raise
            self._consistency.wrote(found.key, found.uid, STATEFUL_SETS, written)

        yield from retry_on_conflict(attempt, RETRY, "statefulset.conflict")

    # ------------------------------------------------------------------ pods

    def _turn(
        self, found: StatefulSet, revisions: Revisions, status: Status, pods: Sequence[Pod]
    ) -> Turn:
        """The pods by place: those wanted, with new ones for what is missing, and those too many."""
        now = self.host.now
        status.count(found, pods, now)
        start = start_ordinal(found)
        by_ordinal = {ordinal_of(pod): pod for pod in pods if in_range(found, pod)}
        replicas = Replicas(
            start,
            wanted(found),
            by_ordinal,
            lambda ordinal: self._versioned(found, revisions, ordinal),
        )
        condemned = sorted(
            (pod for pod in pods if ordinal_of(pod) >= 0 and not in_range(found, pod)),
            key=ordinal_of,
            reverse=True,
        )
        seconds = found.spec.min_ready_seconds
        waiting = (
            pod for pod in chain(replicas, reversed(condemned)) if is_unavailable(pod, seconds, now)
        )
        return Turn(found, revisions, status, replicas, condemned, next(waiting, None))

    def _versioned(self, found: StatefulSet, revisions: Revisions, ordinal: int) -> Pod:
        """A new pod, at the current revision while a rolling update has not come to it."""
        strategy = found.spec.update_strategy
        if strategy.rolling_update is not None:
            kept = partition_of(found)
        else:
            kept = found.status.current_replicas if strategy.type == ROLLING_UPDATE else 0
        before = ordinal < start_ordinal(found) + kept
        revision = revisions.current if before else revisions.update
        return new_pod(found, history.template_of(revision), ordinal, revision.name)

    def _move(
        self, found: StatefulSet, revisions: Revisions, status: Status, pods: Sequence[Pod]
    ) -> Reconcile[None]:
        """Replicas first, then claims and deletion of those too many, then the rolling update."""
        turn = self._turn(found, revisions, status, pods)
        if found.metadata.deletion_timestamp is not None:
            return
        steps: tuple[tuple[Collection[Pod], Callable[[Turn, Pod], Reconcile[bool]]], ...] = (
            (turn.replicas, self._replica),
            (turn.condemned, self._condemned_claims),
            (turn.condemned, self._condemned),
        )
        for group, step in steps:
            try:
                stop = yield from self._for_all(turn, group, step)
            finally:
                status.count(found, (*turn.replicas.existing, *turn.condemned), self.host.now)
            if stop:
                return
        if found.spec.update_strategy.type != ON_DELETE:
            if self._bursts:
                yield from self._roll_several(turn)
            else:
                yield from self._roll_one(turn)

    def _for_all(
        self, turn: Turn, pods: Collection[Pod], step: Callable[[Turn, Pod], Reconcile[bool]]
    ) -> Reconcile[bool]:
        """One after the other until one says stop; or, in parallel, in growing batches until one fails."""
        if turn.ordered:
            for number, pod in enumerate(pods, 1):
                if (yield from step(turn, pod)):
                    return True
                if not number % SLICE:
                    yield Point("statefulset.slice")
            return False

        def part(pod: Pod) -> Reconcile[Exception | None]:
            try:
                yield from step(turn, pod)
            except Failed as error:
                return error
            return None

        rest = iter(pods)
        for size in batches(len(pods)):
            errors: list[Exception] = []
            for first in range(0, size, AT_ONCE):
                group = [part(pod) for pod in islice(rest, min(AT_ONCE, size - first))]
                results = yield from together("statefulset.pod", group)
                errors += [error for error in results if error is not None]
            if errors:
                raise aggregate(errors)
        return False

    def _replica(self, turn: Turn, pod: Pod) -> Reconcile[bool]:
        """Bring one wanted pod forward; whether the others have to wait."""
        found, control = turn.found, self._control
        if pod.status.phase in {"Failed", "Succeeded"}:
            # The next one is made once this one is gone.
            if not is_terminating(pod):
                yield from control.delete(found, pod)
            return True
        if not is_created(pod):
            if control.has_stale_claim(found, pod):
                return True
            yield from control.create(found, pod)
            if turn.ordered:
                return True
        if pod.status.phase == "Pending":
            yield from control.create_missing_claims(found, pod)
        if turn.ordered and (
            is_terminating(pod)
            or not is_running_and_ready(pod)
            or not is_available(pod, found.spec.min_ready_seconds, self.host.now)
        ):
            return True
        matches = identity_matches(found, pod) and storage_matches(found, pod)
        if not matches or not control.claims_match(found, pod):
            yield from control.update(found, pod)
        return False

    def _condemned_claims(self, turn: Turn, pod: Pod) -> Reconcile[bool]:
        """The claims of a pod that goes may have to go with it."""
        if not self._control.claims_match(turn.found, pod):
            yield from self._control.update_claim_owners(turn.found, pod)
        return False

    def _condemned(self, turn: Turn, pod: Pod) -> Reconcile[bool]:
        """Delete one pod too many; in order only the last one, and only if those before it serve."""
        if is_terminating(pod):
            return turn.ordered
        serves = is_running_and_ready(pod) and is_available(
            pod, turn.found.spec.min_ready_seconds, self.host.now
        )
        if turn.ordered and not serves and pod is not turn.first_unavailable:
            return True
        yield from self._control.delete(turn.found, pod)
        return True

    # ------------------------------------------------------------------ rolling update

    def _outdated(self, turn: Turn, pod: Pod) -> bool:
        return revision_of(pod) != turn.revisions.update.name and not is_terminating(pod)

    def _delete_outdated(self, turn: Turn, pod: Pod) -> Reconcile[None]:
        try:
            yield from self._control.delete(turn.found, pod)
        except RequestFailed as error:
            if not is_gone(error):
                raise
        turn.status.current_replicas -= 1

    def _roll_one(self, turn: Turn) -> Reconcile[None]:
        """Delete the last outdated pod, unless one after it does not serve yet."""
        seconds = turn.found.spec.min_ready_seconds
        last = turn.replicas.backwards(partition_of(turn.found))
        for number, pod in enumerate(last, 1):
            if self._outdated(turn, pod):
                yield from self._delete_outdated(turn, pod)
                return
            if is_unavailable(pod, seconds, self.host.now):
                return
            if not number % SLICE:
                yield Point("statefulset.slice")

    def _roll_several(self, turn: Turn) -> Reconcile[None]:
        """Delete outdated pods from the last one on, so that at most maxUnavailable do not serve."""
        rolling = turn.found.spec.update_strategy.rolling_update
        limit: int | str | None = rolling.max_unavailable if rolling is not None else None
        try:
            most = scaled_value(1 if limit is None else limit, wanted(turn.found), round_up=False)
        except BadIntOrPercent as error:
            raise Retry(str(error)) from None
        seconds, now = turn.found.spec.min_ready_seconds, self.host.now
        replicas = turn.replicas
        unavailable = sum(is_unavailable(pod, seconds, now) for pod in replicas.existing)
        left = max(1, most) - unavailable - replicas.missing
        for number, pod in enumerate(replicas.backwards(partition_of(turn.found)), 1):
            if left <= 0:
                return
            if not number % SLICE:
                yield Point("statefulset.slice")
            if self._outdated(turn, pod):
                yield from self._delete_outdated(turn, pod)
                left -= 1
