"""A KubeletConfiguration v1beta1 as a typed value.

Upstream: cmd/kubelet/app/server.go, pkg/kubelet/apis/config. Reading is strict: a field that does not
exist or has another type is refused by its name, and so is what contradicts itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import attrs

from controlplane.api.durations import DurationError, parse_duration
from controlplane.api.quantity import Quantity, QuantityError, parse
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import aggregate, quote
from controlplane.errors import UsageError
from controlplane.gates import LATEST
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.config.fields import (
    API_VERSION,
    DEFAULTS,
    EMULATED,
    EVICTION_HARD,
    FIELDS,
    KIND,
    SIGNALS,
)
from controlplane.kubelet.config.validate import validate
from controlplane.kubelet.features import OTHERS, Features, features

_SINGLE: Final = Struct("f")
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


@attrs.frozen
class Threshold:
    """The threshold of pressure: an amount, or a part of the capacity (0.1 for 10%)."""

    amount: Quantity | None = None
    part: float = 0.0

    def of(self, capacity: Quantity) -> int:
        """Return the amount that must stay free, in whole units of the resource."""
        return self.of_whole(capacity.value())

    def of_whole(self, capacity: int) -> int:
        """The same of a capacity in whole units. Parts are single-precision numbers, as upstream's."""
        if self.amount is not None:
            return self.amount.value()
        return int(float(capacity) * float(_SINGLE.unpack(_SINGLE.pack(self.part))[0]))


@attrs.frozen
class KubeletConfiguration:
    """The configuration, with upstream's defaults. Durations are in nanoseconds."""

    features: Features
    sync_frequency_ns: int
    node_status_update_frequency_ns: int
    node_status_report_frequency_ns: int
    node_lease_duration_s: int
    cpu_manager_policy: str
    cpu_manager_policy_options: Mapping[str, str]
    cpu_manager_reconcile_period_ns: int
    cpu_cfs_quota: bool
    memory_manager_policy: str
    reserved_memory: tuple[MemoryReservation, ...]
    topology_manager_policy: str
    topology_manager_scope: str
    topology_manager_policy_options: Mapping[str, str]
    reserved_system_cpus: CPUSet
    kube_reserved: Mapping[str, Quantity]
    system_reserved: Mapping[str, Quantity]
    max_pods: int
    pods_per_core: int
    eviction_hard: Mapping[str, Threshold]
    eviction_soft: Mapping[str, Threshold]
    eviction_soft_grace_period_ns: Mapping[str, int]
    eviction_minimum_reclaim: Mapping[str, Threshold]
    eviction_pressure_transition_period_ns: int
    eviction_max_pod_grace_period_s: int
    enforce_node_allocatable: tuple[str, ...]
    swap_behavior: str
    register_node: bool
    register_with_taints: tuple[Tree, ...]
    provider_id: str
    static_pod_path: str
    unused: tuple[str, ...] = ()
    """Fields that were given and that no decision here depends on."""


def configuration(
    tree: Mapping[str, Any] | None = None,
    *,
    origin: str = "KubeletConfiguration",
    release: str = LATEST,
) -> KubeletConfiguration:
    """The configuration of a document; the defaults without one. Raises UsageError, one line."""
    given = dict(tree or {"apiVersion": API_VERSION, "kind": KIND})
    try:
        _check_kind(given)
        for name, value in given.items():
            _check_type(name, value)
        return _built(given, release)
    except (UsageError, DurationError, QuantityError) as error:
        raise UsageError(f"{origin}: {error}") from None


def _check_kind(given: Mapping[str, Any]) -> None:
    kind, version = given.get("kind", ""), given.get("apiVersion", "")
    if (kind, version) != (KIND, API_VERSION):
        raise UsageError(
            f"no kind {quote(str(kind))} is registered for version {quote(str(version))}"
        )


