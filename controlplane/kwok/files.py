"""The files of KWOK: stages, metrics, usages of resources, and what logs, exec, attach and ports of pods lead to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from controlplane.api.yaml_files import read_documents
from controlplane.errors import UsageError, shown
from controlplane.kwok import debugging, metrics, stages, usages
from controlplane.kwok.debugging import Debugging
from controlplane.kwok.fields import API_VERSION
from controlplane.kwok.metrics import Metric
from controlplane.kwok.selection import Rule
from controlplane.kwok.stages import Stage
from controlplane.kwok.usages import ResourceUsage, ResourceUsages

__all__ = ["Files", "load"]

_USAGES: Final = ("ResourceUsage", "ClusterResourceUsage")
_KINDS: Final = ("Stage", "Metric", *_USAGES, *debugging.KINDS)


@frozen
class Files:
    """The objects of KWOK's files, in their order."""

    stages: tuple[Stage, ...]
    metrics: tuple[Metric, ...] = ()
    usages: ResourceUsages | None = None
    debugging: Debugging | None = None


def load(paths: Sequence[Path], stored: Collection[str] = ()) -> Files:
    """Return what these files have. Raises UsageError with file and object.

    Args:
        paths: the files.
        stored: the kinds whose objects are read from the API; files may have none of them.
    """
    found: list[Stage] = []
    told: list[Metric] = []
    used: list[ResourceUsage] = []
    led: dict[str, list[Rule[Any]]] = {}
    for path in paths:
        for tree in read_documents(path):
            kind = tree.get("kind") if isinstance(tree, dict) else tree
            if kind in stored:
                raise UsageError(
                    f"{path}: {kind}: --enable-crds reads objects of this kind from the API"
                )
            if kind == "Stage":
                found.append(stages.read(tree, str(path)))
            elif kind == "Metric":
                told.append(metrics.read(tree, str(path)))
            elif kind in _USAGES:
                used.append(usages.read(tree, str(path)))
            elif kind in debugging.KINDS:
                rule = debugging.read(tree, str(path))
                led.setdefault(debugging.topic_of(kind), []).append(rule)
            else:
                raise UsageError(f"{path}: {shown(str(kind))}: expected kind {', '.join(_KINDS)}")
    if not found and "Stage" not in stored:
        raise UsageError(f"{', '.join(map(str, paths))}: no Stage ({API_VERSION})")
    return Files(
        tuple(found),
        tuple(told),
        ResourceUsages(tuple(used)) if used else None,
        Debugging(led) if led else None,
    )
