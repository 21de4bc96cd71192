"""A WorkloadPriorityClass with another value reaches its Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.client.errors import ApiError
from controlplane.kueue.controllers.effects import Done, ReconcileError
from controlplane.kueue.controllers.priority_classes import WorkloadPriorityClassController
from tests.kueue.objects import workload

NEEDS = WorkloadPriorityClassController.needs_reconcile


class Objects:
    def __init__(self, *workloads: Any, value: int | None = 10) -> None:
        self.workloads = workloads
        self.value = value

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return None if self.value is None else {"metadata": {"name": name}, "value": self.value}

    def list(self, kind: str, namespace: str = "") -> Any:
        return self.workloads


def of_class(name: str, priority: int, kind: str = "WorkloadPriorityClass") -> Any:
    tree = workload(name, priority=priority)
    group = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    tree["spec"]["priorityClassRef"] = {"group": group, "kind": kind, "name": "high"}
    return tree


def written(objects: Objects, failure: ApiError | None = None) -> list[tuple[str, int]]:
    steps, seen = WorkloadPriorityClassController(objects).reconcile("high"), []
    try:
        effect = next(steps)
        while True:
            seen.append((effect.body["metadata"]["name"], effect.body["spec"]["priority"]))
            effect = steps.send(None) if failure is None else steps.throw(failure)
    except StopIteration as end:
        assert end.value == Done()
    return seen


def failed(code: int, reason: str, message: str) -> ApiError:
    return ApiError(code, {"reason": reason, "message": message})


def test_workloads_of_the_class_with_another_priority_are_written():
    objects = Objects(
        of_class("a", 1), of_class("b", 10), of_class("c", 1, "PriorityClass"), workload("d")
    )
    assert written(objects) == [("a", 10)]
    assert written(Objects(of_class("a", 1), value=None)) == []


def test_a_failed_write_is_told_after_the_others_and_a_missing_workload_is_not():
    objects = Objects(of_class("a", 1), of_class("b", 2))
    assert written(objects, failed(404, "NotFound", "gone")) == [("a", 10), ("b", 10)]
    with pytest.raises(ReconcileError, match="changed"):
        written(objects, failed(409, "Conflict", "changed"))


def test_only_a_new_class_or_a_new_value_counts():
    assert NEEDS(None, {"value": 1})
    assert NEEDS({"value": 1}, {"value": 2})
    assert not NEEDS({"value": 1}, {"value": 1})
    assert not NEEDS({"value": 1}, None)
