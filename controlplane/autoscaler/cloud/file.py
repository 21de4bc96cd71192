"""The file of node groups: flags of the autoscaler, and the groups of the emulated cloud, read strictly.

flags: {scan-interval: 10s, scale-down-unneeded-time: 1m}
nodeGroups:
- name: pool
  maxSize: 5
  template: {status: {capacity: {cpu: "4", memory: 16Gi}}}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controlplane.api.quantity import Quantity
from controlplane.api.yaml_files import read_document
from controlplane.autoscaler.cloud.specs import (
    CREATION_ERROR,
    DELETION_REFUSED,
    FAILURES,
    LOST,
    REFUSED,
    SLOW,
    Failure,
    GroupSpec,
    Tree,
)
from controlplane.autoscaler.groups import GroupOptions
from controlplane.autoscaler.options import MINUTE
from controlplane.autoscaler.process.flags import (
    duration,
    fraction,
    settings_of,
    switch,
    text,
    whole,
)
from controlplane.autoscaler.process.settings import Settings
from controlplane.errors import UsageError, either, shown, unknown_name

__all__ = ["NodeGroups", "load", "node_groups_of"]

_TOP: Final = ("flags", "nodeGroups", "podPrices")
_GROUP: Final = (
    "failures", "maxSize", "minSize", "name", "options", "price", "provisionJitter", "provisionTime", "replacesLost",
    "size", "template",
)  # fmt: skip
_TEMPLATE: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = ("annotations", "labels")
_SPEC: Final = ("taints",)
_STATUS: Final = ("allocatable", "capacity")
_FAILURE: Final = ("after", "count", "errorClass", "errorCode", "explored", "message", "type")
_CLASSES: Final = ("OutOfResources", "Other")
_PRICES: Final = ("cpu", "memory")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 50
_DEFAULT_PODS: Final = "110"
_OPTIONS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "ignoreDaemonSetsUtilization": ("ignore_daemon_sets_utilization", switch),
    "maxNodeProvisionTime": ("provision_time", duration),
    "maxNodeStartupTime": ("startup_time", duration),
    "scaleDownGpuUtilizationThreshold": ("gpu_utilization_threshold", fraction),
    "scaleDownUnneededTime": ("unneeded_time", duration),
    "scaleDownUnreadyTime": ("unready_time", duration),
    "scaleDownUtilizationThreshold": ("utilization_threshold", fraction),
    "zeroOrMaxNodeScaling": ("zero_or_max", switch),
}
_MESSAGES: Final[Mapping[str, str]] = {
    REFUSED: "the cloud refused the request",
    CREATION_ERROR: "the instance could not be created",
    DELETION_REFUSED: "the cloud refused to delete the instances",
}
_NEEDS_AFTER: Final = (SLOW, LOST)


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """The content of a file; prices of pods are those of an hour of a core and of a GiB."""

    settings: Settings
    groups: tuple[GroupSpec, ...]
    core_price: float = 0.0
    gib_price: float = 0.0


def load(path: Path) -> NodeGroups:
    """Return the settings and groups of a file. Raises UsageError with file, field and what is expected."""
    return node_groups_of(read_document(path), str(path))


def node_groups_of(tree: Any, place: str) -> NodeGroups:
    """Return the settings and groups of a tree. Raises UsageError, which names the `place`."""
    reader = _Reader(place)
    if tree is None:
        raise UsageError(f"{place}: the file is empty: expected nodeGroups")
    top = reader.fields(tree, "", _TOP)
    settings = settings_of(top.get("flags"), f"{place}: flags")
    trees = reader.list(top.get("nodeGroups"), "nodeGroups")
    if not trees:
        raise reader.error("nodeGroups", top.get("nodeGroups"), "one node group or more")
    groups = tuple(_group(reader, each, f"nodeGroups[{at}]") for at, each in enumerate(trees))
    names: dict[str, None] = {}
    for at, group in enumerate(groups):
        if group.name in names:
            raise reader.error(f"nodeGroups[{at}].name", group.name, "each name once")
        names[group.name] = None
    prices = reader.fields(top.get("podPrices") or {}, "podPrices", _PRICES)
    if "price" in settings.options.expanders:
        for at, group in enumerate(groups):
            if group.price is None:
                told = "the price of an hour of a node, for the expander price"
                raise reader.error(f"nodeGroups[{at}].price", None, told)
    core, gib = (reader.read(prices, "podPrices", name, fraction, 0.0) for name in _PRICES)
    return NodeGroups(settings, groups, core, gib)


class _Reader:
    """Checks of values; an error names the file and the field."""

    def __init__(self, place: str) -> None:
        self._place = place

    def error(self, field: str, value: Any, expected: str) -> UsageError:
        where = f"{self._place}: {field}: " if field else f"{self._place}: "
        return UsageError(f"{where}{shown(value)}: expected {expected}")

    def fields(self, value: Any, field: str, known: tuple[str, ...]) -> Tree:
        found = self.map(value, field)
        for name in found:
            if name not in known:
                text = unknown_name("field", name, known)
                raise UsageError(f"{self._place}: {f'{field}: ' if field else ''}{text}")
        return found

    def map(self, value: Any, field: str) -> Tree:
        if not isinstance(value, dict):
            raise self.error(field, value, "a mapping")
        return value

    def texts(self, value: Any, field: str) -> dict[str, str]:
        for name, each in self.map(value, field).items():
            if not isinstance(name, str) or not isinstance(each, str):
                raise self.error(f"{field}.{name}", each, "text")
        return dict(value)

    def list(self, value: Any, field: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, value, "a list")
        return value

    def read(self, tree: Tree, field: str, name: str, read: Callable[[Any], Any], or_: Any) -> Any:
        if name not in tree:
            return or_
        try:
            return read(tree[name])
        except ValueError as error:
            raise self.error(f"{field}.{name}", tree[name], str(error)) from None


def _group(reader: _Reader, tree: Any, field: str) -> GroupSpec:
    found = reader.fields(tree, field, _GROUP)
    name = found.get("name")
    if not isinstance(name, str) or len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise reader.error(
            f"{field}.name", name, f"lower-case letters, digits and '-', at most {_LONGEST}"
        )
    if "maxSize" not in found:
        raise reader.error(f"{field}.maxSize", None, "a whole number")
    low = reader.read(found, field, "minSize", whole, 0)
    high = reader.read(found, field, "maxSize", whole, 0)
    size = reader.read(found, field, "size", whole, low)
    if low > high:
        raise reader.error(f"{field}.minSize", low, f"at most maxSize ({high})")
    if size > high:
        raise reader.error(f"{field}.size", size, f"at most maxSize ({high})")
    failures = reader.list(found.get("failures"), f"{field}.failures")
    return GroupSpec(
        name,
        _template(reader, found.get("template"), f"{field}.template"),
        high,
        low,
        size,
        reader.read(found, field, "provisionTime", duration, MINUTE),
        reader.read(found, field, "provisionJitter", duration, 0),
        _options(reader, found.get("options"), f"{field}.options"),
        tuple(
            _failure(reader, each, f"{field}.failures[{at}]") for at, each in enumerate(failures)
        ),
        reader.read(found, field, "price", fraction, None),
        reader.read(found, field, "replacesLost", switch, True),
    )


def _options(reader: _Reader, tree: Any, field: str) -> GroupOptions:
    if tree is None:
        return GroupOptions()
    found = reader.fields(tree, field, tuple(_OPTIONS))
    return GroupOptions(
        **{
            own: reader.read(found, field, name, _OPTIONS[name][1], None)
            for name, (own, _) in _OPTIONS.items()
            if name in found
        }
    )


def _failure(reader: _Reader, tree: Any, field: str) -> Failure:
    found = reader.fields(tree, field, _FAILURE)
    kind = found.get("type")
    if kind not in FAILURES:
        raise reader.error(f"{field}.type", kind, either([*FAILURES]))
    error_class = found.get("errorClass", _CLASSES[0] if kind == CREATION_ERROR else "")
    if kind == CREATION_ERROR and error_class not in _CLASSES:
        raise reader.error(f"{field}.errorClass", error_class, either([*_CLASSES]))
    for name in ("errorClass", "errorCode"):
        if name in found and kind != CREATION_ERROR:
            raise reader.error(f"{field}.{name}", found[name], f"it only for {CREATION_ERROR}")
    if (kind in _NEEDS_AFTER) != ("after" in found):
        told = "a duration" if kind in _NEEDS_AFTER else f"it only for {either([*_NEEDS_AFTER])}"
        raise reader.error(f"{field}.after", found.get("after"), told)
    return Failure(
        kind,
        reader.read(found, field, "message", text, _MESSAGES.get(kind, "")),
        error_class,
        reader.read(found, field, "errorCode", text, "STOCKOUT" if kind == CREATION_ERROR else ""),
        reader.read(found, field, "after", duration, 0),
        reader.read(found, field, "count", whole, None),
        reader.read(found, field, "explored", switch, False),
    )


def _template(reader: _Reader, tree: Any, field: str) -> Tree:
    """Return the Node that stands for each new one; it has no name."""
    found = reader.fields(tree, field, _TEMPLATE)
    if found.get("kind", "Node") != "Node":
        raise reader.error(f"{field}.kind", found["kind"], "Node")
    meta = reader.fields(found.get("metadata") or {}, f"{field}.metadata", _METADATA)
    spec = reader.fields(found.get("spec") or {}, f"{field}.spec", _SPEC)
    status = reader.fields(found.get("status") or {}, f"{field}.status", _STATUS)
    capacity = _amounts(reader, status.get("capacity") or {}, f"{field}.status.capacity")
    for name in ("cpu", "memory"):
        if name not in capacity:
            raise reader.error(f"{field}.status.capacity.{name}", None, "a quantity")
    capacity.setdefault("pods", _DEFAULT_PODS)
    own = _amounts(reader, status.get("allocatable") or {}, f"{field}.status.allocatable")
    taints = [
        _taint(reader, each, f"{field}.spec.taints[{at}]")
        for at, each in enumerate(reader.list(spec.get("taints"), f"{field}.spec.taints"))
    ]
    metadata = {
        name: reader.texts(meta.get(name) or {}, f"{field}.metadata.{name}") for name in _METADATA
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": capacity, "allocatable": {**capacity, **own}},
    }


def _amounts(reader: _Reader, tree: Any, field: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in reader.map(tree, field).items():
        text = (
            str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        )
        try:
            if not isinstance(text, str) or Quantity.parse(text).milli_value() < 0:
                raise ValueError
        except ValueError:
            raise reader.error(f"{field}.{name}", value, "a quantity such as 4 or 16Gi") from None
        found[str(name)] = text
    return found


def _taint(reader: _Reader, tree: Any, field: str) -> Tree:
    found = reader.fields(tree, field, ("effect", "key", "value"))
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    if found.get("effect") not in effects:
        raise reader.error(f"{field}.effect", found.get("effect"), either([*effects]))
    reader.read({"key": found.get("key")}, field, "key", text, "")
    return dict(found)
