"""The invariant of decisions: none is against what the controller's caches said all through the reconcile.

What a controller stores may be wrong because its caches are late; that is how Kubernetes works. What it must not do is
to act against what it knows. A fact that the caches held when a reconcile of the owner began, and still hold when its
request is sent, was before its eyes whenever it looked. So a violation needs no luck with what others do meanwhile,
and says nothing against a controller that could not know.

Upstream: pkg/controller/replicaset/replica_set.go (`manageReplicas`), statefulset/stateful_set_control.go
(`processReplica`, `processCondemned`), daemon/daemon_controller.go (`podsShouldBeOnNode`), job/job_controller.go
(`manageJob`); none creates for an owner that is being deleted, or deletes a pod that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from controlplane.api.labels import from_label_selector
from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.tree import is_ready
from controlplane.client.resources import (
    DAEMON_SETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    ANSWERED,
    ENDED,
    controller_of,
    has_condition,
    is_active,
    living_managers,
    parts_of_managers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.process import Mailbox, Message
    from actors.process import Request as Asked
    from controlplane.controllers.loops.manager import Probe
    from controlplane.scenarios.engine.run import Run

__all__ = ["decisions_follow_caches"]

NAME: Final = "no decision is against what the caches said"
DECIDING: Final = {
    "replicaset-controller": ("ReplicaSet", REPLICA_SETS, "replicaset."),
    "replicationcontroller-controller": (
        "ReplicationController",
        REPLICATION_CONTROLLERS,
        "replicaset.",
    ),
    "statefulset-controller": ("StatefulSet", STATEFUL_SETS, "statefulset."),
    "daemonset-controller": ("DaemonSet", DAEMON_SETS, "daemonset."),
    "job-controller": ("Job", JOBS, "job."),
}
"""By controller: the kind and resource of its owners, and what the names of its tasks begin with."""


@frozen
class Told:
    """The cached owner, and the cached pods of its namespace by name."""

    owner: Any
    pods: Mapping[str, Object[Any]]


@frozen
class Known:
    """Cache contents since the start of a reconcile: the owner then and now, and the pods present at both times.

    `pods` has both revisions of each, the former first.
    """

    before: Any
    now: Any
    pods: Mapping[str, tuple[Object[Any], Object[Any]]]
    missing: Callable[[str], bool]
    """Tells whether the caches had no pod of a name at either time."""

    @property
    def owner(self) -> Any:
        """The owner as it was when the reconcile began, or else as it is now."""
        return self.before or self.now

    def asks(self, name: str, default: int = 1) -> int | None:
        """A number in the owner's spec; None if the owner has changed meanwhile."""
        if self.before is not self.now:
            return None
        found = self.owner.tree["spec"].get(name)
        return default if found is None else int(found)

    def of_owner(self) -> Iterator[tuple[Object[Any], Object[Any]]]:
        """The pods that the owner controlled and selected all along."""
        return (pair for name in self.pods if (pair := self.own(name)) is not None)

    def own(self, name: str) -> tuple[Object[Any], Object[Any]] | None:
        """A pod that the owner controlled and selected all along, by name: what it selects no more it lets go."""
        pair = self.pods.get(name)
        if pair is None or any(
            (controller_of(pod) or ("", ""))[1] != self.owner.uid for pod in pair
        ):
            return None
        matcher = from_label_selector(self.owner.view.spec.selector)
        return pair if all(matcher.matches(pod.view.labels) for pod in pair) else None

    def active(self) -> int:
        """The number of these pods that were active all along."""
        return sum(all(map(is_active, pair)) for pair in self.of_owner())


def _is_going(pair: tuple[Object[Any], Object[Any]]) -> bool:
    return all(pod.metadata.get("deletionTimestamp") for pod in pair)


def _told(probe: Probe, resource: Any, key: str) -> Told:
    assert probe.caches is not None
    namespace = key.partition("/")[0]
    pods = probe.caches.stores[PODS]
    return Told(
        probe.caches.stores[resource].peek(key),
        {pod.name: pod for pod in pods if pod.namespace == namespace},
    )


