"""The log of a container of a pod: whether there is one, the error when there is none, and the lines to show.

Upstream: validateContainerLogStatus in pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import chain

from controlplane.api.container_output import Output
from controlplane.api.flags import flag
from controlplane.api.host_access import LogOptions
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.options import parse_int64
from controlplane.apiserver.schema.status import bad_request

__all__ = ["check_has_log", "first_shown", "log_options", "shown"]

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_IMAGE_TROUBLE = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def check_has_log(pod: Tree, container: str, *, previous: bool = False) -> None:
    """Answer quietly if the container, or its `previous` life, has a log; ApiError 400 if not."""
    name = pod["metadata"]["name"]
    state = pod.get("status") or {}
    found: Tree | None = next(
        (
            each
            for each in chain.from_iterable(state.get(key) or () for key in _STATUSES)
            if each.get("name") == container
        ),
        None,
    )
    shown = f'container "{container}" in pod "{name}"'
    if found is None:  # the kubelet has not reported yet
        found = {"state": {"waiting": {"reason": _first_reason(pod)}}}
    now, last = found.get("state") or {}, found.get("lastState") or {}
    ended = bool((last.get("terminated") or {}).get("containerID"))
    if previous:
        if not ended:
            raise bad_request(f"previous terminated {shown} not found")
    elif "running" in now:
        return
    elif "terminated" in now or "terminated" in last:
        if not ended and not (now.get("terminated") or {}).get("containerID"):
            raise bad_request(f"{shown} is terminated")
    elif "waiting" in now:
        reason = (now["waiting"] or {}).get("reason", "")
        why = _IMAGE_TROUBLE.get(reason, reason)
        raise bad_request(f"{shown} is waiting to start: {why}")
    else:
        raise bad_request(f"{shown} is waiting to start - no logs yet")


def _first_reason(pod: Tree) -> str:
    """Return the reason of a container's waiting state before it has begun with the pod."""
    return "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"


def first_shown(output: Output, query: Mapping[str, str], now: int) -> int:
    """The number of the first line that is asked for: by time, and by the number of lines at the end."""
    since = _since(query, now)
    first = output.first
    if since:
        first += bisect_left(output.lines, since, key=lambda line: line.at)
    if query.get("tailLines"):
        first = max(first, output.count - parse_int64(query["tailLines"]))
    return first


def _since(query: Mapping[str, str], now: int) -> int:
    """The time from which on lines are asked for, 0 for all."""
    if query.get("sinceSeconds"):
        return now - parse_int64(query["sinceSeconds"]) * SECOND
    if not query.get("sinceTime"):
        return 0
    try:
        return parse_time(query["sinceTime"])
    except ValueError as error:
        raise bad_request(f"unable to decode sinceTime: {error}") from None


def log_options(query: Mapping[str, str], now: int) -> LogOptions:
    """The part of a log that is asked for."""
    tail, limit = query.get("tailLines"), query.get("limitBytes")
    return LogOptions(
        parse_int64(tail) if tail else None,
        parse_int64(limit) if limit else None,
        _since(query, now),
        flag(query.get("follow")),
        flag(query.get("timestamps")),
    )


def shown(output: Output, query: Mapping[str, str], first: int) -> bytes:
    """The lines from that number on, as a kubelet sends them; no more are made than `limitBytes` has room for."""
    dated = flag(query.get("timestamps"))
    limit = parse_int64(query["limitBytes"]) if query.get("limitBytes") else None
    found = bytearray()
    at, stamp = -1, ""
    for number in range(max(0, first - output.first), len(output.lines)):
        line = output.lines[number]
        if dated and line.at != at:
            at, stamp = line.at, _stamp(line.at)
        found += f"{stamp}{line.text}\n".encode()
        if limit is not None and len(found) >= limit:
            return bytes(found[:limit])
    return bytes(found)


def _stamp(at: int) -> str:
    return f"{format_time(at).removesuffix('Z')}.{at % SECOND:09d}Z "
