"""The resize subresource of pods: what it lets through, and what may change.

Upstream: podResizeStrategy in pkg/registry/core/pod/strategy.go, ValidatePodResize in
pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.core.pods.quality_of_service import qos_class
from controlplane.apiserver.kinds.core.pods.updates import validate_whole_pod
from controlplane.apiserver.kinds.metadata import change_errors
from controlplane.apiserver.kinds.strategy import kept_meta, with_status
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid

__all__ = ["prepare_resize", "validate_resize"]

_WHOLE: Final = "[]"
"""Go's text of a path without a name."""
_RESIZABLE: Final = ("cpu", "memory")
_PARTS: Final = ("containers", "initContainers")
_ONLY: Final = "only cpu and memory resources"


@frozen
class ResizeGates:
    """Feature gates of the API server, named like upstream's."""

    init_containers: bool = True
    """InPlacePodVerticalScalingInitContainers"""
    pod_level: bool = True
    """InPlacePodLevelResourcesVerticalScaling"""


DEFAULTS: Final = ResizeGates()


def prepare_resize(new: Tree, old: Tree, gates: ResizeGates = DEFAULTS) -> Tree:
    """The old pod with the new one's resources, and one generation more if they changed.

    Containers that were added, renamed or moved are left for validation to find.
    """
    spec, was = new["spec"], old["spec"]
    if all(_names(spec.get(key)) == _names(was.get(key)) for key in _PARTS):
        kept = dict(was)
        for key in _PARTS:
            if was.get(key):
                kept[key] = [
                    _resized(container, earlier)
                    for container, earlier in zip(spec[key], was[key], strict=True)
                ]
        if gates.pod_level:
            kept = with_status(kept, spec, "resources")
        meta = kept_meta(new["metadata"], old["metadata"])
        new = {**old, "metadata": meta, "spec": kept}
    if new["spec"] != was:
        generation = old["metadata"].get("generation", 0) + 1
        new = {**new, "metadata": {**new["metadata"], "generation": generation}}
    return new


def _names(containers: list[Tree] | None) -> list[str]:
    return [container.get("name", "") for container in containers or ()]


def _resized(container: Tree, earlier: Tree) -> Tree:
    kept = with_status(earlier, container, "resources")
    return with_status(kept, container, "resizePolicy")


def validate_resize(new: Tree, old: Tree, gates: ResizeGates = DEFAULTS) -> list[FieldError]:
    """Return the errors of a pod's resize: only cpu and memory may change."""
    spec, was = new["spec"], old["spec"]
    errors = change_errors(new["metadata"], old["metadata"]) + validate_whole_pod(new, old)
    if (old["metadata"].get("annotations") or {}).get("kubernetes.io/config.mirror") is not None:
        return [forbidden(_WHOLE, "static pods cannot be resized")]
    if (was.get("os") or {}).get("name") == "windows":
        return [forbidden(_WHOLE, "windows pods cannot be resized")]
    of_pod = any(
        (each.get("resources") or {}).get(part)
        for each in (spec, was)
        for part in ("requests", "limits")
    )
    if of_pod and not gates.pod_level:
        errors.append(
            forbidden(
                _WHOLE,
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled",
            )
        )
        return errors
    state = old.get("status") or {}
    if qos_class(spec) != (state.get("qosClass") or qos_class(was)):
        recorded = (new.get("status") or {}).get("qosClass", "")
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", recorded, detail))
    errors += when(
        not _supported(state), forbidden, "spec", "Pod running on node without support for resize"
    )
    if of_pod:
        errors += _pod_level(spec.get("resources"), was.get("resources"))
    if state.get("nodeAllocatableResourceClaimStatuses"):
        detail = "pods with node allocatable resource claims cannot be resized"
        errors.append(forbidden("spec", detail))
    order = [
        error for key in _PARTS for error in _order(spec.get(key) or [], was.get(key) or [], key)
    ]
    if order:
        return errors + order
    for key in reversed(_PARTS):
        pairs = zip(spec.get(key) or (), was.get(key) or (), strict=True)
        for index, (container, earlier) in enumerate(pairs):
            resources, had = container.get("resources") or {}, earlier.get("resources") or {}
            errors += _removed(resources, had, f"spec.{key}[{index}].resources", "resource")
    errors += _mutable(spec, was, gates)
    rest = [
        {k: v for k, v in each.items() if k not in ("resources", *_PARTS)} for each in (spec, was)
    ]
    errors += when(not errors and rest[0] != rest[1], forbidden, "spec", f"{_ONLY} are mutable")
    return errors


