"""Stale reads, and unordered writes: decisions made without the newest write.

A read is stale when the store held a newer version, or another incarnation, of the object at that step, or by
the time at which the same task wrote. A write rests on every read of its reconcile, or of its task where that has
no queue: on the read of the object that is written, at the version that the write names if it names one, and on the
reads of other objects. Two writes of different actors to one
object are causally unordered when the second writer had not heard of the first write when it sent its
own: no read, no notification and no answer of the server had brought it that version.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from controlplane.logs.reading import Line

READS = frozenset(("informer.read", "client.read", "scheduler.popped", "scheduler.read"))
_NEWS = READS | {"informer.told"}
_WRITES = ("create ", "update ", "patch ", "apply ", "delete ", "deletecollection ")
_Task = tuple[str, str]
"""An actor and the name of its task."""
_REPORTS = ("Event/", "Lease/")
KEPT = 4
"""The number of latest versions that are remembered per actor and object."""
PAIRS = 1000
"""The number of pairs of writes that are kept; further ones are counted."""


@define
class StaleRead:
    """A read of a version that was not the newest. `behind` counts the versions that came in between."""

    step: int
    t: float
    actor: str
    task: str
    obj: str
    read: int | None
    newest: int
    behind: int
    late: float
    other: bool
    used: str = ""
    used_step: int = 0
    written: str = ""
    """The object that was written on it; "" if nothing was."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "step": self.step,
            "t": self.t,
            "actor": self.actor,
            "task": self.task,
            "obj": self.obj,
            "read": self.read,
            "newest": self.newest,
            "behind": self.behind,
            "late": self.late,
            "other_incarnation": self.other,
            "used": self.used,
            "used_step": self.used_step,
            "written": self.written,
        }


@frozen
class Unordered:
    """Two writes to one object, the second sent without any news of the first."""

    obj: str
    first: int
    first_by: str
    first_verb: str
    second: int
    second_by: str
    second_verb: str
    code: int

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "obj": self.obj,
            "first": {"step": self.first, "by": self.first_by, "verb": self.first_verb},
            "second": {
                "step": self.second,
                "by": self.second_by,
                "verb": self.second_verb,
                "code": self.code,
            },
        }


@define
class _Stored:
    """The stored versions of an object: its incarnation, and the times of their writes."""

    uid: str
    versions: list[tuple[int, float]]
    gone: bool = False


@define
class Races:
    """The stale reads and unordered writes. `unordered_in_all` counts the pairs, of which the first are kept."""

    stale: list[StaleRead]
    unordered: list[Unordered]
    reads: int
    unordered_in_all: int
    basis: dict[tuple[int, str], int] = field(factory=dict)
    """The writes, by step and object, that were carried out and named no version: the step of the read of each."""

    @property
    def used(self) -> list[StaleRead]:
        """The stale reads on which a write rests."""
        return [each for each in self.stale if each.used]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "reads": self.reads,
            "stale_reads": [each.to_json() for each in self.stale],
            "unordered_writes": [each.to_json() for each in self.unordered],
            "unordered_writes_in_all": self.unordered_in_all,
        }


class _News:
    """The versions of each object that each actor has received or read, with their times."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, str], deque[tuple[int, int]]] = {}

    def heard(self, actor: str, obj: str, version: int | None, step: int) -> None:
        """An actor learned of a version."""
        if version is None:
            return
        known = self._heard.get((actor, obj))
        if known is None:
            known = self._heard[actor, obj] = deque(maxlen=KEPT)
        if not known or known[-1][1] < version:
            known.append((step, version))

    def knew(self, actor: str, obj: str, version: int, step: int) -> bool:
        """Return whether, at a step, an actor had received this version or a later one."""
        known = self._heard.get((actor, obj), ())
        return any(at <= step and heard >= version for at, heard in known)


class _Requests:
    """The requests to write that servers have received and not answered yet, with the steps that sent them.

    A server takes several requests at once, and each in several steps, so the step that sent a request is found by
    its sender and verb: the oldest one of both that is not answered.
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str, str], deque[int]] = defaultdict(deque)
        self._written: tuple[int, tuple[str, str, str]] | None = None

    def came(self, line: Line, sent: int) -> None:
        """A server has received a message that was sent at a step."""
        message = str(line.data.get("message", ""))
        if message.startswith(_WRITES):
            self._sent[line.actor, message, str(line.data.get("from", ""))].append(sent)

    def written(self, line: Line, otherwise: int) -> int:
        """Return the step that sent the request whose write this is; `otherwise` if that is not known."""
        key = (line.actor, str(line.data.get("verb", "")), str(line.data.get("by", "")))
        self._written = line.step, key
        waiting = self._sent.get(key)
        return waiting.popleft() if waiting else otherwise

    def answered(self, line: Line) -> None:
        """A request was answered: if nothing was logged of a write, it waits no more."""
        data = line.data
        sub = f"/{data['subresource']}" if "subresource" in data else ""
        key = (
            line.actor,
            f"{data.get('verb')} {data.get('resource')}{sub}",
            str(data.get("agent", "")),
        )
        if self._written != (line.step, key):
            waiting = self._sent.get(key)
            if waiting:
                waiting.popleft()


