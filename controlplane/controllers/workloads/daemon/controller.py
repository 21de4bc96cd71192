"""The DaemonSet controller. Upstream: pkg/controller/daemon/daemon_controller.go, update.go.

Points: `daemonset.history` (the set and the nodes were read), `daemonset.expectations` (history was
constructed), `daemonset.pods` (before pods are listed, each time).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controlplane.api.meta import LabelSelector
from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists
from controlplane.client.expectations import CountedExpectations
from controlplane.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from controlplane.controllers.common import history
from controlplane.controllers.common.consistency import ConsistencyStore
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Work,
    ignore,
)
from controlplane.controllers.common.effects import (
    Reconcile,
    RequestFailed,
    Retry,
    aggregate,
    together,
)
from controlplane.controllers.common.features import CONSISTENT_DAEMON_SET
from controlplane.controllers.common.go_json import compact_json
from controlplane.controllers.common.int_or_percent import BadIntOrPercent
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.overdue import look_again
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of, controller_reference
from controlplane.controllers.common.pod_control import (
    create_pod,
    delete_pod,
    is_gone,
    pod_of_template,
)
from controlplane.controllers.common.pods import available_later_ns, is_available, is_ready
from controlplane.controllers.common.ref_manager import (
    claim_objects,
    controller_index,
    controller_keys,
    namespace_index,
)
from controlplane.controllers.common.slow_start import slow_start_batch
from controlplane.controllers.common.template_hash import template_hash
from controlplane.controllers.workloads.daemon import rolling
from controlplane.controllers.workloads.daemon.failures import FailedPodsBackoff
from controlplane.controllers.workloads.daemon.placement import (
    REVISION_LABEL,
    NoTargetNode,
    fit,
    for_node,
    pod_template,
    target_node,
)
from controlplane.decisions import Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.apps import ControllerRevision, DaemonSet
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

Failed = (*RequestFailed, Retry)
BURST: Final = 250
STATUS_RETRIES: Final = 1
WORKERS: Final = 2
ON_DELETE: Final = "OnDelete"
FINISHED: Final = ("Failed", "Succeeded")


class Revisions(NamedTuple):
    """The revision of the template, and older ones."""

    current: ControllerRevision
    old: list[ControllerRevision]

    @property
    def digest(self) -> str:
        """The label of pods of the current template."""
        return self.current.labels.get(REVISION_LABEL, "")


class DaemonSetController(Controller):
    """Keeps one pod of each DaemonSet on every node that fits."""

    name = "daemonset-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("daemonset")
        self.expectations = CountedExpectations()
        self.failures = FailedPodsBackoff()
        self._consistency = ConsistencyStore(caches, enabled=host.features[CONSISTENT_DAEMON_SET])
        self._pods = caches.of(PODS, controller=controller_index, namespace=namespace_index)
        self._sets = caches.of(DAEMON_SETS, namespace=namespace_index)
        self._owners = Owners("DaemonSet", self._sets, self.queue.add)
        self._revisions = caches.of(
            CONTROLLER_REVISIONS, controller=controller_index, namespace=namespace_index
        )
        self._nodes = caches.of(NODES)

    def work(self) -> tuple[Work, ...]:
        """One queue of DaemonSets."""
        return (Work("daemonset", self.sync, workers=WORKERS),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods and revisions tell of their sets, nodes of all sets that fit them differently than before."""
        return {
            PODS: Handlers(self._pod_added, self._pod_updated, self._pod_deleted),
            CONTROLLER_REVISIONS: Handlers(
                self._revision_added, self._revision_updated, self._revision_deleted
            ),
            DAEMON_SETS: Handlers(self._added, self._updated, self._deleted),
            NODES: Handlers(self._node_added, self._node_updated, ignore),
        }

    # ------------------------------------------------------------------ handlers

    def _added(self, obj: Object[DaemonSet]) -> None:
        self.queue.add(obj.key)

    def _updated(self, old: Object[DaemonSet], new: Object[DaemonSet]) -> None:
        if old.uid != new.uid:
            self._deleted(old, True)
        self.queue.add(new.key)

    def _deleted(self, obj: Object[DaemonSet], _unknown: bool) -> None:
        self.expectations.forget(obj.key)
        self._consistency.forget(obj.key, obj.uid)
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
        before, pod = old.view, new.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_deleted(new, False)
            return
        owner = self._owners.changed(before, pod)
        if owner is not None:
            later = available_later_ns(owner.view.spec.min_ready_seconds, before, pod)
            if later is not None:
                self.queue.add_after(owner.key, later)

    def _pod_deleted(self, obj: Object[Pod], _unknown: bool) -> None:
        owner = self._owners.of(obj.view)
        if owner is not None:
            self.expectations.deletion_observed(owner.key)
            self.queue.add(owner.key)

    def _revision_added(self, obj: Object[ControllerRevision]) -> None:
        revision = obj.view
        if revision.metadata.deletion_timestamp is not None:
            self._revision_deleted(obj, False)
        elif controller_of(revision) is None:
            self._owners.ask_adopters(revision)

    def _revision_updated(
        self, old: Object[ControllerRevision], new: Object[ControllerRevision]
    ) -> None:
        if old.resource_version != new.resource_version:
            self._owners.changed(old.view, new.view)

    def _revision_deleted(self, obj: Object[ControllerRevision], _unknown: bool) -> None:
        self._owners.ask_owner(obj.view)

    def _node_added(self, obj: Object[Node]) -> None:
        for found in self._sets:
            if fit(found.view, obj.view).should_run:
                self.queue.add(found.key)

    def _node_updated(self, old: Object[Node], new: Object[Node]) -> None:
        before, node = old.view, new.view
        if before.labels == node.labels and before.spec.taints == node.spec.taints:
            return
        for found in self._sets:
            if fit(found.view, before) != fit(found.view, node):
                self.queue.add(found.key)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Bring revisions, pods and status to what the set wants."""
        obj = self._sets.get(key)
        if obj is None:
            self.expectations.forget(key)
            self._consistency.forget(key)
            return
        self._consistency.ensure_ready(key)
        found = obj.view
        nodes = [node.view for node in self._nodes]
        if found.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self.host.event(found, WARNING, "SelectingAll", message)
            return
        if found.metadata.deletion_timestamp is not None:
            # Its revisions may be gone or orphaned already, so no status can be computed.
            return
        yield Point("daemonset.history")
        try:
            revisions = yield from self.construct_history(found)
        except Failed as error:
            raise Retry(f"failed to construct revisions of DaemonSet: {error}") from error
        yield Point("daemonset.expectations")
        if not self.expectations.satisfied(key, self.host.now):
            look_again(self.host.fixes, self.queue, self.expectations, key, self.host.now)
            yield from self._update_status(found, nodes, revisions.digest, observed=False)
            return
        failed: Exception | None = None
        try:
            yield from self._update(found, nodes, revisions)
        except Failed as error:
            failed = error
        try:
            yield from self._update_status(found, nodes, revisions.digest, observed=True)
        except Failed as error:
            failed = failed or error
        if failed is not None:
            raise failed

    def _update(
        self, found: DaemonSet, nodes: Sequence[Node], revisions: Revisions
    ) -> Reconcile[None]:
        yield from self._manage(found, nodes, revisions.digest)
        satisfied = self.expectations.satisfied(found.key, self.host.now)
        if satisfied and found.spec.update_strategy.type == rolling.ROLLING_UPDATE:
            yield from self.rolling_update(found, nodes, revisions.digest)
        try:
            yield from self._clean_up(found, revisions.old)
        except Failed as error:
            raise Retry(f"failed to clean up revisions of DaemonSet: {error}") from error

    # ------------------------------------------------------------------ history

    def construct_history(self, found: DaemonSet) -> Reconcile[Revisions]:
        """The set's revisions, with one for the template, numbered last."""
        related = [
            obj.view
            for index in controller_keys(found)
            for obj in self._revisions.by_index("controller", index)
        ]
        claimed = yield from claim_objects(
            CONTROLLER_REVISIONS, DAEMON_SETS, found, found.spec.selector, related
        )
        data = compact_json(history.template_patch(found.tree["spec"]["template"]))
        same: list[ControllerRevision] = []
        old: list[ControllerRevision] = []
        for revision in claimed:
            if REVISION_LABEL not in revision.labels:
                revision = yield from self._label(revision)
            (same if compact_json(revision.data or {}) == data else old).append(revision)
        number = max((revision.revision for revision in old), default=0) + 1
        if not same:
            current = yield from self._snapshot(found, number)
        else:
            current = yield from self._only(found, same)
            if current.revision < number:
                yield from calls.update(CONTROLLER_REVISIONS, {**current.tree, "revision": number})
        return Revisions(current, old)

    def _label(self, revision: ControllerRevision) -> Reconcile[ControllerRevision]:
        """Label a revision of an old release with its name."""
        metadata = revision.tree["metadata"]
        labels = {**(metadata.get("labels") or {}), REVISION_LABEL: revision.name}
        written = yield from calls.update(
            CONTROLLER_REVISIONS, {**revision.tree, "metadata": {**metadata, "labels": labels}}
        )
        return written.view

    def _only(
        self, found: DaemonSet, same: Sequence[ControllerRevision]
    ) -> Reconcile[ControllerRevision]:
        """Of revisions with the same data, the one with the greatest number; the others are deleted."""
        if len(same) == 1:
            return same[0]
        kept = same[0]
        for revision in same:
            if revision.revision >= kept.revision:
                kept = revision
        digest = kept.labels.get(REVISION_LABEL, "")
        for pod in (yield from self._claim(found)):
            if pod.labels.get(REVISION_LABEL, "") != digest:
                patch: Tree = {"metadata": {"labels": {REVISION_LABEL: digest}}}
                yield from calls.patch(PODS, pod.namespace, pod.name, patch, kind=MERGE_PATCH)
        for revision in same:
            if revision.name != kept.name:
                yield from calls.delete(CONTROLLER_REVISIONS, revision.namespace, revision.name)
        return kept

    def _snapshot(self, found: DaemonSet, number: int) -> Reconcile[ControllerRevision]:
        """Create the revision of the template; where its name is taken by another, count a collision."""
        template = found.tree["spec"]["template"]
        digest = template_hash(template, found.status.collision_count)
        name = f"{found.name}-{digest}"
        labels = (template.get("metadata") or {}).get("labels") or {}
        metadata: Tree = {
            "name": name,
            "namespace": found.namespace,
            "labels": {**labels, REVISION_LABEL: digest},
            "ownerReferences": [controller_reference(found)],
        }
        if found.annotations:
            metadata["annotations"] = dict(found.annotations)
        data = history.template_patch(template)
        body = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": data,
            "revision": number,
        }
        try:
            made = yield from calls.create(CONTROLLER_REVISIONS, found.namespace, body)
        except ApiError as error:
            if not is_already_exists(error):
                raise
            taken = error
        else:
            return made.view
        known = (yield from calls.get(CONTROLLER_REVISIONS, found.namespace, name)).view
        if compact_json(known.data or {}) == compact_json(data):
            return known
        yield from self._count_collision(found)
        raise taken

    def _count_collision(self, found: DaemonSet) -> Reconcile[None]:
        """Raise the collision count, if the set that was read is not older than it."""
        live = (yield from calls.get(DAEMON_SETS, found.namespace, found.name)).view
        counts = found.status.collision_count, live.status.collision_count
        if counts[0] != counts[1]:
            shown = ["<nil>" if count is None else str(count) for count in counts]
            raise Retry(
                f"found a stale collision count ({shown[0]}, expected {shown[1]}) of DaemonSet "
                f'"{found.name}" while processing; will retry until it is updated'
            )
        status = {**(live.tree.get("status") or {}), "collisionCount": (counts[1] or 0) + 1}
        yield from calls.update(DAEMON_SETS, {**live.tree, "status": status}, "status")

    def _clean_up(self, found: DaemonSet, old: Sequence[ControllerRevision]) -> Reconcile[None]:
        """Delete the oldest revisions that no pod has, beyond the limit."""
        by_node = yield from self._by_node(found, finished=True)
        limit = found.spec.revision_history_limit
        surplus = len(old) - (10 if limit is None else limit)
        live = {pod.labels.get(REVISION_LABEL, "") for pods in by_node.values() for pod in pods} - {
            ""
        }
        for revision in sorted(old, key=lambda each: each.revision):
            if surplus <= 0:
                return
            if revision.labels.get(REVISION_LABEL, "") in live:
                continue
            yield from calls.delete(CONTROLLER_REVISIONS, revision.namespace, revision.name)
            surplus -= 1

    # ------------------------------------------------------------------ pods

    def _claim(self, found: DaemonSet) -> Reconcile[list[Pod]]:
        yield Point("daemonset.pods")
        related = [
            obj.view
            for index in controller_keys(found)
            for obj in self._pods.by_index("controller", index)
        ]
        return (yield from claim_objects(PODS, DAEMON_SETS, found, found.spec.selector, related))

    def _by_node(
        self, found: DaemonSet, *, finished: bool = False
    ) -> Reconcile[dict[str, list[Pod]]]:
        """The set's pods by the node they are on or for; finished ones that are being deleted only if asked for."""
        try:
            claimed = yield from self._claim(found)
        except Failed as error:
            said = f'couldn\'t get node to daemon pod mapping for daemon set "{found.name}"'
            raise Retry(f"{said}: {error}") from error
        by_node: dict[str, list[Pod]] = {}
        for pod in claimed:
            going = pod.metadata.deletion_timestamp is not None
            if not finished and going and pod.status.phase in FINISHED:
                continue
            try:
                by_node.setdefault(target_node(pod), []).append(pod)
            except NoTargetNode:
                continue
        return by_node

    def _manage(self, found: DaemonSet, nodes: Sequence[Node], digest: str) -> Reconcile[None]:
        """One pod on every node that fits, none elsewhere; the rolling update comes after."""
        by_node = yield from self._by_node(found)
        create: list[str] = []
        delete: list[str] = []
        for node in nodes:
            moves = self._on_node(found, node, by_node.get(node.name), digest)
            create += moves.create
            delete += moves.delete
        names = {node.name for node in nodes}
        delete += [
            pod.name
            for name, pods in by_node.items()
            if name not in names
            for pod in pods
            if not pod.spec.node_name
        ]
        yield from self._sync_nodes(found, create, delete, digest)

    def _on_node(
        self, found: DaemonSet, node: Node, pods: Sequence[Pod] | None, digest: str
    ) -> rolling.Moves:
        """Return the actions for the pods on one node; None: there has never been one."""
        fits = fit(found, node)
        if fits.should_run and pods is None:
            return rolling.Moves([], [node.name])
        there = [pod for pod in pods or () if pod.metadata.deletion_timestamp is None]
        if not fits.should_continue:
            return rolling.Moves([pod.name for pod in there], [])
        delete = [pod.name for pod in there if self._replaces_finished(found, node, pod)]
        running = sorted(
            (pod for pod in there if pod.status.phase not in FINISHED), key=_oldest_first
        )
        try:
            surges = rolling.max_surge(found, 1) > 0
        except BadIntOrPercent:
            surges = False
        if not surges:
            return rolling.Moves([*delete, *(pod.name for pod in running[1:])], [])
        if not running:
            return rolling.Moves(delete, [node.name] if fits.should_run else [])
        return rolling.Moves([*delete, *self._excess(found, running, digest)], [])

    def _replaces_finished(self, found: DaemonSet, node: Node, pod: Pod) -> bool:
        """Return whether a finished pod is to be deleted now; one that failed may have to wait."""
        now = self.host.now
        where = f"daemon pod {pod.key} on node {node.name}, will try to"
        if pod.status.phase == "Succeeded":
            self.host.event(
                found, NORMAL, "SucceededDaemonPod", f"Found succeeded {where} delete it"
            )
            return True
        if pod.status.phase != "Failed":
            return False
        key = f"{found.uid}/{found.status.observed_generation}/{node.name}"
        waiting = self.failures.waiting(key, now)
        if waiting:
            self.queue.add_after(found.key, waiting)
            return False
        self.failures.failed(key, now)
        self.host.event(found, WARNING, "FailedDaemonPod", f"Found failed {where} kill it")
        return True

    def _excess(self, found: DaemonSet, running: Sequence[Pod], digest: str) -> list[str]:
        """Of the pods on a node while surging, those beyond the oldest new and the oldest old one.

        The old one goes, too, once it is not ready or the new one serves.
        """
        if len(running) <= 1:
            return []
        kept: dict[bool, Pod] = {}
        delete = []
        for pod in running:
            if kept.setdefault(pod.labels.get(REVISION_LABEL) == digest, pod) is not pod:
                delete.append(pod.name)
        new, old = kept.get(True), kept.get(False)
        if new is not None and old is not None:
            seconds = found.spec.min_ready_seconds
            if not is_ready(old) or is_available(new, seconds, self.host.now):
                delete.append(old.name)
        return delete

    def _sync_nodes(
        self, found: DaemonSet, create: Sequence[str], delete: Sequence[str], digest: str
    ) -> Reconcile[None]:
        """Create pods in growing batches, then delete pods side by side, at most 250 each."""
        create, delete = create[:BURST], delete[:BURST]
        key = found.key
        self.expectations.expect(key, len(create), len(delete), self.host.now)
        template = pod_template(
            found.tree["spec"]["template"], rolling.template_generation(found), digest
        )
        errors: list[Exception] = []
        tried: list[int] = []

        def make(number: int) -> Reconcile[Exception | None]:
            tried.append(number)
            pod = pod_of_template(found, for_node(template, create[number]))
            try:
                made = yield from create_pod(self.host, found, pod)
            except Failed as error:
                if namespace_is_terminating(error):
                    return None
                self.expectations.creation_observed(key)
                errors.append(error)
                return error
            self._consistency.wrote(key, found.uid, PODS, made)
            return None

        def remove(name: str) -> Reconcile[None]:
            try:
                yield from delete_pod(self.host, found, name)
            except RequestFailed as error:
                self.expectations.deletion_observed(key)
                if not is_gone(error):
                    errors.append(Retry(f"unable to delete pods: {error}"))

        yield from slow_start_batch("daemonset.create", len(create), make)
        for _ in range(len(create) - len(tried)):
            self.expectations.creation_observed(key)
        yield from together("daemonset.delete", [remove(name) for name in delete])
        if errors:
            raise aggregate(errors)

    # ------------------------------------------------------------------ rolling update

    def rolling_update(
        self, found: DaemonSet, nodes: Sequence[Node], digest: str
    ) -> Reconcile[None]:
        """Replace old pods, as many at a time as may be missing or double."""
        by_node = yield from self._by_node(found)
        wanted = {node.name: fit(found, node).should_run for node in nodes}
        total = sum(wanted.values())
        for name, should_run in wanted.items():
            if should_run:
                by_node.setdefault(name, [])
        try:
            missing = rolling.max_unavailable(found, total)
        except BadIntOrPercent as error:
            said = "couldn't get unavailable numbers: invalid value for MaxUnavailable"
            raise Retry(f"{said}: {error}") from None
        try:
            surge = rolling.max_surge(found, total)
        except BadIntOrPercent as error:
            said = "couldn't get unavailable numbers: invalid value for MaxSurge"
            raise Retry(f"{said}: {error}") from None
        if total > 0 and missing == 0 and surge == 0:
            missing = 1
        seconds, now = found.spec.min_ready_seconds, self.host.now

        def available(pod: Pod) -> bool:
            return is_available(pod, seconds, now)

        def should_run_on(name: str) -> bool:
            node = self._nodes.get(name)
            if node is None:
                said = f'couldn\'t get node for nodeName "{name}": node "{name}" not found'
                raise Retry(said)
            return fit(found, node.view).should_run

        if surge == 0:
            moves = rolling.replace_in_place(found, by_node, digest, missing, available)
        else:
            moves = rolling.replace_with_surge(
                found, by_node, digest, surge, total, available, should_run_on
            )
        yield from self._sync_nodes(found, moves.create, moves.delete, digest)

    # ------------------------------------------------------------------ status

    def _update_status(
        self, found: DaemonSet, nodes: Sequence[Node], digest: str, *, observed: bool
    ) -> Reconcile[None]:
        """Count and write; a set whose expectations are not met was not acted on at this generation."""
        by_node = yield from self._by_node(found)
        seconds, now = found.spec.min_ready_seconds, self.host.now
        generation = rolling.template_generation(found)
        names = (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberMisscheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        )
        counts = dict.fromkeys(names, 0)
        for node in nodes:
            pods = sorted(by_node.get(node.name, ()), key=_oldest_first)
            if not fit(found, node).should_run:
                counts["numberMisscheduled"] += bool(pods)
                continue
            counts["desiredNumberScheduled"] += 1
            if not pods:
                continue
            pod = pods[0]
            counts["currentNumberScheduled"] += 1
            counts["numberReady"] += is_ready(pod)
            counts["numberAvailable"] += is_available(pod, seconds, now)
            counts["updatedNumberScheduled"] += rolling.is_updated(pod, digest, generation)
        counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
        yield from self._write_status(found, counts, observed=observed)
        if seconds and counts["numberReady"] != counts["numberAvailable"]:
            self.queue.add_after(found.key, seconds * SECOND)

    def _write_status(
        self, found: DaemonSet, counts: dict[str, int], *, observed: bool
    ) -> Reconcile[None]:
        old = found.tree.get("status") or {}
        same = all((old.get(name) or 0) == count for name, count in counts.items())
        if same and found.status.observed_generation >= found.metadata.generation:
            return
        kept = {
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberMisscheduled",
            "numberReady",
        }
        current = found.tree
        for attempt in range(STATUS_RETRIES + 1):
            status = {
                key: value
                for key, value in (current.get("status") or {}).items()
                if key not in counts
            }
            status.update({name: count for name, count in counts.items() if count or name in kept})
            if observed:
                status["observedGeneration"] = found.metadata.generation
            try:
                written = yield from calls.update(
                    DAEMON_SETS, {**current, "status": status}, "status"
                )
            except RequestFailed as error:
                if attempt == STATUS_RETRIES:
                    raise Retry(
                        f"error storing status for daemon set {found.key}: {error}"
                    ) from error
            else:
                self._consistency.wrote(found.key, found.uid, DAEMON_SETS, written)
                return
            live = yield from calls.get(DAEMON_SETS, found.namespace, found.name)
            current = live.tree


def _oldest_first(pod: Pod) -> tuple[bool, int, str]:
    """Pods that have a node first, then by age, then by name."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or 0, pod.name
