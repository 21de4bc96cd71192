"""The files of KWOK: stages, metrics, and the usage of resources that metrics tell of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from controlplane.api.yaml_files import read_documents
from controlplane.errors import UsageError, shown
from controlplane.kwok import metrics, stages, usages
from controlplane.kwok.fields import API_VERSION
from controlplane.kwok.metrics import Metric
from controlplane.kwok.stages import Stage
from controlplane.kwok.usages import ResourceUsage, ResourceUsages

__all__ = ["Files", "load"]

_KINDS: Final = ("Stage", "Metric", "ResourceUsage", "ClusterResourceUsage")


@frozen
class Files:
    """The objects of KWOK's files, in their order."""

    stages: tuple[Stage, ...]
    metrics: tuple[Metric, ...] = ()
    usages: ResourceUsages | None = None


def load(paths: Sequence[Path]) -> Files:
    """Return what these files have. Raises UsageError with file and object."""
    found: list[Stage] = []
    told: list[Metric] = []
    used: list[ResourceUsage] = []
    for path in paths:
        for tree in read_documents(path):
            kind = tree.get("kind") if isinstance(tree, dict) else tree
            if kind == "Stage":
                found.append(stages.read(tree, str(path)))
            elif kind == "Metric":
                told.append(metrics.read(tree, str(path)))
            elif kind in _KINDS:
                used.append(usages.read(tree, str(path)))
            else:
                raise UsageError(f"{path}: {shown(str(kind))}: expected kind {', '.join(_KINDS)}")
    if not found:
        raise UsageError(f"{', '.join(map(str, paths))}: no Stage ({API_VERSION})")
    return Files(tuple(found), tuple(told), ResourceUsages(tuple(used)) if used else None)
