"""What emulated containers have written: a function of their pod and of the time, like everything of them.

A container writes a line when it starts, one when it ends, and in between what annotations of its pod say:
`emulate.controlplane/log` (a text of one or more lines, written once after the start) and
`emulate.controlplane/log-seconds` ("0.5": the text is written again after so long, for as long as the
container runs). In the text `{n}` stands for how often it was written, `{pod}`, `{container}`
and `{node}` for what they say. `.CONTAINER` after an annotation's name is for one container only.
"""

from __future__ import annotations

from itertools import chain
from typing import Final, NamedTuple

from attrs import frozen

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree

__all__ = ["KEPT", "Line", "Output", "output_of", "state_of"]

TEXT: Final = "emulate.controlplane/log"
EVERY: Final = "emulate.controlplane/log-seconds"
KEPT: Final = 10_000
"""So many repetitions are kept, as a kubelet keeps so many bytes."""
LATE_NS: Final = SECOND
"""Repeated lines are seen so late: by then a container that has ended is known to have."""
LEAST_NS: Final = SECOND // 100
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class Line(NamedTuple):
    """One line, and when it was written (nanoseconds since 1970)."""

    at: int
    text: str


@frozen
class Output:
    """All lines of one life of a container that are kept; `first` were written before them."""

    first: int = 0
    lines: tuple[Line, ...] = ()
    ended: bool = True
    """Nothing more will come."""

    @property
    def count(self) -> int:
        """How many lines were written."""
        return self.first + len(self.lines)


def state_of(pod: Tree, container: str) -> Tree:
    """The status of a container, {} before its kubelet has told of it."""
    state = pod.get("status") or {}
    every = chain.from_iterable(state.get(key) or () for key in _STATUSES)
    return next((each for each in every if each.get("name") == container), {})


def output_of(pod: Tree, container: str, now: int, *, previous: bool = False) -> Output:
    """What a container has written until now; in its `previous` life, or in its last one if it waits for the next."""
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
    first, body = _body(pod, container, started, until)
    tail = []
    if ended is not None:
        code = ended.get("exitCode", 0)
        tail = [Line(until, f"container {container} ended with exit code {code}")]
    if first:
        head = []
    return Output(first, (*head, *body, *tail), ended is not None)


def _body(pod: Tree, container: str, started: int, until: int) -> tuple[int, list[Line]]:
    """How many lines are no longer kept, and those that are."""
    meta = pod["metadata"]
    notes = meta.get("annotations") or {}
    text = notes.get(f"{TEXT}.{container}", notes.get(TEXT))
    if text is None:
        return 0, []
    lines = text.rstrip("\n").split("\n")
    every = _nanoseconds(notes.get(f"{EVERY}.{container}", notes.get(EVERY, "")))
    times = 1 if not every else max(0, until - started) // every + 1
    skipped = max(0, times - max(1, KEPT // len(lines)))
    said = {"pod": meta.get("name", ""), "container": container,
            "node": pod["spec"].get("nodeName", "")}  # fmt: skip
    found = []
    for key, value in said.items():
        lines = [line.replace(f"{{{key}}}", value) for line in lines]
    for number in range(skipped + 1, times + 1):
        at = started + (number - 1) * every
        found += [Line(at, line.replace("{n}", str(number))) for line in lines]
    return (1 + skipped * len(lines) if skipped else 0), found


def _nanoseconds(text: str) -> int:
    """An interval; 0 for none, and for what is none."""
    try:
        value = round(float(text) * SECOND)
    except (ValueError, OverflowError):
        return 0
    return max(value, LEAST_NS) if value > 0 else 0
