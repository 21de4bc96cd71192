"""Invariants of expectations: between two reconciles of an owner they are what its controller has still to hear of.

Upstream: pkg/controller/controller_utils.go (`ControllerExpectations`, "a way for controllers to tell the controller
manager what they expect"). A controller that has created or deleted pods acts for their owner again only once it has
heard of all of them. Fewer expectations than events to come let it act twice; more keep it from acting at all until
the record is five minutes old, by which time nothing shows any more. So this is asked at each step, not at rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.request import Request, Response
from controlplane.client.expectations import TIMEOUT_NS
from controlplane.client.resources import (
    DAEMON_SETS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
)
from controlplane.client.resources import PODS as PODS_RESOURCE
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    ANSWERED,
    PODS,
    controller_of,
    living_managers,
    parts_of_managers,
)

if TYPE_CHECKING:
    from actors.process import Mailbox, Message, Task
    from actors.process import Request as Asked
    from controlplane.api.object import Object
    from controlplane.controllers.loops.manager import Probe
    from controlplane.scenarios.engine.run import Run

__all__ = ["expectations_are_what_is_to_come"]

NAME: Final = "expectations are what is to come"
EXPECTING: Final = {
    "replicaset-controller": REPLICA_SETS,
    "replicationcontroller-controller": REPLICATION_CONTROLLERS,
    "daemonset-controller": DAEMON_SETS,
    "job-controller": JOBS,
}
"""The owners of which a controller keeps expectations, by its name."""
DELETING: Final = "replicaset.delete"
"""The tasks that delete the pods of ReplicaSets and ReplicationControllers, of which the very pods are expected."""


@define
class _Pods:
    """The beginnings and ends of pods since the run began: of which owner, and in which revision."""

    read: int = 0
    begun: dict[str, dict[str, tuple[int, int]]] = field(factory=dict)
    """By uid of owner and pod: the revision and the time."""
    ended: dict[str, tuple[int, str, str]] = field(factory=dict)
    """By key: the revision in which the pod was marked or removed, its owner's uid then, and its own."""

    def follow(self, run: Run) -> None:
        """Read what was stored meanwhile."""
        space = run.cluster.store.keyspace(PODS)
        if space.latest == self.read:
            return
        for event in space.news_after(self.read):
            pod: Any = event.new or event.old
            owner = (controller_of(pod) or ("", ""))[1]
            if event.old is None:
                self.begun.setdefault(owner, {})[pod.uid] = event.revision, run.world.now
            going = event.new is None or bool(pod.metadata.get("deletionTimestamp"))
            known = self.ended.get(pod.key)
            if going and (known is None or known[2] != pod.uid):
                self.ended[pod.key] = event.revision, owner, pod.uid
        self.read = space.latest

    def to_begin(self, owner: str, heard: int) -> dict[str, int]:
        """The uids of an owner's pods that begin after a revision, and when."""
        begun = self.begun.get(owner, {})
        return {uid: at for uid, (revision, at) in begun.items() if revision > heard}

    def to_end(self, owner: str, heard: int) -> int:
        """The number of an owner's pods whose ends come after a revision."""
        return sum(of == owner and revision > heard for revision, of, _ in self.ended.values())