@define
class _Reconciles:
    """The reconciles that go on, with what their controllers had been told at the begin; the first violation."""

    run: Run
    begun: dict[tuple[str, str, str], tuple[int, Told]] = field(factory=dict)
    """By manager, kind and key: the number of the reconcile, and what had been told."""
    broken: str = ""

    def follow(self) -> None:
        """Note reconciles that have begun, and forget those that are over."""
        going_on = {}
        for probe in living_managers(self.run):
            for controller in probe.controllers:
                if controller.name not in DECIDING:
                    continue
                kind, resource, _ = DECIDING[controller.name]
                queue: Any = controller
                for key, number in queue.queue.processing.items():
                    place = f"{probe.name}#{probe.incarnation}", kind, key
                    known = self.begun.get(place)
                    if known is None or known[0] != number:
                        known = number, _told(probe, resource, key)
                    going_on[place] = known
        self.begun = going_on

    def hears(self, message: Message, target: Mailbox) -> None:
        """Judge a request to create or delete a pod (`Listener`)."""
        asked, payload = message.request, message.payload
        if (
            self.broken
            or not self.run.world.faults.injected <= ANSWERED
            or asked is None
            or not isinstance(payload, Request)
            or payload.resource != "pods"
            or payload.subresource
        ):
            return
        probes = [each for each in living_managers(self.run) if each.name == message.sender.name]
        if not probes:
            return
        said = None
        if payload.verb == "create":
            said = self._creates(probes[0], payload)
        elif payload.verb == "delete":
            said = self._deletes(probes[0], payload, asked.asker.name)
        if said is not None:
            self.broken = f"{asked.asker.label} {said}"

    def hears_answer(self, request: Asked, value: object, error: BaseException | None) -> None:
        """Do nothing: only what is asked is judged (`Listener`)."""

    def _known(self, probe: Probe, kind: str, key: str) -> Known | None:
        """Return the cache contents during the current reconcile of an owner, None if there is no reconcile."""
        found = self.begun.get((f"{probe.name}#{probe.incarnation}", kind, key))
        if found is None:
            return None
        _, before = found
        (resource,) = {each for name, each, _ in DECIDING.values() if name == kind}
        now = _told(probe, resource, key)
        pods = {
            name: (pod, now.pods[name])
            for name, pod in before.pods.items()
            if name in now.pods and now.pods[name].uid == pod.uid
        }
        return Known(
            before.owner,
            now.owner,
            pods,
            lambda name: name not in before.pods and name not in now.pods,
        )

    def _creates(self, probe: Probe, asked: Request) -> str | None:
        pod: Object[Any] = Object({"apiVersion": "v1", "kind": "Pod", **asked.body})
        references = asked.body["metadata"].get("ownerReferences") or ()
        owner = next((each for each in references if each.get("controller")), None)
        if owner is None or owner["kind"] not in JUDGES:
            return None
        known = self._known(probe, owner["kind"], f"{asked.namespace}/{owner['name']}")
        what = f"creates a pod for {owner['kind']} {owner['name']}"
        if known is None:
            return f"{what}, which it does not reconcile"
        uids = [each.uid for each in (known.before, known.now) if each is not None]
        if len(uids) < 2 or uids[0] != uids[1]:
            return None  # the name passed on amid the reconcile, maybe more than once
        if owner["uid"] != uids[0]:
            return f"{what} of uid {owner['uid']}, and knows uid {uids[0]}"
        if known.owner.metadata.get("deletionTimestamp"):
            return f"{what}, which it knows to be deleted"
        said = JUDGES[owner["kind"]](known, pod)
        return None if said is None else f"{what}, {said}"

    def _deletes(self, probe: Probe, asked: Request, task: str) -> str | None:
        for controller in probe.controllers:
            kind, _, tasks = DECIDING.get(controller.name, ("", None, "-"))
            if not task.startswith(tasks):
                continue
            for place, (_, before) in self.begun.items():
                pod = before.pods.get(asked.name)
                owner = controller_of(pod) if pod is not None else None
                if place[1] != kind or owner is None or before.owner is None:
                    continue
                known = self._known(probe, kind, place[2])
                if known is not None and owner == (kind, before.owner.uid):
                    return _deletes(known, asked.name)
        return None


