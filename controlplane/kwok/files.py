"""The files of KWOK: stages, metrics, usages of resources, and what logs, exec, attach and ports of pods lead to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from controlplane.api.yaml_files import read_documents
from controlplane.errors import UsageError, shown
from controlplane.kwok import debugging, lifecycle, metrics, rendering, stages, usages
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.debugging import Debugging
from controlplane.kwok.fields import API_VERSION
from controlplane.kwok.lifecycle import KwokError
from controlplane.kwok.metrics import Metric
from controlplane.kwok.selection import Rule
from controlplane.kwok.stages import Stage
from controlplane.kwok.usages import ResourceUsage, ResourceUsages

__all__ = ["Files", "load"]

_KINDS: Final = ("Stage", "Metric", *usages.KINDS, *debugging.KINDS)


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
                found.append(_checked(stages.read(tree, str(path)), path))
            elif kind == "Metric":
                told.append(metrics.read(tree, str(path)))
            elif kind in usages.KINDS:
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


def _checked(stage: Stage, path: Path) -> Stage:
    """Refuse a stage of a file that could never play: upstream tells it at the first match, for each object."""
    about = f"{path}: Stage {stage.name}: "

    def asked(field: str, check: Callable[[], None]) -> None:
        try:
            check()
        except (KwokError, ExpressionError, rendering.RenderError) as error:
            raise UsageError(f"{about}{field}: {' '.join(str(error).split())}") from None

    if stage.selector is not None:
        for number, each in enumerate(stage.selector.requirements):
            field = f"spec.selector.matchExpressions[{number}]"
            asked(field, partial(lifecycle.check, each, stage.api_version, stage.kind))
        asked("spec.weightFrom, spec.delay", partial(lifecycle.compile_expressions, stage))
    for number, step in enumerate(stage.steps):
        for part in (step.patch, step.apply):
            if part is not None:
                template = str(part.get("template") or "")
                asked(f"template of step {number + 1}", partial(rendering.check, template))
    return stage


def usages_of(files: Files, stored: Collection[str]) -> ResourceUsages | None:
    """Return the usage of pods that files and the API tell, given the kinds that are read from the API."""
    kinds = tuple(kind for kind in usages.KINDS if kind in stored)
    if not kinds:
        return files.usages
    return ResourceUsages(() if files.usages is None else files.usages.rules, kinds)
