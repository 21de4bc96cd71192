"""The status that a plugin returns for a pod, or for a pod on a node.

Upstream: kube-scheduler `framework/interface.go` (Status, Code, NodeToStatus). None stands for the
Success status.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import attrs


class Code(IntEnum):
    """Result codes, numbered as upstream numbers them."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


_CODE_NAMES = (
    "Success",
    "Error",
    "Unschedulable",
    "UnschedulableAndUnresolvable",
    "Wait",
    "Skip",
    "Pending",
)
_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@attrs.frozen
class Status:
    """A result other than success. `plugin` is its author ("" when unknown)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was refused (as opposed to an error, a wait or a skip)."""
        return self.code in _REJECTED

    @property
    def code_name(self) -> str:
        """The code as upstream prints it."""
        return _CODE_NAMES[self.code]

    @property
    def message(self) -> str:
        """The reasons, joined."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status, said by `plugin`."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


def unschedulable(*reasons: str) -> Status:
    """A rejection that removing other pods may undo."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that removing other pods cannot undo."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """An internal error."""
    return Status(Code.ERROR, reasons)


SKIP = Status(Code.SKIP)


class StatusError(Exception):
    """A status on its way up from a place that returns something else."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class NodeToStatus:
    """Reasons for refused nodes: a status per examined node, one for all others.

    Statuses may be given lazily as a histogram-like mapping; reading behaves like a mapping.
    """

    __slots__ = ("absent", "statuses")

    def __init__(
        self, statuses: dict[str, Status] | None = None, absent: Status | None = None
    ) -> None:
        self.statuses: dict[str, Status] = {} if statuses is None else statuses
        self.absent = absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def __len__(self) -> int:
        return len(self.statuses)

    def get(self, node: str) -> Status:
        """Status of the node."""
        return self.statuses.get(node, self.absent)

    def set(self, node: str, status: Status) -> None:
        """Record the status of the node."""
        self.statuses[node] = status

    def items(self) -> Iterable[tuple[str, Status]]:
        """Recorded statuses, in the order in which they were met."""
        return self.statuses.items()

    def with_code(self, code: Code) -> list[str]:
        """Nodes whose recorded status has exactly this code."""
        return [node for node, status in self.statuses.items() if status.code == code]

    def count_code(self, code: Code) -> int:
        """Return the number of nodes that have a recorded status with exactly this code."""
        return sum(1 for status in self.statuses.values() if status.code == code)

    def reason_counts(self) -> dict[str, int]:
        """Return the number of recorded statuses by reason."""
        counts: dict[str, int] = {}
        for status in self.statuses.values():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + 1
        return counts

    def refusals(self, limit: int) -> list[Refusal]:
        """Each recorded status once, with how many nodes have it and the names of the first `limit` of them."""
        nodes: dict[Status, list[str]] = {}
        for node, status in self.statuses.items():
            nodes.setdefault(status, []).append(node)
        return [Refusal(status, len(names), names[:limit]) for status, names in nodes.items()]


class Refusal(NamedTuple):
    """A status that `total` nodes were refused with; `nodes` names the first of them."""

    status: Status
    total: int
    nodes: list[str]
