"""Benchmark files: test cases, their workloads, and the operations of each.

Upstream: test/integration/scheduler_perf (performance-config.yaml files). A file is checked as a
whole when it is read; what is not supported (operations of later releases, feature gates that are not emulated) is
noted per workload, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from attrs import field, frozen

from controlplane.api import yaml_text
from controlplane.api.tree import Tree
from controlplane.errors import UsageError
from controlplane.perf.templates import Template
from controlplane.scheduler.config.features import unknown
from controlplane.scheduler.config.model import SchedulerConfig
from controlplane.scheduler.config.user_plugins import load_config
from controlplane.scheduler.plugins.registry import in_tree_registry

_WAIT = ("skipWaitToCompletion",)
_COUNT = ("count", "countParam")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "createNodes": (
        *_COUNT,
        "nodeTemplatePath",
        "nodeAllocatableStrategy",
        "labelNodePrepareStrategy",
        "uniqueNodeLabelStrategy",
    ),
    "createNamespaces": (*_COUNT, "prefix", "namespaceTemplatePath"),
    "createPods": (
        *_COUNT,
        *_WAIT,
        "namespace",
        "podTemplatePath",
        "persistentVolumeTemplatePath",
        "persistentVolumeClaimTemplatePath",
        "collectMetrics",
        "steadyState",
        "steadyStateParam",
        "duration",
        "durationParam",
    ),
    "createPodSets": (*_COUNT, "namespacePrefix", "createPodsOp"),
    "createAny": (*_COUNT, "namespace", "templatePath"),
    "updateAny": (*_COUNT, "namespace", "templatePath", "updatePerSecond", "subresources"),
    "deletePods": ("namespace", "labelSelector", "deletePodsPerSecond", *_WAIT),
    "churn": ("mode", "number", "templatePaths", "intervalMilliseconds", "namespace"),
    "barrier": ("namespaces", "labelSelector", "stageRequirement"),
    "sleep": ("duration", "durationParam"),
    "startCollectingMetrics": ("name", "namespaces", "labelSelector"),
    "stopCollectingMetrics": (),
    "createResourceClaims": (*_COUNT, "namespace", "templatePath"),
    "createResourceDriver": ("driverName", "nodes", "maxClaimsPerNode", "maxClaimsPerNodeParam"),
    "allocResourceClaims": ("namespace",),
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "createNamespaces": ("prefix",),
    "createPodSets": ("namespacePrefix", "createPodsOp"),
    "createAny": ("templatePath",),
    "updateAny": ("templatePath",),
    "deletePods": ("namespace",),
    "churn": ("templatePaths",),
    "startCollectingMetrics": ("namespaces",),
    "createResourceClaims": ("namespace", "templatePath"),
    "createResourceDriver": ("driverName", "nodes", "maxClaimsPerNode"),
}
REFUSED: Mapping[str, str] = {
    "updateDeviceConditions": "an operation of a later release",
    "checkPodScheduled": "an operation of a later release",
    "createPodGroups": "an operation of a later release; createAny makes PodGroups",
    "createCompositePodGroups": "an operation of a later release",
}
"""Operations that upstream knows and this runner does not, with the reason."""

_DURATION = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@frozen
class Operation:
    """One operation with every parameter filled in."""

    opcode: str
    fields: Mapping[str, Any]
    templates: Mapping[str, Template | tuple[Template, ...]] = field(factory=dict)

    @property
    def count(self) -> int:
        """The number of objects; 1 by default."""
        value: int = self.fields.get("count", 1)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """A field."""
        return self.fields.get(name, default)

    def template(self, name: str) -> Template | None:
        """The template file a field names."""
        found = self.templates.get(name)
        assert not isinstance(found, tuple)
        return found


@frozen
class Workload:
    """One workload of a test case, ready to run; or not, and then `refused` says why."""

    case: str
    name: str
    labels: tuple[str, ...]
    threshold: float | None
    features: Mapping[str, bool]
    params: Mapping[str, int]
    operations: tuple[Operation, ...]
    refused: str = ""
    scheduler: SchedulerConfig | None = None

    @property
    def full_name(self) -> str:
        """Test case and workload, as upstream names the benchmark."""
        return f"{self.case}/{self.name}"


def load(path: Path) -> list[Workload]:
    """All workloads of a file, in order. Raises UsageError."""
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, list) or not document:
        raise UsageError(f"{path}: expected a list of test cases")
    found: list[Workload] = []
    templates: dict[Path, Template] = {}
    for number, case in enumerate(document):
        place = f"{path}: [{number}]"
        if not isinstance(case, dict) or not case.get("name"):
            raise UsageError(f"{place}.name: a test case needs a name")
        reader = _Case(path, case, templates)
        found += [reader.workload(workload) for workload in reader.listed("workloads")]
    return found


class _Case:
    """Reads the workloads of one test case."""

    def __init__(self, path: Path, case: Tree, templates: dict[Path, Template]) -> None:
        self._path = path
        self._case = case
        self._templates = templates
        self._name: str = case["name"]

    def _error(self, place: str, message: str) -> UsageError:
        return UsageError(f"{self._path}: {self._name}: {place}: {message}")

    def listed(self, name: str) -> list[Tree]:
        """A field that is a list of maps and not empty."""
        value = self._case.get(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._error(name, "expected a list")
        return value

    def workload(self, tree: Tree) -> Workload:
        """One workload with its operations."""
        name = tree.get("name")
        if not isinstance(name, str):
            raise self._error("workloads", "every workload needs a name")
        params = dict(tree.get("params") or {})
        features = {**(self._case.get("featureGates") or {}), **(tree.get("featureGates") or {})}
        labels = (*(self._case.get("labels") or ()), *(tree.get("labels") or ()))
        threshold = tree.get("threshold")
        if isinstance(threshold, dict):
            threshold = None
        refused = unknown(features)
        operations: list[Operation] = []
        for at, each in enumerate(self.listed("workloadTemplate")):
            opcode = each.get("opcode")
            if isinstance(opcode, str) and opcode in REFUSED:
                refused = refused or f"operation {opcode}: {REFUSED[opcode]}"
                continue
            operations.append(self._operation(each, params, f"workloadTemplate[{at}]", name))
        return Workload(
            self._name,
            name,
            labels,
            threshold,
            features,
            params,
            tuple(operations),
            refused,
            self._scheduler(),
        )

    def _scheduler(self) -> SchedulerConfig | None:
        path = self._case.get("schedulerConfigPath")
        if not path:
            return None
        return load_config(self._path.parent / str(path), in_tree_registry())

    def _operation(self, tree: Tree, params: Tree, place: str, workload: str) -> Operation:
        opcode = tree.get("opcode")
        known = FIELDS.get(opcode) if isinstance(opcode, str) else None
        if known is None:
            raise self._error(f"{place}.opcode", f"unknown operation {opcode!r}")
        fields: Tree = {}
        templates: dict[str, Template | tuple[Template, ...]] = {}
        for key, value in tree.items():
            if key == "opcode":
                continue
            if key not in known:
                raise self._error(f"{place}.{key}", f"unknown field of {opcode}")
            if key.endswith("Param"):
                fields[key.removesuffix("Param")] = self._param(
                    value, params, f"{place}.{key}", workload
                )
            elif key == "templatePaths":
                templates[key] = tuple(self._template(each) for each in value)
            elif key.endswith("Path"):
                templates[key] = self._template(value)
            elif key == "createPodsOp":
                fields[key] = self._operation(value, params, f"{place}.{key}", workload)
            else:
                fields[key] = value
        for key in REQUIRED.get(str(opcode), ()):
            if key not in fields and key not in templates:
                raise self._error(f"{place}.{key}", f"{opcode} needs it")
        if opcode in (
            "createNodes",
            "createNamespaces",
            "createPods",
            "createPodSets",
            "createResourceClaims",
        ) and ("count" not in fields):
            raise self._error(place, "count or countParam is needed")
        if "duration" in fields:
            fields["duration"] = self._duration(fields["duration"], f"{place}.duration")
        if opcode == "createPods" and "podTemplatePath" not in templates:
            default = self._case.get("defaultPodTemplatePath")
            if default:
                templates["podTemplatePath"] = self._template(default)
        return Operation(str(opcode), fields, templates)

    def _param(self, value: Any, params: Tree, place: str, workload: str) -> Any:
        name = str(value).removeprefix("$")
        if not str(value).startswith("$") or name not in params:
            raise self._error(place, f"workload {workload!r} has no parameter {value!r}")
        return params[name]

    def _template(self, name: Any) -> Template:
        path = (self._path.parent / str(name)).resolve()
        found = self._templates.get(path)
        if found is None:
            found = self._templates[path] = Template(self._path.parent / str(name))
        return found

    def _duration(self, value: Any, place: str) -> int:
        """Nanoseconds of a Go duration."""
        parts = _DURATION.findall(str(value))
        if not parts or "".join(a + b for a, b in parts) != str(value):
            raise self._error(place, f"not a duration: {value!r}")
        return sum(round(float(number) * _DURATION_UNITS[unit]) for number, unit in parts)


def select(
    workloads: Sequence[Workload], name_filter: str = "", labels: Sequence[str] = ()
) -> list[Workload]:
    """Workloads whose full name matches the regular expression and that carry all labels (none of those with "-").

    Raises UsageError for an invalid expression.
    """
    try:
        pattern = re.compile(name_filter)
    except re.error as error:
        raise UsageError(f"--filter {name_filter!r}: {error}") from error
    wanted = [label for label in labels if not label.startswith("-")]
    unwanted = [label[1:] for label in labels if label.startswith("-")]
    return [
        each
        for each in workloads
        if pattern.search(each.full_name)
        and all(label in each.labels for label in wanted)
        and not any(label in each.labels for label in unwanted)
    ]
