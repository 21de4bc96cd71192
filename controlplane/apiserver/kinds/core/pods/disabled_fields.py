"""Fields of pods that belong to feature gates which are off: they are dropped before anything looks at them.

An object that uses such a field already may keep it. Off in 1.36: GenericWorkload (schedulingGroup; it can be
switched on), ContainerStopSignals (lifecycle.stopSignal), ClusterTrustBundleProjection and PodCertificateRequest
(sources of projected volumes). Managed fields name what was written all the same. Upstream: pkg/api/pod/util.go,
dropDisabledFields; the gates' stages: pkg/features/kube_features.go.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.earlier_fields import without_earlier
from controlplane.apiserver.kinds.trees import each, inside

__all__ = ["without_disabled", "without_disabled_in_template"]

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_SOURCES: Final = ("clusterTrustBundle", "podCertificate")


def without_disabled(
    spec: Tree, old: Tree | None, gates: frozenset[str] = frozenset(), earlier: str = ""
) -> Tree:
    """The spec of a pod less the fields of gates that are off, but for those that `old` uses.

    `gates` are those that are on although they are off by default, `earlier` the release, "" for the latest.
    """
    old = old or {}
    if earlier:
        spec = without_earlier(spec, old, earlier, gates)
    grouped = "GenericWorkload" in gates or old.get("schedulingGroup") is not None
    if "schedulingGroup" in spec and not grouped:
        spec = {name: value for name, value in spec.items() if name != "schedulingGroup"}
    if _signals(spec) and not _signals(old):
        for key in _CONTAINERS:
            spec = each(spec, key, _without_signal)
    for source in _SOURCES:
        if _projects(spec, source) and not _projects(old, source):
            spec = each(spec, "volumes", partial(_without_source, source))
    return spec


def without_disabled_in_template(
    template: Tree, old: Tree | None, gates: frozenset[str] = frozenset(), earlier: str = ""
) -> Tree:
    """The same for the template of a workload."""
    before = (old or {}).get("spec")
    return inside(template, "spec", lambda spec: without_disabled(spec, before, gates, earlier))


def _signals(spec: Tree) -> bool:
    for key in _CONTAINERS:
        for container in spec.get(key) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and "stopSignal" in lifecycle:
                return True
    return False


def _without_signal(container: Tree) -> Tree:
    lifecycle = container.get("lifecycle")
    if not lifecycle or "stopSignal" not in lifecycle:
        return container
    kept = {name: value for name, value in lifecycle.items() if name != "stopSignal"}
    if kept:
        return {**container, "lifecycle": kept}
    return {name: value for name, value in container.items() if name != "lifecycle"}


def _projects(spec: Tree, source: str) -> bool:
    for volume in spec.get("volumes") or ():
        projected = volume.get("projected")
        if projected:
            for projection in projected.get("sources") or ():
                if source in projection:
                    return True
    return False


def _without_source(source: str, volume: Tree) -> Tree:
    def kept(projection: Tree) -> Tree:
        if source not in projection:
            return projection
        return {name: value for name, value in projection.items() if name != source}

    return inside(volume, "projected", lambda projected: each(projected, "sources", kept))
