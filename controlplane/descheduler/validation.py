"""Errors of the arguments in a policy, each with the words of upstream.

Follows the `validation.go` of the plugins, and `pkg/descheduler/policyconfig.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final

from controlplane.api.labels import SelectorError
from controlplane.api.validation import aggregate, quote
from controlplane.descheduler.args import selector_of
from controlplane.descheduler.default_evictor import (
    DEFAULT_PROTECTIONS,
    DEPRECATED,
    EXTRA_PROTECTIONS,
)
from controlplane.descheduler.metrics import KUBERNETES, PROMETHEUS
from controlplane.descheduler.profiles import BALANCE, DEFAULT_EVICTOR, DESCHEDULE

Args = dict[str, Any]
_RESTART_STATES: Final = ("CrashLoopBackOff", "Running")
_LIFE_TIME_STATES: Final = (
    "Completed", "ContainerCannotRun", "ContainerCreating", "CrashLoopBackOff", "CreateContainerConfigError",
    "CreateContainerError", "DeadlineExceeded", "ErrImagePull", "Error", "Evicted", "Failed", "ImagePullBackOff",
    "InvalidImageName", "NodeAffinity", "NodeLost", "OOMKilled", "Pending", "PodInitializing", "Running", "Shutdown",
    "StartError", "Succeeded", "UnexpectedAdmissionError", "Unknown",
)  # fmt: skip
"""Phases and reasons of pods, and reasons of waiting and terminated containers."""
_NO_EVICTION_POLICIES: Final = ("Preferred", "Mandatory")
_CONSTRAINTS: Final = ("DoNotSchedule", "ScheduleAnyway")
_CONDITION_FIELDS: Final = ("type", "status", "reason")
_NO_CRITERION: Final = (
    "at least one filtering criterion must be specified "
    "(maxPodLifeTimeSeconds, states, conditions, or exitCodes)"
)


class PolicyError(ValueError):
    """A policy that does not load; the text names the profile and the error, `place` a part of the file."""

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.place = place


def check_policy(policy: Mapping[str, Any], own: Container[str] = ()) -> None:
    """Raise PolicyError if a decoded policy is not valid; all errors are joined. `own` are names of users' plugins."""
    errors = [*_of_profiles(policy.get("profiles") or (), own), *_of_providers(policy)]
    if errors:
        raise PolicyError(aggregate(errors))


def _of_profiles(profiles: Iterable[Mapping[str, Any]], own: Container[str]) -> Iterator[str]:
    for profile in profiles:
        for config in profile.get("pluginConfig") or ():
            name = config.get("name", "")
            where = f"in profile {profile.get('name', '')}: "
            if name in own:
                continue  # its constructor checks
            if name != DEFAULT_EVICTOR and name not in DESCHEDULE and name not in BALANCE:
                yield f"{where}plugin {name} in pluginConfig not registered"
                continue
            found = list(_CHECKS.get(name, _common)(config.get("args") or {}))
            if found:
                yield where + aggregate(found)


def _of_providers(policy: Mapping[str, Any]) -> Iterator[str]:
    providers: dict[str, Mapping[str, Any]] = {}
    for each in policy.get("metricsProviders") or ():
        source = each.get("source", "")
        if source in providers:
            yield f"metric provider {quote(source)} is already configured, each source can be configured only once"
        else:
            providers[source] = each
    if KUBERNETES in providers and (policy.get("metricsCollector") or {}).get("enabled"):
        yield "it is not allowed to combine metrics provider when metrics collector is enabled"
    if PROMETHEUS not in providers:
        return
    prometheus = providers[PROMETHEUS].get("prometheus")
    if prometheus is None:
        yield "prometheus configuration is required when prometheus source is enabled"
        return
    if not (url := prometheus.get("url")):
        yield "prometheus URL is required when prometheus is enabled"
    elif error := _url_error(url):
        yield f"error parsing prometheus URL: parse {quote(url)}: {error}"
    token = prometheus.get("authToken")
    if token is not None:
        secret = token.get("secretReference")
        if secret is None:
            yield "prometheus authToken secret is expected to be set when authToken field is"
        elif not secret.get("name") or not secret.get("namespace"):
            yield "prometheus authToken secret reference does not set both namespace and name"


