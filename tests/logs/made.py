"""Logs made by hand or by Hypothesis."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen
from hypothesis import strategies as st

from controlplane.logs.reading import Line

ACTORS = ("apiserver", "scheduler", "node 1", "user")


@frozen
class Made:
    """Lines that are read as a log is."""

    lines: tuple[Line, ...]

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def between(self, first: int, last: int) -> Iterator[Line]:
        """The events of these steps."""
        return (line for line in self.lines if first <= line.step <= last)


def step(number, actor="scheduler", task="main", cause=(), point="p", t=0.0) -> Line:
    """A task's step."""
    return Line(number, t, actor, task, point, "r", cause=tuple(cause))


def event(number, name, obj="", *, actor="scheduler", task="main", level="info", t=0.0, **rest):
    """An event within a step; what is no field is data."""
    known = {key: rest.pop(key) for key in ("uid", "rv", "cause") if key in rest}
    return Line(number, t, actor, task, name, "r", level, obj, data=rest, **known)


@st.composite
def logs(draw) -> Made:
    """Steps of a few actors, each woken by an earlier step or none; some take a message of a third."""
    lines: list[Line] = []
    for number in range(1, draw(st.integers(0, 25)) + 1):
        actor = draw(st.sampled_from(ACTORS))
        task = draw(st.sampled_from(("main", "worker")))
        earlier = st.integers(1, max(1, number - 1))
        woken = draw(st.lists(earlier, max_size=1)) if number > 1 else ()
        lines.append(step(number, actor, task, woken, t=number / 10))
        if number > 1 and draw(st.booleans()):
            sent = draw(earlier)
            data = {"from": lines[0].actor, "message": draw(st.text(max_size=5))}
            taken = Line(
                number, number / 10, actor, task, "message", "r", "trace", cause=(sent,), data=data
            )
            lines.append(taken)
        if draw(st.booleans()):
            said = draw(st.text(max_size=9))
            lines.append(event(number, "node.error", actor=actor, task=task, message=said))
    return Made(tuple(lines))
