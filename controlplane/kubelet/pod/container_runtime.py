"""The emulated container runtime: the containers of a pod, their start and their end.

It survives a restart of its kubelet. A program that the emulated shell knows is run by it (`controlplane.shell`),
unless annotations describe another one. Else nothing is executed: how long pulling, starting, running and
stopping take is asked of the caller, so that the owner of the choices decides it. Annotations of
the pod describe a program: `emulate.controlplane/run-seconds` (it ends by itself after so long),
`emulate.controlplane/exit-codes` ("1,1,0": one per run, the last one repeats),
`emulate.controlplane/never-ready` ("true"), `emulate.controlplane/ready-seconds` (so long after its
start startup and readiness probes succeed), `emulate.controlplane/live-seconds` (so long liveness
probes do), `emulate.controlplane/memory-usage` ("100Mi"), `emulate.controlplane/ephemeral-storage-usage`
("2Gi"), `emulate.controlplane/inodes-usage` and `emulate.controlplane/pids-usage` (the amount or number that
it uses while it runs), `emulate.controlplane/stop-seconds` (how long it ignores the request to stop) and
`emulate.controlplane/resize-fails` (the number of updates of its resources that are refused; "maybe": each time
that is a choice). Each may end in `.NAME` to mean one container only. What the last one is for
containers, `emulate.controlplane/pod-resize-fails` is for the pod's own cgroup. What a pod writes to volumes
is described in `kubelet.pod.volume_writes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.quantity import QuantityError, parse
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64

if TYPE_CHECKING:
    from controlplane.shell.running import Life

SANDBOX: Final = "sandbox"
PULL: Final = "pull"
START: Final = "start"
RUN: Final = "run"
STOP: Final = "stop"

STARTUP: Final = "startup"
READINESS: Final = "readiness"
LIVENESS: Final = "liveness"

DEFAULTS: Final = {
    SANDBOX: SECOND // 2,
    PULL: SECOND,
    START: SECOND // 4,
    RUN: 2 * SECOND,
    STOP: SECOND // 2,
}
"""Plain durations in nanoseconds; `run` is for init containers and the pods of jobs."""

Durations = Callable[[str, str], int]
"""(what takes time, container or pod name) to nanoseconds; a pull of 0 means the image is there."""

PREFIX: Final = "emulate.controlplane/"
KILLED: Final = 137
"""Exit code of a program that had to be killed."""


def fixed(durations: Mapping[str, int] = DEFAULTS) -> Durations:
    """The same duration every time."""
    return lambda kind, _name: durations[kind]


REPEATS: Final = 6
"""The number of equal restarts after which a container's restarts are periodic work.

