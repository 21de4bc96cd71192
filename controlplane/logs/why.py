"""The history of one object with its causes: its writes, every scheduling attempt, the work of its kubelet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
from typing import Any, Final

from attrs import Factory, define

from controlplane.logs.phrases import attempts, believed, nodes, state, written
from controlplane.logs.reading import Line
from controlplane.logs.subjects import Subject

SHOWN_NODES = 6
SUSPENDED: Final = "suspended"
"""The state of a job that may not run, which does not say why."""


@define
class Entry:
    """One thing that happened. `more` are lines of detail, `data` what programs read."""

    step: int
    t: float
    actor: str
    uid: str
    what: str
    more: list[str] = Factory(list)
    data: dict[str, Any] = Factory(dict)


@define
class Story:
    """All that happened to an object, and in one sentence how it ended."""

    subject: Subject
    entries: list[Entry]
    ending: str
    decided: int = 0
    """The step in which that was decided."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "object": f"{self.subject.kind}/{self.subject.key}",
            "ending": self.ending,
            "events": [
                {"step": e.step, "t": e.t, "actor": e.actor, "uid": e.uid, "what": e.what, **e.data}
                for e in self.entries
            ],
        }


def story(lines: Iterable[Line], about: Subject) -> Story | None:
    """Tell it from a log; None when the log knows nothing of the object.

    What happened to the Workloads that ask for quota for the object is told, too.
    """
    entries: list[Entry] = []
    incarnations: dict[str, None] = {}
    held = False
    for line in lines:
        if not about.matches(line.obj):
            if about.matches(str(line.data.get("owner", ""))) and "state" in line.data:
                entries.append(_of_workload(line))
            continue
        if line.event == "apiserver.removed":
            _went(entries, line)
            continue
        if line.level == "trace" and line.event != "scheduler.believed":
            continue
        teller = TELLERS.get(line.event)
        entry = _plain(line) if teller is None else teller(line)
        if entry is None:
            continue
        if line.event == "apiserver.write" and line.data.get("code", 0) < 300:
            was, held = held, line.data.get("state") == SUSPENDED
            if was and not held and entry.data.get("event") != "deleted":
                entry.what += ": resumed"
        if line.uid and line.uid not in incarnations:
            if incarnations:
                entry.more.append(f"a new incarnation, uid {line.uid}")
            incarnations[line.uid] = None
        entries.append(entry)
    return Story(about, entries, *_ending(entries)) if entries else None


_PREEMPTOR: Final = re.compile(r"a workload \(UID: ([^,()]*), JobUID: ([^,()]*)\)")
"""The preemptor in Kueue's message. Upstream: pkg/scheduler/preemption, PreemptionMessage."""


def with_preemptors(text: str, name_of: Callable[[str], str]) -> str:
    """The text with preemptors of Kueue by name; `name_of` returns that of a uid, "" if it is not known."""

    def named(found: re.Match[str]) -> str:
        workload, job = (name_of(uid) for uid in found.groups())
        if not workload:
            return found[0]
        return f"{workload} of {job}" if job else workload

    return _PREEMPTOR.sub(named, text)


def with_victims(entries: list[Entry], mentioning: Callable[[str], Iterable[Line]]) -> list[Entry]:
    """The entries with the evictions of Workloads that made room for the Workload that they are about.

    `mentioning` returns the lines of the log in which a text stands.
    """
    uids = dict.fromkeys(each.uid for each in entries if each.uid and "owner" in each.data)
    found = list(entries)
    for uid in uids:
        last: dict[str, str] = {}
        for line in mentioning(f"(UID: {uid}, "):
            state = str(line.data.get("state", ""))
            before, last[line.obj] = last.get(line.obj), state
            evicted = state.startswith("evicted (") and f"(UID: {uid}, " in state
            if evicted and before != state:
                owner = line.data.get("owner")
                whose = f" of {owner}" if owner else ""
                found.append(_entry(line, f"{line.obj}{whose} evicted for it", event="victim"))
    found.sort(key=lambda each: each.step)
    return found


def _of_workload(line: Line) -> Entry:
    """Return the entry for a Workload of the object."""
    name = line.obj.rpartition("/")[2]
    return _entry(line, f"its Workload {name} {written(line)}", event="workload")