class _OpenReads:
    """The reads of each task since it took its current item, and those of them that a later write has overtaken."""

    def __init__(self) -> None:
        self._reads: dict[_Task, dict[str, tuple[Line, StaleRead | None]]] = defaultdict(dict)
        self._readers: dict[str, dict[_Task, None]] = defaultdict(dict)
        self._overtaken: dict[_Task, dict[str, None]] = defaultdict(dict)

    def began(self, task: _Task) -> None:
        """Forget the reads of a task: it has taken its next item."""
        for obj in self._reads.pop(task, ()):
            self._readers[obj].pop(task, None)
        self._overtaken.pop(task, None)

    def read(self, task: _Task, line: Line, found: StaleRead | None) -> None:
        """Note a read, with its staleness."""
        self._reads[task][line.obj] = line, found
        self._readers[line.obj][task] = None
        if found is None:
            self._overtaken[task].pop(line.obj, None)
        else:
            self._overtaken[task][line.obj] = None

    def written(self, obj: str, by: _Task) -> None:
        """Note a write that was carried out: the open reads of its object by other tasks are out of date."""
        for task in self._readers.get(obj, ()):
            if task != by:
                self._overtaken[task][obj] = None

    def of(self, task: _Task) -> dict[str, tuple[Line, StaleRead | None]]:
        """Return the open reads of a task by their objects."""
        return self._reads.get(task, {})

    def taken(self, task: _Task, obj: str) -> None:
        """End a read: later writes of its task rest on what the server answered."""
        self._reads[task].pop(obj, None)
        self._readers[obj].pop(task, None)
        self._overtaken[task].pop(obj, None)

    def others(self, task: _Task, obj: str) -> list[str]:
        """Return the objects other than `obj` whose reads by a task are out of date and not used yet."""
        found = self._overtaken.get(task)
        return [] if not found else [each for each in found if each != obj]

    def used(self, task: _Task, obj: str) -> None:
        """Count a read of another object once: for the first write that rests on it."""
        self._overtaken[task].pop(obj, None)