def _deletes(known: Known, name: str) -> str | None:
    pair = known.pods.get(name)
    if pair is None:
        return None
    if _is_going(pair):
        return f"deletes {name}, which it knows to be deleted"
    owner = known.owner
    if owner.tree["kind"] != "StatefulSet" or not _in_order(known):
        return None
    if any(pod.tree.get("status", {}).get("phase") in ENDED for pod in pair):
        return None  # it is made again, whatever comes after it
    for other in known.of_owner():
        if _is_going(other):
            return f"deletes {name}, and knows that {other[0].name} is being deleted"
    return None


# -- what a kind of owner asks for -----------------------------------------------------------------


def _enough(known: Known, name: str) -> str | None:
    active, asked = known.active(), known.asks(name)
    if asked is None or active < asked:
        return None
    return f"and knows {active} active ones of {asked}"


def _for_replica_set(known: Known, _pod: Object[Any]) -> str | None:
    return _enough(known, "replicas")


def _for_job(known: Known, _pod: Object[Any]) -> str | None:
    if has_condition(known.owner, "Complete", "Failed"):
        return "which it knows to have finished"
    if known.before is known.now and known.owner.tree["spec"].get("suspend"):
        return "which it knows to be suspended"
    return _enough(known, "parallelism")


def _in_order(known: Known) -> bool:
    return bool(known.owner.tree["spec"].get("podManagementPolicy") != "Parallel")


def _for_stateful_set(known: Known, pod: Object[Any]) -> str | None:
    name, ordinal = known.owner.name, int(pod.name.rpartition("-")[2])
    if known.own(pod.name) is not None:
        return f"and knows that there is a {pod.name}"
    start = int((known.owner.tree["spec"].get("ordinals") or {}).get("start", 0))
    asked = known.asks("replicas")
    if asked is not None and ordinal >= start + asked:
        return f"which does not ask for {pod.name}"
    for number in range(start, ordinal) if _in_order(known) else ():
        before = f"{name}-{number}"
        pair = known.own(before)
        if known.missing(before):
            return f"and knows that {before} is missing"
        if pair is None:
            continue  # of an earlier owner, or not adopted yet
        if _is_going(pair):
            return f"and knows that {before} is being deleted"
        if pair[0] is pair[1] and not is_ready(pair[0].tree):
            return f"and knows that {before} is not ready"
    return None


def _for_daemon_set(known: Known, pod: Object[Any]) -> str | None:
    from controlplane.controllers.workloads.daemon.placement import NoTargetNode, target_node
    from controlplane.controllers.workloads.daemon.rolling import max_surge

    if max_surge(known.owner.view, 1):
        return None
    try:
        node = target_node(pod.view)
        for former, now in known.of_owner():
            over = _is_going((now, now)) and now.tree.get("status", {}).get("phase") in ENDED
            if not over and target_node(former.view) == node:
                return f"and knows that {now.name} is on {node}"
    except NoTargetNode:
        return None
    return None


JUDGES: Final[Mapping[str, Callable[[Known, Object[Any]], str | None]]] = {
    "ReplicaSet": _for_replica_set,
    "ReplicationController": _for_replica_set,
    "StatefulSet": _for_stateful_set,
    "DaemonSet": _for_daemon_set,
    "Job": _for_job,
}


def _view(run: Run) -> Any:
    """The keys that are being reconciled."""
    return [
        tuple(each.processing.items())
        for queues in parts_of_managers(run, f"{NAME}: parts", _queues)
        for each in queues
    ]


def _queues(probe: Any) -> list[Any]:
    return [each.queue for each in probe.controllers if each.name in DECIDING]


def decisions_follow_caches(*managers: str) -> Invariant:
    """After each step of these controller managers: no pod is created or deleted against what the caches of the
    manager said from the begin of the reconcile to the request.

    Nothing is said once a connection broke: a cache that is filled anew from a server that lags goes back in time, and
    what it held at both ends it need not have held in between.
    """

    def begin(run: Run) -> None:
        run.notes[NAME] = reconciles = _Reconciles(run)
        run.world.overhear(reconciles)

    def check(run: Run) -> str | None:
        reconciles: _Reconciles = run.notes[NAME]
        reconciles.follow()
        return reconciles.broken or None

    return Invariant(NAME, check, managers, begin=begin, looks_at=_view)
