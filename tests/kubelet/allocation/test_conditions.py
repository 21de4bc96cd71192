"""The gauges of resize conditions. Upstream: pkg/kubelet/status/status_manager.go recordPendingResizeCount."""

from __future__ import annotations

from controlplane.api.pod_status import PodCondition
from controlplane.kubelet.allocation.conditions import (
    DEFERRED,
    INFEASIBLE,
    PENDING,
    ResizeConditions,
)
from controlplane.metrics.numbers import Metrics


def test_gauges_count_the_pods_whose_resize_waits_or_is_carried_out() -> None:
    metrics = Metrics()
    conditions = ResizeConditions(metrics=metrics)
    conditions.set_pending("a", DEFERRED, "", 2, 10)
    conditions.set_pending("b", INFEASIBLE, "", 2, 10)
    conditions.set_in_progress("c", "", "", 2, 10)
    assert metrics.get("pod_pending_resizes", reason="deferred") == 1
    assert metrics.get("pod_pending_resizes", reason="infeasible") == 1
    assert metrics.get("pod_in_progress_resizes") == 1
    conditions.clear_pending("a")
    conditions.clear_in_progress("c")
    conditions.forget("b")
    assert metrics.get("pod_pending_resizes", reason="deferred") == 0
    assert metrics.get("pod_pending_resizes", reason="infeasible") == 0
    assert metrics.get("pod_in_progress_resizes") == 0


def test_a_changed_reason_is_counted_when_the_next_condition_is_added() -> None:
    metrics = Metrics()
    conditions = ResizeConditions(metrics=metrics)
    conditions.set_pending("a", DEFERRED, "", 2, 10)
    conditions.set_pending("a", INFEASIBLE, "", 3, 20)
    assert metrics.get("pod_pending_resizes", reason="deferred") == 1
    conditions.set_pending("b", INFEASIBLE, "", 2, 30)
    assert metrics.get("pod_pending_resizes", reason="deferred") == 0
    assert metrics.get("pod_pending_resizes", reason="infeasible") == 2


def test_a_loaded_condition_with_a_reason_of_a_client_is_counted_under_it() -> None:
    metrics = Metrics()
    conditions = ResizeConditions(metrics=metrics)
    conditions.load("a", (PodCondition(type=PENDING, status="True", reason="Odd"),))
    assert metrics.get("pod_pending_resizes", reason="odd") == 1
