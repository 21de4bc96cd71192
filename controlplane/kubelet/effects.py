"""Effects of the kubelet's operations, and the type of an operation.

An operation of a manager is a generator. Where it yields a `Point`, its memory is in the state in which other
parts of the kubelet may see it; a `Write` is a file that has to be written before it goes on. The runner
decides what may happen in between: another task, a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from controlplane.decisions import Decision, Point, Write

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


@attrs.frozen
class Kill:
    """A pod has to make room: the operation goes on when its containers have stopped, or it took too long."""

    pod: Pod


@attrs.frozen
class FetchNode:
    """The node as it is known does not fit: read it from the server, if that answers."""


@attrs.frozen
class PluginCall:
    """The kubelet's call of a plugin: the devices to allocate, or those from which `size` are to be preferred.

    `must` are devices that the preferred ones have to include.
    """

    resource: str
    method: str
    devices: tuple[str, ...]
    must: tuple[str, ...] = ()
    size: int = 0


Step = Point | Write | Kill | FetchNode | PluginCall
T = TypeVar("T")
Steps = Decision[Step, T]
