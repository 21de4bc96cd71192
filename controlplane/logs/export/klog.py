"""Text in the form of klog, with the messages and keys that the components of Kubernetes use.

`I0101 00:00:02.000000       1 schedule_one.go:785] "Attempting to schedule pod" pod="default/web"`: the
file is upstream's, and in the place of the line stands the step of the run, so that `controlplane logs
why STEP` leads on from there. Upstream: k8s.io/klog/v2 (format), pkg/scheduler/schedule_one.go,
pkg/kubelet/kubelet.go, k8s.io/apiserver/pkg/server/httplog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from controlplane.api.durations import format_duration
from controlplane.logs.export.encoding import compact
from controlplane.logs.export.epoch import epoch_of, moment
from controlplane.logs.reading import Events, Line

VERBOSITY = 10
"""Everything that any component says."""


class Said(NamedTuple):
    """One message: severity (I, W, E), verbosity, upstream's file, text, keys and values."""

    severity: str
    verbosity: int
    file: str
    text: str
    values: dict[str, Any]


def lines(log: Events, verbosity: int = VERBOSITY) -> Iterator[str]:
    """The text of the file, a line each; messages above `verbosity` are left out, as with -v."""
    epoch = epoch_of(log)
    chosen: dict[str, dict[str, Any]] = {}
    for line in log:
        if line.event == "scheduler.assumed":
            chosen[line.uid] = line.data
        for said in _said(line, chosen):
            if said.verbosity <= verbosity:
                yield _text(line, said, epoch)


def _text(line: Line, said: Said, epoch: int) -> str:
    stamp = moment(epoch, line.t).strftime("%m%d %H:%M:%S.%f")
    pairs = list(said.values.items())
    if said.severity == "E":  # klog writes an error first
        pairs.sort(key=lambda pair: pair[0] != "err")
    values = "".join(f" {key}={compact(value)}" for key, value in pairs)
    header = f"{said.severity}{stamp} {1:>7} {said.file}:{line.step}]"
    return f"{header} {compact(said.text)}{values}\n"


def _key(line: Line) -> str:
    """namespace/name, as klog.KObj writes it."""
    return line.obj.partition("/")[2]


def _said(line: Line, chosen: dict[str, dict[str, Any]]) -> list[Said]:
    teller = _TELLERS.get(line.event)
    if teller is not None:
        return teller(line)
    if line.event == "apiserver.write" and line.data.get("verb") == "create pods/binding":
        return _bound(line, chosen) if line.data.get("code", 0) < 300 else []
    return []


def _bound(line: Line, chosen: dict[str, dict[str, Any]]) -> list[Said]:
    data = chosen.pop(line.uid, {})
    values = {
        "pod": _key(line),
        "node": line.data.get("node", data.get("node", "")),
        "evaluatedNodes": data.get("evaluated", 0),
        "feasibleNodes": data.get("feasible", 0),
    }
    return [Said("I", 2, "schedule_one.go", "Successfully bound pod to node", values)]


def _popped(line: Line) -> list[Said]:
    pod = {"pod": _key(line)}
    return [
        Said("I", 4, "schedule_one.go", "About to try and schedule pod", pod),
        Said("I", 3, "schedule_one.go", "Attempting to schedule pod", pod),
    ]


def _failed(line: Line) -> list[Said]:
    message = line.data.get("message", "")
    values = {"pod": _key(line), "err": message}
    if message == "no nodes available to schedule pods":
        text = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
        return [Said("I", 2, "schedule_one.go", text, values)]
    if line.data.get("reason") == "Unschedulable":
        text = "Unable to schedule pod; no fit; waiting"
        return [Said("I", 2, "schedule_one.go", text, values)]
    return [Said("E", 0, "schedule_one.go", "Error scheduling pod; retrying", values)]


def _request(line: Line) -> list[Said]:
    data = line.data
    latency = round(line.t * 1e9) - data.get("began_ns", 0)
    values = {
        "verb": data.get("verb", "").upper(),
        "URI": data.get("uri", ""),
        "latency": format_duration(latency),
        "userAgent": data.get("agent", ""),
        "resp": data.get("code", 0),
    }
    return [Said("I", 3, "httplog.go", "HTTP", values)]


def _synced(line: Line) -> list[Said]:
    values = {"type": line.data.get("resource", ""), "reflector": line.actor}
    return [Said("I", 2, "reflector.go", "Caches populated", values)]


def _admitted(line: Line) -> list[Said]:
    values = {"source": "api", "pods": [_key(line)]}
    return [Said("I", 2, "kubelet.go", "SyncLoop ADD", values)]


def _retry(line: Line) -> list[Said]:
    data = line.data
    values = {"controller": data.get("controller", ""), "key": data.get("key", "")}
    return [
        Said("E", 0, "controller.go", "Error syncing", {**values, "err": data.get("error", "")})
    ]


def _plain(severity: str, file: str, text: str) -> Callable[[Line], list[Said]]:
    """A message with the object, and what the event says."""

    def tell(line: Line) -> list[Said]:
        kind = line.obj.partition("/")[0].lower()
        values: dict[str, Any] = {kind: _key(line)} if kind else {}
        if line.data.get("message"):
            values["err" if severity == "E" else "message"] = line.data["message"]
        return [Said(severity, 0, file, text, values)]

    return tell


_TELLERS: dict[str, Callable[[Line], list[Said]]] = {
    "scheduler.popped": _popped,
    "scheduler.failed": _failed,
    "scheduler.error": _plain("E", "schedule_one.go", "Error occurred"),
    "scheduler.expired": _plain("W", "cache.go", "Pod expired"),
    "apiserver.audited": _request,
    "informer.synced": _synced,
    "reflector.error": _plain("E", "reflector.go", "Failed to watch"),
    "kubelet.admitted": _admitted,
    "kubelet.rejected": _plain("I", "kubelet.go", "Pod admission denied"),
    "kubelet.evicted": _plain("I", "eviction_manager.go", "Eviction manager: pod is evicted"),
    "kubelet.error": _plain("E", "kubelet.go", "Unhandled Error"),
    "controller.retry": _retry,
    "controller.dropped": _retry,
}
