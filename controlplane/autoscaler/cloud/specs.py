"""The description of node groups of the emulated cloud, as values. Times are nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from controlplane.autoscaler.groups import GroupOptions
from controlplane.autoscaler.options import MINUTE

Tree = dict[str, Any]

REFUSED: Final = "Refused"
CREATION_ERROR: Final = "CreationError"
NEVER_REGISTERS: Final = "NeverRegisters"
SLOW: Final = "Slow"
LOST: Final = "Lost"
DELETION_REFUSED: Final = "DeletionRefused"
FAILURES: Final = (REFUSED, CREATION_ERROR, NEVER_REGISTERS, SLOW, LOST, DELETION_REFUSED)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a group: of requests to grow or to delete, or of its new instances.

    Attributes:
        type: one of `FAILURES`.
        message: the text of the error.
        error_class: OutOfResources or Other, of a failed creation.
        error_code: the provider's code of a failed creation.
        after: what comes on top of the provisioning time of a slow instance; the life of a lost one.
        count: how many requests or instances fail; None for all.
        explored: the failure happens where a search decides so, and in no plain run.
    """

    type: str
    message: str = ""
    error_class: str = ""
    error_code: str = ""
    after: int = 0
    count: int | None = None
    explored: bool = False


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A node group: bounds, nodes at the start, the Node that it makes, the time that this takes, failures.

    The provisioning time of an instance is `provision_time` and, as a choice of the run, up to `jitter` more.
    """

    name: str
    template: Tree
    max_size: int
    min_size: int = 0
    size: int = 0
    provision_time: int = MINUTE
    jitter: int = 0
    options: GroupOptions = field(default_factory=GroupOptions)
    failures: tuple[Failure, ...] = ()
    price: float | None = None
    """The price of an hour of a node."""
    replaces_lost: bool = True
    """The cloud makes a new instance in place of one that vanished, as groups of most clouds do."""
