"""Probes of containers: what each finds, and what becomes of it.

Upstream: pkg/kubelet/prober (worker.go, results). A probe looks at a container as the status manager reports
it; what it found counts once it has found the same often enough. The command of an exec probe is run where the
emulated shell runs the program of its container; how other programs answer is set by annotations
(`container_runtime.Program`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from controlplane.api.containers import Container, Probe
from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.kubelet.pod.container_runtime import LIVENESS, READINESS, STARTUP, Program

if TYPE_CHECKING:
    from controlplane.shell.running import Outcome

KINDS: Final = (STARTUP, READINESS, LIVENESS)
_INITIAL: Final = {STARTUP: None, READINESS: False, LIVENESS: True}


class Results:
    """The last results of the probes of one node, by kind and container id."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    def get(self, kind: str, container_id: str) -> bool | None:
        """None while nothing counts yet."""
        return self._known.get((kind, container_id))

    def set(self, kind: str, container_id: str, found: bool | None) -> bool:
        """Return whether that is news."""
        if self.get(kind, container_id) is found:
            return False
        if found is None:
            self._known.pop((kind, container_id), None)
        else:
            self._known[kind, container_id] = found
        return True


def _nothing_runs() -> Outcome | None:
    return None


@attrs.define
class ProbeWorker:
    """One probe of one container; it looks every period from `first` on, nanoseconds since the epoch."""

    kind: str
    container: str
    probe: Probe
    program: Program
    first: int
    execute: Callable[[], Outcome | None] = _nothing_runs
    """Runs the command of the probe; None where nothing runs it."""
    container_id: str = ""
    _found: bool | None = None
    _times: int = 0
    _holds: bool = False
    _runs: bool = False
    """The last look ran a command."""
    _stale: bool = False
    """Files have changed since."""

    @property
    def period(self) -> int:
        """In nanoseconds."""
        return (self.probe.period_seconds or 10) * SECOND

    def at_or_after(self, time: int) -> int:
        """Return the time of the next look from this time on."""
        late = max(0, time - self.first)
        return self.first + -(-late // self.period) * self.period

    def look(self, status: Tree | None, results: Results, now: int) -> tuple[bool, str]:
        """Probe once. Whether that is news for the pod's worker, and what is to be said if it failed."""
        if status is None or not status.get("containerID"):
            return False, ""
        news = False
        if status["containerID"] != self.container_id:
            if self.container_id:
                results.set(self.kind, self.container_id, None)
            self.container_id = status["containerID"]
            news = results.set(self.kind, self.container_id, _INITIAL[self.kind])
            self._holds, self._found, self._times = False, None, 0
        since = _running_since(status)
        if self._holds:
            return news, ""
        if since is None:
            return results.set(self.kind, self.container_id, False) or news, ""
        if not self._wanted(status, since, now):
            return news, ""
        found, text = self._ask(now - since)
        if found is self._found:
            self._times += 1
        else:
            self._found, self._times = found, 1
        said = "" if found else f"{self.kind.capitalize()} probe failed: {text}"
        if self._times < self._threshold(found):
            return news, said
        news = results.set(self.kind, self.container_id, found) or news
        if not found and self.kind != READINESS:
            self._holds = True
        return news, said

    def _ask(self, running_ns: int) -> tuple[bool, str]:
        """Return whether the program, which has run so long, passes the probe; and why not."""
        outcome = self.execute()
        self._runs, self._stale = outcome is not None, False
        if outcome is None:
            return self.program.answers(self.kind, running_ns), "emulated"
        if outcome.timed_out:
            words = " ".join((self.probe.exec or {}).get("command") or ())
            return False, f"command {quote(words)} timed out"
        return outcome.code == 0, outcome.said

    def files_changed(self) -> None:
        """The files of the container have changed: a command may find something else in them."""
        self._stale = self._runs

    @property
    def rests(self) -> bool:
        """Return whether a command would find what it found, as far as is known, and that counts already."""
        known = self._found
        return (
            self._runs and not self._stale and known is not None
        ) and self._times >= self._threshold(known)

    def next_look(self, status: Tree | None, now: int) -> int | None:
        """Return the time at which a look can find something new; None: not before the status changes."""
        since = _running_since(status)
        if status is None or since is None:
            return None
        if status.get("containerID") != self.container_id:
            return self.at_or_after(now)
        if self._holds or bool(status.get("started")) is (self.kind == STARTUP):
            return None
        start = since + self.probe.initial_delay_seconds * SECOND
        if now < start:
            return self.at_or_after(start)
        if self._found is None or self._times < self._threshold(self._found):
            return self.at_or_after(now + 1)
        if self._runs or self.program.answers(self.kind, now - since) is not self._found:
            return self.at_or_after(now + 1)
        changes = self.program.changes(self.kind)
        if changes is None or since + changes <= now:
            return None
        return self.at_or_after(since + changes)

    def _wanted(self, status: Tree, since: int, now: int) -> bool:
        """Return whether there is anything to probe yet, or still."""
        if now < since + self.probe.initial_delay_seconds * SECOND:
            return False
        return bool(status.get("started")) is not (self.kind == STARTUP)

    def _threshold(self, found: bool) -> int:
        if found:
            return max(1, self.probe.success_threshold)
        return self.probe.failure_threshold or 3


def _running_since(status: Tree | None) -> int | None:
    running: Any = ((status or {}).get("state") or {}).get("running")
    return None if running is None else parse_time(running["startedAt"])


def probes_of(pod: Pod) -> list[tuple[str, Container, Probe]]:
    """The probes of a pod's containers: kind, container, probe."""
    found: list[tuple[str, Container, Probe]] = []
    spec = pod.spec
    sidecars = tuple(each for each in spec.init_containers if each.restart_policy == "Always")
    for container in (*sidecars, *spec.containers):
        given = (container.startup_probe, container.readiness_probe, container.liveness_probe)
        for kind, probe in zip(KINDS, given, strict=True):
            if probe is not None:
                found.append((kind, container, probe))
    return found