def _check_type(name: str, value: Any) -> None:
    wanted = FIELDS.get(name)
    if wanted is None:
        raise UsageError(f"strict decoding error: unknown field {quote(name)}")
    if value is None:
        return
    number = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        "bool": isinstance(value, bool),
        "int32": number,
        "float64": number or isinstance(value, float),
        "string": isinstance(value, str),
        "Duration": isinstance(value, str),
        "object": isinstance(value, dict),
        "[]string": isinstance(value, list) and all(isinstance(v, str) for v in value),
        "[]object": isinstance(value, list) and all(isinstance(v, dict) for v in value),
        "map[string]string": isinstance(value, dict)
        and all(isinstance(v, str) for v in value.values()),
        "map[string]bool": isinstance(value, dict)
        and all(isinstance(v, bool) for v in value.values()),
    }[wanted]
    if not fits:
        raise UsageError(f"{name}: expected {wanted}, got {value!r}")


def _built(given: Mapping[str, Any], release: str) -> KubeletConfiguration:
    values = {**DEFAULTS, **{k: v for k, v in given.items() if v not in (None, "", [], {})}}
    for name, kind in FIELDS.items():
        if kind == "int32" and given.get(name) == 0 and name in _ZERO_IS_UNSET:
            values[name] = DEFAULTS[name]
        if kind == "Duration" and parse_duration(values[name]) == 0:
            values[name] = DEFAULTS[name]
    if "nodeStatusReportFrequency" not in given and "nodeStatusUpdateFrequency" in given:
        values["nodeStatusReportFrequency"] = values["nodeStatusUpdateFrequency"]
    gates = {
        name: value
        for name, value in (values.get("featureGates") or {}).items()
        if name not in OTHERS
    }
    enabled = features(gates, release)
    durations = {
        name: parse_duration(values[name]) for name, k in FIELDS.items() if k == "Duration"
    }
    errors = validate(values, durations, enabled)
    if errors:
        raise UsageError(aggregate(errors))
    reserved = CPUSet.parse(values["reservedSystemCPUs"])
    kube = _reserved("kube-reserved", values.get("kubeReserved"))
    system = _reserved("system-reserved", values.get("systemReserved"))
    if reserved:
        # The list stands for both reservations of CPUs.
        kube.pop("cpu", None)
        system["cpu"] = Quantity.new(len(reserved))
    hard = values.get("evictionHard")
    if hard is None:
        hard = EVICTION_HARD
    elif values["mergeDefaultEvictionSettings"]:
        hard = {**EVICTION_HARD, **hard}
    soft, grace = values.get("evictionSoft") or {}, values.get("evictionSoftGracePeriod") or {}
    for signal in soft:
        if signal not in grace:
            raise UsageError(
                f"grace period must be specified for the soft eviction threshold {signal}"
            )
    return KubeletConfiguration(
        features=enabled,
        sync_frequency_ns=durations["syncFrequency"],
        node_status_update_frequency_ns=durations["nodeStatusUpdateFrequency"],
        node_status_report_frequency_ns=durations["nodeStatusReportFrequency"],
        node_lease_duration_s=values["nodeLeaseDurationSeconds"],
        cpu_manager_policy=values["cpuManagerPolicy"],
        cpu_manager_policy_options=values.get("cpuManagerPolicyOptions", EMPTY_MAP),
        cpu_manager_reconcile_period_ns=durations["cpuManagerReconcilePeriod"],
        cpu_cfs_quota=values["cpuCFSQuota"],
        memory_manager_policy=values["memoryManagerPolicy"],
        reserved_memory=tuple(
            MemoryReservation(
                each.get("numaNode", 0),
                {name: parse(str(text)) for name, text in (each.get("limits") or {}).items()},
            )
            for each in values.get("reservedMemory", ())
        ),
        topology_manager_policy=values["topologyManagerPolicy"],
        topology_manager_scope=values["topologyManagerScope"],
        topology_manager_policy_options=values.get("topologyManagerPolicyOptions", EMPTY_MAP),
        reserved_system_cpus=reserved or EMPTY,
        kube_reserved=kube,
        system_reserved=system,
        max_pods=values["maxPods"],
        pods_per_core=values["podsPerCore"],
        eviction_hard=_thresholds(hard),
        eviction_soft=_thresholds(soft),
        eviction_soft_grace_period_ns=_grace_periods(grace),
        eviction_minimum_reclaim=_minimum_reclaims(values.get("evictionMinimumReclaim") or {}),
        eviction_pressure_transition_period_ns=durations["evictionPressureTransitionPeriod"],
        eviction_max_pod_grace_period_s=values["evictionMaxPodGracePeriod"],
        enforce_node_allocatable=tuple(values["enforceNodeAllocatable"]),
        swap_behavior=(values.get("memorySwap") or {}).get("swapBehavior") or "NoSwap",
        register_node=values["registerNode"],
        register_with_taints=tuple(values.get("registerWithTaints", ())),
        provider_id=values["providerID"],
        static_pod_path=values["staticPodPath"],
        unused=tuple(name for name in given if name not in EMULATED),
    )


