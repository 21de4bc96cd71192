"""Asynchronous calls to the API server: at most one waits and one is under way per object.

Upstream: `pkg/scheduler/framework/api_calls`, `pkg/scheduler/backend/api_dispatcher` (KEP-5229, feature
gate SchedulerAsyncAPICalls). A call that comes while another about the same pod waits or is under
way takes its place, is merged with it, or gives way to it. Calls are kept by UID and made by name, as
upstream does: no UID precondition on status patches (D1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.scheduler.framework.writes import StatusPatch, condition_patch

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.nominating import NominatingInfo
    from controlplane.scheduler.framework.writes import ApiWrite


class Outcome(Enum):
    """The end of a call, for its waiters. Skipped and overwritten calls count as made."""

    EXECUTED = "executed"
    SKIPPED = "skipped"
    OVERWRITTEN = "overwritten"
    FAILED = "failed"


class ApiCall(ABC):
    """A call about one pod. A more relevant one replaces others."""

    relevance: ClassVar[int]

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.outcome: Outcome | None = None
        self.error = ""
        self._told: list[Callable[[], None]] = []

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` once the call has an outcome."""
        if self.outcome is None:
            self._told.append(tell)
        else:
            tell()

    def over(self, outcome: Outcome, error: str = "") -> None:
        """The call has an outcome; the first one counts."""
        if self.outcome is not None:
            return
        self.outcome, self.error = outcome, error
        for tell in self._told:
            tell()

    @abstractmethod
    def merge(self, old: ApiCall) -> None:
        """Take over what an older call of the same type wanted and this one says nothing about."""

    def sync(self, pod: Pod) -> None:
        """The pod has changed before the call was made: from here on it is about this object."""
        self.pod = pod

    def is_no_op(self) -> bool:
        """Return whether the call would change nothing."""
        return False


class StatusPatchCall(ApiCall):
    """Sets the PodScheduled condition, the nomination, or both. `condition` None leaves conditions alone."""

    relevance = 1

    def __init__(
        self,
        pod: Pod,
        condition: Mapping[str, str] | None,
        nominating: NominatingInfo | None,
    ) -> None:
        super().__init__(pod)
        self.condition = condition
        self.nominating = nominating

    def merge(self, old: ApiCall) -> None:
        """The newer condition and nomination count, where there are any."""
        assert isinstance(old, StatusPatchCall)
        if self.nominating is None or not self.nominating.override:
            self.nominating = old.nominating
        if self.condition is None:
            self.condition = old.condition

    def is_no_op(self) -> bool:
        """Return whether the status holds all of the patch already."""
        return self.patch(0) is None

    def patch(self, now: int) -> StatusPatch | None:
        """Return the patch to send, given the last observed status of the pod; None for an empty one."""
        pod = self.pod
        status: dict[str, Any] = {}
        if self.condition is not None:
            conditions = (pod.tree.get("status") or {}).get("conditions") or []
            generation = pod.metadata.generation
            status.update(condition_patch(conditions, self.condition, generation, now))
        if self.nominating is not None and self.nominating.override:
            node = self.nominating.nominated_node_name
            if node != pod.status.nominated_node_name:
                status["nominatedNodeName"] = node or None
        if not status:
            return None
        patch = {"status": status}
        return StatusPatch(pod.namespace, pod.name, patch, pod.uid, pod.resource_version)


class BindingCall(ApiCall):
    """Binds a pod. Status patches give way to it."""

    relevance = 2

    def __init__(self, pod: Pod, write: ApiWrite) -> None:
        super().__init__(pod)
        self.write = write

    def merge(self, old: ApiCall) -> None:
        """The newer binding counts."""


class CallQueue:
    """Queue of calls: decides which call is next."""

    __slots__ = ("_pending", "_under_way", "_waiting")

    def __init__(self) -> None:
        self._pending: dict[str, ApiCall] = {}
        self._under_way: dict[str, ApiCall] = {}
        self._waiting: dict[str, None] = {}
        """UIDs with a pending call and none under way, first come first."""

    def __len__(self) -> int:
        return len(self._pending) + len(self._under_way)

    def add(self, call: ApiCall) -> None:
        """A call is wanted. It may be over at once: given way to another, or changing nothing."""
        uid = call.pod.uid
        pending, under_way = self._pending.get(uid), self._under_way.get(uid)
        old = pending or under_way
        if old is not None:
            if old.relevance > call.relevance:
                call.over(Outcome.SKIPPED)
                return
            if type(old) is type(call):
                call.merge(old)
        if pending is not None:
            pending.over(Outcome.OVERWRITTEN)
        if under_way is None and call.is_no_op():
            self._forget(uid)
            call.over(Outcome.EXECUTED)
            return
        # One that replaces another keeps its place.
        self._pending[uid] = call
        if under_way is None:
            self._waiting.setdefault(uid)

    def pop(self) -> ApiCall | None:
        """The next call to make; None when none can be made now."""
        uid = next(iter(self._waiting), None)
        if uid is None:
            return None
        del self._waiting[uid]
        call = self._under_way[uid] = self._pending.pop(uid)
        return call

    def finished(self, call: ApiCall, error: str = "") -> None:
        """A call was made; one that came meanwhile is next for its pod."""
        uid = call.pod.uid
        del self._under_way[uid]
        if uid in self._pending:
            self._waiting[uid] = None
        call.over(Outcome.FAILED if error else Outcome.EXECUTED, error)

    def sync(self, pod: Pod) -> None:
        """A pod has changed: a call that waits takes that into account, and goes when it has become void."""
        call = self._pending.get(pod.uid)
        if call is None:
            return
        call.sync(pod)
        if pod.uid not in self._under_way and call.is_no_op():
            self._forget(pod.uid)
            call.over(Outcome.EXECUTED)

    def _forget(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._waiting.pop(uid, None)