def folded(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with each series of failed attempts of one result as two: the first, and the rest."""
    made: list[Entry] = []
    for _, group in groupby(entries, _result):
        first, *rest = group
        made.append(first)
        if len(rest) > 1 and first.data.get("event") == "scheduler.failed":
            made.append(_rest(first, rest))
        else:
            made += rest
    return made


def _result(entry: Entry) -> object:
    """Return the key of an entry: that of a failed attempt is what it came to, that of others themselves."""
    if entry.data.get("event") != "scheduler.failed":
        return id(entry)
    reason, outcome = entry.data.get("reason"), entry.data.get("outcome")
    return entry.actor, entry.uid, reason, outcome, tuple(entry.more)


def _rest(first: Entry, rest: list[Entry]) -> Entry:
    """Return one entry for the repeated attempts after the first, at the place of the last."""
    times = [each.t for each in (first, *rest)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    low, high = min(gaps), max(gaps)
    every = (
        f"every {low:.4g} s"
        if f"{low:.4g}" == f"{high:.4g}"
        else f"every {low:.4g} to {high:.4g} s"
    )
    last = rest[-1]
    numbers = [each.data.get("attempt") for each in (rest[0], last)]
    which = (
        f"{len(rest)} more attempts"
        if None in numbers
        else f"attempts {numbers[0]} to {numbers[1]}"
    )
    return Entry(
        last.step, last.t, last.actor, last.uid, f"{which}: the same, {every}", [], last.data
    )


def _went(entries: list[Entry], line: Line) -> None:
    """The object went with the last write of this step."""
    for entry in reversed(entries):
        if entry.step == line.step and entry.data.get("event") in ("deleted", "apiserver.write"):
            entry.what += ", and it is gone"
            entry.data["removed"] = True
            return


def _ending(entries: list[Entry]) -> tuple[str, int]:
    """Return the result of the last entry that has one, and its step."""
    for entry in reversed(entries):
        ending = _ended(entry)
        if ending:
            return ending, entry.step
    return entries[-1].what, entries[-1].step


def _ended(entry: Entry) -> str:
    data = entry.data
    kind = data.get("event")
    by = f" by {data['by']}" if data.get("by") else ""
    if kind == "scheduler.failed":
        refused = data.get("refused") or []
        if not refused:
            return f"pending: {data.get('message', '')}"
        said = "; ".join(
            f"{r['plugin']} refused {nodes(r['count'])} ({r['message']})" for r in refused
        )
        return f"pending after {attempts(data.get('attempt', 1))}: {said}"
    if kind == "scheduler.gated":
        return f"pending: {data.get('plugin', '')} holds it back ({data.get('message', '')})"
    if data.get("removed") and kind != "deleted":
        return f"gone: what had kept it was taken away{by}"
    if kind == "deleted":
        if data.get("terminating") and not data.get("removed"):
            return f"terminating: deletion was asked for{by}"
        return f"deleted{by}"
    if kind == "apiserver.write" and data.get("code", 0) < 300 and "phase" in data:
        if data["phase"] == "Pending":
            return ""  # whatever keeps it pending says more
        return state(data)
    if kind == "workload":
        return f"its Workload is {data['state']}"
    if kind == "apiserver.write" and "state" in data and data["state"] != SUSPENDED:
        return str(data["state"])
    if kind in ("kubelet.rejected", "kubelet.evicted"):
        message = data.get("message", "")
        return f"{kind.partition('.')[2]}: {message}"
    if kind in ("bound", "scheduler.assumed"):
        node = data.get("node", "")
        return f"on {node}" if node else "bound"
    return ""


def _entry(line: Line, what: str, more: list[str] | None = None, **data: Any) -> Entry:
    found = {"event": line.event, **line.data, **data}
    return Entry(line.step, line.t, line.actor, line.uid, what, more or [], found)


def _plain(line: Line) -> Entry:
    message = line.data.get("message") or line.data.get("reason") or ""
    return _entry(line, f"{line.event}: {message}" if message else line.event)


def _write(line: Line) -> Entry:
    verb = str(line.data.get("verb", ""))
    what = written(line)
    if line.data.get("code", 0) >= 400:
        return _entry(line, what, event="refused")
    if verb.endswith("/binding"):
        return _entry(line, what, event="bound")
    if verb.startswith("delete ") and "/" not in verb:
        return _entry(line, what, event="deleted")
    return _entry(line, what)


def _failed(line: Line) -> Entry:
    data = line.data
    attempt = f"attempt {data['attempt']}" if "attempt" in data else "attempt"
    refused = data.get("refused")
    more = []
    for each in refused or ():
        names = each["nodes"][:SHOWN_NODES]
        listed = ", ".join(names)
        rest = each["count"] - len(names)
        if rest and names:
            listed += f" and {rest:,} more"
        where = f": {listed}" if listed else ""
        more.append(f"{each['plugin']} refused {nodes(each['count'])} ({each['message']}){where}")
    more += map(_claim, data.get("claims") or ())
    message = str(data.get("message", ""))
    preemption = message.find("preemption: ")
    if not refused:
        more.append(message)
    elif preemption >= 0:
        more.append(message[preemption:])
    what = f"{attempt} failed ({data.get('reason', '')}), {data.get('outcome', '')}"
    return _entry(line, what, more)


def _claim(unmet: dict[str, Any]) -> str:
    """Return what a claim asks for that was not allocated, or has where the pod cannot go."""
    if "allocated" in unmet:
        return (
            f"claim {unmet['claim']} cannot be used there: it has {', '.join(unmet['allocated'])}"
        )
    selectors = "".join(f", selector {each}" for each in unmet.get("selectors") or ())
    what = (
        f"claim {unmet['claim']}, request {unmet['request']}: {unmet['wanted']} of class"
        f" {unmet['class']}{selectors}"
    )
    if "problem" in unmet:
        return f"{what}: {unmet['problem']}"
    found = unmet.get("devices")
    if found is None:
        return f"{what}: there is no such class"
    kept = "".join(f"; {each}" for each in unmet.get("taint_rules") or ())
    return (
        f"{what}: of all nodes' devices {found['class']} are of the class, {found['selected']} are"
        f" selected, {found['free']} of these are free{kept}"
    )


def _assumed(line: Line) -> Entry:
    data = line.data
    what = (
        f"attempt {data.get('attempt', '')} chose {data.get('node', '')}: {data.get('feasible')} of "
        f"{data.get('evaluated')} evaluated nodes were feasible"
    )
    scores = data.get("scores") or {}
    more = list(data.get("taint_rules") or ())
    totals = {node: sum(by_plugin.values()) for node, by_plugin in scores.items()}
    for node, total in sorted(totals.items(), key=lambda item: -item[1])[:SHOWN_NODES]:
        parts = ", ".join(f"{plugin} {score}" for plugin, score in scores[node].items() if score)
        more.append(f"{node} scored {total}" + (f" ({parts})" if parts else ""))
    return _entry(line, what, more)


def _believed(line: Line) -> Entry:
    return _entry(line, believed(line))


def _explained(line: Line) -> Entry:
    more = []
    for plugin, by_message in (line.data.get("refused") or {}).items():
        for message, names in by_message.items():
            more.append(f"{plugin} refused {', '.join(names)} ({message})")
    for plugin, message in (line.data.get("prefilter") or {}).items():
        more.append(f"{plugin} refused the pod before any node ({message})")
    for node, scores in (line.data.get("scores") or {}).items():
        more.append(f"{node} scored " + ", ".join(f"{p} {s}" for p, s in scores.items()))
    return _entry(line, "what each plugin said", more)


def _gated(line: Line) -> Entry:
    why = f"{line.data.get('plugin', '')}: {line.data.get('message', '')}"
    return _entry(line, "held back before it is queued", [why])


def _autoscaler(line: Line) -> Entry:
    return _entry(line, str(line.data.get("message", "")))


TELLERS: dict[str, Callable[[Line], Entry | None]] = {
    "autoscaler.told": _autoscaler,
    "apiserver.write": _write,
    "scheduler.failed": _failed,
    "scheduler.gated": _gated,
    "scheduler.assumed": _assumed,
    "scheduler.believed": _believed,
    "scheduler.explained": _explained,
}
