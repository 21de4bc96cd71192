"""The history of a violated invariant, in the few events that matter.

Every event has a weight (`weights`): what was written, decided, refused and struck weighs more than what was
heard, a stale read that was used weighs most. What is about the objects that the violation names counts in
full (`scene`), what is about others less. The heaviest are phrase, in the order in which they happened.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

from controlplane.logs.causes import chain
from controlplane.logs.event_weights import FAULT, READS, Heaviest, Weighed, chosen, weight_of
from controlplane.logs.phrases import phrase
from controlplane.logs.races import Races, StaleRead, find
from controlplane.logs.reading import Line
from controlplane.logs.syncs import Walk
from controlplane.logs.violation_objects import AT_A_PLACE, NEAR, OTHER, RELATED, ViolationObjects
from controlplane.logs.why import Entry

__all__ = ["LINES", "Log", "tell"]

LINES: Final = 15
"""The number of lines that explain a violation."""
SHOWN_FIELDS: Final = 3
SHOWN_TEXT: Final = 100
USED: Final = 45.0
"""The additional weight of a stale read that a write depends on."""
STALE: Final = 14.0
BASIS: Final = 16.0
"""The additional weight of a read on which a write without a precondition rests."""
CAUSE: Final = 25.0
"""The additional weight of an event on the causal chain of the violation."""
NAMED: Final = 12.0
"""The additional weight of an event about a step or an incarnation that the violation names."""
HEARD_LATE: Final = 10.0
"""The additional weight of a notification that was out of date when it arrived."""
LATE: Final = 0.2
"""By what share the end of a run weighs more than its beginning."""
REQUEST: Final = 12.0
LEAST: Final = 15.0
"""The weight below which an event is shown only in short histories."""
FEW: Final = 10
WINDOW: Final = 0.1
"""The share of a run that is just before its end."""
LISTED: Final = 28.0
"""The additional weight of a list or watch whose start version matters."""
ANOTHER: Final = 0.75
"""The factor for events about another incarnation than the one that the violation names."""
HEARD: Final = frozenset(("informer.read", "informer.told"))
QUIET_READS: Final = HEARD | {"client.read", "apiserver.audited"}
_ATTEMPT = re.compile(r"attempt \d+")
NEARBY: Final = 0.4
"""By what share an event just before the end of a run weighs more."""
_REQUESTS: Final = ("create ", "update ", "patch ", "delete ", "csi.")


class Log(Protocol):
    """A log that can be read again, and by step."""

    def __iter__(self) -> Iterator[Line]: ...

    def at(self, step: int) -> list[Line]:
        """The events of one step: the step itself first."""
        ...


def tell(log: Log, reason: str, last: Line, room: int = LINES) -> list[Entry]:
    """The events that led to a violation, `room` at most; `last` is its verdict."""
    walk, reads = _walked(log, ViolationObjects(reason))
    if not walk.scene.about:
        walk, reads = _walked(log, ViolationObjects(reason, by_kind=True))
    if not walk.scene.about and not walk.actors:
        # It names nothing: then it is about what the users of the run wrote.
        walk, reads = _walked(log, ViolationObjects(reason, named=walk.written_by_users()))
    # Where all had come to rest, the last step led to nothing.
    causes = frozenset(() if walk.settled else (hop.step for hop in chain(log, last.step)))
    scales = _Scales(walk, causes, reads, last.step)
    for line in log:
        scales.weigh(line)
    found = scales.found.all()
    heavy = [each for each in found if each.weight >= LEAST]
    few = min(FEW, room)
    told_of = chosen(heavy, room)
    if len(told_of) < few:
        told_of = chosen([each for each in found if each.weight >= LEAST or each.near], few)
    return [_entry(each, whole=not scales.found.overflowed) for each in told_of]


def _walked(log: Log, scene: ViolationObjects) -> tuple[Walk, Races]:
    """Return the pass over a log for a scene, and its stale reads: read once for both."""
    walk = Walk(scene)

    def met() -> Iterator[Line]:
        for line in log:
            walk.meet(line)
            yield line

    return walk, find(met())


def _entry(found: Weighed, *, whole: bool) -> Entry:
    """Return the entry for an event; `whole`: repetitions were counted to the end."""
    line, said = found.line, found.text
    if found.again:
        often = "once more" if found.again == 1 else f"again, {found.again:,} times"
        if not whole:
            often = "again and again"
        said += f" (and {often} until the last)"
    data = {"event": line.event, **line.data}
    return Entry(line.step, line.t, line.actor, line.uid, said, [], data)


class _Scales:
    """The second way through a log: what each event weighs, and what it says."""

    def __init__(
        self,
        walk: Walk,
        causes: frozenset[int],
        reads: Races,
        end: int,
    ) -> None:
        self.found = Heaviest()
        self._walk = walk
        self._scene = walk.scene
        self._users = walk.users()
        self._causes = causes
        self._stale = {(each.step, each.obj): each for each in reads.stale}
        self._basis = reads.basis
        self._bases = {(read, obj): write for (write, obj), read in reads.basis.items()}
        self._overtaking = {
            (each.obj, each.newest) for each in reads.stale if self._is_elsewhere(each)
        }
        """The newer versions of other objects whose stale reads led to a write of one that is named."""
        self._end = max(end, 1)
        self._newest: dict[str, int] = {}
        self._before: Line | None = None
        self._asked: dict[tuple[str, str, str], Weighed] = {}
        """The requests that were not answered yet."""
        self._read_anew = walk.read_anew

    def weigh(self, line: Line) -> None:
        """One more event."""
        if line.is_step:
            return
        if line.event == FAULT and line.step == self._end and self._walk.settled:
            return  # the workload ends everything before it looks
        if line.event == "apiserver.write" and line.rv is not None and line.data["code"] < 300:
            self._newest[line.obj] = line.rv
        cause = line.step in self._causes
        weight = self._weight(line, cause)
        if not weight or not self.found.takes(weight):
            return
        said = self._said(line)
        if not said or (self._before is not None and _repeats(self._before, line)):
            return
        if line.event == "informer.read" and line.step in self._read_anew:
            return  # the scheduler's own words say more
        self._before = line
        says = self._says(line, said)
        near = (self._share(line) > OTHER and _is_about_something(line)) or (
            _is_failed_read(line) and line.data.get("agent") in self._users
        )
        found = Weighed(line, weight, says, self._text(line, said), near=near)
        if line.event == "message":
            self._asked[line.actor, str(line.data["message"]), str(line.data["from"])] = found
        elif line.event == "apiserver.write":
            asked = self._asked.pop(
                (line.actor, line.data.get("verb", ""), line.data.get("by", "")), None
            )
            if asked is not None:
                asked.weight = 0.0  # the answer says all that the question does
        self.found.add(found)

    def _weight(self, line: Line, cause: bool) -> float:
        scene, data = self._scene, line.data
        by = data.get("by", data.get("agent"))
        weight = weight_of(line, by_a_user=by in self._users, fields=self._fields(line))
        known = self._stale.get((line.step, line.obj))
        if known is not None:
            weight += USED if known.used else STALE
        elif (line.step, line.obj) in self._bases:
            weight += BASIS
        if line.event == "message":
            if not cause:
                return 0.0
            weight += REQUEST
        elif not weight:
            return 0.0
        if cause and (line.event != "apiserver.audited" or data["code"] >= 400):
            weight += CAUSE
        if line.event == "informer.told" and (line.rv or 0) < self._newest.get(line.obj, 0):
            weight += HEARD_LATE
        if line.uid in scene.uids or data.get("popped") in scene.uids or line.step in scene.steps:
            weight += NAMED
        elif known is not None and known.other and known.used:
            weight += NAMED  # a decision about one incarnation that was carried out on another
        elif self._of_another(line):
            weight *= ANOTHER
        if self._follows(line):
            weight += LISTED
        before = (self._end - line.step) / self._end
        weight *= 1 + LATE * (1 - before) + NEARBY * max(0.0, 1 - before / WINDOW)
        return weight * self._share(line)

    def _share(self, line: Line) -> float:
        """Return the relevance of an event's subject."""
        if self._follows(line) or self._led_elsewhere(line):
            return 1.0
        if line.obj:
            share = self._scene.of(line.obj)
            if share > OTHER or line.event in QUIET_READS:
                return share
            if self._is_deletion_by_a_user(line):
                return AT_A_PLACE
            if line.actor not in self._walk.actors:
                return share
            return RELATED if line.event == "kubelet.worker" else share * 2
        return self._scene.of_key(str(line.data["key"])) if "key" in line.data else 1.0

    def _is_elsewhere(self, read: StaleRead) -> bool:
        """Return whether a stale read of an object that is not named led to a write of one that is."""
        about = self._scene.about
        return bool(read.used) and read.obj not in about and read.written in about

    def _led_elsewhere(self, line: Line) -> bool:
        """Return whether it is such a read, or the write that the reader had not heard of."""
        if line.event == "apiserver.write":
            return (line.obj, line.rv) in self._overtaking
        known = self._stale.get((line.step, line.obj))
        return known is not None and self._is_elsewhere(known)

    def _is_deletion_by_a_user(self, line: Line) -> bool:
        """Return whether a user had something deleted: rarely is that without consequences, whatever it was."""
        data = line.data
        deleted = str(data.get("verb", "")).startswith("delete ") and data.get("code", 0) < 300
        return line.event == "apiserver.write" and deleted and data.get("by") in self._users

    def _says(self, line: Line, said: str) -> Hashable:
        """Return a key that is equal for repetitions of an event; objects outside of the violation are alike."""
        said = _ATTEMPT.sub("attempt", said)
        apart = line.event == "kubelet.worker"  # each that ends takes room of its own
        if line.obj and self._scene.of(line.obj) < NEAR and not apart:
            kind = line.obj.partition("/")[0]
            return line.event, line.actor, kind, said.replace(line.obj, kind)
        uid = "" if self._of_another(line) else line.uid
        return line.event, line.actor, line.obj, uid, said

    def _follows(self, line: Line) -> bool:
        """Return whether it is a list or a watch, where the violation is of caches."""
        if not self._scene.of_caches:
            return False
        return self._scene.of_resource(str(line.data.get("resource", "")))

    def _of_another(self, line: Line) -> bool:
        """Return whether an event is about an incarnation that the violation does not mean, though it means one."""
        uids = self._scene.uids
        return bool(uids and line.uid and line.uid not in uids and line.obj in self._scene.about)

    def _fields(self, line: Line) -> list[str]:
        return self._walk.fields.get((line.obj, line.rv or 0), [])

    def _said(self, line: Line) -> str:
        """Return an event's text without the parts that differ between repetitions."""
        if line.event == "message":
            asked = str(line.data.get("message", ""))
            if not asked.startswith(_REQUESTS):
                return ""
            return f"was asked by {line.data.get('from', '?')}: {asked}"
        if line.event == "apiserver.audited":
            return _answered(line)
        said = phrase(line)
        return said.replace(f", version {line.rv}", "") if line.rv is not None else said

    def _text(self, line: Line, said: str) -> str:
        """All that is phrase of an event: version, incarnation, fields, and what its reader did not know."""
        text = phrase(line) or said
        if line.uid:
            text += f", uid {line.uid[:8]}"
        if line.event == "scheduler.failed":
            text += f": {str(line.data.get('message', ''))[:SHOWN_TEXT]}"
        fields = _short(self._fields(line)) if line.event == "apiserver.write" else []
        if fields:
            text += f", changed {', '.join(fields[:SHOWN_FIELDS])}"
            if len(fields) > SHOWN_FIELDS:
                text += f" and {len(fields) - SHOWN_FIELDS} more"
        if line.event == "apiserver.write" and (line.obj, line.rv) in self._walk.removed:
            text += ", and it is gone"
        if line.event == "apiserver.write" and (line.step, line.obj) in self._basis:
            text += f", on the read at step {self._basis[line.step, line.obj]}"
        popped = line.data.get("popped", "")
        if popped and popped != line.uid:
            text += f"; what had been popped has uid {popped[:8]}"
        known = self._stale.get((line.step, line.obj))
        if known is not None:
            newer = "another incarnation" if known.other else f"version {known.newest}"
            text += f" - STALE: the store had {newer}"
            if known.used:
                text += f", and it was used: {known.used}"
        elif line.event == "informer.told" and line.rv is not None:
            newest = self._newest.get(line.obj, 0)
            if newest > line.rv:
                text += f" - LATE: the store had version {newest}"
        return text


