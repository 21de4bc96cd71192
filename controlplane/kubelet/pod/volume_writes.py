"""Writes of a pod's program to its volumes, by the pod's annotations.

`emulate.controlplane/writes-to: "log data"` names volumes of the pod. It writes 0 to the first, 1 to the second and
so on, in turn, and waits until each write is there before it goes on; so a later write causally follows every
earlier one. `emulate.controlplane/writes` is how many there are (else it never ends), and
`emulate.controlplane/write-seconds` the pause after each (a second).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.api.validation import parse_int64
from controlplane.kubelet.pod.container_runtime import PREFIX, seconds

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


@frozen
class Writing:
    """Volumes in order, how many writes, and the pause after each in nanoseconds."""

    volumes: tuple[str, ...]
    count: int | None = None
    pause_ns: int = SECOND

    def volume(self, number: int) -> str:
        """Return the volume of write `number`."""
        return self.volumes[number % len(self.volumes)]

    def over(self, number: int) -> bool:
        """Return whether this number of writes completes the program."""
        return self.count is not None and number >= self.count


def writing_of(pod: Pod) -> Writing | None:
    """Return the writes of a pod's program; None for none. A malformed annotation is ignored."""
    notes = pod.annotations
    volumes = tuple(notes.get(f"{PREFIX}writes-to", "").split())
    if not volumes:
        return None
    count = notes.get(f"{PREFIX}writes", "")
    pause = seconds(notes.get(f"{PREFIX}write-seconds", ""))
    known = parse_int64(count)
    if known is not None and known < 0:
        known = None
    return Writing(volumes, known, SECOND if pause is None else pause)
