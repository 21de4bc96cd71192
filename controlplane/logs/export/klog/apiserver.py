"""The log lines of kube-apiserver about requests. Upstream: apiserver's server/httplog."""

from __future__ import annotations

from controlplane.api.durations import format_duration
from controlplane.logs.export.klog.said import Said, info
from controlplane.logs.reading import Line

__all__ = ["request"]


def request(line: Line) -> list[Said]:
    """A request that was answered; of a watch its end is."""
    data = line.data
    if "watch" in data and not data.get("ended"):
        return []
    latency = round(line.t * 1e9) - data.get("began_ns", 0)
    values = {
        "verb": data.get("verb", "").upper(),
        "URI": data.get("uri", ""),
        "latency": format_duration(latency),
        "userAgent": data.get("agent", ""),
        "resp": data.get("code", 0),
    }
    return [info(3, "httplog.go", "HTTP", **values)]