The crash-loop back-off is at its longest then: 10 s, 20 s, 40 s, 80 s, 160 s, 300 s.
"""


@attrs.frozen
class Program:
    """The behaviour of a container: `run_ns` None means that it runs until it is stopped."""

    run_ns: int | None = None
    exit_codes: tuple[int, ...] = (0,)
    ready: bool = True
    stop_ns: int | None = None
    ready_ns: int = 0
    live_ns: int | None = None

    def answers(self, probe: str, since: int) -> bool:
        """Return whether a probe of this kind succeeds, so long after the start."""
        if probe == LIVENESS:
            return self.live_ns is None or since < self.live_ns
        return since >= self.ready_ns and (self.ready or probe == STARTUP)

    def changes(self, probe: str) -> int | None:
        """Return the time after the start at which that answer changes, if it does."""
        if probe == LIVENESS:
            return self.live_ns
        return self.ready_ns or None

    def exit_code(self, attempt: int) -> int:
        """Return the exit code of run number `attempt` (0 is the first)."""
        return self.exit_codes[min(attempt, len(self.exit_codes) - 1)]

    def repeats(self, attempt: int) -> bool:
        """Return whether run number `attempt` is the last of enough equal ones: more of them would show nothing new."""
        return attempt >= len(self.exit_codes) - 1 + REPEATS


_ENDLESS: Final = Program()


def program(pod: Pod, container: str, *, ends: bool, durations: Durations) -> Program:
    """The program of a container by the pod's annotations; `ends` when it ends without any.

    What an annotation says wrongly is ignored, as an emulated program has no one to complain to.
    """
    run_ns = seconds(_annotation(pod, "run-seconds", container))
    if run_ns is None and ends:
        run_ns = durations(RUN, container)
    codes = [part.strip() for part in _annotation(pod, "exit-codes", container).split(",")]
    read = [parse_int64(code) for code in codes if code.isdecimal()]
    numbers = tuple(code for code in read if code is not None)
    if run_ns is None and not any(name.startswith(PREFIX) for name in pod.annotations):
        return _ENDLESS
    return Program(
        run_ns=run_ns,
        exit_codes=numbers or (0,),
        ready=_annotation(pod, "never-ready", container) != "true",
        stop_ns=seconds(_annotation(pod, "stop-seconds", container)),
        ready_ns=seconds(_annotation(pod, "ready-seconds", container)) or 0,
        live_ns=seconds(_annotation(pod, "live-seconds", container)),
    )


def is_described(pod: Pod, container: str) -> bool:
    """Return whether annotations say how long a container runs, with which code it ends, or what it writes."""
    return any(_annotation(pod, name, container) for name in ("run-seconds", "exit-codes", "log"))


def describes_probes(pod: Pod, container: str) -> bool:
    """Return whether annotations say what probes of a container find."""
    return any(
        _annotation(pod, name, container)
        for name in ("never-ready", "ready-seconds", "live-seconds")
    )


def refuses_update(pod: Pod, container: str, refused: int, happens: Callable[[], bool]) -> bool:
    """Return whether the runtime refuses to change the resources of a container, or ("") of the pod's cgroup.

    `refused` is how often it has done so; `happens` decides where it is left open.
    """
    told = pod.annotations.get(f"{PREFIX}pod-resize-fails", "")
    if container:
        told = _annotation(pod, "resize-fails", container)
    if told == "maybe":
        return happens()
    often = parse_int64(told)
    return often is not None and refused < often


def memory_usage(pod: Pod, container: str) -> int:
    """Return a container's memory usage in bytes, by the annotation `emulate.controlplane/memory-usage`; else 0."""
    return usage(pod, container, "memory-usage")


def usage(pod: Pod, container: str, name: str) -> int:
    """Return a container's usage by an annotation of that name, in bytes or as a number; else 0."""
    try:
        return parse(_annotation(pod, name, container) or "0").value()
    except QuantityError:
        return 0


def _annotation(pod: Pod, name: str, container: str) -> str:
    whole = pod.annotations.get(f"{PREFIX}{name}", "")
    return pod.annotations.get(f"{PREFIX}{name}.{container}", whole)


_DIGITS = 18


