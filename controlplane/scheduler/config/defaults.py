"""Defaults of KubeSchedulerConfiguration v1, filled into a decoded document.

Upstream: `pkg/scheduler/apis/config/v1/defaults.go`.
"""

from __future__ import annotations

from typing import Any

from controlplane.api.durations import format_duration
from controlplane.api.go_structs import parse_duration
from controlplane.scheduler.config import expand
from controlplane.scheduler.config.model import DEFAULT_SCHEDULER_NAME
from controlplane.scheduler.config.schema import ARGS_KINDS

Json = Any

_RESOURCES = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})


def plugin_sets(tree: Json) -> dict[str, expand.PluginSetConfig]:
    """A decoded `plugins` object as plugin sets."""
    return {
        point: expand.PluginSetConfig(
            tuple((p.get("name", ""), p.get("weight", 0)) for p in each.get("enabled", ())),
            tuple(p.get("name", "") for p in each.get("disabled", ())),
        )
        for point, each in tree.items()
    }


def fill(document: Json) -> Json:
    """The document with every default; profiles keep `plugins` as merged plugin sets."""
    out = dict(document)
    out.setdefault("parallelism", 16)
    profiles = out.get("profiles") or [{}]
    if len(profiles) == 1 and profiles[0].get("schedulerName") is None:
        profiles = [{**profiles[0], "schedulerName": DEFAULT_SCHEDULER_NAME}]
    out["profiles"] = [_profile(each) for each in profiles]
    out.setdefault("percentageOfNodesToScore", 0)
    leader = dict(out.get("leaderElection", {}))
    leader.setdefault("resourceLock", "leases")
    leader["resourceNamespace"] = leader.get("resourceNamespace") or "kube-system"
    leader["resourceName"] = leader.get("resourceName") or "kube-scheduler"
    leader.setdefault("leaderElect", True)
    for field, seconds in (("leaseDuration", 15), ("renewDeadline", 10), ("retryPeriod", 2)):
        given = parse_duration(leader.get(field, "0s"))
        leader[field] = format_duration(given or seconds * 1_000_000_000)
    leader["resourceLock"] = leader["resourceLock"] or "leases"
    out["leaderElection"] = leader
    client = dict(out.get("clientConnection", {}))
    client["contentType"] = client.get("contentType") or "application/vnd.kubernetes.protobuf"
    client["qps"] = client.get("qps") or 50
    client["burst"] = client.get("burst") or 100
    client.setdefault("acceptContentTypes", "")
    client.setdefault("kubeconfig", "")
    out["clientConnection"] = client
    out.setdefault("podInitialBackoffSeconds", 1)
    out.setdefault("podMaxBackoffSeconds", 10)
    out.setdefault("enableProfiling", True)
    if out["enableProfiling"]:
        out.setdefault("enableContentionProfiling", True)
    if "extenders" in out:
        out["extenders"] = [
            {**each, "httpTimeout": _or_default(each.get("httpTimeout"), "5s")}
            for each in out["extenders"]
        ]
    return out


def _or_default(text: str | None, default: str) -> str:
    if text is None or parse_duration(text) == 0:
        return default
    return format_duration(parse_duration(text))


def _profile(profile: Json) -> Json:
    plugins = expand.merge(plugin_sets(profile.get("plugins", {})))
    configured: list[Json] = []
    for each in profile.get("pluginConfig", ()):
        name = each.get("name", "")
        args = each.get("args")
        kind = f"{name}Args"
        if kind in ARGS_KINDS:
            args = default_args(kind, args or {})
        configured.append({"name": name, "args": args})
    present = {each["name"] for each in configured}
    for name in sorted(expand.needed(plugins)):
        kind = f"{name}Args"
        if name not in present and kind in ARGS_KINDS:
            configured.append({"name": name, "args": default_args(kind, {})})
    return {**profile, "plugins": plugins, "pluginConfig": configured}


def default_args(kind: str, args: Json) -> Json:
    """Plugin arguments with defaults, in the external form."""
    out = dict(args)
    if kind == "DefaultPreemptionArgs":
        out.setdefault("minCandidateNodesPercentage", 10)
        out.setdefault("minCandidateNodesAbsolute", 100)
    elif kind == "InterPodAffinityArgs":
        out.setdefault("hardPodAffinityWeight", 1)
        out.setdefault("ignorePreferredTermsOfExistingPods", False)
    elif kind == "VolumeBindingArgs":
        out.setdefault("bindTimeoutSeconds", 600)
    elif kind == "NodeResourcesBalancedAllocationArgs":
        out["resources"] = _weighted(out.get("resources"))
    elif kind == "PodTopologySpreadArgs":
        out.setdefault("defaultingType", "System")
    elif kind == "NodeResourcesFitArgs":
        strategy = dict(out.get("scoringStrategy", {"type": "LeastAllocated"}))
        strategy["resources"] = _weighted(strategy.get("resources"))
        out["scoringStrategy"] = strategy
    elif kind == "DynamicResourcesArgs":
        out["filterTimeout"] = _duration(out.get("filterTimeout"), "10s")
        out["bindingTimeout"] = _duration(out.get("bindingTimeout"), "10m0s")
    return out


def _duration(text: str | None, default: str) -> str:
    return default if text is None else format_duration(parse_duration(text))


def _weighted(resources: Json) -> Json:
    if not resources:
        return [dict(each) for each in _RESOURCES]
    return [{"name": each.get("name", ""), "weight": each.get("weight") or 1} for each in resources]
