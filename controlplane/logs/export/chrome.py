"""Chrome trace JSON, which Perfetto and chrome://tracing read.

One process for each actor, one thread for each task, one slice for each step: `ts` is the step, as many
steps share one instant of virtual time, which stands in `args`. A flow arrow leads from the step that
sent a message, or woke a task, to the one that it led to. Rules: google/perfetto, the JSON importer
(json_trace_parser.cc): both ends of an arrow lie inside a slice, `bp: e` binds its head to the slice
around it, ids are not used twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.logs.export.encoding import compact
from controlplane.logs.phrases import phrase
from controlplane.logs.reading import Events, Line

_SLICE = 0.9


def lines(log: Events) -> Iterator[str]:
    """The text of the file, piece by piece."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    first = True
    for event in _events(log):
        yield ("" if first else ",\n") + compact(event)
        first = False
    yield "\n]}\n"


def _events(log: Events) -> Iterator[dict[str, Any]]:
    numbers = _Numbers()
    where: dict[int, tuple[int, int]] = {}
    flows = 0
    for line in log:
        if line.event in ("log", "task"):
            continue
        pid, tid, new = numbers.of(line)
        yield from new
        if line.is_step:
            where[line.step] = pid, tid
            yield {
                "ph": "X",
                "name": line.event,
                "cat": "step",
                "pid": pid,
                "tid": tid,
                "ts": line.step,
                "dur": _SLICE,
                "args": {"t": line.t},
            }
        said = phrase(line)
        if said:  # where the log has no steps it stands alone
            yield {
                "ph": "i",
                "s": "t",
                "name": said,
                "cat": line.event,
                "pid": pid,
                "tid": tid,
                "ts": line.step + _SLICE / 2,
                "args": {"t": line.t, "data": line.data},
            }
        if line.event != "message" and not line.is_step:
            continue
        for cause in line.cause:
            start = where.get(cause)
            if start is None or cause >= line.step or line.step not in where:
                continue
            flows += 1
            name = line.data.get("message", "") if line.event == "message" else "wakes"
            common = {"cat": "cause", "name": name or "message", "id": flows}
            yield {"ph": "s", "pid": start[0], "tid": start[1], "ts": cause + _SLICE / 2, **common}
            yield {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": line.step, **common}


class _Numbers:
    """Process and thread numbers, and the events that name them."""

    def __init__(self) -> None:
        self._actors: dict[str, int] = {}
        self._tasks: dict[tuple[str, str], int] = {}

    def of(self, line: Line) -> tuple[int, int, list[dict[str, Any]]]:
        """Process, thread, and what is to be said of them for the first time."""
        new: list[dict[str, Any]] = []
        pid = self._actors.get(line.actor)
        if pid is None:
            pid = self._actors[line.actor] = len(self._actors) + 1
            new += [
                _named("process_name", pid, 0, {"name": line.actor}),
                _named("process_sort_index", pid, 0, {"sort_index": pid}),
            ]
        tid = self._tasks.get((line.actor, line.task))
        if tid is None:
            tid = self._tasks[line.actor, line.task] = len(self._tasks) + 1
            new += [
                _named("thread_name", pid, tid, {"name": line.task}),
                _named("thread_sort_index", pid, tid, {"sort_index": tid}),
            ]
        return pid, tid, new


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
