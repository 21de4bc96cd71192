"""Messages to the emulated cloud, and its answers. All are immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controlplane.autoscaler.groups import Instance

CLOUD: Final = "cloud"
"""The actor's name."""
SCHEME: Final = "emulated://"
"""The ids of instances begin with this; a Node has the id of its instance as `spec.providerID`."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask for the groups as they are."""


@dataclass(frozen=True, slots=True)
class Increase:
    """Ask for more instances of a group."""

    group: str
    count: int


@dataclass(frozen=True, slots=True)
class Decrease:
    """Lower the target of a group; only instances that have not come yet may go."""

    group: str
    count: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete instances of a group, by their ids or by the names of their Nodes."""

    group: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """Let an instance vanish, by its id or the name of its Node: a fault."""

    name: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: an error, or an empty text."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as the cloud describes it."""

    name: str
    target: int
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """The groups, in the order of the file."""

    groups: tuple[GroupState, ...] = ()


Request = Describe | Increase | Decrease | Delete | Lose
