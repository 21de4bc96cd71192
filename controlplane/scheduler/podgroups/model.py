"""A pod group's cycle: its members, the attempt of each, and the verdict on all.

Upstream: the types of `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.cycle.attempt import Attempt
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import Code, Status

if TYPE_CHECKING:
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.state.pod_groups import Key

UNSCHEDULABLE = "pod group is unschedulable"
WAITING = "pod group is waiting for preemption to complete"


@attrs.frozen
class GroupStatus:
    """A verdict other than success: the text of an error, if there is one, and reasons."""

    code: Code
    cause: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The cause and all reasons, joined."""
        return ", ".join((self.cause, *self.reasons) if self.cause else self.reasons)

    @property
    def error(self) -> str:
        """The text of the verdict as an error: the cause alone, where there is one."""
        return self.cause or self.message

    @property
    def is_rejected(self) -> bool:
        """Return whether the group was refused (as opposed to hit by an error)."""
        return Status(self.code).is_rejected

    @classmethod
    def of(cls, status: Status) -> GroupStatus:
        """The same as a plugin's status says."""
        if status.code == Code.ERROR:
            return failed(status.message)
        return cls(status.code, "", status.reasons)


def failed(text: str) -> GroupStatus:
    """An error."""
    return GroupStatus(Code.ERROR, text)


REJECTED = GroupStatus(Code.UNSCHEDULABLE, UNSCHEDULABLE)
AWAITS_PREEMPTION = GroupStatus(Code.UNSCHEDULABLE, UNSCHEDULABLE, (WAITING,))


@attrs.define(eq=False)
class Group:
    """A group in its cycle; `infos` are the members that were taken from the queue, in order of trial."""

    key: Key
    framework: Framework
    infos: list[QueuedPodInfo]
    started: int
    state: CycleState = attrs.field(init=False)
    """Data that plugins keep for the whole cycle."""

    def __attrs_post_init__(self) -> None:
        self.state = CycleState(self.started)

    def attempt(self, info: QueuedPodInfo, cycle: int, *, post_filters: bool = True) -> Attempt:
        """A fresh attempt of a member within this cycle."""
        state = CycleState(self.started)
        state.group = self.state
        state.skip_post_filters = not post_filters
        return Attempt(info, self.framework, state, self.started, info.uid, cycle)


@attrs.define(eq=False)
class Member:
    """One trial of a member. `attempt.failure` is None for one that fits without a preemption."""

    attempt: Attempt
    permit: Status | None = None
    """The answer of Permit for a member that was placed: None (go) or WAIT."""
    placed: bool = False
    needs_preemption: bool = False
    """It would fit on the node that it is nominated to, once victims are gone."""

    @property
    def node_name(self) -> str:
        """The node on which it was placed, "" if it was not."""
        return self.attempt.node_name if self.placed else ""


@attrs.define(eq=False)
class GroupResult:
    """The verdict: None as the status means that the group can be scheduled now.

    After an error there may be fewer members than in the group.
    """

    members: list[Member] = attrs.Factory(list)
    status: GroupStatus | None = REJECTED
    awaits_preemption: bool = False
    """The group fits once victims are gone; the status is a rejection then."""