@define
class _Seen:
    """State between two checks: the records of each controller by owner, and its requests on their way."""

    pods: _Pods = field(factory=_Pods)
    records: dict[str, tuple[Any, dict[str, Any]]] = field(factory=dict)
    taken: dict[tuple[str, str], tuple[int, str]] = field(factory=dict)
    """By controller and key: the number of the last reconcile, and the uid that the owner had then."""
    made_for: dict[tuple[str, str], tuple[Any, str]] = field(factory=dict)
    """By controller and key: the record, and the uid of the owner for which it was made."""
    asked: dict[int, tuple[Task, str]] = field(factory=dict)
    """Requests to create or delete a pod on their way: the task, and the key of a pod to be deleted."""
    created: dict[str, Task] = field(factory=dict)
    """The uids of pods that were created."""
    deleted: dict[str, Task] = field(factory=dict)
    """The keys of pods that were deleted for their ReplicaSet."""

    def follow(self, probe: Probe, controller: Any) -> None:
        """Note for which owner each record was made: a name may pass on to another one amid a reconcile."""
        assert probe.caches is not None
        owners = probe.caches.stores[EXPECTING[controller.name]]
        name = f"{probe.name}#{probe.incarnation} {controller.name}"
        for key, number in controller.queue.processing.items():
            known = self.taken.get((name, key))
            if known is None or known[0] != number:
                owner = owners.peek(key)
                self.taken[name, key] = number, "" if owner is None else owner.uid
        for key, record in controller.expectations.records().items():
            made = self.made_for.get((name, key))
            if made is None or made[0] is not record:
                self.made_for[name, key] = record, self.taken.get((name, key), (0, ""))[1]

    def is_about(self, record: Any, owner: str) -> bool:
        """Return whether a record was made for this owner, and not for an earlier one of its name."""
        return all(uid in ("", owner) for known, uid in self.made_for.values() if known is record)

    def hears(self, message: Message, target: Mailbox) -> None:
        """Note a request to create or delete a pod (`Listener`)."""
        asked, payload = message.request, message.payload
        if asked is None or not isinstance(payload, Request) or payload.resource != "pods":
            return
        if payload.verb == "create" and not payload.subresource:
            self.asked[asked.number] = asked.asker, ""
        elif payload.verb == "delete" and asked.asker.name.startswith(DELETING):
            self.asked[asked.number] = asked.asker, f"{payload.namespace}/{payload.name}"

    def hears_answer(self, request: Asked, value: object, error: BaseException | None) -> None:
        """Note a pod that was created or deleted (`Listener`)."""
        task, key = self.asked.pop(request.number, (None, ""))
        if task is None or not isinstance(value, Response) or not value.ok:
            return
        if key:
            self.deleted[key] = task
        elif value.object is not None:
            self.created[value.object.uid] = task

    def created_in_this_life(self, uid: str) -> bool:
        """Return whether a pod was created by a process that lives."""
        task = self.created.get(uid)
        return task is not None and _is_of_this_life(task)

    def unheard(self, owner: str, heard: int) -> list[str]:
        """The keys of an owner's pods that this life of its controller has deleted, and not heard of."""
        found = []
        for key, task in list(self.deleted.items()):
            revision, of, _ = self.pods.ended.get(key, (0, "", ""))
            if revision <= heard or not _is_of_this_life(task):
                del self.deleted[key]
            elif of == owner:
                found.append(key)
        return found


def _is_of_this_life(task: Task) -> bool:
    return bool(task.incarnation == task.actor.incarnation)


def _parts(probe: Probe) -> tuple[Any, list[Any]]:
    """The informer of a manager's pods, and its controllers that keep expectations."""
    keeping = [each for each in probe.controllers if each.name in EXPECTING]
    return probe.informers.get(PODS_RESOURCE), keeping


def _view(run: Run) -> Any:
    """All that an answer depends on, of the managers."""
    found: list[Any] = []
    for pods, keeping in parts_of_managers(run, f"{NAME}: parts", _parts):
        if pods is None:
            continue
        found += [pods.told_all, pods.store.resource_version]
        for each in keeping:
            processing, records = each.queue.processing, each.expectations.records()
            found += [tuple(processing.items()) if processing else ()]
            found += [(id(one), one.outstanding) for one in records.values()]
    return found


def expectations_are_what_is_to_come(*managers: str) -> Invariant:
    """After each step of these controller managers: no expectation was replaced before it was met, and those of an
    owner that is not being reconciled are as many as there are events of its pods to come.

    What was expected for an earlier owner of a name is left to expire, as upstream has it (issue 72155). Nothing is
    said once a message was lost: then upstream's expectations are wrong, too, until they expire. A Job or
    DaemonSet may count a deletion twice, its mark and its end, so it may expect fewer than are to come.
    """

    def begin(run: Run) -> None:
        seen = run.notes[NAME] = _Seen()
        run.world.overhear(seen)
        seen.pods.read = run.cluster.store.keyspace(PODS).latest

    def check(run: Run) -> str | None:
        if not run.world.faults.injected <= ANSWERED:
            return None
        seen: _Seen = run.notes[NAME]
        seen.pods.follow(run)
        for probe in living_managers(run):
            informer, keeping = _parts(probe)
            for controller in keeping:
                seen.follow(probe, controller)
                said = _replaced(seen, f"{probe.name} {controller.name}", controller)
                if said is None and informer is not None and informer.has_synced:
                    said = _compared(run, seen, probe, controller)
                if said is not None:
                    return said
        return None

    return Invariant(NAME, check, managers, begin=begin, looks_at=_view)


