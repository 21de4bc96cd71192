"""A schedule expressed as few demotions: first in, first out, except that some wait until nothing else can go on.

"Delay this message" is one demotion here, where a list of choices has to say it again at every later
choice; so this is the form in which findings are shrunk and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from actors.process import Channel, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actors.footprint import Footprint
    from actors.strategies.base import Option

SCHEDULE: Final = ("task", "message")
ALWAYS: Final = 0


@frozen(order=True)
class Demotion:
    """A task, an actor or a message that waits, and the occurrence from which it does.

    `kind` is "actor", "task" or "message"; `name` the actor, the task ("actor/task") or what the
    message comes by ("from user"). A task waits at `point` the `occurrence`-th time that it competes
    there, a message the `occurrence`-th time that one comes that way; an actor always, and so does a
    task without a point.
    """

    kind: str
    name: str
    point: str = ""
    occurrence: int = ALWAYS

    def __str__(self) -> str:
        if self.occurrence == ALWAYS:
            return f"{self.name} waits whenever another task can go on"
        if self.kind == "message":
            return f"message {self.occurrence} {self.name} is read last"
        return f"{self.name} waits at {self.point} (time {self.occurrence})"


class Arrivals:
    """Numbers what competes: the n-th time that a task stands at a point, or that a message comes some way."""

    def __init__(self) -> None:
        self._count: dict[tuple[str, str, str], int] = {}
        self._standing: dict[str, tuple[str, int, Demotion]] = {}
        self._messages: dict[int, Demotion] = {}

    def of(self, option: Option) -> Demotion | None:
        """The demotion that would make this option wait; None for what cannot wait."""
        if isinstance(option, Task):
            known = self._standing.get(option.label)
            if known is not None and known[:2] == (option.point, option.wait_no):
                return known[2]
            made = self._next("task", option.label, option.point)
            self._standing[option.label] = (option.point, option.wait_no, made)
            return made
        if isinstance(option, Channel):
            number = option.messages[0].send_no
            found = self._messages.get(number)
            if found is None:
                found = self._messages[number] = self._next("message", option.label, "")
            return found
        return None

    def picked(self, option: Option) -> None:
        """The option was taken: what stands there next is another arrival."""
        if isinstance(option, Task):
            self._standing.pop(option.label, None)

    def _next(self, kind: str, name: str, point: str) -> Demotion:
        key = (kind, name, point)
        count = self._count[key] = self._count.get(key, 0) + 1
        return Demotion(kind, name, point, count)


class Demote:
    """First in, first out but for `demotions`, of which the later ones wait longer.

    `data` are the other choices: kind to values, in order, then 0.
    """

    name = "demote"
    seed: int | None = None
    footprint: Footprint | None = None
    exhausted = False

    def __init__(
        self,
        demotions: Iterable[Demotion] = (),
        data: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.demotions = {each: rank for rank, each in enumerate(demotions, 1)}
        self.data = dict(data or {})
        self.begin()

    def begin(self) -> None:
        """Count from the start again."""
        self._arrivals = Arrivals()
        self._at: dict[str, int] = {}
        self.met: dict[Demotion, None] = {}
        """The demotions whose task or message has competed."""

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The first option that is not demoted, else the first."""
        if kind not in SCHEDULE:
            at = self._at.get(kind, 0)
            self._at[kind] = at + 1
            values = self.data.get(kind, ())
            return min(values[at], len(options) - 1) if at < len(values) else 0
        ranks = [self._rank(option) for option in options]
        chosen = ranks.index(min(ranks))
        self._arrivals.picked(options[chosen])
        return chosen

    def _rank(self, option: Option) -> int:
        """Return the length of an option's wait: 0 for none."""
        demotions = self.demotions
        arrival = self._arrivals.of(option)
        rank = 0
        if arrival is not None and arrival in demotions:
            rank = demotions[arrival]
            self.met[arrival] = None
        if isinstance(option, Task):
            for whole in (Demotion("actor", option.actor.name), Demotion("task", option.label)):
                if whole in demotions:
                    rank = max(rank, demotions[whole])
                    self.met[whole] = None
        return rank

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """The number of demotions."""
        return {"demotions": len(self.demotions)}


class Retell:
    """Follows choices, clamping, and records what was passed over: the demotions that tell the same schedule."""

    name = "retell"
    seed: int | None = None
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = choices
        self.begin()

    def begin(self) -> None:
        """Start at the first choice."""
        self._index = 0
        self._arrivals = Arrivals()
        self.passed_over: dict[Demotion, int] = {}
        self.actors: dict[str, int] = {}
        self.tasks: dict[str, int] = {}
        self.data: dict[str, list[int]] = {}

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """The recorded answer, and a note of what stood before it."""
        at = self._index
        self._index = at + 1
        value = min(self._choices[at], len(options) - 1) if at < len(self._choices) else 0
        if kind not in SCHEDULE:
            self.data.setdefault(kind, []).append(value)
            return value
        for index, option in enumerate(options):
            arrival = self._arrivals.of(option)
            if index < value and arrival is not None:
                self.passed_over[arrival] = self.passed_over.get(arrival, 0) + 1
                if isinstance(option, Task):
                    for names, name in (
                        (self.actors, option.actor.name),
                        (self.tasks, option.label),
                    ):
                        names[name] = names.get(name, 0) + 1
        self._arrivals.picked(options[value])
        return value

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """None."""
        return {}
