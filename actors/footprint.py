"""Footprints: the things that each step of a run touched, on which partial orders rest.

Two steps are *dependent* when both touch one thing and one of them writes it; steps that are not
may be swapped, and nothing changes. A step touches

- the memory of its actor, as a whole, unless it says which parts of it by `Context.reads` and
  `Context.writes`: tasks of one actor share memory as goroutines do;
- conditions and events: tasks that wait, and tasks that notify;
- tasks: its own, and those that it starts, answers, wakes, cancels or waits for the end of;
- channels that two tasks of one sender share;
- mailboxes, when it looks into one without taking the message that it was picked for;
- everything, when it is a fault, closes a stream or starts an actor.

Taking a message is no conflict with sending another one: a task that waits for messages is as many
*processes* as there are channels to read, and each of their steps comes after the step that sent.
Besides, whatever comes after time moved on comes after all that was before.
Runs that differ only in the order of independent steps have the same causal class (Mazurkiewicz
trace); `class_id` names it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0x9E3779B97F4A7C15
EVERYTHING: Final = "everything"
TASK: Final = "task "
"""Prefix of the names of tasks among the things that are touched."""


class Step(NamedTuple):
    """One step: its number, whose it was ("actor/task"), where it began, and among how many it was picked.

    `process` is the task, or, where it takes a message, task and channel. `accesses` is what it
    touched (resource to whether it wrote), `choices` what it drew, `draws` how often, the messages that it
    chose among included; `barrier` says that time moved
    on before it. `took` is the message that it began with (0: none), `sent` are those that it sent,
    both by number.
    """

    number: int
    task: str
    process: str
    point: str
    among: int
    accesses: dict[str, bool]
    choices: tuple[tuple[str, str], ...]
    draws: int
    barrier: bool
    took: int
    sent: tuple[int, ...]


def dependent(one: dict[str, bool], other: dict[str, bool]) -> bool:
    """Return whether two footprints meet, and one of them writes where they do."""
    if EVERYTHING in one or EVERYTHING in other:
        return True
    return any(
        resource in other and (writes or other[resource]) for resource, writes in one.items()
    )


class Watch(Protocol):
    """Looks at what steps really touch (`actors.guard`)."""

    def begin(self, footprint: Footprint, actor: str) -> None:
        """A step begins."""

    def end(self) -> None:
        """It is over, and has said all that it says."""


class Footprint:
    """Notes what the running step touches. With `keep`, all steps are kept for an analysis.

    `classes`: whether the causal class is computed, which costs more than all the rest.
    """

    def __init__(self, *, keep: bool = False, classes: bool = True) -> None:
        self.steps: list[Step] = []
        self.guard: Watch | None = None
        """The debug check that a step touches no more than it says."""
        self._keep = keep
        self._classes = classes
        self._task = ""
        self._process = ""
        self._point = ""
        self._number = 0
        self._among = 0
        self._draws = 0
        self._barrier = False
        self._actor = ""
        self._accesses: dict[str, bool] = {}
        self._declared = False
        self._blunt = False
        self._took = 0
        self._sent: list[int] = []
        self._choices: list[tuple[str, str]] = []
        self._class = 0
        self._known: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._senders: dict[int, int] = {}
        self._counts: dict[str, int] = {}
        self._epoch = 0

    # ------------------------------------------------------------------ called by the kernel

    def begin(self, number: int, actor: str, task: str, point: str, among: int = 1) -> None:
        """A step begins, picked among this number of tasks."""
        self._number = number
        self._among = among
        self._actor = actor
        self._task = self._process = task
        self._point = point
        self._accesses = {f"{TASK}{task}": True}
        if self.guard is not None:
            self.guard.begin(self, actor)

    def end(self) -> None:
        """The step that began last is over."""
        if not self._task:
            return
        accesses = self._accesses
        accesses[self._actor] = not self.declared
        if self.guard is not None:
            self.guard.end()
        sent = tuple(self._sent)
        if self._keep:
            self.steps.append(
                Step(
                    self._number,
                    self._task,
                    self._process,
                    self._point,
                    self._among,
                    accesses,
                    tuple(self._choices),
                    self._draws,
                    self._barrier,
                    self._took,
                    sent,
                )
            )
        if self._classes:
            self._fold(accesses, sent)
        self._task = ""
        self._accesses = {}
        self._declared = self._blunt = False
        self._barrier = False
        self._took = 0
        self._draws = 0
        self._sent.clear()
        self._choices.clear()

    def barrier(self) -> None:
        """Time moved on: whatever comes later comes after all that was."""
        if not self._barrier:
            self._barrier = True
            self._epoch = _mixed(self._class, 1)

    def sent(self, owner: str, mailbox: str, sender: str, number: int, *, ordered: bool) -> str:
        """The step put a message into a mailbox; returns the name of the message in all runs.

        Sends of different actors can be swapped: the reader chooses. `ordered`: on the channel that all tasks of the
        sender share.
        """
        key = f"mailbox {owner}/{mailbox}"
        if ordered:
            self._accesses[f"{key} from {sender}"] = True
        self._accesses.setdefault(key, False)
        self._sent.append(number)
        return self.named(self._task or sender)

    def named(self, what: str) -> str:
        """A name for one more of a kind, the same in all runs."""
        count = self._counts[what] = self._counts.get(what, 0) + 1
        return f"{what}:{count}"

    def took(self, channel: str, number: int) -> None:
        """The step began with taking the next message of a channel."""
        self._process = process_of(self._task, channel)
        self._took = number

    def looked(self, owner: str, mailbox: str) -> None:
        """The effect of the step depends on the messages that wait in a mailbox."""
        self._accesses[f"mailbox {owner}/{mailbox}"] = True

    def woke(self, task: str) -> None:
        """The step made a task ready (started, answered, notified or cancelled it), or joined it."""
        self._accesses[f"{TASK}{task}"] = True

    def shared(self, resource: str, *, write: bool) -> None:
        """The step touched something that is known by name in the whole world, or in the runtime."""
        self._accesses[resource] = write or self._accesses.get(resource, False)

    def touched(self, resources: Iterable[str], *, write: bool, declares: bool = True) -> None:
        """The step said what it touches of its actor's memory; `declares`: and nothing else of it."""
        if declares:
            self._declared = True
        for resource in resources:
            key = f"{self._actor}.{resource}"
            self._accesses[key] = write or self._accesses.get(key, False)

    def blunt(self) -> None:
        """The step runs code that does not say what it touches."""
        self._blunt = True

    def everything(self) -> None:
        """The step did something that no other step can be swapped with; or it was done between two steps."""
        if self._task:
            self._accesses[EVERYTHING] = True
        else:
            self.barrier()

    def chose(self, kind: str, label: str) -> None:
        """The step drew something. The message that it took is reported by `took`."""
        self._draws += 1
        if kind != "message":
            self._choices.append((kind, label))

    @property
    def running(self) -> str:
        """The task of the step that is running, "" between two steps."""
        return self._task

    @property
    def declared(self) -> bool:
        """Return whether the running step declared that it touches parts of its actor's memory only."""
        return self._declared and not self._blunt

    def admits(self, resource: str, *, write: bool) -> bool:
        """Return whether the running step declared that it touches (writes) this part of its actor's memory."""
        if not self.declared or EVERYTHING in self._accesses:
            return True
        said = self._accesses.get(f"{self._actor}.{resource}")
        return said is not None and (said or not write)

    def describe(self) -> str:
        """The running step, for people."""
        return f"step {self._number} of {self._task} from {self._point!r}"

    # ------------------------------------------------------------------ the causal class

    @property
    def class_id(self) -> str:
        """The causal class of the steps so far, 16 hex digits: equal for runs that differ by swaps only."""
        return f"{self._class:016x}"

    def _label(self, text: str) -> int:
        found = self._known.get(text)
        if found is None:
            digest = blake2b(text.encode(), digest_size=8).digest()
            found = self._known[text] = int.from_bytes(digest, "big")
        return found

    def _fold(self, accesses: dict[str, bool], sent: tuple[int, ...]) -> None:
        """Name the step by all that it comes after, and add it to the class."""
        name = _mixed(self._label(self._process), self._label(self._point))
        if self._took:
            name = _mixed(name, self._senders.pop(self._took, 0))
        for kind, label in self._choices:
            name = _mixed(name, self._label(f"{kind}:{label}"))
        name = _mixed(name, self._epoch)
        if EVERYTHING in accesses:
            name = _mixed(name, self._class)
            self._epoch = name
        else:
            written, read = self._written, self._read
            for resource in sorted(accesses):
                name = _mixed(name, self._label(resource))
                name = _mixed(name, written.get(resource, 0))
                if accesses[resource]:
                    name = _mixed(name, read.get(resource, 0))
            for resource, writes in accesses.items():
                if writes:
                    written[resource] = name
                    read.pop(resource, None)
                else:
                    read[resource] = (read.get(resource, 0) + name) & _MASK
        for number in sent:
            self._senders[number] = name
        self._class = (self._class + name) & _MASK


def process_of(task: str, channel: str) -> str:
    """Return the name of the task that takes the next message of a channel."""
    return f"{task} < {channel}"


def _mixed(one: int, other: int) -> int:
    value = (one ^ (other + _FACTOR + (one << 6 & _MASK) + (one >> 2))) & _MASK
    value = (value * _FACTOR) & _MASK
    return value ^ (value >> 29)
