"""One event in a few words, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.logs.reading import Line

__all__ = ["attempts", "nodes", "phrase"]

_QUIET = frozenset(
    (
        "task",
        "log",
        "message",
        "choice",
        "apiserver.audited",
        "apiserver.changed",
        "apiserver.removed",
        "controller.popped",
    )
)
_PAST = {"create": "created", "delete": "deleted", "update": "updated", "patch": "patched"}


def phrase(line: Line) -> str:
    """Return an event's text; "" for events of the runtime only."""
    if line.event in _QUIET or line.is_step:
        return ""
    teller = _TELLERS.get(line.event)
    if teller is not None:
        return teller(line)
    message = line.data.get("message") or line.data.get("reason") or ""
    about = f" {line.obj}" if line.obj else ""
    return f"{line.event}{about}" + (f": {message}" if message else "")


def attempts(count: int) -> str:
    """1 attempt, 2 attempts."""
    return "1 attempt" if count == 1 else f"{count:,} attempts"


def nodes(count: int) -> str:
    """1 node, 5,000 nodes."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def written(line: Line, about: str = "") -> str:
    """Return the text of a write: actor, verb and resulting version; `about` names the object if it is not clear."""
    data = line.data
    verb, by, code = str(data.get("verb", "")), data.get("by", ""), data.get("code", 0)
    action, _, where = verb.partition(" ")
    subresource = where.partition("/")[2]
    who = f" by {by}" if by else ""
    named = f" {about}" if about else ""
    if code >= 400:
        based = f", based on version {data['based_on']}" if "based_on" in data else ""
        return f"{verb}{named}{who} refused: {code} {data.get('reason', '')}".rstrip() + based
    if subresource == "binding":
        node = f" to {data['node']}" if data.get("node") else ""
        return f"bound{named}{node}{who}"
    what = _PAST.get(action, verb) + (f" ({subresource})" if subresource else "") + named + who
    if "phase" in data and action != "create":
        what += f": {state(data)}"
    if "state" in data:
        what += f": {data['state']}"
    if line.rv is not None:
        what += f", version {line.rv}"
    return what


def believed(line: Line) -> str:
    """Return what the scheduler's snapshot said of the node that it chose."""
    data = line.data
    pods, asked, room = data.get("pods", []), data["requested"], data["allocatable"]
    return (
        f"believed of {data.get('node', '')} (version {data.get('node_rv')}):"
        f" {'1 pod' if len(pods) == 1 else f'{len(pods)} pods'},"
        f" cpu {asked['cpu_milli']}m of {room['cpu_milli']}m,"
        f" memory {_mib(asked['memory'])} of {_mib(room['memory'])} MiB requested"
    )


def _mib(amount: int) -> str:
    return f"{amount / (1 << 20):,.0f}"


def state(data: dict[str, Any]) -> str:
    """Phase and readiness of a pod."""
    said: str = data.get("phase", "")
    if data.get("ready"):
        said += ", ready"
    elif "ready" in data and said == "Running":
        said += ", not ready"
    if data.get("terminating"):
        said += ", terminating"
    return said


def _write(line: Line) -> str:
    return written(line, line.obj)


def _read(line: Line) -> str:
    if line.data.get("found") is False:
        where = f"{line.data.get('resource', '')} {line.data.get('key', '')}".strip()
        return f"found no {where or line.obj}"
    version = f", version {line.rv}" if line.rv is not None else ""
    return f"read {line.obj}{version}"


def _listed(line: Line) -> str:
    version = f", version {line.rv}" if line.rv is not None else ""
    return f"listed {line.data.get('count')} {line.data.get('resource')}{version}"


def _told(line: Line) -> str:
    was = f", which had uid {line.data['was']}" if "was" in line.data else ""
    version = f", version {line.rv}" if line.rv is not None else ""
    return f"heard of {line.data.get('kind', 'a change')} of {line.obj}{version}{was}"


