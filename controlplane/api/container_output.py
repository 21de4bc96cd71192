"""The output of emulated containers: a function of their pod and of the time, like all of their behaviour.

A container writes a line when it starts, one when it ends, and in between what annotations of its pod say:
`emulate.controlplane/log` (a text of one or more lines, written once after the start) and
`emulate.controlplane/log-seconds` ("0.5": the text is written again after so long, for as long as the
container runs). In the text `{n}` stands for how often it was written, `{pod}`, `{container}`
and `{node}` for what they say. `.CONTAINER` after an annotation's name is for one container only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple, overload

from attrs import frozen

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree

__all__ = ["KEPT", "KEPT_BYTES", "Line", "Lines", "Output", "output_of", "state_of"]

TEXT: Final = "emulate.controlplane/log"
EVERY: Final = "emulate.controlplane/log-seconds"
KEPT: Final = 10_000
"""The number of lines of repetitions that are kept; at least one repetition is."""
KEPT_BYTES: Final = 10 << 20
"""The number of bytes of repetitions that are kept; at least one repetition is. The default of a kubelet's
containerLogMaxSize.
"""
LATE_NS: Final = SECOND
"""Repeated lines are seen so late: by then a container that has ended is known to have."""
LEAST_NS: Final = SECOND // 100
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class Line(NamedTuple):
    """One line, and when it was written (nanoseconds since 1970)."""

    at: int
    text: str


class Lines(Sequence[Line]):
    """The lines that are kept, made when they are asked for: few readers want all of them.

    `head` and `tail` are lines, `body` the texts that are written `times` times, the first time at `started` as
    number `number`, then every `every` nanoseconds.
    """

    __slots__ = ("_body", "_every", "_head", "_number", "_started", "_tail", "_times")

    def __init__(
        self,
        head: Sequence[Line] = (),
        body: Sequence[str] = (),
        tail: Sequence[Line] = (),
        *,
        times: int = 0,
        number: int = 1,
        started: int = 0,
        every: int = 0,
    ) -> None:
        self._head = tuple(head)
        self._body = tuple(body)
        self._tail = tuple(tail)
        self._times = times
        self._number = number
        self._started = started
        self._every = every

    def __len__(self) -> int:
        return len(self._head) + len(self._body) * self._times + len(self._tail)

    @overload
    def __getitem__(self, at: int) -> Line: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Line]: ...

    def __getitem__(self, at: int | slice) -> Line | Sequence[Line]:
        """One line, or some."""
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(at)
        if at < len(self._head):
            return self._head[at]
        turn, place = divmod(at - len(self._head), len(self._body) or 1)
        if not self._body or turn >= self._times:
            return self._tail[at - len(self)]
        text = self._body[place].replace("{n}", str(self._number + turn))
        return Line(self._started + turn * self._every, text)


@frozen
class Output:
    """All lines of one life of a container that are kept; `first` were written before them."""

    first: int = 0
    lines: Sequence[Line] = ()
    ended: bool = True
    """Nothing more will come."""

    @property
    def count(self) -> int:
        """Return the number of written lines."""
        return self.first + len(self.lines)


def state_of(pod: Tree, container: str) -> Tree:
    """The status of a container, {} before its kubelet has told of it."""
    state = pod.get("status") or {}
    every = chain.from_iterable(state.get(key) or () for key in _STATUSES)
    return next((each for each in every if each.get("name") == container), {})


def output_of(pod: Tree, container: str, now: int, *, previous: bool = False) -> Output:
    """Return a container's output until now; with `previous` that of its previous life, or of its last if it waits."""
    known = state_of(pod, container)
    life, last = known.get("state") or {}, known.get("lastState") or {}
    if previous or not ("running" in life or "terminated" in life):
        life = last
    running, ended = life.get("running"), life.get("terminated")
    told = running or ended or {}
    if not told.get("startedAt"):
        return Output(ended=ended is not None)
    started = parse_time(told["startedAt"])
    until = (
        now - LATE_NS if ended is None else parse_time(ended.get("finishedAt") or told["startedAt"])
    )
    head = [Line(started, f"container {container} started")]
    tail = []
    if ended is not None:
        code = ended.get("exitCode", 0)
        tail = [Line(until, f"container {container} ended with exit code {code}")]
    text, every = _asked_for(pod, container)
    if text is None:
        return Output(0, Lines(head, (), tail), ended is not None)
    body = _filled(text, pod, container)
    times = 1 if not every else max(0, until - started) // every + 1
    longest = str(times)
    size = sum(len(line.replace("{n}", longest).encode()) + 1 for line in body)
    kept = max(1, min(KEPT // len(body), KEPT_BYTES // size))
    skipped = max(0, times - kept)
    lines = Lines(
        () if skipped else head,
        body,
        tail,
        times=times - skipped,
        number=skipped + 1,
        started=started + skipped * every,
        every=every,
    )
    return Output(1 + skipped * len(body) if skipped else 0, lines, ended is not None)


def _asked_for(pod: Tree, container: str) -> tuple[str | None, int]:
    """The text that the annotations ask for, None for none, and after how long again (0: never)."""
    notes = pod["metadata"].get("annotations") or {}
    text = notes.get(f"{TEXT}.{container}", notes.get(TEXT))
    return text, _nanoseconds(notes.get(f"{EVERY}.{container}", notes.get(EVERY, "")))


def _filled(text: str, pod: Tree, container: str) -> list[str]:
    """The lines of a text, with the names in place; numbers stay to be put in."""
    said = {"pod": pod["metadata"].get("name", ""), "container": container,
            "node": pod["spec"].get("nodeName", "")}  # fmt: skip
    text = text.rstrip("\n")
    for key, value in said.items():
        text = text.replace(f"{{{key}}}", value)
    return text.split("\n")


def _nanoseconds(text: str) -> int:
    """An interval; 0 for none, and for what is none."""
    try:
        value = round(float(text) * SECOND)
    except (ValueError, OverflowError):
        return 0
    return max(value, LEAST_NS) if value > 0 else 0
