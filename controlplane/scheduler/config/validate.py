"""Validation of a defaulted KubeSchedulerConfiguration.

Upstream: `pkg/scheduler/apis/config/validation/validation.go`,
`k8s.io/component-base/config/validation`. Paths and texts are upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.api.go_structs import parse_duration
from controlplane.api.validation import aggregate, label_key_errors, quote
from controlplane.scheduler.config.expand import PluginSetConfig
from controlplane.scheduler.config.schema import API_VERSION
from controlplane.scheduler.config.validate_args import ARGS_RULES, bad
from controlplane.scheduler.state.resources import is_extended_resource

Json = Any

# Plugins that were dropped before v1.
_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_CHECKED_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)


class ValidationError(ValueError):
    """A configuration that is not valid; `messages` are the single errors."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__(aggregate(messages))
        self.messages = list(messages)


def validate(filled: Json) -> list[str]:
    """All errors of a defaulted document."""
    errors: list[str] = []
    burst = filled["clientConnection"]["burst"]
    if burst < 0:
        errors.append(bad("clientConnection.burst", burst, "must be non-negative"))
    errors += _leader_election(filled["leaderElection"])
    if filled["parallelism"] <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(bad("parallelism", filled["parallelism"], detail))
    errors += _profiles(filled["profiles"])
    errors += _percentage("percentageOfNodesToScore", filled["percentageOfNodesToScore"])
    initial, longest = filled["podInitialBackoffSeconds"], filled["podMaxBackoffSeconds"]
    if initial <= 0:
        errors.append(bad("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(bad("podMaxBackoffSeconds", longest, detail))
    return errors + _extenders(filled.get("extenders", ()))


def _leader_election(leader: Json) -> list[str]:
    if not leader["leaderElect"]:
        return []
    path, errors = "leaderElection", []
    for field in ("leaseDuration", "renewDeadline", "retryPeriod"):
        if parse_duration(leader[field]) <= 0:
            errors.append(bad(f"{path}.{field}", leader[field], "must be greater than zero"))
    if parse_duration(leader["leaseDuration"]) < parse_duration(leader["renewDeadline"]):
        detail = "must be greater than `RenewDeadline`"
        errors.append(bad(f"{path}.leaseDuration", leader["renewDeadline"], detail))
    if leader["resourceLock"] != "leases":
        detail = 'resourceLock value must be "leases"'
        errors.append(bad(f"{path}.resourceLock", leader["resourceLock"], detail))
    return errors


def _percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [bad(path, value, "not in valid range [0-100]")]


def _profiles(profiles: Sequence[Json]) -> list[str]:
    errors: list[str] = []
    names: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        errors += _profile(path, profile)
        name = profile.get("schedulerName", "")
        if name in names:
            # Upstream prints a path object here, which has no visible fields.
            errors.append(f"{path}.schedulerName: Duplicate value: {{}}")
        names[name] = i
    return errors + _queue_sort(profiles)


def _profile(path: str, profile: Json) -> list[str]:
    errors: list[str] = []
    if not profile.get("schedulerName"):
        errors.append(f"{path}.schedulerName: Required value")
    percentage = profile.get("percentageOfNodesToScore")
    errors += _percentage(f"{path}.percentageOfNodesToScore", percentage)
    for point in _CHECKED_POINTS:
        plugins: PluginSetConfig = profile["plugins"][point]
        for i, (name, _) in enumerate(plugins.enabled):
            errors += _removed(f"{path}.plugins.{point}.enabled[{i}]", name)
    seen: set[str] = set()
    for i, config in enumerate(profile["pluginConfig"]):
        at, name = f"{path}.pluginConfig[{i}]", config["name"]
        if name in seen:
            errors.append(f"{at}: Duplicate value: {quote(name)}")
        seen.add(name)
        if name in _REMOVED:
            errors += _removed(at, name)
            continue
        # NodeResourcesFit stands under a wrong key in upstream's table, so it is only looked at
        # when the plugin is built.
        rule = ARGS_RULES.get(name) if name != "NodeResourcesFit" else None
        if rule is not None:
            errors += rule(f"{at}.args", config["args"])
    return errors


def _removed(path: str, name: str) -> list[str]:
    if name not in _REMOVED:
        return []
    detail = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return [bad(path, name, detail)]


def _queue_sort(profiles: Sequence[Json]) -> list[str]:
    errors: list[str] = []
    first: PluginSetConfig = profiles[0]["plugins"]["queueSort"]
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        path = "profiles[0].plugins.queueSort.Enabled"
        errors.append(bad(path, len(first.enabled), detail))
    name = first.enabled[0][0] if first.enabled else ""
    args = _args_of(profiles[0], name)
    for i, profile in enumerate(profiles[1:], 1):
        detail = "must be the same for all profiles"
        other: PluginSetConfig = profile["plugins"]["queueSort"]
        if (first.enabled, first.disabled) != (other.enabled, other.disabled):
            errors.append(bad(f"profiles[{i}].plugins.queueSort", _plugin_set(other), detail))
        if name and _args_of(profile, name) != args:
            path = f"profiles[{i}].pluginConfig.{name}.args"
            errors.append(bad(path, _args_of(profile, name), detail))
    return errors


def _args_of(profile: Json, name: str) -> Json:
    return next((c["args"] for c in profile["pluginConfig"] if c["name"] == name), None)


def _plugin_set(plugins: PluginSetConfig) -> Json:
    enabled = [{"Name": name, "Weight": weight} for name, weight in plugins.enabled]
    disabled = [{"Name": name, "Weight": 0} for name in plugins.disabled]
    return {"Enabled": enabled or None, "Disabled": disabled or None}


def _extenders(extenders: Sequence[Mapping[str, Json]]) -> list[str]:
    errors: list[str] = []
    binders = 0
    names: set[str] = set()
    for i, extender in enumerate(extenders):
        weight = extender.get("weight", 0)
        if extender.get("prioritizeVerb") and weight <= 0:
            detail = "must have a positive weight applied to it"
            errors.append(bad(f"extenders[{i}].weight", weight, detail))
        binders += bool(extender.get("bindVerb"))
        for j, resource in enumerate(extender.get("managedResources", ())):
            path, name = f"extenders[{i}].managedResources[{j}].name", resource.get("name", "")
            errors += _extended_resource(path, name)
            if name in names:
                errors.append(bad(path, name, "duplicate extender managed resource name"))
            names.add(name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        errors.append(bad("extenders", found, "only one extender can implement bind"))
    return errors


def _extended_resource(path: str, name: str) -> list[str]:
    errors = [bad(path, name, text) for text in label_key_errors(name, "a qualified name")]
    if not errors and not is_extended_resource(name):
        errors.append(bad(path, name, "is an invalid extended resource name"))
    return errors


def late_args_error(plugin: str, args: Json) -> str:
    """Return the error of the plugin's constructor about its arguments, "" if there is none."""
    rule = ARGS_RULES.get(plugin)
    errors = [] if rule is None or args is None else rule("", args)
    return aggregate(errors) if errors else ""
