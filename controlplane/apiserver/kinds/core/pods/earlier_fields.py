"""Parts of pods that an earlier release drops otherwise than field by field, because their gates are off.

An object that uses such a part already may keep it. Upstream: pkg/api/pod/util.go (dropImageVolumes,
dropContainerRestartRules, dropDisabledProcMountField).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import without
from controlplane.apiserver.kinds.trees import each, inside
from controlplane.apiserver.schema.gated_fields import is_off
from controlplane.apiserver.schema.releases import number

__all__ = ["without_earlier"]

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_DEFAULT: Final = "Default"
_POLICY: Final = "restartPolicy"
_RULES_SINCE: Final = 34
"""The minor release that first drops a restart policy of a container; earlier ones refuse it."""


def without_earlier(spec: Tree, old: Tree, earlier: str, gates: frozenset[str]) -> Tree:
    """The spec of a pod as an earlier release with these gates keeps it."""
    if is_off("ImageVolume", earlier, gates) and not _images(old):
        spec = _without_images(spec)
    drops = number(earlier) >= _RULES_SINCE and is_off("ContainerRestartRules", earlier, gates)
    if drops and not any(map(_has_own_policy, _all(old))):
        for key in ("containers", "ephemeralContainers"):
            spec = each(spec, key, lambda container: without(container, _POLICY))
        spec = each(spec, "initContainers", _as_sidecar)
    if is_off("ProcMountType", earlier, gates) and not any(map(_has_own_proc, _all(old))):
        for key in _CONTAINERS:
            spec = each(spec, key, _with_usual_proc)
    return spec


def _all(spec: Tree) -> Iterator[tuple[str, Tree]]:
    """The containers of a pod, with the field in which they are."""
    for key in _CONTAINERS:
        for container in spec.get(key) or ():
            yield key, container


def _images(spec: Tree) -> set[str]:
    return {volume["name"] for volume in spec.get("volumes") or () if "image" in volume}


def _without_images(spec: Tree) -> Tree:
    """The spec without volumes of images, and without their mounts."""
    names = _images(spec)
    if not names:
        return spec

    def unmounted(container: Tree) -> Tree:
        mounts = container.get("volumeMounts")
        if not mounts:
            return container
        kept = [mount for mount in mounts if mount.get("name") not in names]
        return {**container, "volumeMounts": kept} if kept else without(container, "volumeMounts")

    volumes = [volume for volume in spec["volumes"] if "image" not in volume]
    spec = {**spec, "volumes": volumes} if volumes else without(spec, "volumes")
    for key in _CONTAINERS:
        spec = each(spec, key, unmounted)
    return spec


def _has_own_policy(found: tuple[str, Tree]) -> bool:
    key, container = found
    policy = container.get(_POLICY)
    return policy is not None and (key == "containers" or policy != "Always")


def _as_sidecar(container: Tree) -> Tree:
    return container if container.get(_POLICY) == "Always" else without(container, _POLICY)


def _has_own_proc(found: tuple[str, Tree]) -> bool:
    context = found[1].get("securityContext") or {}
    return bool(context.get("procMount", _DEFAULT) != _DEFAULT)


def _with_usual_proc(container: Tree) -> Tree:
    def usual(context: Tree) -> Tree:
        return {**context, "procMount": _DEFAULT} if "procMount" in context else context

    return inside(container, "securityContext", usual)
