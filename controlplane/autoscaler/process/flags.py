"""Flags of cluster-autoscaler, by their own names, as settings.

Upstream: `config/flags/flags.go`. Flags that are not known, and those that have no meaning here, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from controlplane.api.durations import DurationError, parse_duration
from controlplane.autoscaler.expander import FILTERS
from controlplane.autoscaler.options import HOUR, MINUTE, SECOND, Options
from controlplane.autoscaler.process.settings import Settings
from controlplane.errors import UsageError, either, shown, unknown_name

__all__ = ["duration", "fraction", "settings_of", "switch", "text", "whole"]

Read = Callable[[Any], Any]
_GIB: Final = 1 << 30
_EXPANDERS: Final = (*FILTERS, "random")
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}


def duration(value: Any) -> int:
    """Return the nanoseconds of a duration. Raises ValueError with what is expected."""
    try:
        found = parse_duration(value) if isinstance(value, str) else None
    except DurationError:
        found = None
    if found is None and value == 0 and not isinstance(value, bool):
        return 0
    if found is None or found < 0:
        raise ValueError("a duration such as 10m or 90s")
    return found


def whole(value: Any) -> int:
    """Return a whole number, 0 or more. Raises ValueError with what is expected."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError("a whole number, 0 or more")
    return value


def _signed(value: Any) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 31:
        raise ValueError("a whole number")
    return value


def fraction(value: Any) -> float:
    """Return a number, 0 or more. Raises ValueError with what is expected."""
    try:
        found = float(value) if isinstance(value, str | int | float) else -1.0
    except (ValueError, OverflowError):
        found = -1.0
    if isinstance(value, bool) or not 0 <= found < 1e9:
        raise ValueError("a number, 0 or more")
    return found


def switch(value: Any) -> bool:
    """Return a truth value. Raises ValueError with what is expected."""
    found = _BOOLEANS.get(str(value).lower())
    if found is None:
        raise ValueError("true or false")
    return found


def text(value: Any) -> str:
    """Return a text that is not empty. Raises ValueError with what is expected."""
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and each for each in found):
        raise ValueError("text, or a list of texts")
    return tuple(found)


def _expanders(value: Any) -> tuple[str, ...]:
    names = tuple(str(value).split(","))
    if any(name not in _EXPANDERS for name in names):
        raise ValueError(f"{either([*_EXPANDERS])}, or several with commas between them")
    if len({*names}) < len(names):
        raise ValueError("each expander once")
    return names