_ZERO_IS_UNSET: Final = (
    "eventBurst", "kubeAPIBurst", "maxOpenFiles", "maxPods", "nodeLeaseDurationSeconds", "port",
    "registryBurst",
)  # fmt: skip
"""Numbers whose 0 Go cannot tell from nothing; they get their default."""


def _reserved(flag: str, given: Mapping[str, str] | None) -> dict[str, Quantity]:
    found = {}
    for name, text in (given or {}).items():
        try:
            if name not in _RESERVABLE:
                raise UsageError(f"cannot reserve {quote(name)} resource")
            try:
                quantity = parse(text)
            except QuantityError as error:
                raise UsageError(
                    f"failed to parse quantity {quote(text)} for {quote(name)} resource: {error}"
                ) from None
            if quantity.sign() < 0:
                raise UsageError(f"resource quantity for {quote(name)} cannot be negative: {text}")
        except UsageError as error:
            raise UsageError(f"--{flag} value failed to parse: {error}") from None
        found[name] = quantity
    return found


def _thresholds(given: Mapping[str, str]) -> dict[str, Threshold]:
    """Thresholds by signal; 0% and 100% turn one off."""
    found = {}
    for signal, text in given.items():
        _known(signal)
        if text.endswith("%"):
            if text in ("0%", "100%"):
                continue
            try:
                part = float(text[:-1]) / 100
            except ValueError:
                raise UsageError(
                    f"eviction threshold {signal}: {quote(text)} is no number"
                ) from None
            if part < 0:
                raise UsageError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
            if part > 1:
                raise UsageError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
            found[signal] = Threshold(part=part)
            continue
        amount = parse(text)
        if amount.sign() < 0 or amount.is_zero():
            raise UsageError(f"eviction threshold {signal} must be positive: {text}")
        found[signal] = Threshold(amount)
    return found


def _known(signal: str) -> str:
    if signal not in SIGNALS:
        raise UsageError(f"unsupported eviction signal {signal}")
    return signal


def _grace_periods(given: Mapping[str, str]) -> dict[str, int]:
    """Return the time for which a soft threshold must have been met, by signal."""
    found = {}
    for signal, text in given.items():
        found[_known(signal)] = parse_duration(text)
        if found[signal] < 0:
            raise UsageError(
                f"invalid eviction grace period specified: {text}, must be a positive value"
            )
    return found


def _minimum_reclaims(given: Mapping[str, str]) -> dict[str, Threshold]:
    """Return the amount beyond a threshold that is freed once it was met, by signal."""
    found = {}
    for signal, text in given.items():
        _known(signal)
        if text.endswith("%"):
            try:
                part = float(text[:-1]) / 100
            except ValueError:
                raise UsageError(
                    f"eviction minimum reclaim {signal}: {quote(text)} is no number"
                ) from None
            if part <= 0:
                raise UsageError(
                    f"eviction percentage minimum reclaim {signal} must be positive: {text}"
                )
            found[signal] = Threshold(part=part)
            continue
        amount = parse(text)
        if amount.sign() < 0:
            raise UsageError(f"negative eviction minimum reclaim specified for {signal}")
        found[signal] = Threshold(amount)
    return found
