"""What happened to one object, and why: its writes, every scheduling attempt, what its kubelet did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import Factory, define, frozen

from controlplane.errors import UsageError
from controlplane.logs.reading import Line

SHORT_NAMES = {
    "po": "pod",
    "no": "node",
    "ns": "namespace",
    "deploy": "deployment",
    "rs": "replicaset",
    "svc": "service",
    "pvc": "persistentvolumeclaim",
    "pv": "persistentvolume",
}
CLUSTER_SCOPED = frozenset(("node", "namespace", "persistentvolume", "priorityclass"))
SHOWN_NODES = 6


@frozen
class Subject:
    """The object asked about; `kind` in lower case, `namespace` "" for objects of the cluster."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """namespace/name, or name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def matches(self, obj: str) -> bool:
        """Whether the log's name for an object means this one."""
        kind, _, key = obj.partition("/")
        # A write without an answer of that kind is logged by its resource: pods/default/web-0.
        return key == self.key and kind.lower() in (self.kind, f"{self.kind}s")


def subject(text: str) -> Subject:
    """pod/namespace/name, pod/name (in namespace default), node/name. Raises UsageError."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"{text}: expected KIND/NAMESPACE/NAME or KIND/NAME, as pod/default/web-0")
    kind = parts[0].lower()
    kind = SHORT_NAMES.get(kind, kind)
    if kind.endswith("s") and not kind.endswith("ss"):
        kind = kind[:-1]
    if len(parts) == 3:
        return Subject(kind, parts[1], parts[2])
    return Subject(kind, "" if kind in CLUSTER_SCOPED else "default", parts[1])


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


def story(lines: Iterable[Line], about: Subject) -> Story:
    """Tell it from a log. Raises UsageError when the log knows nothing of the object."""
    entries: list[Entry] = []
    incarnations: dict[str, None] = {}
    for line in lines:
        if not about.matches(line.obj):
            continue
        teller = TELLERS.get(line.event)
        entry = _plain(line) if teller is None else teller(line)
        if entry is None:
            continue
        if line.uid and line.uid not in incarnations:
            if incarnations:
                entry.more.append(f"a new incarnation, uid {line.uid}")
            incarnations[line.uid] = None
        entries.append(entry)
    if not entries:
        raise UsageError(f"{about.kind}/{about.key}: the log says nothing about it")
    return Story(about, entries, _ending(entries))


def _ending(entries: list[Entry]) -> str:
    """What the last telling event comes to."""
    for entry in reversed(entries):
        kind = entry.data.get("event")
        if kind == "scheduler.failed":
            refused = entry.data.get("refused") or []
            if not refused:
                return f"pending: {entry.data.get('message', '')}"
            said = "; ".join(
                f"{r['plugin']} refused {_nodes(r['count'])} ({r['message']})" for r in refused
            )
            return f"pending after {_attempts(entry.data)}: {said}"
        if kind == "deleted":
            return "deleted"
        if kind in ("bound", "scheduler.assumed"):
            node = entry.data.get("node", "")
            return f"on {node}" if node else "bound"
    return entries[-1].what


def _attempts(data: dict[str, Any]) -> str:
    count = data.get("attempt", 1)
    return "1 attempt" if count == 1 else f"{count} attempts"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def _entry(line: Line, what: str, more: list[str] | None = None, **data: Any) -> Entry:
    found = {"event": line.event, **line.data, **data}
    return Entry(line.step, line.t, line.actor, line.uid, what, more or [], found)


def _plain(line: Line) -> Entry:
    message = line.data.get("message") or line.data.get("reason") or ""
    return _entry(line, f"{line.event}: {message}" if message else line.event)


def _write(line: Line) -> Entry:
    verb, by = str(line.data.get("verb", "")), line.data.get("by", "")
    action, _, where = verb.partition(" ")
    subresource = where.partition("/")[2]
    said = {"create": "created", "delete": "deleted", "update": "updated", "patch": "patched"}
    code = line.data.get("code", 0)
    who = f" by {by}" if by else ""
    if code >= 400:
        return _entry(line, f"{verb}{who} refused: {code} {line.data.get('reason', '')}".rstrip())
    if subresource == "binding":
        return _entry(line, f"bound{who}", event="bound")
    what = said.get(action, verb) + (f" ({subresource})" if subresource else "") + who
    if line.version is not None:
        what += f", version {line.version}"
    if action == "delete" and not subresource:
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
        more.append(f"{each['plugin']} refused {_nodes(each['count'])} ({each['message']}){where}")
    message = str(data.get("message", ""))
    preemption = message.find("preemption: ")
    if not refused:
        more.append(message)
    elif preemption >= 0:
        more.append(message[preemption:])
    what = f"{attempt} failed ({data.get('reason', '')}), {data.get('outcome', '')}"
    return _entry(line, what, more)


def _assumed(line: Line) -> Entry:
    data = line.data
    what = (
        f"attempt {data.get('attempt', '')} chose {data.get('node', '')}: {data.get('feasible')} of "
        f"{data.get('evaluated')} evaluated nodes were feasible"
    )
    scores = data.get("scores") or {}
    totals = {node: sum(by_plugin.values()) for node, by_plugin in scores.items()}
    more = []
    for node, total in sorted(totals.items(), key=lambda item: -item[1])[:SHOWN_NODES]:
        parts = ", ".join(f"{plugin} {score}" for plugin, score in scores[node].items() if score)
        more.append(f"{node} scored {total}" + (f" ({parts})" if parts else ""))
    return _entry(line, what, more)


def _explained(line: Line) -> Entry:
    more = []
    for plugin, by_message in (line.data.get("refused") or {}).items():
        for message, nodes in by_message.items():
            more.append(f"{plugin} refused {', '.join(nodes)} ({message})")
    for plugin, message in (line.data.get("prefilter") or {}).items():
        more.append(f"{plugin} refused the pod before any node ({message})")
    for node, scores in (line.data.get("scores") or {}).items():
        more.append(f"{node} scored " + ", ".join(f"{p} {s}" for p, s in scores.items()))
    return _entry(line, "what each plugin said", more)


TELLERS: dict[str, Callable[[Line], Entry | None]] = {
    "apiserver.write": _write,
    "scheduler.failed": _failed,
    "scheduler.assumed": _assumed,
    "scheduler.explained": _explained,
}