def find(lines: Iterable[Line]) -> Races:
    """Look through a log, once."""
    stored: dict[str, _Stored] = {}
    stale: list[StaleRead] = []
    open_reads = _OpenReads()
    writes: dict[str, tuple[int, str, str, int]] = {}
    unordered: list[Unordered] = []
    basis: dict[tuple[int, str], int] = {}
    news = _News()
    requests = _Requests()
    reads = pairs = 0
    asked = 0  # the step that sent the request which is answered now
    tasks: dict[int, str] = {}
    for line in lines:
        event = line.event
        if not line.level:
            tasks[line.step] = line.task
            asked = line.cause[0] if line.cause else 0
            continue
        if event == "message":
            asked = line.cause[0] if line.cause else 0
            requests.came(line, asked)
            continue
        if event == "apiserver.audited":
            requests.answered(line)
            continue
        if event in _NEWS:
            news.heard(line.actor, line.obj, line.rv, line.step)
            if event == "informer.told" and line.data.get("kind") == "delete":
                _gone(stored.get(line.obj), line)
        if event == "apiserver.removed":
            _gone(stored.get(line.obj), line)
        if event in READS:
            reads += 1
            found = _stale(line, stored.get(line.obj))
            if found is not None:
                stale.append(found)
            if event == "scheduler.popped":
                open_reads.began((line.actor, line.task))
            if line.obj:
                open_reads.read((line.actor, line.task), line, found)
        elif event == "controller.popped":
            open_reads.began((line.actor, line.task))  # the reads for another key are done with
        elif event == "apiserver.write":
            data = line.data
            by, verb, code = data.get("by", ""), data.get("verb", ""), data.get("code", 0)
            asked = requests.written(line, asked)
            task = (by, tasks.get(asked, ""))
            seen = open_reads.of(task)
            read, found = seen.get(line.obj, (None, None))
            based = data.get("based_on")
            if based is None:
                # The next one rests on the answer, for all that is known.
                open_reads.taken(task, line.obj)
            elif read is not None and read.rv != based:
                read = found = None  # it says itself on what it rests
            if read is not None and based is None and code < 300:
                basis[line.step, line.obj] = read.step
            if read is not None and found is None:  # overtaken since it was read
                found = _stale(read, stored.get(line.obj), line.t)
                if found is not None:
                    stale.append(found)
                    if based is not None:
                        seen[line.obj] = read, found
            if found is not None and not found.used:
                result = f"{code} {data['reason']}" if "reason" in data else str(code)
                found.used, found.used_step = f"{verb}: {result}", line.step
                found.written = line.obj
                now = None if read is None else _stale(read, stored.get(line.obj), line.t)
                if (
                    now is not None
                ):  # it is told against what the store held when the write was decided
                    found.newest, found.behind, found.other = now.newest, now.behind, now.other
            others = () if _reports(line.obj) else open_reads.others(task, line.obj)
            for other in others:
                read, found = seen[other]
                if found is None:
                    found = _stale(read, stored.get(other), line.t)
                    if found is None:
                        continue
                    stale.append(found)
                    seen[other] = read, found
                open_reads.used(task, other)
                if not found.used:
                    result = f"{code} {data['reason']}" if "reason" in data else str(code)
                    found.used = f"{verb} of {line.obj}: {result}"
                    found.used_step, found.written = line.step, line.obj
            before = writes.get(line.obj)
            if (
                before is not None
                and before[1] != by
                and not news.knew(by, line.obj, before[3], asked)
            ):
                pairs += 1
                if pairs <= PAIRS:
                    first, first_by, first_verb, _ = before
                    unordered.append(
                        Unordered(line.obj, first, first_by, first_verb, line.step, by, verb, code)
                    )
            if code < 300:
                if line.rv is not None:
                    writes[line.obj] = line.step, by, verb, line.rv
                    news.heard(by, line.obj, line.rv, line.step)
                _store(stored, line)
                open_reads.written(line.obj, task)
    return Races(stale, unordered, reads, pairs, basis)


def _reports(obj: str) -> bool:
    """Return whether an object only reports: no decision rests in a write to it."""
    return obj.startswith(_REPORTS)


def _store(stored: dict[str, _Stored], line: Line) -> None:
    verb = line.data.get("verb", "")
    if line.rv is None:
        return
    known = stored.get(line.obj)
    if known is None or (line.uid and known.uid != line.uid):
        known = stored[line.obj] = _Stored(line.uid, [])
    known.versions.append((line.rv, line.t))
    known.gone = verb.startswith("delete ") and not line.data.get("terminating")


def _gone(known: _Stored | None, line: Line) -> None:
    """The object was deleted: by the server's log, or, if that is incomplete, by a watch event."""
    if known is not None and line.uid and line.uid == known.uid:
        known.gone = True


def _stale(line: Line, known: _Stored | None, until: float | None = None) -> StaleRead | None:
    """The read, if the store held something else at that step, or by the time at which it was used."""
    if known is None or not known.versions:
        return None
    newest = known.versions[-1][0]
    if line.rv is None:
        if line.data.get("found") is not False or known.gone:
            return None
    elif line.rv >= newest and not known.gone:
        return None
    read = line.rv or 0
    missed = [at for version, at in known.versions if version > read]
    if not missed:
        return None
    other = bool(line.uid) and line.uid != known.uid
    late = (line.t if until is None else until) - missed[0]
    return StaleRead(
        line.step,
        line.t,
        line.actor,
        line.task,
        line.obj,
        line.rv,
        newest,
        len(missed),
        late,
        other,
    )
