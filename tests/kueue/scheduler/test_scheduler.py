"""Scheduling cycles against a store of objects: what is written, told and queued, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.client.errors import ApiError
from controlplane.decisions import Locked, Point, Spawn, Together
from controlplane.kueue.cache.cache import Cache
from controlplane.kueue.controllers.effects import ApplyStatus, Emit
from controlplane.kueue.gates import Gates
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.preemption.expectations import Expectations
from controlplane.kueue.queues.cluster_queue import Rules as QueueRules
from controlplane.kueue.queues.manager import ManagerOptions, QueueManager
from controlplane.kueue.scheduler.scheduler import Scheduler, SchedulerOptions
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_patch import replace_owned
from tests.kueue.objects import (
    START,
    admitted,
    cluster_queue,
    evicted,
    flavor,
    local_queue,
    workload,
)

LOWER = {"withinClusterQueue": "LowerPriority"}
RECLAIM = {"reclaimWithinCohort": "Any"}


class Kueue:
    """Scheduler, queues and cache over a dict of workloads; one local queue `user-X` per queue X."""

    def __init__(self, queues: list[Any], *, strategies: Any = None, **options: Any) -> None:
        self.gates = Gates(options.pop("gates", None))
        self.workloads: dict[str, Any] = {}
        self.events: list[tuple[str, str]] = []
        self.failing: dict[str, int] = {}
        self.locks = 0
        self.expectations = Expectations()
        self.cache = Cache(self.gates, track_pods_ready=options.get("pods_ready", False))
        self.cache.add_or_update_flavor(flavor("default"))
        rules = QueueRules(self.gates)
        self.queues = QueueManager(
            ManagerOptions(rules), self, self, lambda: START, self.cache.cluster_queue_active
        )
        for queue in queues:
            self.cache.add_cluster_queue(queue)
            self.queues.add_cluster_queue(queue)
            name = queue["metadata"]["name"]
            self.queues.add_local_queue(local_queue(f"user-{name}", name))
        self.scheduler = Scheduler(
            self.queues, self.cache, self, lambda: START,
            SchedulerOptions(Rules(self.gates, strategies)), self.expectations,
        )  # fmt: skip

    # -- reader and surroundings -------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Any:
        if kind == "Namespace":
            return {"metadata": {"name": name}}
        return self.workloads.get(f"{namespace}/{name}") if kind == "Workload" else None

    def list(self, kind: str, namespace: str = "") -> list[Any]:
        return list(self.workloads.values()) if kind == "Workload" else []

    def wake(self) -> None: ...
    def flush_later(self, request: Any) -> None: ...
    def second_pass_later(self, after: int, tree: Any, iteration: int) -> None: ...
    def evicted_or_gone(self, key: str, uid: str) -> None: ...

    # -- driving -----------------------------------------------------------------------------------

    def add(self, tree: Any) -> None:
        self.workloads[status.key_of(tree)] = tree
        if not self.cache.add_or_update(tree):
            assert self.queues.add_or_update(tree) is None

    def cycle(self, between: Any = None) -> Any:
        """Run a cycle; `between` is called with the name of each point."""
        return self.play(self.scheduler.cycle(), between)

    def play(self, part: Any, between: Any = None) -> Any:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = part.send(answer) if failure is None else part.throw(failure)
            except StopIteration as stop:
                return stop.value
            answer, failure = None, None
            if isinstance(effect, Spawn):
                self.play(effect.part)
            elif isinstance(effect, Together):
                answer = [self.play(each) for each in effect.parts]
            elif isinstance(effect, Point):
                if between is not None:
                    between(effect.name)
            elif isinstance(effect, Locked):
                self.locks += 1
                if between is not None:
                    between(effect.point)
            elif isinstance(effect, Emit):
                self.events.append((effect.regarding["metadata"]["name"], effect.reason))
            else:
                answer, failure = self.apply(effect)

    def apply(self, effect: ApplyStatus) -> tuple[Any, Exception | None]:
        key = status.key_of(effect.body)
        if self.failing.get(key):
            self.failing[key] -= 1
            return None, ApiError(500, {"message": "injected"})
        old = self.workloads.get(key)
        if old is None:
            return None, ApiError(404, {"message": "not found"})
        known = replace_owned(old.get("status") or {}, effect.body["status"])
        self.workloads[key] = {**old, "status": known}
        return self.workloads[key], None

    def reason(self, name: str) -> str:
        found = status.find(self.workloads[f"default/{name}"], status.QUOTA_RESERVED)
        return "" if found is None else found["reason"]

    def waiting(self, queue: str = "a") -> tuple[list[str], list[str]]:
        found = self.queues.cluster_queue(queue)
        assert found is not None
        heap = [info.name for info in found.workloads.active.sorted()]
        return heap, sorted(info.name for info in found.workloads.inadmissible.values())


def pending(name: str, cpu: int = 1, queue: str = "a", **fields: Any) -> Any:
    return workload(name, f"user-{queue}", {"cpu": str(cpu)}, **fields)


def running(name: str, cpu: int = 1, queue: str = "a", **fields: Any) -> Any:
    return admitted(pending(name, cpu, queue, **fields), queue)


def test_a_workload_that_fits_is_admitted_and_written() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w"))
    assert kueue.cycle() is True
    assert status.is_admitted(kueue.workloads["default/w"])
    assert kueue.events == [("w", "QuotaReserved"), ("w", "Admitted")]
    assert kueue.waiting() == ([], [])
    assert kueue.cycle() is None


def test_admission_waits_for_checks_that_are_not_in_the_status_yet() -> None:
    checks = {"admissionChecks": [{"name": "budget"}]}
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2}, admissionChecksStrategy=checks)])
    check = {
        "metadata": {"name": "budget"},
        "spec": {"controllerName": "x"},
        "status": {"conditions": [{"type": "Active", "status": "True"}]},
    }
    kueue.cache.add_or_update_check(check)
    kueue.add(pending("w"))
    assert kueue.cycle() is True
    tree = kueue.workloads["default/w"]
    assert status.has_quota_reservation(tree)
    assert not status.is_admitted(tree)


def test_what_does_not_fit_is_parked_with_its_reason() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w", 3))
    assert kueue.cycle() is False
    assert kueue.reason("w") == "ExceedsMaxQuota"
    assert kueue.waiting() == ([], ["w"])
    assert kueue.events == [("w", "ExceedsMaxQuota")]


def test_a_refused_admission_gives_the_quota_back() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w"))
    kueue.failing["default/w"] = 1
    kueue.cycle()
    assert kueue.cache.cluster_queue_empty("a")
    assert kueue.waiting() == (["w"], [])
    assert kueue.cycle() is True


def test_a_workload_deleted_in_the_course_of_the_cycle_is_dropped() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w"))

    def delete(point: str) -> None:
        if point == "kueue.scheduler.assume":
            del kueue.workloads["default/w"]

    kueue.cycle(delete)
    assert kueue.cache.cluster_queue_empty("a")
    assert kueue.waiting() == ([], [])


def test_an_assumed_workload_is_not_admitted_twice() -> None:
    """A late event is ignored, then puts it back into its queue; nomination drops it, as it holds quota."""
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w"))
    stale = kueue.workloads["default/w"]
    kueue.cycle()
    kueue.queues.add_or_update(stale)
    assert kueue.cycle() is None  # the scheduler still had it in its hands
    kueue.queues.add_or_update(stale)
    kueue.events.clear()
    assert kueue.waiting() == (["w"], [])
    assert kueue.cycle() is False
    assert (kueue.events, kueue.waiting()) == ([], ([], []))


def test_preemption_is_asked_for_once_and_the_preemptor_stays_at_the_head() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 1}, preemption=LOWER)])
    kueue.add(running("old"))
    kueue.add(pending("w", priority=5))
    assert kueue.cycle() is False
    assert status.is_evicted(kueue.workloads["default/old"])
    assert kueue.reason("w") == "WaitingForPreemptedWorkloads"
    told = [("old", "EvictedDueToPreempted"), ("old", "Preempted"), ("w", "PreemptedWorkload")]
    assert kueue.events == [*told, ("w", "WaitingForPreemptedWorkloads")]
    assert kueue.waiting() == (["w"], [])
    kueue.events.clear()
    kueue.cycle()  # the cache has not seen the eviction: the expectation keeps it from being repeated
    assert kueue.events == [("w", "WaitingForPreemptedWorkloads")]


def test_a_failed_preemption_is_tried_again() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 1}, preemption=LOWER)])
    kueue.add(running("old"))
    kueue.add(pending("w", priority=5))
    kueue.failing["default/old"] = 1
    kueue.cycle()
    found = status.find(kueue.workloads["default/w"], status.QUOTA_RESERVED)
    assert found is not None
    assert found["message"].endswith(". Preempting 1 workload(s) failed, will retry.")
    assert kueue.waiting() == (["w"], [])
    kueue.cycle()
    assert status.is_evicted(kueue.workloads["default/old"])


def test_overlapping_preemptions_are_not_issued_twice() -> None:
    """Both need the same victim; the second will fit once the first one's preemptions are over."""
    queues = [
        cluster_queue("a", {"default/cpu": 1}, "team", preemption=RECLAIM),
        cluster_queue("b", {"default/cpu": 1}, "team", preemption=RECLAIM),
        cluster_queue("c", {"default/cpu": 0}, "team"),
    ]
    kueue = Kueue(queues)
    kueue.add(running("victim", 2, "c"))
    kueue.add(pending("one", queue="a", age=20))
    kueue.add(pending("two", queue="b", age=10))
    kueue.cycle()
    assert kueue.events.count(("victim", "Preempted")) == 1
    found = status.find(kueue.workloads["default/two"], status.QUOTA_RESERVED)
    assert found is not None
    assert found["message"].startswith("Workload has overlapping preemption targets")
    assert kueue.waiting("b") == (["two"], [])


