"""Dynamic partial-order reduction: one run for each causal trace of a small scenario.

Source sets with sleep sets (Abdulla, Aronis, Jonsson, Sagonas, POPL 2014), stateless: each
alternative is run again from the start. Two steps that touch the same thing and are not ordered
otherwise are a race; the search goes back to where the first of them was picked and tries what
could have come before it. What is drawn besides the schedule (which message is read, a workload's
size) is enumerated. Time moves on only when no task is ready, so no step is ever swapped across such
a moment.

Needs the world's `Footprint(keep=True)`. The reduction is as sound as the footprints are complete.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import Factory, define

from actors.choices import name_of
from actors.errors import Abandoned, Divergence
from actors.footprint import EVERYTHING, TASK, Footprint, Step, dependent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.strategies.base import Option

Accesses = dict[str, bool]
Clock = dict[str, int]


@define
class _TaskNode:
    """A place where several tasks were ready: who was picked, who was tried, who must still be tried."""

    step: int
    enabled: tuple[str, ...]
    chosen: str
    sleep: dict[str, Accesses]
    backtrack: dict[str, None]
    done: dict[str, Accesses] = Factory(dict)
    touched: Accesses = Factory(dict)


@define
class _DataNode:
    """A place where something else was drawn: all options are tried, by name."""

    kind: str
    options: tuple[str, ...]
    index: int = 0


class Dpor:
    """The search, and the strategy of its next run. `exhausted` once nothing is left to try.

    `completed` counts runs that showed something new, `blocked` those that turned out to repeat
    another one, at the latest at their end; `repeated` says so of the last run.
    """

    name = "dpor"
    seed: int | None = None

    def __init__(self) -> None:
        self.footprint: Footprint | None = Footprint(keep=True)
        self.exhausted = False
        self.completed = 0
        self.blocked = 0
        self._stack: list[_TaskNode | _DataNode] = []
        self._depth = 0
        self._sleep: dict[str, Accesses] = {}
        self._seen = 0
        self._fresh_from = 0
        self.repeated = False

    # ------------------------------------------------------------------ one run

    def begin(self) -> None:
        """Start at the root again."""
        self.footprint = Footprint(keep=True)
        self._depth = 0
        self._sleep = {}
        self._seen = 0
        self.repeated = False

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """As the stack says, and beyond it the first option that is not asleep."""
        depth = self._depth
        self._depth = depth + 1
        if kind == "task":
            return self._task(depth, tuple(option.label for option in options), step)
        return self._data(depth, kind, _names(options))

    def _task(self, depth: int, labels: tuple[str, ...], step: int) -> int:
        self._wake()
        if depth < len(self._stack):
            node = self._stack[depth]
            if not isinstance(node, _TaskNode) or node.chosen not in labels:
                raise Divergence("the run differs from the one before", index=depth, step=step)
        else:
            awake = [label for label in labels if label not in self._sleep]
            if not awake:
                self._give_up()
            node = _TaskNode(step, labels, awake[0], dict(self._sleep), {awake[0]: None})
            self._stack.append(node)
        self._sleep = {**node.sleep, **node.done}
        return labels.index(node.chosen)

    def _data(self, depth: int, kind: str, names: tuple[str, ...]) -> int:
        if depth == len(self._stack):
            self._stack.append(_DataNode(kind, names))
        node = self._stack[depth]
        if not isinstance(node, _DataNode) or node.options[node.index] not in names:
            raise Divergence("the run differs from the one before", index=depth, step=0)
        return names.index(node.options[node.index])

    @property
    def _steps(self) -> list[Step]:
        assert self.footprint is not None
        return self.footprint.steps

    def _wake(self) -> None:
        """Whoever sleeps is woken by a step that its own next step depends on."""
        steps = self._steps
        for step in steps[self._seen :]:
            if step.task in self._sleep:
                self._give_up()
            if self._sleep:
                self._sleep = {
                    task: accesses
                    for task, accesses in self._sleep.items()
                    if not dependent(accesses, step.accesses)
                }
        self._seen = len(steps)

    def _give_up(self) -> None:
        self.repeated = True
        raise Abandoned("all that could happen from here is known from other runs")

    def end(self) -> None:
        """The run is over: find its races, and go to the next place where something is left to try."""
        if not self.repeated:
            with suppress(Abandoned):
                self._wake()
        if self.repeated:
            self.blocked += 1
        else:
            self.completed += 1
        self._note_touched()
        self._find_races()
        self._advance()

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}

    # ------------------------------------------------------------------ between runs

    def _note_touched(self) -> None:
        """What the picked steps touched: a sleeping task is woken by what meets any of it."""
        by_number = {step.number: step for step in self._steps}
        for node in self._stack:
            if isinstance(node, _TaskNode) and node.step in by_number:
                for resource, writes in by_number[node.step].accesses.items():
                    node.touched[resource] = writes or node.touched.get(resource, False)

    def _find_races(self) -> None:
        steps = self._steps
        nodes = {node.step: node for node in self._stack if isinstance(node, _TaskNode)}
        order = _Order(steps)
        for later in range(len(steps)):
            races = order.add(later)
            if steps[later].number < self._fresh_from:
                continue
            for earlier in races:
                node = nodes.get(steps[earlier].number)
                if node is None:
                    continue
                first = order.initials(earlier, later)
                if any(task in node.backtrack for task in first):
                    continue
                able = [task for task in first if task in node.enabled]
                for task in able[
                    :1
                ]:  # nobody: then the earlier step is what makes the later one possible
                    node.backtrack[task] = None

    def _advance(self) -> None:
        stack = self._stack
        while stack:
            node = stack[-1]
            if isinstance(node, _DataNode):
                if node.index + 1 < len(node.options):
                    node.index += 1
                    self._fresh_from = self._step_before(len(stack) - 1)
                    return
            else:
                node.done[node.chosen] = node.touched
                node.touched = {}
                left = [
                    task
                    for task in node.backtrack
                    if task not in node.done and task not in node.sleep
                ]
                if left:
                    node.chosen = left[0]
                    self._fresh_from = node.step
                    return
            stack.pop()
        self.exhausted = True

    def _step_before(self, depth: int) -> int:
        """The number of the step in which the draw at this depth happened, or one before it."""
        for node in reversed(self._stack[:depth]):
            if isinstance(node, _TaskNode):
                return node.step
        return 0


def _names(options: Sequence[Option]) -> tuple[str, ...]:
    """Names of options that tell them apart whatever order they stand in."""
    return tuple(name_of(options, index) for index in range(len(options)))


class _Order:
    """Happens-before among the steps of one run, as vector clocks by task."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._clocks: list[Clock] = []
        self._count: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._writer: dict[str, int] = {}
        self._readers: dict[str, list[int]] = {}
        self._total: int | None = None
        self._floor: Clock = {}

    def add(self, at: int) -> list[int]:
        """Give the next step its clock; the earlier steps that it races with."""
        step = self._steps[at]
        if step.barrier:
            self._floor = dict(self._count)
        clock = dict(self._floor)
        for before in (self._last.get(step.task), self._writer.get(f"{TASK}{step.task}")):
            if before is not None:  # the step before it, and the one that made the task ready
                _join(clock, self._clocks[before])
        races = []
        for other in sorted(self._candidates(step), reverse=True):
            earlier = self._steps[other]
            if clock.get(earlier.task, 0) < self._clocks[other][earlier.task]:
                races.append(other)
            _join(clock, self._clocks[other])
        count = self._count[step.task] = self._count.get(step.task, 0) + 1
        clock[step.task] = count
        self._clocks.append(clock)
        self._last[step.task] = at
        self._note(at, step)
        return races

    def _candidates(self, step: Step) -> set[int]:
        found = set() if self._total is None else {self._total}
        if EVERYTHING in step.accesses:
            return found | set(self._last.values())
        for resource, writes in step.accesses.items():
            if resource in self._writer:
                found.add(self._writer[resource])
            if writes:
                found.update(self._readers.get(resource, ()))
        return found

    def _note(self, at: int, step: Step) -> None:
        if EVERYTHING in step.accesses:
            self._total = at
        for resource, writes in step.accesses.items():
            if writes:
                self._writer[resource] = at
                self._readers[resource] = []
            else:
                self._readers.setdefault(resource, []).append(at)

    def _after(self, one: int, other: int) -> bool:
        """Whether step `other` happens after step `one`."""
        task = self._steps[one].task
        return self._clocks[other].get(task, 0) >= self._clocks[one][task]

    def initials(self, earlier: int, later: int) -> list[str]:
        """Tasks that could have gone on instead of step `earlier`, towards step `later` before it."""
        independent = [at for at in range(earlier + 1, later) if not self._after(earlier, at)] + [
            later
        ]
        found: dict[str, None] = {}
        for position, at in enumerate(independent):
            if not any(self._after(before, at) for before in independent[:position]):
                found[self._steps[at].task] = None
        return list(found)


def _join(clock: Clock, other: Clock) -> None:
    for task, count in other.items():
        if clock.get(task, 0) < count:
            clock[task] = count
