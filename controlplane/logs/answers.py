"""Why: of an object, of a step, of how a run ended."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from attrs import frozen

from controlplane.errors import UsageError
from controlplane.logs.causes import HOPS, Hop, chain
from controlplane.logs.reading import RunLog
from controlplane.logs.subjects import subject, unknown
from controlplane.logs.violation import tell
from controlplane.logs.why import Entry, Story, story, with_preemptors, with_victims

VIOLATION = "violation"
WELL = ("quiescent", "until", "stopped")


@frozen
class Answer:
    """The answer to a why: a sentence, what happened, and the chain of causes back from what decided it."""

    about: str
    sentence: str
    entries: tuple[Entry, ...]
    causes: tuple[Hop, ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        told = Story(subject("pod/default/none"), list(self.entries), "").to_json()["events"]
        return {
            "object": self.about,
            "ending": self.sentence,
            "events": told,
            "causes": [each.to_json() for each in self.causes],
        }


def why(log: RunLog, text: str, hops: int = HOPS) -> Answer:
    """Answer a question about an object, a step (its number), or `violation`. Raises UsageError."""
    if text.isascii() and text.isdecimal():
        return _of_step(log, int(text), hops)
    if text == VIOLATION:
        return _of_violation(log, hops)
    about = subject(text)
    found = story(log.mentioning(about.name), about)
    if found is None:
        raise unknown(about, log)
    causes = chain(log, found.decided, hops)
    name = f"{about.kind}/{about.key}"
    name_of = cache(partial(_name_of, log))
    found.entries[:] = with_victims(found.entries, log.mentioning)
    for entry in found.entries:
        entry.what = with_preemptors(entry.what, name_of)
    ending = with_preemptors(found.ending, name_of)
    return Answer(name, ending, tuple(found.entries), tuple(causes))


def _name_of(log: RunLog, uid: str) -> str:
    """The object with a uid, "" if the log has none."""
    lines = log.mentioning(uid)
    return next((line.obj for line in lines if line.uid == uid and line.obj), "")


def _of_step(log: RunLog, step: int, hops: int) -> Answer:
    causes = chain(log, step, hops)
    if not causes:
        last = log.last()
        said = f"; the last one is {last.step:,}" if last is not None else ""
        raise UsageError(f"step {step}: the log has no such step{said}")
    first = causes[0]
    return Answer(f"step {step}", f"{first.actor}/{first.task}: {first.what}", (), tuple(causes))


def _of_violation(log: RunLog, hops: int) -> Answer:
    """Return the causes of a violated invariant, in at most `violation.LINES` events."""
    last = log.last()
    if last is None or last.event != "verdict":
        raise UsageError(f"{log.name}: the log does not say how the run ended")
    verdict, reason = last.data.get("verdict", ""), last.data.get("reason", "")
    if verdict in WELL:
        raise UsageError(f"{log.name}: the run ended well ({verdict}: {reason})")
    entries = tell(log, reason, last)
    causes = chain(log, last.step, hops)
    return Answer(VIOLATION, f"{verdict}: {reason}", tuple(entries), tuple(causes))
