"""Commands in containers: their programs and those of exec probes, run by the emulated shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from controlplane.api.container_inside import container_of, inside_of
from controlplane.api.times import SECOND
from controlplane.kubelet.pod.references import anywhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.containers import Probe
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.pod.container_runtime import Container
    from controlplane.kubelet.pod.references import Find
    from controlplane.shell.running import Life, Outcome

DEFAULT_MESSAGE_PATH = "/dev/termination-log"


def executed(
    pod: Tree,
    container: str,
    container_id: str,
    now: int,
    find: Find,
    services: Iterable[Tree],
    host: Host,
) -> Life | None:
    """Run the program of a container; None for one that the shell does not know.

    Args:
        pod: the tree of the pod, with the addresses of its sandbox.
        container: the container's name.
        container_id: the id of this run.
        now: nanoseconds since 1970.
        find: finds the objects that the pod names.
        services: the Services that the kubelet knows.
        host: the machine, which keeps the output.
    """
    told = container_of(pod, container)
    if not (told.get("command") or told.get("args") or told.get("stdin")):
        return None
    from controlplane.shell.files import Files  # the shell is loaded with the first command
    from controlplane.shell.running import MESSAGE_FILE, life_of

    known = anywhere(find)
    inside = inside_of(pod, container, known, now=now, container_id=container_id, services=services)
    files = Files(inside, host.disks)
    life = life_of(inside, files)
    if life is not None:
        left = files.read(told.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH) or b""
        life.left = left[-MESSAGE_FILE:].decode("utf-8", "replace")
        life.falls_back = told.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        host.keep(container_id, life)
    return life


def probed(
    pod: Tree, container: Container, probe: Probe, now: int, find: Find, host: Host
) -> Outcome | None:
    """Run the command of an exec probe in a container; None where the shell knows neither it nor the program.

    Args:
        pod: the tree of the pod, with the addresses of its sandbox.
        container: the container as the runtime has it.
        probe: the probe.
        now: nanoseconds since 1970.
        find: finds the objects that the pod names.
        host: the machine.
    """
    words = (probe.exec or {}).get("command") or ()
    life = container.life
    if life is None or not words:
        return None
    from controlplane.shell.files import Files
    from controlplane.shell.running import knows, outcome_of

    if not knows(words):
        return None
    identity = container.container_id
    inside = inside_of(pod, container.name, anywhere(find), now=now, container_id=identity)
    inside = evolve(inside, env=life.env)
    limit = (probe.timeout_seconds or 1) * SECOND
    return outcome_of(inside, Files(inside, host.disks), words, limit)
