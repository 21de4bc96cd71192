"""A configuration file: Configuration of config.kueue.x-k8s.io/v1beta2, read strictly.

Every field that has a meaning in a world is taken; others (addresses, certificates, MultiKueue, ...) are refused by
name. Follows `apis/config/v1beta2` and `pkg/config/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from controlplane.api.decoding import decode
from controlplane.api.durations import parse_duration
from controlplane.api.labels import Selector, SelectorError, from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.quantity import QuantityError, parse
from controlplane.api.times import SECOND
from controlplane.api.yaml_files import read_document
from controlplane.client.election import ElectionConfig
from controlplane.errors import UsageError, shown
from controlplane.kueue.controllers.workload import WaitForPodsReady
from controlplane.kueue.gates import GateError, Gates
from controlplane.kueue.jobs.ancestors import BUILT_IN
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.process.settings import ELECTION, Settings, managed_namespaces
from controlplane.kueue.queues.usage import FairSharing
from controlplane.kueue.workload.requests import RequestOptions

__all__ = ["ConfigurationError", "load", "settings_of"]

API_VERSION: Final = "config.kueue.x-k8s.io/v1beta2"
KIND: Final = "Configuration"
DEFAULT: Final = {"apiVersion": API_VERSION, "kind": KIND}
"""The configuration of a process without a file."""
DEFAULT_TIMEOUT: Final = 30 * 60 * SECOND
DEFAULT_SAMPLING: Final = 300.0
STRATEGIES: Final = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "": (
        "admissionFairSharing", "apiVersion", "controller", "fairSharing", "featureGates", "integrations", "kind",
        "leaderElection", "manageJobsWithoutQueueName", "managedJobsNamespaceSelector", "metrics", "namespace",
        "objectRetentionPolicies", "resources", "waitForPodsReady",
    ),
    "admissionFairSharing": ("resourceWeights", "usageHalfLifeTime", "usageSamplingInterval"),
    "controller": ("groupKindConcurrency",),
    "fairSharing": ("preemptionStrategies",),
    "integrations": ("frameworks",),
    "leaderElection": (
        "leaderElect", "leaseDuration", "renewDeadline", "resourceName", "resourceNamespace", "retryPeriod",
    ),
    "metrics": ("enableClusterQueueResources", "localQueueMetrics"),
    "metrics.localQueueMetrics": ("enable", "localQueueSelector"),
    "objectRetentionPolicies": ("workloads",),
    "objectRetentionPolicies.workloads": ("afterDeactivatedByKueue", "afterFinished"),
    "resources": ("excludeResourcePrefixes", "quotaCheckStrategy", "transformations"),
    "waitForPodsReady": ("blockAdmission", "recoveryTimeout", "requeuingStrategy", "timeout"),
    "waitForPodsReady.requeuingStrategy": (
        "backoffBaseSeconds", "backoffLimitCount", "backoffMaxSeconds", "timestamp",
    ),
}  # fmt: skip
"""The fields of each part."""
_TRANSFORMATION: Final = ("input", "multiplyBy", "outputs", "strategy")
POD: Final = "pod"
_NEEDS_PODS: Final = frozenset(("deployment", "statefulset"))
"""Frameworks that hold the pods of their objects back, and so bring the framework of pods with them."""


class ConfigurationError(ValueError):
    """A configuration that is not valid; the text names the field."""


def load(path: Path | None) -> Settings:
    """Read a configuration file; without one everything has its default.

    Raises:
        UsageError: The file or a field in it is wrong; the text names both.
    """
    return settings_of(DEFAULT if path is None else read(path))


def read(path: Path) -> Any:
    """Return the tree of a configuration file that `settings_of` takes.

    Raises:
        UsageError: The file or a field in it is wrong; the text names both.
    """
    tree = read_document(path)
    try:
        settings_of(tree)
    except ConfigurationError as error:
        raise UsageError(f"{path}: {error}") from None
    return tree


def settings_of(tree: Any) -> Settings:
    """Return the settings of the process from a configuration.

    Raises:
        ConfigurationError: A field is unknown or has a value that it cannot have.
    """
    top = _part({"": tree}, "", "")
    if (top.get("apiVersion"), top.get("kind")) != (API_VERSION, KIND):
        found = f"{shown(str(top.get('apiVersion')))}, {shown(str(top.get('kind')))}"
        raise ConfigurationError(f"apiVersion, kind: {found}: expected {API_VERSION}, {KIND}")
    gates = _gates(top)
    waiting = _part(top, "waitForPodsReady", "")
    retention = _part(
        _part(top, "objectRetentionPolicies", ""), "workloads", "objectRetentionPolicies"
    )
    resources = _part(top, "resources", "")
    integrations = _part(top, "integrations", "")
    frameworks = _frameworks(integrations)
    return Settings(
        gates=gates,
        requests=_requests(resources),
        strategies=_strategies(top),
        sharing=_sharing(top),
        pods_ready=None if gates.enabled("DisableWaitForPodsReady") else _pods_ready(waiting),
        by_eviction=_by_eviction(waiting),
        retention=_duration(retention, "afterFinished", "objectRetentionPolicies.workloads"),
        quota_check=_word(
            resources, "quotaCheckStrategy", "resources", ("BlockUndeclared", "IgnoreUndeclared")
        ),
        frameworks=frameworks,
        implied_pods=POD in frameworks and POD not in (integrations.get("frameworks") or ()),
        all_jobs=_typed(top, "manageJobsWithoutQueueName", "", bool, "true or false") or False,
        namespaces=_namespaces(top),
        deactivated_retention=_duration(
            retention, "afterDeactivatedByKueue", "objectRetentionPolicies.workloads"
        ),
        election=_election(top),
        metrics=_metrics(_part(top, "metrics", "")),
        workers=_workers(_part(top, "controller", "")),
    )


# -- parts -----------------------------------------------------------------------------------------


def _gates(top: Mapping[str, Any]) -> Gates:
    given = _typed(top, "featureGates", "", dict, "a map") or {}
    for name, value in given.items():
        if not isinstance(value, bool):
            raise _wrong(f"featureGates.{name}", value, "true or false")
    try:
        return Gates(given)
    except GateError as error:
        raise ConfigurationError(f"featureGates: {error}") from None


def _pods_ready(waiting: Mapping[str, Any]) -> WaitForPodsReady:
    at = "waitForPodsReady"
    again = _part(waiting, "requeuingStrategy", at)
    deeper = f"{at}.requeuingStrategy"
    timeout = _duration(waiting, "timeout", at)
    timeout = DEFAULT_TIMEOUT if timeout is None else timeout
    recovery = _duration(waiting, "recoveryTimeout", at)
    base = _number(again, "backoffBaseSeconds", deeper)
    longest = _number(again, "backoffMaxSeconds", deeper)
    return WaitForPodsReady(
        timeout=timeout,
        recovery_timeout=timeout if recovery is None else recovery,
        backoff_limit=_number(again, "backoffLimitCount", deeper),
        backoff_base_seconds=60 if base is None else base,
        backoff_max_seconds=3600 if longest is None else longest,
        block_admission=_typed(waiting, "blockAdmission", at, bool, "true or false") or False,
    )


def _by_eviction(waiting: Mapping[str, Any]) -> bool:
    at = "waitForPodsReady.requeuingStrategy"
    again = _part(waiting, "requeuingStrategy", "waitForPodsReady")
    return _word(again, "timestamp", at, ("Eviction", "Creation")) != "Creation"


def _strategies(top: Mapping[str, Any]) -> tuple[str, ...] | None:
    if top.get("fairSharing") is None:
        return None
    part = _part(top, "fairSharing", "")
    given = tuple(_texts(part, "preemptionStrategies", "fairSharing")) or STRATEGIES
    if given not in (STRATEGIES, STRATEGIES[:1], STRATEGIES[1:]):
        allowed = f"one or both of {', '.join(STRATEGIES)}, in this order"
        raise _wrong("fairSharing.preemptionStrategies", list(given), allowed)
    return given


def _sharing(top: Mapping[str, Any]) -> FairSharing | None:
    if top.get("admissionFairSharing") is None:
        return None
    at = "admissionFairSharing"
    part = _part(top, at, "")
    interval = _duration(part, "usageSamplingInterval", at)
    weights = _typed(part, "resourceWeights", at, dict, "a map") or {}
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            raise _wrong(f"{at}.resourceWeights.{name}", weight, "a number from 0 on")
    return FairSharing(
        (_duration(part, "usageHalfLifeTime", at) or 0) / SECOND,
        DEFAULT_SAMPLING if interval is None else interval / SECOND,
        {name: float(weight) for name, weight in weights.items()},
    )


def _requests(resources: Mapping[str, Any]) -> RequestOptions:
    rules = _typed(resources, "transformations", "resources", list, "a list") or []
    seen: list[str] = []
    for number, each in enumerate(rules):
        where = f"resources.transformations[{number}]"
        if not isinstance(each, dict):
            raise _wrong(where, each, "a map")
        for name in each:
            if name not in _TRANSFORMATION:
                raise _unknown(f"{where}.{name}", _TRANSFORMATION)
        resource = _typed(each, "input", where, str, "the name of a resource")
        if not resource or resource in seen:
            raise _wrong(f"{where}.input", resource, "a resource that no other rule has")
        seen.append(resource)
        _word(each, "strategy", where, ("Retain", "Replace"))
        for name, amount in (_typed(each, "outputs", where, dict, "a map") or {}).items():
            try:
                parse(str(amount))
            except QuantityError:
                raise _wrong(f"{where}.outputs.{name}", amount, "a quantity") from None
    _texts(resources, "excludeResourcePrefixes", "resources")
    return RequestOptions.from_config(dict(resources))


def _frameworks(integrations: Mapping[str, Any]) -> tuple[str, ...]:
    given = _texts(integrations, "frameworks", "integrations")
    for number, name in enumerate(given):
        where = f"integrations.frameworks[{number}]"
        if name not in BUILT_IN:
            raise _wrong(where, name, f"one of {', '.join(sorted(BUILT_IN))}")
        if name in given[:number]:
            raise ConfigurationError(f"{where}: {shown(name)} twice")
    if set(given) & _NEEDS_PODS and POD not in given:
        return (*given, POD)
    return tuple(given) or ("batch/job",)


def _namespaces(top: Mapping[str, Any]) -> Selector:
    own = _typed(top, "namespace", "", str, "the name of a namespace") or "kueue-system"
    tree = _typed(top, "managedJobsNamespaceSelector", "", dict, "a label selector")
    if tree is None:
        return managed_namespaces(own)
    return _selector(tree, "managedJobsNamespaceSelector")


def _election(top: Mapping[str, Any]) -> ElectionConfig:
    at = "leaderElection"
    given = _part(top, at, "")
    if given.get("leaderElect") not in (None, True):
        raise _wrong(
            f"{at}.leaderElect", given["leaderElect"], "true: of several replicas one leads"
        )
    lease, deadline, retry = (
        _duration(given, name, at) for name in ("leaseDuration", "renewDeadline", "retryPeriod")
    )
    text = "a name"
    try:
        return ElectionConfig(
            _typed(given, "resourceName", at, str, text) or ELECTION.name,
            _typed(given, "resourceNamespace", at, str, text) or ELECTION.namespace,
            lease or ELECTION.lease_ns,
            deadline or ELECTION.renew_deadline_ns,
            retry or ELECTION.retry_ns,
            release_on_cancel=True,
        )
    except ValueError as error:
        raise ConfigurationError(f"{at}: {str(error).partition(': ')[2]}") from None


def _metrics(given: Mapping[str, Any]) -> MetricsOptions:
    local = _part(given, "localQueueMetrics", "metrics")
    at = "metrics.localQueueMetrics"
    tree = _typed(local, "localQueueSelector", at, dict, "a label selector")
    return MetricsOptions(
        _typed(given, "enableClusterQueueResources", "metrics", bool, "true or false") or False,
        not local or _typed(local, "enable", at, bool, "true or false") or False,
        None if tree is None else _selector(tree, f"{at}.localQueueSelector"),
    )


def _selector(tree: dict[str, Any], where: str) -> Selector:
    try:
        return from_label_selector(decode(LabelSelector, tree))
    except (SelectorError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _workers(controller: Mapping[str, Any]) -> int:
    at = "controller.groupKindConcurrency"
    given = _typed(controller, "groupKindConcurrency", "controller", dict, "a map") or {}
    name = "Workload.kueue.x-k8s.io"
    for other in given:
        if other != name:
            raise _unknown(f"{at}.{other}", (name,))
    return _number(given, name, at) or Settings().workers


# -- fields ----------------------------------------------------------------------------------------


def _wrong(where: str, found: Any, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{where}: {shown(str(found))}: expected {expected}")


def _unknown(where: str, known: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(f"{where}: has no meaning here; known are {', '.join(known)}")


def _place(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _part(tree: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """A part of the configuration, empty when absent; its fields are known ones."""
    place = _place(where, name)
    found = tree.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _wrong(place or "the configuration", found, "a map")
    for field in found:
        if field not in _KNOWN[place]:
            raise _unknown(_place(place, str(field)), _KNOWN[place])
    return found


def _typed(tree: Mapping[str, Any], name: str, where: str, kind: type, expected: str) -> Any:
    """A field of one type, None when absent."""
    found = tree.get(name)
    if found is not None and not isinstance(found, kind):
        raise _wrong(_place(where, name), found, expected)
    return found


def _texts(tree: Mapping[str, Any], name: str, where: str) -> list[str]:
    found: list[str] = _typed(tree, name, where, list, "a list") or []
    for each in found:
        if not isinstance(each, str):
            raise _wrong(_place(where, name), each, "texts")
    return found


def _word(tree: Mapping[str, Any], name: str, where: str, words: Sequence[str]) -> str:
    found = tree.get(name)
    if found is not None and found not in words:
        raise _wrong(_place(where, name), found, f"one of {', '.join(words)}")
    return found or ""


def _number(tree: Mapping[str, Any], name: str, where: str) -> int | None:
    found = tree.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise _wrong(_place(where, name), found, "a number from 0 on")
    return found


def _duration(tree: Mapping[str, Any], name: str, where: str) -> int | None:
    """Nanoseconds of a duration such as 5m, None when absent."""
    found = tree.get(name)
    if found is None:
        return None
    try:
        length = parse_duration(found) if isinstance(found, str) else -1
    except ValueError:
        length = -1
    if length < 0:
        raise _wrong(_place(where, name), found, "a duration such as 5m")
    return length