def _assigned(line: Line) -> str:
    data = line.data
    what = "CPUs" if data.get("file", "").startswith("cpu") else "memory"
    pod = line.obj or f"pod {line.uid}"
    whose = pod if data.get("container") == "*" else f"{data.get('container', '')} of {pod}"
    has, had = data.get("has", ""), data.get("had", "")
    if not has:
        return f"takes {what} {had} back from {whose}"
    return f"gives {what} {has} to {whose}" + (f", which had {had}" if had else "")


def _heard(line: Line) -> str:
    operation = line.data.get("operation", "")
    if operation == "PLEG":
        return f"sees that containers of {line.obj} changed"
    return f"takes up {operation} of {line.obj}"


def _preempts(line: Line) -> str:
    victims = ", ".join(line.data.get("victims", ()))
    return f"preempts {victims} on {line.data.get('node', '')} for {line.obj}"


def _called(line: Line) -> str:
    return f"{line.data.get('method', 'a call')} was answered {line.data.get('code', '')}"


def _retried(line: Line) -> str:
    data = line.data
    then = "given up" if line.event == "controller.dropped" else "to be tried again"
    return f"{data.get('controller', '')} {data.get('key', '')} failed, {then}: {data.get('error', '')}"


def _failed(line: Line) -> str:
    data = line.data
    return f"attempt {data.get('attempt', '')} for {line.obj} failed ({data.get('reason', '')})"


def _fault(line: Line) -> str:
    data = line.data
    if "plan" in data:
        late = "" if data.get("in_time", True) else " (nothing came for which it waits)"
        ends = "end of " if data.get("fault") == "release" else ""
        return f"plan: {ends}{data['plan']}{late}"
    where = data.get("actor") or " and ".join(str(data[end]) for end in ("a", "b") if end in data)
    return f"fault: {data.get('fault', '')} {where}".rstrip()


_TELLERS: dict[str, Callable[[Line], str]] = {
    "apiserver.write": _write,
    "informer.read": _read,
    "client.read": _read,
    "scheduler.read": _read,
    "informer.told": _told,
    "scheduler.popped": lambda line: f"popped {line.obj}, version {line.rv}",
    "scheduler.assumed": lambda line: f"chose {line.data.get('node', '')} for {line.obj}",
    "scheduler.group": lambda line: (
        f"tried {line.obj}: {line.data.get('bound')} of {line.data.get('members')} pods are to be bound"
        + (f" ({line.data['message']})" if line.data.get("message") else "")
    ),
    "scheduler.believed": lambda line: f"for {line.obj} {believed(line)}",
    "scheduler.failed": _failed,
    "client.listed": _listed,
    "scheduler.preemption": _preempts,
    "scheduler.expired": lambda line: (
        f"no longer assumes {line.obj} on {line.data.get('node', '')}"
    ),
    "informer.synced": lambda line: f"has its first list of {line.data.get('resource', '')}",
    "scheduler.gated": lambda line: (
        f"holds {line.obj} back: {line.data.get('plugin', '')}: {line.data.get('message', '')}"
    ),
    "scheduler.skip": lambda line: f"skips {line.obj}: {line.data.get('reason', '')}",
    "kubelet.admitted": lambda line: f"admits {line.obj}",
    "kubelet.rejected": lambda line: f"refuses {line.obj}: {line.data.get('message', '')}",
    "kubelet.heard": _heard,
    "kubelet.worker": lambda line: f"worker of {line.obj}: {line.data.get('phase', '')}",
    "kubelet.container": lambda line: (
        f"{line.data.get('container', '')} of {line.obj} has {line.data.get('change', '')}"
    ),
    "kubelet.assigned": _assigned,
    "kubelet.synced": lambda line: f"has taken in its first list of pods, {line.data.get('pods')}",
    "client.connected": lambda line: f"connects to {line.data.get('server', '')}",
    "csi.call": _called,
    "controller.retry": _retried,
    "controller.dropped": _retried,
    "fault": _fault,
    "verdict": lambda line: f"{line.data.get('verdict', '')}: {line.data.get('reason', '')}",
}
