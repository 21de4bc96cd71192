"""Dynamic partial-order reduction: one run for each causal trace of a small scenario.

Source sets with sleep sets (Abdulla, Aronis, Jonsson, Sagonas, POPL 2014), stateless: each
alternative is run again from the start. Two steps that touch the same thing and are not ordered
otherwise are a race; the search goes back to where the first of them was picked and tries what
could have come before it. A task that waits for messages is one process for each channel that it
could read next: sending to it commutes with its reading of another channel, and which one it reads
is as much part of the schedule as which task runs. What is drawn besides (a workload's size, a
jitter) is enumerated. Time moves on only when no task is ready, so no step is ever swapped across
such a moment.

Needs the world's `Footprint(keep=True)`. The reduction is as sound as the footprints are complete.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import Factory, define

from actors.choices import name_of
from actors.errors import Abandoned, Divergence
from actors.footprint import EVERYTHING, TASK, Footprint, Step, dependent, process_of
from actors.process import Channel, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.strategies.base import Option

Accesses = dict[str, bool]
Clock = dict[str, int]


@define
class _TaskNode:
    """A place where several processes could go on: the picked one, those tried, those still to be tried."""

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


# How the search goes, and why in this order.
#
# The stack is the current run, choice by choice: a task node for each pick of a process, a data node for each
# draw. One run follows the stack to its end and grows it with first options. When it is over, `end` does three
# things, and their order matters.
#
# First, each node gets what its picked step touched (`_note_touched`). A process that was tried at a node is
# put to sleep there for the runs to come, and only a step that depends on what it touched wakes it. A step that
# touched everything may have ended other tasks for good; no later step of theirs is left to race with, so
# nothing could ever ask for them to be tried. At such a node every process is tried.
#
# Second, races are looked for, in the order of the run (`_find_races`, `_Order`): two dependent steps of
# different processes, without a step in between that orders them. For each race one process has to be tried at
# the node of the earlier step: any *initial* of what leads to the later step without the earlier one. If one of
# them is on the node's list already, nothing is added. That is the difference between source sets and
# persistent sets, and what makes the number of runs small. Races between steps that the run before had, too,
# were found then: only steps from the last change on are asked (`_fresh_from`).
#
# Third, the search backs up to the deepest node with something left to try (`_advance`). Deepest first keeps
# the stack as the only memory: all that is known of other branches is which processes sleep.
#
# Sleep sets cut runs short, source sets avoid beginning them. Each would be complete by itself. With both, a
# run that is given up (`blocked`) costs its common prefix and is no class of its own, which is why it is
# counted apart; its races are looked for all the same, for the part that was run is a real run.
#
# A task that waits for messages is several processes, one for each channel that it could read. With one process
# per task, two senders to one mailbox would be dependent on each other, and every order of sending would be
# tried; as it is, sending commutes, and the order of reading is explored, which is all that can be seen. A
# barrier (virtual time moves on) orders everything before it before everything after it: time moves only when
# no task is ready, so no swap can cross it.


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
        self._channel = ""
        self._channel_step = 0
        self._fresh_from = 0
        self.repeated = False

    # ------------------------------------------------------------------ one run

    def begin(self) -> None:
        """Start at the root again."""
        self.footprint = Footprint(keep=True)
        self._depth = 0
        self._sleep = {}
        self._seen = 0
        self._channel_step = 0
        self.repeated = False

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """As the stack says, and beyond it the first option that is not asleep."""
        if kind == "task":
            return self._task(options, step)
        if kind == "message":
            return self._message(options, step)
        depth = self._depth
        self._depth = depth + 1
        return self._data(depth, kind, _names(options))

    def _task(self, options: Sequence[Option], step: int) -> int:
        """Pick a process; where it is one of several of its task, `_message` is asked next."""
        owners: dict[str, int] = {}
        channels: dict[str, str] = {}
        for index, option in enumerate(options):
            for name, channel in _processes(option):
                owners[name] = index
                channels[name] = channel
        chosen = self._pick(tuple(owners), step)
        self._channel, self._channel_step = channels[chosen], step
        return owners[chosen]

    def _message(self, options: Sequence[Option], step: int) -> int:
        """The channel that was picked with the task; or it is picked now, if the task was the only one."""
        names = [option.identity for option in options if isinstance(option, Channel)]
        if self._channel_step == step:
            return names.index(self._channel)
        assert self.footprint is not None
        task = self.footprint.running
        chosen = self._pick(tuple(process_of(task, name) for name in names), step)
        return names.index(chosen.removeprefix(process_of(task, "")))

    def _pick(self, labels: tuple[str, ...], step: int) -> str:
        depth = self._depth
        self._depth = depth + 1
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
        return node.chosen

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
        """Wake the sleeping processes whose next step depends on this step."""
        steps = self._steps
        for step in steps[self._seen :]:
            if step.process in self._sleep:
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
        """Record what the picked steps touched: a sleeping task is woken by anything that meets it."""
        by_number = {step.number: step for step in self._steps}
        for node in self._stack:
            if isinstance(node, _TaskNode) and node.step in by_number:
                step = by_number[node.step]
                if EVERYTHING in step.accesses:
                    # It may have ended others for good, so that no later step of theirs is there to race with.
                    node.backtrack.update(dict.fromkeys(node.enabled))
                for resource, writes in step.accesses.items():
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
                ]:  # none: then the later step is possible only after the earlier one
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


def _processes(option: Option) -> list[tuple[str, str]]:
    """The processes as which a ready task could go on, each with the channel that it would read."""
    if isinstance(option, Task) and option.receiving is not None and option.error is None:
        channels = [channel.identity for channel in option.receiving.channels]
        if channels:
            return [(process_of(option.label, channel), channel) for channel in channels]
    return [(option.label, "")]


class _Order:
    """Happens-before among the steps of one run, as vector clocks by process.

    A step that takes a message comes after the one that sent it, and after the last one that read
    the same channel, but it could have come before its task took another message: with that step
    it races, whatever the task did in between.
    """

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._clocks: list[Clock] = []
        self._count: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._last_of: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._sent: dict[int, int] = {}
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
        own = f"{TASK}{step.task}"
        befores = [self._last.get(step.process)]
        block: int | None = None
        if step.took:
            befores.append(self._sent.get(step.took))
            block = self._taken.get(step.task)
        if block is None:  # the step before it, and the one that made the task ready
            befores += [self._last_of.get(step.task), self._writer.get(own)]
        for before in befores:
            if before is not None:
                _join(clock, self._clocks[before])
        races = []
        found = self._candidates(step)
        if block is not None:
            found.add(block)
        for other in sorted(found, reverse=True):
            earlier = self._steps[other]
            if clock.get(earlier.process, 0) < self._clocks[other][earlier.process]:
                if block is None or other == block or earlier.task != step.task:
                    races.append(other)
                else:
                    continue
            _join(clock, self._clocks[other])
        if block is not None:
            _join(clock, self._clocks[self._last_of[step.task]])
        count = self._count[step.process] = self._count.get(step.process, 0) + 1
        clock[step.process] = count
        self._clocks.append(clock)
        self._last[step.process] = self._last_of[step.task] = at
        if step.took:
            self._taken[step.task] = at
        for number in step.sent:
            self._sent[number] = at
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
        """Return whether step `other` happens after step `one`."""
        process = self._steps[one].process
        return self._clocks[other].get(process, 0) >= self._clocks[one][process]

    def initials(self, earlier: int, later: int) -> list[str]:
        """Tasks that could have gone on instead of step `earlier`, towards step `later` before it."""
        independent = [at for at in range(earlier + 1, later) if not self._after(earlier, at)] + [
            later
        ]
        found: dict[str, None] = {}
        for position, at in enumerate(independent):
            if not any(self._after(before, at) for before in independent[:position]):
                found[self._steps[at].process] = None
        return list(found)


def _join(clock: Clock, other: Clock) -> None:
    for task, count in other.items():
        if clock.get(task, 0) < count:
            clock[task] = count