def _supported(state: Tree) -> bool:
    """Return whether the kubelet reports resources: the first running container's status decides."""
    for status in state.get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _pod_level(new: Tree | None, old: Tree | None) -> list[FieldError]:
    if old is not None and new is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    if new is None:
        return []
    errors = [] if old is None else _removed(new, old, "spec.resources", "pod-level resource")
    text = f"{_ONLY} are mutable at pod-level"
    errors += when(
        _comparable(_set_back(new, old or {})) != _comparable(old), forbidden, "spec", text
    )
    return errors


def _order(containers: list[Tree], before: list[Tree], key: str) -> list[FieldError]:
    path = f"spec.{key}"
    if len(containers) != len(before):
        return [forbidden(path, f"{key} may not be added or removed on resize")]
    return [
        forbidden(f"{path}[{index}].name", f"{key} may not be renamed or reordered on resize")
        for index, (container, earlier) in enumerate(zip(containers, before, strict=True))
        if container.get("name") != earlier.get("name")
    ]


def _removed(new: Tree, old: Tree, path: str, what: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("requests", "limits"):
        had, has = old.get(key) or {}, new.get(key) or {}
        text = f"{what} {key} cannot be removed"
        errors += when(any(name not in has for name in had), forbidden, f"{path}.{key}", text)
    return errors


def _mutable(spec: Tree, was: Tree, gates: ResizeGates) -> list[FieldError]:
    """Everything of the containers but CPU and memory must be as it was."""
    errors: list[FieldError] = []
    for container, earlier in zip(
        spec.get("containers") or (), was.get("containers") or (), strict=True
    ):
        errors += when(not _same(container, earlier), forbidden, "spec", f"{_ONLY} are mutable")
    pairs = zip(spec.get("initContainers") or (), was.get("initContainers") or (), strict=True)
    for index, (container, earlier) in enumerate(pairs):
        path = f"spec.initContainers[{index}]"
        sidecar = container.get("restartPolicy") == "Always"
        changed = _without_resources(container) != _without_resources(earlier) or _comparable(
            container.get("resources")
        ) != _comparable(earlier.get("resources"))
        if not sidecar and not gates.init_containers:
            if changed:
                detail = "resources for non-sidecar init containers are immutable"
                errors.append(forbidden("spec", detail))
            continue
        if not _same(container, earlier):
            detail = f"{_ONLY} for init or sidecar containers are mutable"
            errors.append(forbidden(path, detail))
        if sidecar or not changed:
            continue
        for policy in container.get("resizePolicy") or ():
            errors += when(
                policy.get("restartPolicy") == "RestartContainer",
                forbidden,
                path,
                "non-sidecar init containers with a resize policy of RestartContainer cannot "
                "be resized",
            )
    return errors


def _without_resources(container: Tree) -> Tree:
    return {k: v for k, v in container.items() if k != "resources" and v not in ([], {})}


def _same(container: Tree, earlier: Tree) -> bool:
    """Return whether only cpu and memory differ. Claims are removed on one side, so containers with claims differ."""
    new, old = container.get("resources") or {}, earlier.get("resources") or {}
    if _without_resources(container) != _without_resources(earlier):
        return False
    return _comparable(_set_back(new, old)) == _comparable(old)


def _set_back(new: Tree, old: Tree) -> Tree:
    """The new resources with cpu and memory of the old ones, without claims."""
    back = {}
    for key in ("limits", "requests"):
        amounts = {k: v for k, v in (new.get(key) or {}).items() if k not in _RESIZABLE}
        amounts |= {k: v for k, v in (old.get(key) or {}).items() if k in _RESIZABLE}
        back[key] = amounts
    return back


def _comparable(resources: Tree | None) -> Tree:
    """Amounts by value, nothing and an empty map alike."""
    found: Tree = {}
    for key, value in (resources or {}).items():
        if key == "claims":
            found[key] = value
        elif value:
            found[key] = {name: quantity.parse(text).normal() for name, text in value.items()}
    return {key: value for key, value in found.items() if value}
