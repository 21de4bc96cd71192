"""Errors of a configuration whose types are right.

Upstream: pkg/kubelet/apis/config/validation; the messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.durations import DurationError, format_duration, parse_duration
from controlplane.api.pod_resources import HUGE_PAGES, MEMORY
from controlplane.api.quantity import QuantityError, parse
from controlplane.api.times import SECOND
from controlplane.api.validation import quote
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.features import Features

_NOT_NEGATIVE: Final = {
    "eventBurst": "event-burst",
    "eventRecordQPS": "event-qps",
    "kubeAPIBurst": "kube-api-burst",
    "kubeAPIQPS": "kube-api-qps",
    "maxOpenFiles": "max-open-files",
    "maxPods": "max-pods",
    "podsPerCore": "pods-per-core",
    "registryBurst": "registry-burst",
    "registryPullQPS": "registry-qps",
}
_RANGES: Final = {
    "imageGCHighThresholdPercent": ("image-gc-high-threshold", 0, 100),
    "imageGCLowThresholdPercent": ("image-gc-low-threshold", 0, 100),
    "iptablesDropBit": ("iptables-drop-bit", 0, 31),
    "iptablesMasqueradeBit": ("iptables-masquerade-bit", 0, 31),
    "oomScoreAdj": ("oom-score-adj", -1000, 1000),
    "port": ("port", 1, 65535),
}
_CHOICES: Final = {
    "topologyManagerPolicy": (
        "topology-manager-policy",
        ("none", "best-effort", "restricted", "single-numa-node"),
    ),
}
_NONE: Final = "none"
_ENFORCEMENTS: Final = (
    "pods", "system-reserved", "system-reserved-compressible", "kube-reserved",
    "kube-reserved-compressible", _NONE,
)  # fmt: skip

Values = Mapping[str, Any]


def validate(values: Values, durations: Mapping[str, int], features: Features) -> list[str]:
    """All violations, each a line that begins with `invalid configuration: `."""
    found = [
        *_numbers(values),
        *_times(values, durations),
        *_choices(values, features),
        *_enforcement(values),
        *_reservations(values),
    ]
    return [f"invalid configuration: {text}" for text in found]


def _numbers(values: Values) -> list[str]:
    found = []
    if values["nodeLeaseDurationSeconds"] <= 0:
        found.append("nodeLeaseDurationSeconds must be greater than 0")
    if values["systemCgroups"] and not values["cgroupRoot"]:
        found.append(
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not "
            "specified"
        )
    for name, flag in _NOT_NEGATIVE.items():
        if values[name] < 0:
            found.append(f"{name} (--{flag}) {values[name]} must not be a negative number")
    for name, (flag, low, high) in _RANGES.items():
        if not low <= values[name] <= high:
            found.append(
                f"{name} (--{flag}) {values[name]} must be between {low} and {high}, inclusive"
            )
    high, low = values["imageGCHighThresholdPercent"], values["imageGCLowThresholdPercent"]
    if low >= high:
        found.append(
            f"imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than "
            f"imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )
    if values["nodeStatusMaxImages"] < -1:
        found.append(
            "nodeStatusMaxImages (--node-status-max-images) "
            f"{values['nodeStatusMaxImages']} must be -1 or greater"
        )
    for name, flag, first in (
        ("healthzPort", "healthz-port", 1),
        ("readOnlyPort", "read-only-port", 0),
    ):
        if values[name] != 0 and not 1 <= values[name] <= 65535:
            found.append(
                f"{name} (--{flag}) {values[name]} must be between {first} and 65535, inclusive"
            )
    pulls = values.get("maxParallelImagePulls")
    if pulls is not None and pulls < 1:
        found.append(f"maxParallelImagePulls {pulls} must be a positive number")
    if values["runOnce"]:
        found.append(
            "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"
        )
    if values["containerLogMaxWorkers"] < 1:
        found.append("containerLogMaxWorkers must be greater than or equal to 1")
    if values["containerLogMaxFiles"] <= 1:
        found.append("containerLogMaxFiles must be greater than 1")
    factor = values["memoryThrottlingFactor"]
    if not 0 < factor <= 1:
        found.append(
            f"memoryThrottlingFactor {factor} must be greater than 0 and less than or equal to 1.0"
        )
    return found


def _times(values: Values, durations: Mapping[str, int]) -> list[str]:
    found = []
    for name in ("imageMinimumGCAge", "imageMaximumGCAge"):
        if durations[name] < 0:
            found.append(f"{name} {format_duration(durations[name])} must not be negative")
    oldest, youngest = durations["imageMaximumGCAge"], durations["imageMinimumGCAge"]
    if 0 < oldest <= youngest:
        found.append(
            f"imageMaximumGCAge {format_duration(oldest)} must be greater than imageMinimumGCAge "
            f"{format_duration(youngest)}"
        )
    whole, critical = durations["shutdownGracePeriod"], durations["shutdownGracePeriodCriticalPods"]
    if critical > whole:
        found.append(
            f"shutdownGracePeriodCriticalPods {{{format_duration(critical)}}} must be <= "
            f"shutdownGracePeriod {{{format_duration(whole)}}}"
        )
    for name in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods"):
        if durations[name] < 0 or 0 < durations[name] < SECOND:
            found.append(
                f"{name} {{{format_duration(durations[name])}}} must be either zero or otherwise "
                ">= 1 sec"
            )
    if values.get("shutdownGracePeriodByPodPriority") and (whole > 0 or critical > 0):
        found.append(
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the "
            "same time"
        )
    if durations["containerLogMonitorInterval"] < 3 * SECOND:
        found.append(
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
        )
    longest = (values.get("crashLoopBackOff") or {}).get("maxContainerRestartPeriod")
    if longest is not None:
        try:
            seconds = parse_duration(str(longest)) / SECOND
        except DurationError as error:
            return [*found, f"CrashLoopBackOff.MaxContainerRestartPeriod: {error}"]
        if not 1 <= seconds <= 300:
            found.append(
                f"CrashLoopBackOff.MaxContainerRestartPeriod (got: {seconds:g} seconds) must be set "
                "between 1s and 300s"
            )
    return found


def _choices(values: Values, features: Features) -> list[str]:
    found = []
    for name, (flag, choices) in _CHOICES.items():
        if values[name] not in choices:
            listed = " ".join(map(quote, choices))
            found.append(f"{name} (--{flag}) {quote(values[name])} must be one of: [{listed}]")
    scope = values["topologyManagerScope"]
    if scope not in ("container", "pod"):
        found.append(
            f"topologyManagerScope (--topology-manager-scope) {quote(scope)} must be one of: "
            '"container", or "pod"'
        )
    swap = (values.get("memorySwap") or {}).get("swapBehavior", "")
    if swap and not features.enabled("NodeSwap"):
        found.append("memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled")
    elif swap not in ("", "NoSwap", "LimitedSwap"):
        found.append(
            f'memorySwap.swapBehavior {quote(swap)} must be one of: "", "LimitedSwap" or "NoSwap"'
        )
    mode = values["hairpinMode"]
    modes = ("none", "hairpin-veth", "promiscuous-bridge")
    if mode not in modes:
        first, second, third = map(quote, modes)
        found.append(
            f"option {quote(mode)} specified for hairpinMode (--hairpin-mode). Valid options are "
            f"{first}, {second} or {third}"
        )
    return found


def _enforcement(values: Values) -> list[str]:
    found = []
    listed = values["enforceNodeAllocatable"]
    where = "enforceNodeAllocatable (--enforce-node-allocatable)"
    for side in ("system", "kube"):
        both = (f"{side}-reserved", f"{side}-reserved-compressible")
        if all(each in listed for each in both):
            found.append(
                f"both {quote(both[0])} and {quote(both[1])} cannot be specified together in {where}"
            )
    seen: dict[str, None] = {}
    for each in listed:
        if each in seen:
            found.append(f"duplicated enforcements {quote(each)} in {where}")
            continue
        seen[each] = None
        if each == _NONE:
            if len(listed) > 1:
                found.append(
                    f"{where} may not contain additional enforcements when {quote(_NONE)} is specified"
                )
            continue
        if each not in _ENFORCEMENTS:
            *most, last = map(quote, _ENFORCEMENTS)
            found.append(
                f"option {quote(each)} specified for {where}. Valid options are "
                f"{', '.join(most)} or {last}"
            )
            continue
        for side in ("system", "kube"):
            if each.startswith(f"{side}-reserved") and not values[f"{side}ReservedCgroup"]:
                found.append(
                    f"{side}ReservedCgroup (--{side}-reserved-cgroup) must be specified when "
                    f'"{side}-reserved" or "{side}-reserved-compressible" included in {where}'
                )
        if not values["cgroupsPerQOS"]:
            found.append(
                "cgroupsPerQOS (--cgroups-per-qos) must be set to true when "
                f"{quote(each)} contained in {where}"
            )
    return found


def _reservations(values: Values) -> list[str]:
    found = []
    cpus = values["reservedSystemCPUs"]
    if cpus:
        if values["systemReservedCgroup"] or values["kubeReservedCgroup"]:
            found.append(
                "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
                "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"
            )
        try:
            CPUSet.parse(cpus)
        except ValueError as error:
            found.append(
                f"unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {error}"
            )
    seen: dict[tuple[int, str], None] = {}
    for each in values.get("reservedMemory", ()):
        node = each.get("numaNode", 0)
        for name, text in sorted((each.get("limits") or {}).items()):
            if name != MEMORY and not name.startswith(HUGE_PAGES):
                found.append(
                    f"the limit type {quote(name)} for NUMA node {node} is not supported, only "
                    f"[{MEMORY} {HUGE_PAGES}<HugePageSize>] is accepted"
                )
            try:
                zero = parse(str(text)).is_zero()
            except QuantityError as error:
                found.append(f"reservedMemory of NUMA node {node}: {quote(name)}: {error}")
                continue
            if zero:
                found.append(
                    f"reserved memory may not be zero for NUMA node {node} and resource {quote(name)}"
                )
            if (node, name) in seen:
                found.append(
                    f"the reserved memory has a duplicate value for NUMA node {node} and resource "
                    f"{quote(name)}"
                )
            seen[node, name] = None
    return found
