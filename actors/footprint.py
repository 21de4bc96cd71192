"""What each step of a run touched: the ground of partial orders.

Two steps are *dependent* when both touch one thing and one of them writes it; steps that are not
may be swapped, and nothing changes. A step touches

- the memory of its actor, as a whole, unless it says which parts of it by `Context.reads` and
  `Context.writes`: tasks of one actor share memory as goroutines do;
- mailboxes: who sends into one, and who looks into it;
- tasks: its own, and those that it starts, answers, wakes or cancels;
- everything, when it is a fault or starts an actor.

Besides, whatever comes after time moved on comes after all that was before.
Runs that differ only in the order of independent steps have the same causal class (Mazurkiewicz
trace); `class_id` names it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0x9E3779B97F4A7C15
EVERYTHING: Final = "everything"
TASK: Final = "task "
"""How the names of tasks begin among the things that are touched."""


class Step(NamedTuple):
    """One step: its number, whose it was ("actor/task"), and where it began.

    `enabled` are the labels of the tasks among which it was picked, `accesses` what it touched
    (resource to whether it wrote), `choices` what it drew; `barrier` says that time moved on before
    it.
    """

    number: int
    task: str
    point: str
    enabled: tuple[str, ...]
    accesses: dict[str, bool]
    choices: tuple[tuple[str, str], ...]
    barrier: bool


def dependent(one: dict[str, bool], other: dict[str, bool]) -> bool:
    """Whether two footprints meet, and one of them writes where they do."""
    if EVERYTHING in one or EVERYTHING in other:
        return True
    return any(
        resource in other and (writes or other[resource]) for resource, writes in one.items()
    )


class Footprint:
    """Notes what the running step touches. With `keep`, all steps are kept for an analysis."""

    def __init__(self, *, keep: bool = False) -> None:
        self.steps: list[Step] = []
        self._keep = keep
        self._task = ""
        self._point = ""
        self._number = 0
        self._enabled: tuple[str, ...] = ()
        self._barrier = False
        self._actor = ""
        self._accesses: dict[str, bool] = {}
        self._declared = False
        self._choices: list[tuple[str, str]] = []
        self._class = 0
        self._known: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._epoch = 0

    # ------------------------------------------------------------------ told by the kernel

    def begin(self, number: int, actor: str, task: str, point: str, enabled: Iterable[str]) -> None:
        """A step begins; `enabled` are the labels of the tasks it was picked among."""
        self._number = number
        self._actor = actor
        self._task = task
        self._point = point
        self._accesses = {f"{TASK}{task}": True}
        if self._keep:
            self._enabled = tuple(enabled)

    def end(self) -> None:
        """The step that began last is over."""
        if not self._task:
            return
        accesses = self._accesses
        if not self._declared:
            accesses[self._actor] = True
        if self._keep:
            self.steps.append(
                Step(
                    self._number,
                    self._task,
                    self._point,
                    self._enabled,
                    accesses,
                    tuple(self._choices),
                    self._barrier,
                )
            )
        self._fold(accesses)
        self._task = ""
        self._accesses = {}
        self._declared = False
        self._barrier = False
        self._choices.clear()

    def barrier(self) -> None:
        """Time moved on: whatever comes later comes after all that was."""
        if not self._barrier:
            self._barrier = True
            self._epoch = _mixed(self._class, 1)

    def sent(self, owner: str, mailbox: str, sender: str) -> None:
        """The step put a message into a mailbox. Sends of different actors can be swapped: who reads chooses."""
        key = f"mailbox {owner}/{mailbox}"
        self._accesses[f"{key} from {sender}"] = True
        self._accesses.setdefault(key, False)

    def read(self, owner: str, mailbox: str) -> None:
        """The step took a message out of a mailbox, or looked whether there is one."""
        self._accesses[f"mailbox {owner}/{mailbox}"] = True

    def woke(self, task: str) -> None:
        """The step made a task ready: started it, answered it, notified it or cancelled it."""
        self._accesses[f"{TASK}{task}"] = True

    def touched(self, resources: Iterable[str], *, write: bool) -> None:
        """The step said what it touches of its actor's memory."""
        self._declared = True
        for resource in resources:
            key = f"{self._actor}.{resource}"
            self._accesses[key] = write or self._accesses.get(key, False)

    def everything(self) -> None:
        """The step did something that no other step can be swapped with; or it was done between two steps."""
        if self._task:
            self._accesses[EVERYTHING] = True
        else:
            self.barrier()

    def chose(self, kind: str, label: str) -> None:
        """The step drew something."""
        self._choices.append((kind, label))

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

    def _fold(self, accesses: dict[str, bool]) -> None:
        """Name the step by all that it comes after, and add it to the class."""
        name = _mixed(self._label(self._task), self._label(self._point))
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
        self._class = (self._class + name) & _MASK


def _mixed(one: int, other: int) -> int:
    value = (one ^ (other + _FACTOR + (one << 6 & _MASK) + (one >> 2))) & _MASK
    value = (value * _FACTOR) & _MASK
    return value ^ (value >> 29)