def _url_error(url: str) -> str | None:
    """Return the error of Go's url.Parse for a URL; None for a valid one."""
    if any(each < " " or each == "\x7f" for each in url):
        return "net/url: invalid control character in URL"
    url = url.partition("#")[0]
    scheme, colon, rest = url.partition(":")
    if colon and not scheme:
        return "missing protocol scheme"
    if not (colon and re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*", scheme)):
        rest = url
        if ":" in rest.partition("/")[0]:
            return "first path segment in URL cannot contain colon"
    if not rest.startswith("//"):
        return None
    host = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    if host.startswith("["):
        closing = host.rfind("]")
        if closing < 0:
            return "missing ']' in host"
        port = host[closing + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
    if port and not re.fullmatch(r":[0-9]*", port):
        return f"invalid port {quote(port)} after host"
    for at in (at for at, each in enumerate(host) if each == "%"):
        if not re.fullmatch(r"%[0-9a-fA-F]{2}", host[at : at + 3]):
            return f"invalid URL escape {quote(host[at : at + 3])}"
    bad = re.search(r"[\s<>\"^`{}|\\]", host)
    return f"invalid character {quote(bad[0])} in host name" if bad else None


def check_threshold(args: Args) -> str | None:
    """Return the error of a priority threshold that is given twice."""
    wanted = args.get("priorityThreshold") or {}
    if wanted.get("value") is not None and wanted.get("name"):
        return "priority threshold misconfigured, only one of priorityThreshold fields can be set"
    return None


def _namespaces(args: Args) -> Iterator[str]:
    given = args.get("namespaces") or {}
    if given.get("include") and given.get("exclude"):
        yield "only one of Include/Exclude namespaces can be set"


def _common(args: Args) -> Iterator[str]:
    yield from _namespaces(args)
    try:
        selector_of(args.get("labelSelector"))
    except SelectorError as error:
        yield f"failed to get label selectors from strategy's params: {error}"


def _pod_life_time(args: Args) -> Iterator[str]:
    yield from _common(args)
    kinds = args.get("ownerKinds") or {}
    if kinds.get("include") and kinds.get("exclude"):
        yield "only one of Include/Exclude ownerKinds can be set"
    if any(each not in _LIFE_TIME_STATES for each in args.get("states") or ()):
        yield f"states must be one of [{' '.join(_LIFE_TIME_STATES)}]"
    for index, each in enumerate(args.get("conditions") or ()):
        timed = each.get("minTimeSinceLastTransitionSeconds") is not None
        if not timed and not any(each.get(field) for field in _CONDITION_FIELDS):
            yield (
                f"conditions[{index}]: at least one of type, status, reason, or "
                "minTimeSinceLastTransitionSeconds must be set"
            )
    limited = args.get("maxPodLifeTimeSeconds") is not None
    if not limited and not any(args.get(each) for each in ("states", "conditions", "exitCodes")):
        yield _NO_CRITERION


def _restarts(args: Args) -> Iterator[str]:
    yield from _common(args)
    if (args.get("podRestartThreshold") or 0) < 1:
        yield "invalid PodsHavingTooManyRestarts threshold"
    if any(each not in _RESTART_STATES for each in args.get("states") or ()):
        yield f"states must be one of [{' '.join(_RESTART_STATES)}]"


def _node_affinity(args: Args) -> Iterator[str]:
    if not args.get("nodeAffinityType"):
        yield "nodeAffinityType needs to be set"
    yield from _common(args)


def _node_taints(args: Args) -> Iterator[str]:
    yield from _common(args)
    if args.get("includedTaints") and args.get("excludedTaints"):
        yield "either includedTaints or excludedTaints can be set, but not both"


def _spread(args: Args) -> Iterator[str]:
    yield from _common(args)
    known = " ".join(f"{each}:{{}}" for each in _CONSTRAINTS)
    for each in args.get("constraints") or ():
        if each not in _CONSTRAINTS:
            yield f"constraint {each} is not one of map[{known}]"


def _thresholds(thresholds: Any) -> str | None:
    if not thresholds:
        return "no resource threshold is configured"
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            return f"{name} threshold not in [0, 100] range"
    return None


def _evictable(args: Args) -> Iterator[str]:
    if (args.get("evictableNamespaces") or {}).get("include"):
        yield "only Exclude namespaces can be set, inclusion is not supported"


def _high(args: Args) -> Iterator[str]:
    yield from _evictable(args)
    if error := _thresholds(args.get("thresholds")):
        yield error
    for mode in args.get("evictionModes") or ():
        if mode != "OnlyThresholdingResources":
            yield f"invalid eviction mode {mode}"


def _low(args: Args) -> Iterator[str]:
    yield from _evictable(args)
    low, high = args.get("thresholds") or {}, args.get("targetThresholds") or {}
    if error := _thresholds(low):
        yield f"thresholds config is not valid: {error}"
        return
    if error := _thresholds(high):
        yield f"targetThresholds config is not valid: {error}"
        return
    if low.keys() != high.keys():
        yield "thresholds and targetThresholds configured different resources"
        return
    if not args.get("useDeviationThresholds"):
        for name, percent in low.items():
            if percent > high[name]:
                yield f"thresholds' {name} percentage is greater than targetThresholds'"
                return
    yield from _measured(args.get("metricsUtilization") or {})


def _measured(metrics: Args) -> Iterator[str]:
    source, prometheus = metrics.get("source"), metrics.get("prometheus")
    if source == KUBERNETES and metrics.get("metricsServer"):
        yield f"it is not allowed to set both {quote(KUBERNETES)} source and metricsServer"
    elif source == KUBERNETES and prometheus is not None:
        yield f"prometheus configuration is not allowed to set when source is set to {quote(KUBERNETES)}"
    elif source == PROMETHEUS and not (prometheus or {}).get("query"):
        yield f"prometheus query is required when metrics source is set to {quote(PROMETHEUS)}"


def _default_evictor(args: Args) -> Iterator[str]:
    if error := check_threshold(args):
        yield error
    if args.get("noEvictionPolicy") not in (None, "", *_NO_EVICTION_POLICIES):
        yield f"noEvictionPolicy accepts only [{' '.join(map(quote, _NO_EVICTION_POLICIES))}] values"
    chosen = args.get("podProtections") or {}
    extra, disabled = chosen.get("extraEnabled") or (), chosen.get("defaultDisabled") or ()
    if not extra and not disabled:
        return
    if any(args.get(each) for each in DEPRECATED):
        yield "cannot use Deprecated fields alongside PodProtections.ExtraEnabled or PodProtections.DefaultDisabled"
    for field, given, known in (
        ("ExtraEnabled", extra, EXTRA_PROTECTIONS),
        ("DefaultDisabled", disabled, DEFAULT_PROTECTIONS),
    ):
        for each in given:
            if each not in known:
                options = f"Valid options are: [{' '.join(known)}]"
                yield f"invalid pod protection policy in {field}: {quote(each)}. {options}"
    for field, given in (("DefaultDisabled", disabled), ("ExtraEnabled", extra)):
        if len(given) != len(set(given)):
            yield f"PodProtections.{field} contains duplicate entries"
    if "PodsWithPVC" in extra:
        volumes = (chosen.get("config") or {}).get("PodsWithPVC") or {}
        for index, each in enumerate(volumes.get("protectedStorageClasses") or ()):
            if not each.get("name"):
                yield f"PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[{index}] name cannot be empty"


_CHECKS: Final[dict[str, Callable[[Args], Iterator[str]]]] = {
    DEFAULT_EVICTOR: _default_evictor,
    "HighNodeUtilization": _high,
    "LowNodeUtilization": _low,
    "PodLifeTime": _pod_life_time,
    "RemoveDuplicates": _namespaces,
    "RemovePodsHavingTooManyRestarts": _restarts,
    "RemovePodsViolatingNodeAffinity": _node_affinity,
    "RemovePodsViolatingNodeTaints": _node_taints,
    "RemovePodsViolatingTopologySpreadConstraint": _spread,
}
