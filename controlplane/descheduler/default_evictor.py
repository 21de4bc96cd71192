"""DefaultEvictor: the protections of pods against eviction.

Follows `pkg/framework/plugins/defaultevictor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from controlplane.api.durations import format_duration, parse_duration
from controlplane.api.labels import Selector, SelectorError
from controlplane.api.labels import parse as parse_selector
from controlplane.api.pod import CONFIG_MIRROR, CONFIG_SOURCE, SYSTEM_CRITICAL, Pod
from controlplane.api.times import SECOND
from controlplane.descheduler.args import selector_of
from controlplane.descheduler.node import PREFER_NO_EVICTION, fits_any_other
from controlplane.descheduler.world import World, is_ready

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
DEFAULT_PROTECTIONS: Final = (
    "PodsWithLocalStorage",
    "SystemCriticalPods",
    "FailedBarePods",
    "DaemonSetPods",
)
EXTRA_PROTECTIONS: Final = ("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")
_DISABLING: Final = {
    "evictLocalStoragePods": "PodsWithLocalStorage",
    "evictSystemCriticalPods": "SystemCriticalPods",
    "evictFailedBarePods": "FailedBarePods",
    "evictDaemonSetPods": "DaemonSetPods",
}
_ENABLING: Final = {"ignorePvcPods": "PodsWithPVC", "ignorePodsWithoutPDB": "PodsWithoutPDB"}
DEPRECATED: Final = (*_DISABLING, *_ENABLING)
"""Fields that say in an older way which protections there are."""


def protections(args: dict[str, Any]) -> tuple[str, ...]:
    """The protections that are active, in the order of their checks."""
    chosen = args.get("podProtections") or {}
    extra, disabled = chosen.get("extraEnabled") or (), chosen.get("defaultDisabled") or ()
    if not extra and not disabled:
        disabled = [name for field, name in _DISABLING.items() if args.get(field)]
        extra = [name for field, name in _ENABLING.items() if args.get(field)]
    standing = [name for name in DEFAULT_PROTECTIONS if name not in disabled]
    return (*standing, *(name for name in EXTRA_PROTECTIONS if name in extra))


class DefaultEvictor:
    """Decides for each pod whether it may be evicted; `args` are those of the policy.

    SelectorError for a label selector that cannot be read. A node selector that cannot be read lets no pod go
    where it is asked for, as upstream's does.
    """

    def __init__(self, world: World, args: dict[str, Any]) -> None:
        self._world = world
        self._args = args
        self._active = protections(args)
        self._threshold = (args.get("priorityThreshold") or {}).get("value")
        self._selector = selector_of(args.get("labelSelector"))
        try:
            self._namespaces = selector_of(args.get("namespaceLabelSelector"))
        except SelectorError as error:
            text = "unable to convert namespaceLabelSelector to label selector"
            raise SelectorError(f"{text}: {error}") from None
        self._nodes: Selector | None = None
        with suppress(SelectorError):
            self._nodes = parse_selector(args.get("nodeSelector") or "")
        age = args.get("minPodAge")
        self._min_age = None if age is None else parse_duration(age)
        config = (args.get("podProtections") or {}).get("config") or {}
        classes = (config.get("PodsWithPVC") or {}).get("protectedStorageClasses") or ()
        self._classes = tuple(each["name"] for each in classes)

    def filter(self, pod: Pod) -> bool:
        """Return whether the pod may be evicted."""
        if EVICT in pod.metadata.annotations:
            return True
        return not self._refused_by_annotation(pod) and not self.checks(pod)

    def _refused_by_annotation(self, pod: Pod) -> bool:
        mandatory = self._args.get("noEvictionPolicy") == "Mandatory"
        return mandatory and PREFER_NO_EVICTION in pod.metadata.annotations

    def reasons(self, pod: Pod) -> list[str]:
        """The reasons that are logged: none where an annotation decides."""
        if EVICT in pod.metadata.annotations or self._refused_by_annotation(pod):
            return []
        return self.checks(pod)

    def checks(self, pod: Pod) -> list[str]:
        """All reasons against an eviction of the pod."""
        return [
            *self._existence(pod),
            *self._protected(pod),
            *self._constraints(pod),
        ]

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether the pod fits another node, where asked for, and is in a selected namespace."""
        if self._args.get("nodeFit"):
            selector = self._nodes
            if selector is None:
                return False
            nodes = [
                node
                for node in self._world.nodes
                if is_ready(node) and selector.matches(node.metadata.labels)
            ]
            if not fits_any_other(self._world, pod, nodes):
                return False
        if self._namespaces is None or self._namespaces.empty():
            return True
        labels = self._world.namespaces.get(pod.metadata.namespace)
        return labels is not None and self._namespaces.matches(labels)

    def _existence(self, pod: Pod) -> Iterator[str]:
        notes = pod.metadata.annotations
        if CONFIG_MIRROR in notes:
            yield "pod is a mirror pod"
        if notes.get(CONFIG_SOURCE, "api") != "api":
            yield "pod is a static pod"
        if pod.metadata.deletion_timestamp is not None:
            yield "pod is terminating"

    def _protected(self, pod: Pod) -> Iterator[str]:
        active, priority = self._active, pod.spec.priority
        if "SystemCriticalPods" in active:
            if priority is not None and priority >= SYSTEM_CRITICAL:
                yield "pod has system critical priority and is protected against eviction"
            if self._threshold is not None and priority is not None and priority >= self._threshold:
                yield "pod has higher priority than specified priority class threshold"
        owners = pod.metadata.owner_references
        if not owners and "FailedBarePods" in active:
            yield "pod does not have any ownerRefs"
        elif not owners and pod.status.phase != "Failed":
            yield "pod does not have any ownerRefs and is not in failed phase"
        if "PodsWithLocalStorage" in active and any(
            volume.host_path is not None or volume.empty_dir is not None
            for volume in pod.spec.volumes
        ):
            yield "pod has local storage and is protected against eviction"
        if "DaemonSetPods" in active and any(owner.kind == "DaemonSet" for owner in owners):
            yield "daemonset pods are protected against eviction"
        if "PodsWithPVC" in active:
            yield from self._claims(pod)
        if "PodsWithoutPDB" in active and not self._world.has_budget(pod):
            yield "pod does not have a PodDisruptionBudget and is protected against eviction"
        if "PodsWithResourceClaims" in active and pod.spec.resource_claims:
            yield (
                "pod has ResourceClaims and descheduler is configured to protect ResourceClaims pods"
            )

    def _claims(self, pod: Pod) -> Iterator[str]:
        names = [
            volume.persistent_volume_claim.claim_name
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        ]
        if not self._classes:
            if names:
                yield "pod with PVC is protected against eviction"
            return
        namespace = pod.metadata.namespace
        found = []
        for name in names:
            if (namespace, name) not in self._world.claims:
                yield (
                    f'failed to get persistent volume claim "{namespace}"/"{name}": '
                    f'persistentvolumeclaim "{name}" not found'
                )
                return
            storage_class = self._world.claims[namespace, name]
            if not storage_class:
                yield f'failed to resolve storage class for pod "{namespace}"/"{name}"'
                return
            found.append(storage_class)
        for storage_class in found:
            if storage_class in self._classes:
                yield f'pod using protected storage class "{storage_class}"'
                return

    def _constraints(self, pod: Pod) -> Iterator[str]:
        if self._selector is not None and not self._selector.matches(pod.metadata.labels):
            yield "pod labels do not match the labelSelector filter in the policy parameter"
        wanted = self._args.get("minReplicas") or 0
        if wanted > 1 and len(pod.metadata.owner_references) == 1:
            uid = pod.metadata.owner_references[0].uid
            count = sum(
                any(owner.uid == uid for owner in other.metadata.owner_references)
                for other in self._world.pods
            )
            if count < wanted:
                yield f"owner has {count} replicas which is less than minReplicas of {wanted}"
        if self._min_age is not None:
            started = pod.status.start_time
            if started is None or self._world.now - started < self._min_age:
                shown = format_duration(self._min_age)
                yield (
                    f"pod age is not older than MinPodAge: &Duration{{Duration:{shown},}} seconds"
                )


def priority_threshold(args: dict[str, Any], classes: dict[str, int]) -> int:
    """Return the priority from which pods stay. ValueError if it is too high or its class is missing."""
    wanted = args.get("priorityThreshold") or {}
    value = SYSTEM_CRITICAL
    if wanted.get("value") is not None:
        value = wanted["value"]
    elif name := wanted.get("name"):
        if name not in classes:
            raise ValueError(
                "unable to get priority value from the priority class: "
                f'priorityclasses.scheduling.k8s.io "{name}" not found'
            )
        value = classes[name]
    if value > SYSTEM_CRITICAL:
        raise ValueError(f"priority threshold can't be greater than {SYSTEM_CRITICAL}")
    return int(value)


def age_seconds(since: int | None, now: int) -> int:
    """Whole seconds since a time."""
    return (now - (since or 0)) // SECOND