def seconds(text: str) -> int | None:
    """A decimal number of seconds in nanoseconds; None of anything else."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (
        digits.isascii() and digits.isdecimal() and len(fraction) <= 9 and len(whole) <= _DIGITS
    ):
        return None
    return int(whole or 0) * SECOND + int(fraction.ljust(9, "0"))


@attrs.frozen
class Exit:
    """The end of a run; times in nanoseconds."""

    exit_code: int
    reason: str
    started_at: int
    finished_at: int
    container_id: str
    message: str = ""


@attrs.frozen
class Seen:
    """A container as the runtime reported it."""

    attempt: int = -1
    running_since: int | None = None
    exit: Exit | None = None
    previous: Exit | None = None
    container_id: str = ""
    resources: Tree | None = None


NOT_SEEN: Final = Seen()


@attrs.define
class Container:
    """One container of a sandbox over all its runs."""

    name: str
    image: str
    program: Program
    attempt: int = -1
    """Number of the current or last run, -1 before the first."""
    running_since: int | None = None
    ends_at: int | None = None
    """The time at which the current run ends by itself, or by the requested stop."""
    stopping: bool = False
    _stop_code: int = 0
    exit: Exit | None = None
    """The end of the last run; None while one is running or before the first."""
    previous: Exit | None = None
    """The end of the run before."""
    container_id: str = ""
    resources: Tree | None = None
    """The resources of the run, with its updates."""
    cpus: str = ""
    """The CPUs it may run on, as a list; "" for all."""
    exclusive: bool = False
    """These CPUs are exclusive."""
    life: Life | None = None
    """The current or last run of a program that the emulated shell knows."""
    _told: Seen | None = None

    @property
    def recurs(self) -> bool:
        """Return whether only more of the same restarts lie ahead, unless a change comes from elsewhere.

        The first run after enough equal restarts still ends: a crash loop rests in its back-off.
        """
        shown = self.attempt if self.running_since is None else self.attempt - 1
        return self.program.repeats(shown) and not self.stopping

    def seen(self) -> Seen:
        """Return the runtime's report: the same value for as long as nothing changed.

        A relist compares all containers of a pod; identical values cost it nothing.
        """
        told = self._told
        if (
            told is None
            or told.attempt != self.attempt
            or told.running_since != self.running_since
            or told.exit is not self.exit
            or told.resources is not self.resources
            or told.container_id != self.container_id
            or told.previous is not self.previous
        ):
            told = self._told = Seen(
                self.attempt,
                self.running_since,
                self.exit,
                self.previous,
                self.container_id,
                self.resources,
            )
        return told

    def start(self, uid: str, now: int, life: Life | None = None) -> None:
        """Begins the next run; `life` is that of a program that the emulated shell has run."""
        self.attempt += 1
        self.previous = self.exit or self.previous
        self.exit = None
        self.running_since = now
        self.stopping = False
        self.life = life
        run_ns = self.program.run_ns if life is None else life.run_ns
        self.ends_at = None if run_ns is None else now + run_ns
        self.container_id = container_id(uid, self.name, self.attempt)

    def leave(self, code: int, now: int) -> None:
        """End the run of a program whose client has left."""
        if self.life is not None and self.running_since is not None and not self.stopping:
            self.life.code, self.life.waits = code, False
            self.ends_at = now

    def stop(self, now: int, grace_ns: int, takes_ns: int) -> None:
        """Asks the program to stop; it is killed when the grace period is over."""
        if self.running_since is None:
            return
        if self.stopping and self.ends_at is not None:
            if now + grace_ns < self.ends_at:
                self.ends_at = now + grace_ns
                self._stop_code = KILLED
            return
        takes = self.program.stop_ns if self.program.stop_ns is not None else takes_ns
        due = now + min(takes, grace_ns)
        if self.ends_at is None or due < self.ends_at:
            self.ends_at = due
            self._stop_code = KILLED if takes > grace_ns else 0
            self.stopping = True

    def end(self, now: int, exit_code: int) -> None:
        """End the run now: its program is a process outside of the world, and has exited."""
        if self.running_since is not None:
            self.ends_at = now
            self._stop_code = exit_code
            self.stopping = True

    def settle(self, now: int) -> bool:
        """Ends the run if its time has come; whether it did."""
        if self.running_since is None or self.ends_at is None or now < self.ends_at:
            return False
        code = self.program.exit_code(self.attempt) if self.life is None else self.life.code
        code = self._stop_code if self.stopping else code
        self.exit = Exit(
            exit_code=code,
            reason="Completed" if code == 0 else "Error",
            started_at=self.running_since,
            finished_at=self.ends_at,
            container_id=self.container_id,
            message="" if self.life is None else self.life.message(code),
        )
        self.running_since = self.ends_at = None
        self.stopping = False
        return True


@attrs.define
class Sandbox:
    """The runtime's part of a pod; `ready_at` is when its network stands."""

    uid: str
    ip: str = ""
    ready_at: int | None = None
    containers: dict[str, Container] = attrs.field(factory=dict)
    refused: dict[str, int] | None = None
    """By container, "" for the pod: how many updates of resources were refused; None while none was."""

    def refusals(self, container: str) -> int:
        """Return the number of refused updates of a container's resources, or ("") of the pod's."""
        return 0 if self.refused is None else self.refused.get(container, 0)

    def ready(self, now: int) -> bool:
        """Return whether containers can be started."""
        return self.ready_at is not None and self.ready_at <= now

    def running(self) -> list[Container]:
        """The containers that run at present."""
        return [item for item in self.containers.values() if item.running_since is not None]


def container_id(uid: str, name: str, attempt: int) -> str:
    """The id of one run, the same in every replay."""
    return f"containerd://{sha256(f'{uid}/{name}/{attempt}'.encode()).hexdigest()}"


@lru_cache(maxsize=1024)
def image_id(image: str) -> str:
    """The id of an image, the same in every replay."""
    return f"{image.partition('@')[0]}@sha256:{sha256(image.encode()).hexdigest()}"