def _is_about_something(line: Line) -> bool:
    """Return whether an event is about an object or a key, or is a failure; a read says the same as its answer."""
    if line.event == "apiserver.audited":
        return False
    return bool(line.obj) or "key" in line.data or line.level in ("warning", "error")


def _is_failed_read(line: Line) -> bool:
    return line.event == "apiserver.audited" and int(line.data["code"]) >= 400


def _answered(line: Line) -> str:
    """A read as an audit log has it: which version it asked for says whether a cache may have answered."""
    data = line.data
    if data.get("verb") not in READS:
        return ""
    sub = f"/{data['subresource']}" if "subresource" in data else ""
    what = f"{data['verb']} {data['resource']}{sub} {data.get('name', '')}".rstrip()
    version = parse_qs(urlsplit(data.get("uri", "")).query).get("resourceVersion", [""])[0]
    asked = f" at version {version}" if version else ""
    return f"{what}{asked} by {data.get('agent', '')} was answered {data.get('code', '')}"


def _short(fields: list[str]) -> list[str]:
    """Fields by which a write is phrase: of a condition the condition, and no times."""
    found: dict[str, None] = {}
    for each in fields:
        if not each.endswith("Time"):
            cut = each.find("]") + 1 if "onditions[" in each else 0
            found[each[:cut] if cut else each] = None
    return list(found)


def _repeats(one: Line, other: Line) -> bool:
    """Return whether one only says again what the other said, to another listener or reader."""
    return other.event in HEARD and (one.event, one.actor, one.obj, one.uid, one.rv) == (
        other.event,
        other.actor,
        other.obj,
        other.uid,
        other.rv,
    )