def _replaced(seen: _Seen, place: str, controller: Any) -> str | None:
    """Say that a controller has asked for more before it has heard of all that it asked for earlier."""
    now = dict(controller.expectations.records())
    of, before = seen.records.get(place, (None, {}))
    seen.records[place] = controller, now
    if of is not controller:
        return None  # another life of the process
    for key, record in now.items():
        earlier: Any = before.get(key, record)
        creations, deletions = earlier.outstanding
        if earlier is record or (creations <= 0 and deletions <= 0):
            continue
        if record.since_ns - earlier.since_ns <= TIMEOUT_NS:
            return (
                f"{controller.name} acts for {key} again, and still expects {max(creations, 0)} creations"
                f" and {max(deletions, 0)} deletions"
            )
    return None


def _compared(run: Run, seen: _Seen, probe: Any, controller: Any) -> str | None:
    """Compare the expectations of a controller with the events that it has not heard of yet.

    There may be more of them only amid a reconcile, which expects before it asks.
    """
    informer = probe.informers[PODS_RESOURCE]
    if not informer.told_all:
        return None
    heard = int(informer.store.resource_version or 0)
    busy = controller.queue.processing
    records = controller.expectations.records()
    for owner in probe.caches.stores[EXPECTING[controller.name]]:
        record = records.get(owner.key)
        said = _too_few(run, seen, owner, record, heard)
        settled = record is not None and owner.key not in busy
        if said is None and settled and seen.is_about(record, owner.uid):
            said = _too_many(run, seen.pods, owner, record, heard)
        if said is not None:
            return f"{controller.name} {said}"
    return None


def _too_few(run: Run, seen: _Seen, owner: Object[Any], record: Any, heard: int) -> str | None:
    """Say which of its own writes for an owner a controller neither expects nor has heard of."""
    expected = 0 if record is None else record.outstanding[0]
    coming = seen.pods.to_begin(owner.uid, heard)
    own = [at for uid, at in coming.items() if seen.created_in_this_life(uid)]
    if max(expected, 0) < len(own) and run.world.now - min(own) < TIMEOUT_NS:
        return f"has not heard of {len(own)} pods that it created for {owner.key}, and expects {expected}"
    if isinstance(getattr(record, "deletions", None), int):
        return None
    for key in seen.unheard(owner.uid, heard):
        if record is None or key not in record.deletions:
            return f"has deleted {key} for {owner.key}, and neither expects nor has heard of it"
    return None


def _too_many(run: Run, pods: _Pods, owner: Object[Any], record: Any, heard: int) -> str | None:
    """Say what is expected in vain. The end of a pod that its owner has lost is not told to it."""
    creations, deletions = record.outstanding
    begun = len(pods.to_begin(owner.uid, heard))
    if creations > begun and not _is_ending(run, owner.namespace):
        return f"expects {creations} creations for {owner.key}, and {begun} are to come"
    if isinstance(record.deletions, int):
        ended = pods.to_end(owner.uid, heard)
        if deletions > ended:
            return f"expects {deletions} deletions for {owner.key}, and {ended} are to come"
        return None
    for key in record.deletions:
        revision, of, _ = pods.ended.get(key, (0, owner.uid, ""))
        if revision <= heard and of == owner.uid:
            what = "which it has received" if revision else "which was never requested"
            return f"expects the deletion of {key} for {owner.key}, {what}"
    return None


def _is_ending(run: Run, namespace: str) -> bool:
    """Return whether a namespace is being deleted or gone: creations are refused, and expected all the same.

    Of several servers one may still see the namespace end. Upstream: `manageReplicas` of replica_set.go takes a
    refusal with the cause NamespaceTerminating for no error.
    """
    return not any(
        each.name == namespace and not each.metadata.get("deletionTimestamp")
        for each in run.objects("/registry/namespaces/")
    )
