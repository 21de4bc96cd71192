"""The life of an object, each incarnation apart: what was written, decided and said about it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, define

from controlplane.logs.phrases import phrase, written
from controlplane.logs.reading import Line, RunLog
from controlplane.logs.subjects import Subject, subject, unknown

SHOWN = 8


@define
class Incarnation:
    """The events of one uid; "" for those that name none and come before the first."""

    uid: str
    events: list[Line] = Factory(list)


@define
class Timeline:
    """The incarnations of an object, in order."""

    subject: Subject
    incarnations: list[Incarnation]
    changes: dict[int, list[str]] = Factory(dict)
    """The fields that each write changed, by its version."""
    removed: frozenset[int] = frozenset()
    """The versions of the writes with which it went."""

    def what(self, line: Line) -> str:
        """Return the text of an event about the object of the timeline."""
        if line.event != "apiserver.write":
            return phrase(line) or line.event
        fields = self.changes.get(line.rv or 0)
        said = written(line) + (", and it is gone" if line.rv in self.removed else "")
        return f"{said}: {_listed(fields)}" if fields else said

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "object": f"{self.subject.kind}/{self.subject.key}",
            "incarnations": [
                {
                    "uid": each.uid,
                    "events": [
                        {
                            "step": line.step,
                            "t": line.t,
                            "actor": line.actor,
                            "task": line.task,
                            "event": line.event,
                            "rv": line.rv,
                            "what": self.what(line),
                            "changed": self.changes.get(line.rv or 0, []),
                            "data": line.data,
                        }
                        for line in each.events
                    ],
                }
                for each in self.incarnations
            ],
        }


def _listed(fields: list[str]) -> str:
    rest = len(fields) - SHOWN
    return ", ".join(fields[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def timeline(log: RunLog, text: str, *, everything: bool = False, path: str = "") -> Timeline:
    """Return the history of an object; with `everything` also its readers and the watchers that received it.

    With `path`, only the writes that changed this field, or one below it.

    Raises UsageError for an object that the log does not know.
    """
    about = subject(text)
    found: list[Incarnation] = []
    changes: dict[int, list[str]] = {}
    removed: set[int] = set()
    for line in log.mentioning(about.name):
        if not about.matches(line.obj) or line.event == "apiserver.audited":
            continue
        if line.event == "apiserver.changed":
            changes[line.rv or 0] = line.data.get("fields", [])
            continue
        if line.event == "apiserver.removed":
            removed.add(line.rv or 0)
            continue
        if (line.level == "trace" and not everything) or (path and line.event != "apiserver.write"):
            continue
        known = next((each for each in reversed(found) if each.uid == line.uid), None)
        if not line.uid and found:
            known = found[-1]
        if known is None:
            known = Incarnation(line.uid)
            found.append(known)
        known.events.append(line)
    if not found:
        raise unknown(about, log)
    if path:
        for each in found:
            each.events = [
                line
                for line in each.events
                if any(_is_below(field, path) for field in changes.get(line.rv or 0, ()))
            ]
        found = [each for each in found if each.events]
    return Timeline(about, found, changes, frozenset(removed))


def _is_below(field: str, path: str) -> bool:
    """Return whether a field is this one, below it, or around it."""
    return (
        field == path or field.startswith((f"{path}.", f"{path}[")) or path.startswith(f"{field}.")
    )