def _range(value: Any) -> tuple[int, int]:
    low, colon, high = str(value).partition(":")
    if not (colon and low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise ValueError("<min>:<max>")
    return int(low), int(high)


def _drain_priorities(value: Any) -> tuple[tuple[int, int], ...]:
    """Return pairs of priority and seconds, the lowest priority first."""
    found: dict[int, int] = {}
    for each in str(value).split(","):
        priority, _, seconds = each.partition(":")
        if not (_whole_number(priority) and seconds.isdecimal()) or int(priority) in found:
            raise ValueError("<priority>:<seconds>, ... with each priority once, as 1000:120,0:60")
        found[int(priority)] = int(seconds)
    return tuple(sorted(found.items()))


def _whole_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and abs(int(text)) < 1 << 31


_OPTIONS: Final[Mapping[str, tuple[str, Read]]] = {
    "balancing-ignore-label": ("ignored_labels", _texts),
    "balance-similar-node-groups": ("balance_similar", switch),
    "enforce-node-group-min-size": ("enforce_min_size", switch),
    "expander": ("expanders", _expanders),
    "expendable-pods-priority-cutoff": ("expendable_cutoff", _signed),
    "ignore-daemonsets-utilization": ("ignore_daemon_sets_utilization", switch),
    "ignore-mirror-pods-utilization": ("ignore_mirror_pods_utilization", switch),
    "max-bulk-soft-taint-count": ("soft_taints", whole),
    "max-drain-parallelism": ("drain_parallelism", whole),
    "max-node-provision-time": ("provision_time", duration),
    "max-node-startup-time": ("startup_time", duration),
    "max-nodes-per-scaleup": ("most_per_scale_up", whole),
    "max-nodes-total": ("max_nodes", whole),
    "max-scale-down-parallelism": ("parallelism", whole),
    "max-total-unready-percentage": ("unready_percentage", fraction),
    "new-pod-scale-up-delay": ("new_pod_delay", duration),
    "node-delete-delay-after-taint": ("delete_delay_after_taint", duration),
    "ok-total-unready-count": ("unready_count", whole),
    "scale-down-delay-after-add": ("delay_after_add", duration),
    "scale-down-delay-after-delete": ("delay_after_delete", duration),
    "scale-down-delay-after-failure": ("delay_after_failure", duration),
    "scale-down-enabled": ("scale_down_enabled", switch),
    "scale-down-gpu-utilization-threshold": ("gpu_utilization_threshold", fraction),
    "scale-down-unneeded-time": ("unneeded_time", duration),
    "scale-down-unready-enabled": ("scale_down_unready", switch),
    "scale-down-unready-time": ("unready_time", duration),
    "scale-down-utilization-threshold": ("utilization_threshold", fraction),
    "unremovable-node-recheck-timeout": ("recheck_unremovable", duration),
}
_DELETIONS: Final[Mapping[str, tuple[str, Read]]] = {
    "blocking-system-pod-distruption-timeout": ("system_pod_timeout", duration),
    "min-replica-count": ("min_replicas", whole),
    "skip-nodes-with-custom-controller-pods": ("custom_controllers", switch),
    "skip-nodes-with-local-storage": ("local_storage", switch),
    "skip-nodes-with-system-pods": ("system_pods", switch),
}
_SETTINGS: Final[Mapping[str, tuple[str, Read]]] = {
    "capacity-buffer-controller-enabled": ("buffer_controller", switch),
    "capacity-buffer-pod-injection-enabled": ("buffer_injection", switch),
    "capacity-quotas-enabled": ("capacity_quotas", switch),
    "cordon-node-before-terminating": ("cordon", switch),
    "drain-priority-config": ("drain_priorities", _drain_priorities),
    "daemonset-eviction-for-empty-nodes": ("evicts_daemon_sets_of_empty", switch),
    "daemonset-eviction-for-occupied-nodes": ("evicts_daemon_sets_of_occupied", switch),
    "enable-provisioning-requests": ("provisioning_requests", switch),
    "provisioning-request-initial-backoff-time": ("first_request_backoff", duration),
    "provisioning-request-max-backoff-time": ("longest_request_backoff", duration),
    "frequent-loops-enabled": ("frequent_loops", switch),
    "leader-elect": ("elects", switch),
    "max-graceful-termination-sec": (
        "max_graceful_termination",
        lambda value: whole(value) * SECOND,
    ),
    "max-pod-eviction-time": ("max_pod_eviction_time", duration),
    "namespace": ("namespace", text),
    "node-deletion-batcher-interval": ("batcher_interval", duration),
    "node-deletion-delay-timeout": ("deletion_delay_timeout", duration),
    "scale-up-from-zero": ("scale_up_from_zero", switch),
    "scan-interval": ("scan_interval", duration),
    "status-config-map-name": ("status_name", text),
    "write-status-configmap": ("writes_status", switch),
}
_RATIOS: Final[Mapping[str, tuple[str, Read]]] = {
    "max-allocatable-difference-ratio": ("allocatable", fraction),
    "max-free-difference-ratio": ("free", fraction),
    "memory-difference-ratio": ("memory", fraction),
}
_LIMITS: Final[Mapping[str, tuple[str, int]]] = {
    "cores-total": ("cpu", 1),
    "memory-total": ("memory", _GIB),
}
_BACKOFF: Final[Mapping[str, int]] = {
    "initial-node-group-backoff-duration": 5 * MINUTE,
    "max-node-group-backoff-duration": 30 * MINUTE,
    "node-group-backoff-reset-timeout": 3 * HOUR,
}
_BATCHES: Final = "check-capacity-batch-processing"
_BATCH_SIZE: Final = "check-capacity-provisioning-request-max-batch-size"
_TIMEBOX: Final = "check-capacity-provisioning-request-batch-timebox"
_OTHERS: Final = frozenset(
    "address allowed-scheduler-names async-node-groups balancing-label bypassed-scheduler-names"
    " capacity-buffer-pod-dry-run-enabled"
    " check-capacity-processor-instance"
    " cloud-config cloud-provider cluster-name"
    " cluster-snapshot-parallelism debugging-snapshot-enabled"
    " dynamic-node-delete-delay-after-taint-enabled emit-per-nodegroup-metrics"
    " enable-csi-node-aware-scheduling enable-dynamic-resource-allocation enable-proactive-scaleup estimator"
    " fastpath-binpacking-enabled force-delete-failed-nodes force-delete-unregistered-nodes force-ds gpu-total"
    " grpc-expander-cert grpc-expander-url ignore-taint kube-api-content-type kube-client-burst"
    " kube-client-qps kubeconfig kubernetes max-binpacking-time max-bulk-soft-taint-time"
    " max-failing-time max-inactivity max-node-skip-eval-time-tracker-enabled"
    " max-nodegroup-binpacking-duration max-startup-time node-deletion-candidate-ttl node-group-auto-discovery"
    " node-info-cache-expire-time node-removal-latency-tracking-enabled nodes parallel-scale-up"
    " pod-injection-limit predicate-parallelism profiling provisioning-request-max-backoff-cache-size"
    " record-duplicated-events regional salvo-scale-up salvo-scale-up-budget"
    " scale-down-candidates-pool-min-count scale-down-candidates-pool-ratio scale-down-delay-type-local"
    " scale-down-non-empty-candidates-count scale-down-simulation-timeout scale-from-unschedulable"
    " scaleup-simulation-for-skipped-node-groups-enabled scheduler-config-file startup-taint"
    " startup-taint-prefix status-taint user-agent v".split()
)
"""Flags of cluster-autoscaler that are not emulated, or mean nothing in an emulated cluster."""
_READ: Final = (_OPTIONS, _DELETIONS, _SETTINGS, _RATIOS)


def settings_of(flags: Any, where: str) -> Settings:
    """Return the settings of flags: a mapping of their names, or a list as on a command line.

    Args:
        flags: the value of `flags` in a file.
        where: the place, for errors.

    Raises:
        UsageError: a flag is unknown, not supported, or has a value of another kind.
    """
    given = _named(flags, where)
    found: list[dict[str, Any]] = []
    for table in _READ:
        found.append({})
        for name, (field, read) in table.items():
            if name in given:
                found[-1][field] = _value(given.pop(name), read, f"{where}.{name}")
    options, deletions, settings, ratios = found
    limits: dict[str, tuple[int, int]] = {}
    for name, (resource, unit) in _LIMITS.items():
        if name in given:
            low, high = _value(given.pop(name), _range, f"{where}.{name}")
            limits[resource] = (low * unit, high * unit)
    backoff = tuple(
        _value(given.pop(name), duration, f"{where}.{name}") if name in given else default
        for name, default in _BACKOFF.items()
    )
    if _batches(given, where):
        settings["request_batch"] = _value(
            given.pop(_BATCH_SIZE, 10), _positive, f"{where}.{_BATCH_SIZE}"
        )
    if "drain_priorities" in settings and "max_graceful_termination" in settings:
        raise UsageError(
            f"{where}.drain-priority-config: expected it without max-graceful-termination-sec"
        )
    for name in given:
        if name in _OTHERS:
            raise UsageError(f"{where}: cluster-autoscaler's flag {name} is not supported")
        raise UsageError(f"{where}: {unknown_name('flag', name, _names())}")
    base = Options()
    more: dict[str, Any] = {
        "deletions": replace(base.deletions, **deletions),
        "ratios": replace(base.ratios, **ratios),
        "limits": limits,
        "backoff": backoff,
    }
    return Settings(options=replace(base, **{**options, **more}), **settings)


def _batches(given: dict[str, Any], where: str) -> bool:
    """Return whether requests are answered in batches; no time passes in one, so its limit means nothing here."""
    if _TIMEBOX in given:
        _value(given.pop(_TIMEBOX), duration, f"{where}.{_TIMEBOX}")
    if not _value(given.pop(_BATCHES, False), switch, f"{where}.{_BATCHES}"):
        given.pop(_BATCH_SIZE, None)
        return False
    return True


def _positive(value: Any) -> int:
    found = whole(value)
    if not found:
        raise ValueError("a whole number, 1 or more")
    return found


def _names() -> list[str]:
    tables = (name for table in _READ for name in table)
    return [*tables, *_LIMITS, *_BACKOFF, _BATCHES, _BATCH_SIZE, _TIMEBOX]


def _value(value: Any, read: Read, where: str) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise UsageError(f"{where}: {shown(value)}: expected {error}") from None


def _named(flags: Any, where: str) -> dict[str, Any]:
    if flags is None:
        return {}
    if isinstance(flags, Mapping):
        return {str(name).removeprefix("--"): value for name, value in flags.items()}
    if not isinstance(flags, list) or not all(isinstance(each, str) for each in flags):
        raise UsageError(f"{where}: {shown(flags)}: expected flags by name, or a list of texts")
    found: dict[str, Any] = {}
    for each in flags:
        name, equals, value = each.removeprefix("--").partition("=")
        found[name] = value if equals else "true"
    return found
