"""Requests for capacity in the loop: expiry, injection of their pods, booking, and their provisioning.

Upstream: `processors/provreq/{injector,processor,pods_filter}.go`,
`provisioningrequest/{checkcapacity,besteffortatomic}`. One request is taken in each loop, or with
`check-capacity-batch-processing` all of the class check-capacity that are due, up to a number. A status is written to
the request as the last write has left it, where upstream may write to an older one from its cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controlplane.api import provisioning_requests as provreq
from controlplane.api.pod import Pod
from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.autoscaler.options import MINUTE
from controlplane.autoscaler.process.drain import Report
from controlplane.autoscaler.provisioning import requests
from controlplane.autoscaler.provisioning.definition import REQUESTS
from controlplane.autoscaler.provisioning.requests import NoPods, pods_of, supported
from controlplane.autoscaler.removal import Placement
from controlplane.autoscaler.scaleup import Outcome, Situation, scale_up
from controlplane.autoscaler.simulation import Simulation
from controlplane.client import calls
from controlplane.client.resources import POD_TEMPLATES
from controlplane.controllers.common.controller import NORMAL, Caches
from controlplane.controllers.common.effects import Reconcile, RequestFailed, together

_UPDATES: Final = 20
"""Conditions of expiry that are written in one loop."""
_EVENTS: Final = 50
_SUCCESSFUL: Final = "Successful"
_NOT_TRIED: Final = "NotTried"
_NO_OPTIONS: Final = "NoOptionsAvailable"


class Requests:
    """The requests of a cluster."""

    def __init__(
        self,
        caches: Caches,
        report: Report,
        backoff: tuple[int, int] = (MINUTE, 10 * MINUTE),
        batch: int = 1,
    ) -> None:
        """Begin without requests.

        `backoff` is the first and the longest time after which a request without capacity is tried again, `batch` the
        number of requests of the class check-capacity that are answered in one loop.
        """
        self._batch = batch
        self._store = caches.of(REQUESTS)
        self._templates = caches.of(POD_TEMPLATES)
        self._report = report
        self._first, self._longest = backoff
        self._backoff: dict[str, int] = {}
        self._booking = Placement()
        self._placement = Placement()
        self._taken: tuple[Tree, Sequence[Pod]] | None = None
        self.processed = False
        """A request was taken in this loop: the next one follows at once."""

    def _trees(self) -> Iterator[Tree]:
        for obj in list(self._store):
            if supported(obj.tree):
                yield obj.tree

    def _template(self, namespace: str, name: str) -> Tree | None:
        found = self._templates.get(f"{namespace}/{name}")
        return None if found is None else found.tree

    def waits(self, now: int) -> bool:
        """Return whether time alone leads to something: a booking ends, or a request is tried again."""
        for tree in self._trees():
            provisioned = provreq.condition(tree, provreq.PROVISIONED)
            if provreq.is_true(tree, provreq.FAILED):
                continue
            if requests.is_booked(tree):
                return True
            if provisioned is None:
                return True
            wait = self._backoff.get(tree["metadata"]["uid"], self._first)
            if provisioned["status"] == "False" and wait < self._longest:
                return True
        return False

    # -- the loop ----------------------------------------------------------------------------------

    def refresh(self, now: int) -> Reconcile[None]:
        """End bookings, fail requests that are too old, and delete those that have been over for long."""
        self.processed, self._taken = False, None
        expired, failed = list[Tree](), list[Tree]()
        for tree in self._trees():
            if len(expired) >= _UPDATES:
                break
            if provreq.is_true(tree, provreq.BOOKING_EXPIRED) or provreq.is_true(
                tree, provreq.FAILED
            ):
                continue
            provisioned = provreq.condition(tree, provreq.PROVISIONED)
            if provisioned is not None and provisioned["status"] == "True":
                if requests.since(provisioned) + requests.BOOKED_FOR < now:
                    expired.append(tree)
            elif len(failed) < _UPDATES - len(expired):
                if _created(tree) + requests.EXPIRES_AFTER < now:
                    failed.append(tree)
        for tree in expired:
            text = "Capacity reservation time is expired"
            reason = "CapacityReservationTimeExpired"
            yield from self._set(tree, provreq.BOOKING_EXPIRED, "True", reason, text, now)
        for tree in failed:
            text = "ProvisioningRequest is expired"
            yield from self._set(tree, provreq.FAILED, "True", "Expired", text, now)
        yield from self._delete_old(now)

    def _delete_old(self, now: int) -> Reconcile[None]:
        for tree in self._trees():
            ends = (provreq.condition(tree, kind) for kind in (provreq.PROVISIONED, provreq.FAILED))
            if any(each and requests.since(each) + requests.KEPT_FOR < now for each in ends):
                meta = tree["metadata"]
                try:
                    yield from calls.delete(REQUESTS, meta["namespace"], meta["name"])
                except RequestFailed:
                    continue  # the next loop tries again

    def pods(
        self, unschedulable: Sequence[Pod], simulation: Simulation, now: int
    ) -> Reconcile[list[Pod]]:
        """Return the pods to help, with those of the next request, and put booked ones into the simulation."""
        kept = self._not_consuming(unschedulable)
        for tree in list(self._trees()):
            if not self._due(tree, now):
                continue
            try:
                injected = pods_of(tree, self._template)
            except NoPods as error:
                reason = "FailedToCreatePods"
                yield from self._set(tree, provreq.FAILED, "True", reason, str(error), now)
                self.processed = True
                continue
            written: Tree | None = tree
            if not self._answers_in_batches(tree):
                written = yield from self._write(requests.accepted(tree, now))
            if written is None:
                continue
            self.processed = True
            self._taken = (written, injected)
            kept.extend(injected)
            break
        yield from self._book(simulation, now)
        return kept

    def _not_consuming(self, pods: Sequence[Pod]) -> list[Pod]:
        kept, told = list[Pod](), 0
        for pod in pods:
            name = requests.consumed(pod)
            if not name:
                kept.append(pod)
            elif told < _EVENTS:
                told += 1
                where = f"{pod.metadata.namespace}/{name}"
                text = f"Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest {where}"
                self._report(pod, NORMAL, "", text)
        return kept

    def _due(self, tree: Tree, now: int) -> bool:
        uid = tree["metadata"]["uid"]
        if provreq.is_true(tree, provreq.FAILED) or provreq.is_true(tree, provreq.PROVISIONED):
            self._backoff.pop(uid, None)
            return False
        provisioned = provreq.condition(tree, provreq.PROVISIONED)
        if provisioned is None:
            return True
        if provisioned["status"] != "False":
            return False
        wait = self._backoff.get(uid, self._first)
        if requests.since(provisioned) + wait >= now:
            return False
        self._backoff[uid] = min(2 * wait, self._longest)
        return True

    def _book(self, simulation: Simulation, now: int) -> Reconcile[None]:
        booked: list[Pod] = []
        for tree in self._trees():
            if not requests.is_booked(tree):
                continue
            try:
                booked.extend(pods_of(tree, self._template))
            except NoPods as error:
                text = f"Couldn't create pods, err: {error}"
                reason = "FailedToBookCapacity"
                yield from self._set(tree, provreq.FAILED, "True", reason, text, now)
        self._booking.place(simulation, booked)
        self._booking.drop_old()

    def claims(self, pod: Pod) -> bool:
        """Return whether a pod is one of a request."""
        return bool(requests.consumed(pod))

    def _answers_in_batches(self, tree: Tree) -> bool:
        checks: bool = tree["spec"]["provisioningClassName"] == provreq.CHECK_CAPACITY
        return self._batch > 1 and checks

    # -- provisioning ------------------------------------------------------------------------------

    def provision(self, situation: Situation) -> Reconcile[Outcome]:
        """Find capacity for the request that was taken in this loop."""
        if self._taken is None:
            return Outcome(_NOT_TRIED)
        tree, pods = self._taken
        simulation = situation.simulation
        simulation.fork()
        try:
            if self._batch > 1:
                outcome = yield from self._checked_batch(situation)
                if outcome.result != _NOT_TRIED or self._answers_in_batches(tree):
                    return outcome
            if tree["spec"]["provisioningClassName"] == provreq.CHECK_CAPACITY:
                return (yield from self._checked(tree, pods, situation))
            return (yield from self._grown(tree, pods, situation))
        finally:
            simulation.revert()
            self._placement.drop_old()

    def _checked(self, tree: Tree, pods: Sequence[Pod], situation: Situation) -> Reconcile[Outcome]:
        found = self._fits(situation.simulation, pods)
        yield from self._write(requests.checked(tree, situation.now, found=found))
        return Outcome(_SUCCESSFUL if found else _NO_OPTIONS)

    def _fits(self, simulation: Simulation, pods: Sequence[Pod]) -> bool:
        """Return whether all pods have a place; they keep it in the simulation."""
        simulation.fork()
        if len(self._placement.place(simulation, pods, stop=True)) == len(pods):
            simulation.commit()
            return True
        simulation.revert()
        return False

    def _checked_batch(self, situation: Situation) -> Reconcile[Outcome]:
        """Answer requests of the class check-capacity, each with what those before it have left.

        As upstream, a request counts as tried when it is looked for and when it is taken, so one that is tried again
        is answered only where its doubled wait is over as well.
        """
        now, answers = situation.now, list[Tree]()
        found = False
        for tree in list(self._trees()):
            if len(answers) == self._batch:
                break
            if not self._answers_in_batches(tree) or not self._due(tree, now):
                continue
            try:
                pods = pods_of(tree, self._template)
            except NoPods as error:
                reason = "FailedToCreatePods"
                yield from self._set(tree, provreq.FAILED, "True", reason, str(error), now)
                continue
            fits = self._fits(situation.simulation, pods)
            found = found or fits
            answers.append(requests.checked(requests.accepted(tree, now), now, found=fits))
        if not answers:
            return Outcome(_NOT_TRIED)
        yield from together("autoscaler.request", [self._write(each) for each in answers])
        return Outcome(_SUCCESSFUL if found else _NO_OPTIONS)

    def _grown(self, tree: Tree, pods: Sequence[Pod], situation: Situation) -> Reconcile[Outcome]:
        placed = {pod.uid for pod, _ in self._placement.place(situation.simulation, pods)}
        left, now = [pod for pod in pods if pod.uid not in placed], situation.now
        if not left:
            yield from self._found(tree, requests.FOUND, now)
            return Outcome("NotNeeded")
        outcome = yield from scale_up(situation, left, all_or_nothing=True)
        if outcome.result == _SUCCESSFUL:
            yield from self._found(tree, "CapacityIsProvisioned", now)
        else:
            reason = requests.NOT_FOUND
            yield from self._set(tree, provreq.PROVISIONED, "False", reason, requests.LATER, now)
        return outcome

    def _found(self, tree: Tree, reason: str, now: int) -> Reconcile[None]:
        yield from self._set(tree, provreq.PROVISIONED, "True", reason, requests.FOUND_TEXT, now)

    def _set(
        self, tree: Tree, kind: str, status: str, reason: str, message: str, now: int
    ) -> Reconcile[Tree | None]:
        """Write a condition; return the request as it is then, None if that failed."""
        changed = requests.with_condition(tree, kind, status, reason, message, now)
        return (yield from self._write(changed))

    def _write(self, changed: Tree) -> Reconcile[Tree | None]:
        """Write a status; return the request as it is then, None if that failed."""
        try:
            return (yield from calls.update(REQUESTS, changed, "status")).tree
        except RequestFailed:
            return None


def _created(tree: Tree) -> int:
    return parse_time(tree["metadata"]["creationTimestamp"])
