"""The reconciler of WorkloadPriorityClasses: a new value reaches the Workloads that name the class.

Follows `pkg/controller/core/workloadpriorityclass_controller.go`.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.client.errors import ApiError, is_not_found
from controlplane.kueue.controllers.effects import (
    Done,
    Reader,
    Reconcile,
    ReconcileError,
    Update,
)
from controlplane.kueue.names import GROUP

__all__ = ["WorkloadPriorityClassController"]

KIND: Final = "WorkloadPriorityClass"


@frozen
class WorkloadPriorityClassController:
    """Reconciles WorkloadPriorityClasses."""

    reader: Reader

    def reconcile(self, name: str) -> Reconcile:
        """Write the class's value into its Workloads; a failed write does not keep the others back."""
        found = self.reader.get(KIND, "", name)
        if found is None:
            return Done()
        value = found.get("value") or 0
        problems: list[str] = []
        for each in self.reader.list("Workload"):
            if _class_of(each) != name or each["spec"].get("priority") == value:
                continue
            try:
                yield Update("Workload", {**each, "spec": {**each["spec"], "priority": value}})
            except ApiError as error:
                if not is_not_found(error):
                    problems.append(str(error))
        if problems:
            raise ReconcileError("\n".join(problems))
        return Done()

    @staticmethod
    def needs_reconcile(old: Tree | None, new: Tree | None) -> bool:
        """Return whether a change concerns Workloads: the class is new, or has another value."""
        return new is not None and (old is None or old.get("value") != new.get("value"))


def _class_of(workload: Tree) -> str | None:
    reference = workload["spec"].get("priorityClassRef") or EMPTY_MAP
    if (reference.get("group"), reference.get("kind")) != (GROUP, KIND):
        return None
    return str(reference.get("name") or "")