def test_without_recomputation_the_second_of_two_overlapping_is_skipped() -> None:
    gates = {"RecomputeAssignmentUponPreemptionTargetsOverlap": False}
    queues = [
        cluster_queue("a", {"default/cpu": 1}, "team", preemption=RECLAIM),
        cluster_queue("b", {"default/cpu": 1}, "team", preemption=RECLAIM),
        cluster_queue("c", {"default/cpu": 0}, "team"),
    ]
    kueue = Kueue(queues, gates=gates)
    kueue.add(running("victim", 2, "c"))
    kueue.add(pending("one", queue="a", age=20))
    kueue.add(pending("two", queue="b", age=10))
    kueue.cycle()
    assert kueue.reason("two") == "WaitingForQuota"


def test_quota_is_given_once_in_a_cycle() -> None:
    queues = [cluster_queue(name, {"default/cpu": 1}, "team") for name in ("a", "b")]
    kueue = Kueue(queues)
    kueue.add(pending("big", 2, "a", priority=3))
    kueue.add(pending("small", 1, "b"))
    assert kueue.cycle() is True
    # `small` needs no borrowing, so it comes first although its priority is lower
    assert status.is_admitted(kueue.workloads["default/small"])
    found = status.find(kueue.workloads["default/big"], status.QUOTA_RESERVED)
    assert found is not None
    assert found["message"] == "Workload no longer fits after processing another workload"


