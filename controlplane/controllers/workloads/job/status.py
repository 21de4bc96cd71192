"""A Job's status while it is being worked out: a tree of its own with counters, conditions and uncounted pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.times import format_time

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from controlplane.api.tree import Tree

SUCCEEDED = "succeeded"
FAILED = "failed"
COMPLETE_CONDITION = "Complete"
FAILED_CONDITION = "Failed"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"


@frozen
class Ending:
    """A condition that ends the Job, or is about to, true since `at` (nanoseconds since the epoch)."""

    kind: str
    reason: str
    message: str
    at: int

    def final(self, now: int) -> Ending:
        """Return the ending that follows an interim condition once all pods are done; any other stays."""
        kinds = {FAILURE_TARGET: FAILED_CONDITION, SUCCESS_CRITERIA_MET: COMPLETE_CONDITION}
        kind = kinds.get(self.kind)
        return self if kind is None else Ending(kind, self.reason, self.message, now)


class JobStatusDraft:
    """The status to be written; what it was made from is not touched."""

    def __init__(self, status: Tree | None) -> None:
        self.tree: Tree = dict(status or {})
        uncounted = self.tree.get("uncountedTerminatedPods") or {}
        self.uncounted: dict[str, list[str]] = {
            name: list(uncounted.get(name) or ()) for name in (SUCCEEDED, FAILED)
        }

    def count(self, name: str) -> int:
        """A counter, 0 when absent."""
        return int(self.tree.get(name) or 0)

    def set_count(self, name: str, value: int) -> None:
        """Set a counter; 0 is left out."""
        self._set(name, value or None)

    def set_present(self, name: str, value: int | str | None) -> None:
        """Set a field that may be zero; None is left out."""
        self._set(name, value)

    def _set(self, name: str, value: object) -> None:
        if value is None:
            self.tree.pop(name, None)
        else:
            self.tree[name] = value

    def body(self) -> Tree:
        """The status as it is sent."""
        uncounted = {name: list(uids) for name, uids in self.uncounted.items() if uids}
        return {**self.tree, "uncountedTerminatedPods": uncounted}

    def count_untracked(self, tracked: Container[str]) -> bool:
        """Move uncounted pods whose finalizer is gone into the counters; whether there were any."""
        moved = False
        for name, uids in self.uncounted.items():
            left = [uid for uid in uids if uid in tracked]
            if len(left) != len(uids):
                moved = True
                self.set_count(name, self.count(name) + len(uids) - len(left))
                self.uncounted[name] = left
        return moved

    # ------------------------------------------------------------------ conditions

    @property
    def conditions(self) -> Sequence[Tree]:
        """The conditions so far."""
        return self.tree.get("conditions") or ()

    def condition(self, kind: str) -> Tree | None:
        """The first condition of that type."""
        return next((each for each in self.conditions if each["type"] == kind), None)

    def append(self, kind: str, status: str, reason: str, message: str, now: int) -> None:
        """Add a condition, whatever is there."""
        made = _condition(kind, status, reason, message, now)
        self.tree["conditions"] = [*self.conditions, made]

    def ensure(self, kind: str, status: str, reason: str, message: str, now: int) -> bool:
        """Have a condition say this; whether it did not. One that would only say False is not added."""
        found = self.condition(kind)
        if found is None:
            if status == "False":
                return False
            self.append(kind, status, reason, message, now)
            return True
        said = found.get("status"), found.get("reason") or "", found.get("message") or ""
        if said == (status, reason, message):
            return False
        made = _condition(kind, status, reason, message, now)
        self.tree["conditions"] = [made if each is found else each for each in self.conditions]
        return True


def _condition(kind: str, status: str, reason: str, message: str, now: int) -> Tree:
    at = format_time(now)
    made = {"type": kind, "status": status, "lastProbeTime": at, "lastTransitionTime": at}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made
