"""The life of an object, each incarnation apart: what was written, decided and said about it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, define

from controlplane.logs.reading import Line, RunLog
from controlplane.logs.subjects import Subject, subject, unknown
from controlplane.logs.telling import told, written


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
                            "what": what(line),
                            "data": line.data,
                        }
                        for line in each.events
                    ],
                }
                for each in self.incarnations
            ],
        }


def what(line: Line) -> str:
    """What an event says about the object whose life this is."""
    return written(line) if line.event == "apiserver.write" else told(line) or line.event


def timeline(log: RunLog, text: str, *, everything: bool = False) -> Timeline:
    """The life of an object; with `everything`, who read it and who was told of it as well.

    Raises UsageError for an object that the log does not know.
    """
    about = subject(text)
    found: list[Incarnation] = []
    for line in log.mentioning(about.name):
        if not about.matches(line.obj) or line.event == "apiserver.audited":
            continue
        if line.level == "trace" and not everything:
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
    return Timeline(about, found)