def test_fair_sharing_serves_the_queue_with_the_least_share_first() -> None:
    queues = [cluster_queue(name, {"default/cpu": 0}, "team") for name in ("a", "b")]
    queues.append(cluster_queue("c", {"default/cpu": 3}, "team"))
    kueue = Kueue(queues, strategies=("LessThanInitialShare",))
    kueue.add(running("a-1", 2, "a"))
    kueue.add(pending("a-2", 1, "a", priority=9))
    kueue.add(pending("b-1", 1, "b"))
    kueue.cycle()
    assert status.is_admitted(kueue.workloads["default/b-1"])
    assert not status.is_admitted(kueue.workloads["default/a-2"])


def test_quota_is_held_free_for_a_workload_that_cannot_preempt() -> None:
    queues = [
        cluster_queue("a", {"default/cpu": 2}, "team", preemption=LOWER),
        cluster_queue("b", {"default/cpu": 0}, "team"),
    ]
    kueue = Kueue(queues)
    kueue.add(running("old", 1, "a", priority=9))
    kueue.add(pending("big", 2, "a"))
    kueue.add(pending("borrower", 1, "b"))
    kueue.cycle()
    assert kueue.reason("big") == "WaitingForQuota"
    assert not status.is_admitted(kueue.workloads["default/borrower"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, "Misconfigured"),
        ({"stopPolicy": "Hold"}, "Suspended"),
    ],
)
def test_a_workload_whose_queue_changed_is_refused(change, reason) -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    kueue.add(pending("w"))

    def stop(point: str) -> None:
        if point == "kueue.scheduler.heads":
            kueue.cache.update_cluster_queue(cluster_queue("a", {"default/cpu": 2}, **change))

    assert kueue.cycle(stop) is False
    assert kueue.reason("w") == reason


