"""Why: of an object, of a step, of how a run ended."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from controlplane.errors import UsageError
from controlplane.logs.causes import HOPS, Hop, chain
from controlplane.logs.races import StaleRead, find
from controlplane.logs.reading import Line, RunLog
from controlplane.logs.subjects import subject, unknown
from controlplane.logs.telling import told
from controlplane.logs.violation import FAULT, LINES, TELLING, chosen, named_in, steps_in, uids_in
from controlplane.logs.why import Entry, Story, story

VIOLATION = "violation"
WELL = ("quiescent", "until", "stopped")
QUIET_READS = frozenset(("informer.read",))
"""Of reads from caches only stale ones are told."""


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
    return Answer(name, found.ending, tuple(found.entries), tuple(causes))


def _of_step(log: RunLog, step: int, hops: int) -> Answer:
    causes = chain(log, step, hops)
    if not causes:
        last = log.last()
        said = f"; the last one is {last.step:,}" if last is not None else ""
        raise UsageError(f"step {step}: the log has no such step{said}")
    first = causes[0]
    return Answer(f"step {step}", f"{first.actor}/{first.task}: {first.what}", (), tuple(causes))


def _of_violation(log: RunLog, hops: int) -> Answer:
    """What led to the end of a run that broke an invariant, in at most `LINES` events."""
    last = log.last()
    if last is None or last.event != "verdict":
        raise UsageError(f"{log.name}: the log does not say how the run ended")
    verdict, reason = last.data.get("verdict", ""), last.data.get("reason", "")
    if verdict in WELL:
        raise UsageError(f"{log.name}: the run ended well ({verdict}: {reason})")
    about, uids = named_in(reason, log), uids_in(reason)
    stale = {(each.step, each.obj): each for each in find(log).stale}
    lines: list[Line] = []
    focus = steps_in(reason)
    for line in log:
        quiet = line.event in QUIET_READS and (line.step, line.obj) in stale
        told_of = (line.event in TELLING or quiet) and (line.obj in about or not about)
        if not (told_of or line.event == FAULT):
            continue
        if lines and _repeats(lines[-1], line):
            continue
        if lines and line.event == "scheduler.read" and _same_read(lines[-1], line):
            lines.pop()  # the scheduler's own words say more
        lines.append(line)
        if line.uid in uids or line.data.get("popped") in uids:
            focus.add(line.step)
    entries = [_told(line, stale) for line in chosen(lines, LINES, focus or {last.step})]
    return Answer(
        VIOLATION, f"{verdict}: {reason}", tuple(entries), tuple(chain(log, last.step, hops))
    )


def _repeats(one: Line, other: Line) -> bool:
    """Whether an event only says again what the one before it said, to another listener or reader."""
    return (one.event, one.actor, one.obj, one.uid, one.rv) == (
        other.event, other.actor, other.obj, other.uid, other.rv
    ) and other.level == "trace"  # fmt: skip


def _same_read(one: Line, other: Line) -> bool:
    """Whether a cache tells of the very read that its reader tells of."""
    return one.event == "informer.read" and (one.step, one.obj) == (other.step, other.obj)


def _told(line: Line, stale: dict[tuple[int, str], StaleRead]) -> Entry:
    """One event of the story, with the incarnation that it is about and what its reader did not know."""
    said = told(line) or line.event
    if line.uid:
        said += f", uid {line.uid[:8]}"
    popped = line.data.get("popped", "")
    if popped and popped != line.uid:
        said += f"; what had been popped has uid {popped[:8]}"
    found = stale.get((line.step, line.obj))
    if found is not None:
        newer = "another incarnation" if found.other else f"version {found.newest}"
        said += f" - STALE: the store had {newer}"
    return Entry(
        line.step, line.t, line.actor, line.uid, said, [], {"event": line.event, **line.data}
    )
