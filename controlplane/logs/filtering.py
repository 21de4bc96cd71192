"""A filter of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from attrs import field, frozen

from controlplane.errors import UsageError, unknown_name
from controlplane.logs.reading import Line, RunLog
from controlplane.logs.subjects import CLUSTER_SCOPED, SHORT_NAMES, Subject, kind_of, subject
from controlplane.logs.vocabulary import EVENTS, LEVELS


def _subject(text: str | Subject | None) -> Subject | None:
    return subject(text) if isinstance(text, str) and text else text or None


@frozen
class Filter:
    """Conditions that all hold; "" and None ask for nothing.

    `actor` and `event` may have `*`; `kind` may be a short name or a plural, as for kubectl.
    `level` is the lowest; steps have none and come only without it.
    `steps` and `times` (virtual seconds) are first and last.
    """

    obj: Subject | None = field(default=None, converter=_subject)
    kind: str = field(default="", converter=kind_of)
    actor: str = ""
    event: str = ""
    level: str = ""
    text: str = ""
    steps: tuple[int, int] | None = None
    times: tuple[float, float] | None = None

    def of(self, log: RunLog) -> Iterator[Line]:
        """The events of a log that are wanted; only as much of it is read as need be."""
        if self.steps is not None:
            lines: Iterable[Line] = log.between(*self.steps, self.text)
        elif self.text:
            lines = log.mentioning(self.text)
        elif self.obj is not None:
            lines = log.mentioning(self.obj.name)
        else:
            lines = log
        return (line for line in lines if self.wants(line))

    def wants(self, line: Line) -> bool:
        """Return whether one event is wanted. For a text its line is searched, not what was made of it: not here."""
        if self.obj is not None and not self.obj.matches(line.obj):
            return False
        if self.kind and line.obj.partition("/")[0].lower() != self.kind:
            return False
        if self.actor and not fnmatchcase(line.actor, self.actor):
            return False
        if self.event and not fnmatchcase(line.event, self.event):
            return False
        if self.level and (not line.level or LEVELS.index(line.level) < LEVELS.index(self.level)):
            return False
        if self.steps is not None and not self.steps[0] <= line.step <= self.steps[1]:
            return False
        return self.times is None or self.times[0] <= line.t <= self.times[1]

    def check_names(self, lines: Iterable[Line], points: Iterable[str] = ()) -> None:
        """Refuse an event, actor or kind that is not known; for a filter that no event of a log passed.

        Args:
            lines: the log, all of it.
            points: names of steps that are known besides those of the log.

        Raises:
            UsageError: with the nearest names.
        """
        events, actors, kinds = (
            {*EVENTS, *points},
            set[str](),
            {*CLUSTER_SCOPED, *SHORT_NAMES.values()},
        )
        for line in lines:
            events.add(line.event)
            actors.add(line.actor)
            kinds.add(line.obj.partition("/")[0].lower())
        for what, asked, known in (
            ("event", self.event, events),
            ("actor", self.actor, actors),
            ("kind", self.kind, kinds),
        ):
            if asked and not any(fnmatchcase(each, asked) for each in known):
                raise UsageError(
                    f"--{what}: {unknown_name(what, asked, sorted(filter(None, known)))}"
                )


def span_of(text: str, what: str) -> tuple[float, float]:
    """FIRST-LAST, FIRST-, -LAST or one number. Raises UsageError."""
    first, dash, last = text.partition("-")
    try:
        low = float(first) if first else 0.0
        high = (float(last) if last else float("inf")) if dash else low
    except ValueError:
        low, high = 1.0, 0.0
    if not text or not low <= high or low == float("inf"):  # nan is no number either
        raise UsageError(f"{what} {text!r}: expected FIRST-LAST, FIRST-, -LAST or a number")
    return low, high