def test_a_blocked_admission_holds_the_whole_scheduler() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})], pods_ready=True)
    kueue.add(running("old"))
    kueue.add(pending("w"))

    def get_ready(point: str) -> None:
        if point == "kueue.scheduler.podsReady" and kueue.locks == 2:
            tree = status.working_copy(kueue.workloads["default/old"])
            status.set_condition(tree, status.condition(tree, "PodsReady", "Started", "", START))
            kueue.cache.add_or_update(tree)

    assert kueue.cycle(get_ready) is True
    assert kueue.locks == 2
    assert status.is_admitted(kueue.workloads["default/w"])


def test_an_evicted_workload_still_holds_its_quota() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 1})])
    kueue.add(evicted(running("old")))
    kueue.add(pending("w"))
    assert kueue.cycle() is False
    assert kueue.reason("w") == "WaitingForQuota"


def parts_of(kueue: Kueue) -> tuple[Any, Any]:
    """The cycle at the point where preemptions are written side by side, and its workers."""
    cycle = kueue.scheduler.cycle()
    effect = next(cycle)
    while not isinstance(effect, Together):
        effect = cycle.send(None)
    return cycle, list(effect.parts)


def test_a_failed_preemption_cancels_those_on_their_way() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2}, preemption=LOWER)])
    kueue.add(running("one"))
    kueue.add(running("two"))
    kueue.add(pending("w", 2, priority=5))
    cycle, (first, second) = parts_of(kueue)
    asked = next(first), next(second)
    with pytest.raises(StopIteration):
        first.throw(ApiError(500, {"message": "injected"}))
    answer, _ = kueue.apply(asked[1])
    with pytest.raises(StopIteration):
        second.send(answer)
    assert kueue.expectations.satisfied("default/one")
    assert kueue.expectations.satisfied("default/two")
    kueue.play(cycle)
    found = status.find(kueue.workloads["default/w"], status.QUOTA_RESERVED)
    assert found is not None
    assert found["message"].endswith(". Preempting 2 workload(s) failed, will retry.")


def test_a_failed_preemption_keeps_later_ones_from_being_begun() -> None:
    kueue = Kueue([cluster_queue("a", {"default/cpu": 10}, preemption=LOWER)])
    for at in range(10):
        kueue.add(running(f"old-{at}"))
    kueue.add(pending("w", 10, priority=5))
    _, parts = parts_of(kueue)
    assert len(parts) == 8
    asked = [next(part) for part in parts]
    with pytest.raises(StopIteration):
        parts[0].throw(ApiError(500, {"message": "injected"}))
    for part, effect in zip(parts[1:], asked[1:], strict=True):
        answer, _ = kueue.apply(effect)
        with pytest.raises(StopIteration):
            part.send(answer)
    gone = [name for name, tree in kueue.workloads.items() if status.is_evicted(tree)]
    assert len(gone) == 7


def test_only_cycles_with_heads_are_counted() -> None:
    """How far a search for flavors came is kept from one cycle to the next, however long that waits."""
    kueue = Kueue([cluster_queue("a", {"default/cpu": 2})])
    assert kueue.cycle() is None
    kueue.add(pending("w"))
    kueue.cycle()
    assert kueue.scheduler.cycles == 1
