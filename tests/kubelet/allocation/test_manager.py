from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.decisions import Point, Write, at_once, writes_to
from controlplane.kubelet.allocation.conditions import ResizeConditions
from controlplane.kubelet.allocation.events import ResizeEvent
from controlplane.kubelet.allocation.manager import (
    PERIODIC_RETRY,
    AllocationManager,
    Verdict,
    requested_changes,
)
from controlplane.kubelet.allocation.state import ALLOCATED, desired
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import DEFAULTS
from tests.kubelet.pods import guaranteed


@attrs.frozen
class Said:
    admitted: bool
    reason: str = ""
    message: str = ""


class Kubelet:
    """A node with so many CPUs, whose only handler counts them."""

    def __init__(self, cpus: int, ready: bool = True) -> None:
        self.cpus = cpus
        self.pods: dict[str, Pod] = {}
        self.files: dict[str, str] = {}
        self.synced: list[str] = []
        self.events: list[ResizeEvent] = []
        self.now = 0
        self.conditions = ResizeConditions()
        self.manager = AllocationManager(
            self.admit,
            self.conditions,
            KubeletView(lambda: list(self.pods.values()), lambda: ready),
            pod_by_uid=self.pods.get,
            sync=lambda pod: self.synced.append(pod.uid),
            record=self.events.append,
            now=lambda: self.now,
        )

    def admit(self, pod: Pod, others: Sequence[Pod], operation: str) -> Steps[Verdict]:
        yield from ()
        used = sum(pod_requests(each)["cpu"].value() for each in (*others, pod))
        return Said(True) if used <= self.cpus else Said(False, "OutOfcpu", "full")

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods[pod.uid] = pod
            assert at_once(self.manager.add_pod(pod), writes_to(self.files)).admitted

    def resize(self, uid: str, cpu: str, generation: int = 2) -> None:
        self.now += 1
        tree = guaranteed(uid, cpu).tree
        meta = {**tree["metadata"], "generation": generation}
        self.pods[uid] = Pod.from_tree({**tree, "metadata": meta})
        if at_once(self.manager.update(self.pods[uid])):
            self.retry()

    def retry(self) -> None:
        self.now += 1
        at_once(self.manager.retry(PERIODIC_RETRY), writes_to(self.files))

    def allocated(self, uid: str) -> str:
        return str(
            self.manager.allocated_pod(self.pods[uid]).spec.containers[0].resources.requests["cpu"]
        )

    def reasons(self, uid: str) -> list[tuple[str, str]]:
        return [(each.type, each.reason) for each in self.conditions.of(uid)]


def test_a_resize_that_fits_is_promised_at_once() -> None:
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"))
    kubelet.resize("a", "3")
    assert kubelet.allocated("a") == "3"
    assert kubelet.reasons("a") == [("PodResizeInProgress", "")]
    assert [event.reason for event in kubelet.events] == ["ResizeStarted"]
    assert kubelet.synced == ["a"]


def test_a_deferred_resize_is_taken_when_there_is_room_and_counted() -> None:
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"), guaranteed("b", "2"))
    kubelet.resize("a", "3")
    assert kubelet.allocated("a") == "1"
    assert kubelet.reasons("a") == [("PodResizePending", "Deferred")]
    del kubelet.pods["b"]
    kubelet.manager.remove_pod("b")
    kubelet.retry()
    assert kubelet.allocated("a") == "3"
    assert kubelet.manager.pending == []
    assert (
        kubelet.manager.metrics.get(
            "pod_deferred_accepted_resizes_total", retry_trigger=PERIODIC_RETRY
        )
        == 1
    )


def test_every_try_that_leaves_a_pod_waiting_asks_for_a_sync_but_tells_it_once() -> None:
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"))
    kubelet.resize("a", "9")
    kubelet.retry()
    assert kubelet.synced == ["a", "a"]
    assert [event.reason for event in kubelet.events] == ["ResizeDeferred"]
    kubelet.resize("a", "8", generation=3)
    assert [event.reason for event in kubelet.events] == ["ResizeDeferred"] * 2


def test_a_reverted_resize_waits_no_more_but_stays_queued_until_the_next_try() -> None:
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"))
    kubelet.resize("a", "9")
    kubelet.resize("a", "1", generation=3)
    assert kubelet.reasons("a") == []
    assert kubelet.manager.pending == ["a"]
    kubelet.retry()
    assert kubelet.manager.pending == []


def test_resizes_that_do_not_grow_overtake_each_other() -> None:
    kubelet = Kubelet(9)
    kubelet.add(guaranteed("a", "3"), guaranteed("b", "3"), guaranteed("c", "3"))
    for uid, cpu in (("a", "4"), ("b", "2"), ("c", "1")):
        kubelet.pods[uid] = guaranteed(uid, cpu)
        kubelet.manager.push(uid)
    assert kubelet.manager.pending == ["c", "b", "a"]
    kubelet.manager.push("a")
    assert kubelet.manager.pending == ["c", "b", "a"]


def test_nothing_is_retried_before_all_sources_were_heard() -> None:
    kubelet = Kubelet(4, ready=False)
    kubelet.add(guaranteed("a", "1"))
    kubelet.resize("a", "2")
    assert kubelet.allocated("a") == "1"
    assert kubelet.manager.pending == ["a"]


def test_memory_is_ahead_of_the_file_and_of_the_conditions() -> None:
    """Between the write and the conditions others of the kubelet may look."""
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"))
    kubelet.pods["a"] = guaranteed("a", "2")
    kubelet.manager.push("a")
    seen = []
    for step in kubelet.manager.retry(PERIODIC_RETRY):
        seen.append(type(step))
        assert kubelet.allocated("a") == "2"
        assert kubelet.reasons("a") == []
    assert seen == [Write, Point]
    assert kubelet.reasons("a") == [("PodResizeInProgress", "")]


def test_after_a_restart_a_pod_is_admitted_with_what_it_was_promised() -> None:
    kubelet = Kubelet(4)
    kubelet.add(guaranteed("a", "1"), guaranteed("b", "3"))
    again = Kubelet(4)
    again.manager.start(kubelet.files[ALLOCATED])
    again.add(guaranteed("a", "9"), guaranteed("b", "3"))
    assert again.allocated("a") == "1"
    assert again.manager.differs(again.pods["a"])


def test_conditions_keep_the_generation_they_were_set_with() -> None:
    conditions = ResizeConditions()
    assert conditions.set_in_progress("a", "", "", 2, 10)
    assert conditions.set_in_progress("a", "Error", "no", 3, 20)
    assert not conditions.set_in_progress("a", "", "", 4, 30)
    found = conditions.in_progress("a")
    assert found is not None
    assert (found.reason, found.observed_generation, found.transition_ns) == ("Error", 2, 20)


@pytest.mark.parametrize(
    ("old", "new", "operation"), [("1", "2", "increase"), ("2", "1", "decrease")]
)
def test_requested_changes_are_told_apart(old: str, new: str, operation: str) -> None:
    found = requested_changes(
        desired(guaranteed("a", old), DEFAULTS), desired(guaranteed("a", new), DEFAULTS)
    )
    assert found == [("cpu", "requests", operation), ("cpu", "limits", operation)]
