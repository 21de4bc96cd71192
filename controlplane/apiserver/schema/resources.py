"""The table of served resources: names, kinds, verbs, subresources and their types."""

from __future__ import annotations

from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.feature_gates import GATES, gate_of
from controlplane.apiserver.schema.releases import (
    LATEST,
    Earlier,
    earlier_versions,
    number,
    old_versions,
    served_since,
)
from controlplane.apiserver.schema.types import StructType, load_data, struct_type

__all__ = [
    "ResourceInfo",
    "ResourceTable",
    "SubresourceInfo",
    "builtin_resources",
    "every_resource",
]

# Storage key prefixes that differ from /registry/<resource>; upstream keeps them for old data.
_STORAGE_NAMES = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
    ("policy", "poddisruptionbudgets"): "poddisruptionbudgets",
    ("events.k8s.io", "events"): "events",
}
_GROUPED_STORAGE = ("apiextensions.k8s.io", "apiregistration.k8s.io")

# Resources with several served versions, and the one objects are stored in.
_HUB_VERSIONS = {
    ("autoscaling", "horizontalpodautoscalers"): ("autoscaling", "v2"),
    ("events.k8s.io", "events"): ("", "v1"),
}


@frozen
class SubresourceInfo:
    """One subresource of a resource, with the kind it speaks."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]
    entry: Tree = field(factory=dict, eq=False, hash=False, repr=False)


@frozen(eq=False)
class ResourceInfo:
    """One resource in one version.

    `storage_prefix` ends with a slash. `hub` is the (group, version) in which objects are stored;
    it differs from (`group`, `version`) only for kinds served in several versions.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    storage_prefix: str
    hub: tuple[str, str]
    type_name: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: dict[str, SubresourceInfo] = field(factory=dict)
    entry: Tree = field(factory=dict, repr=False)
    custom: Any = field(default=None, repr=False)
    deprecation: str = ""
    """The warning for clients of this version."""

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`resource.group`, or `resource` in the core group, as error messages print it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def qualified_kind(self) -> str:
        """`Kind.group`, or `Kind` in the core group, as error messages print it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def type(self) -> StructType:
        """The schema type of the kind."""
        return struct_type(self.type_name)


class ResourceTable:
    """Resources by (group, version, resource) and by (apiVersion, kind), in discovery order."""

    def __init__(self) -> None:
        self.groups: list[Tree] = []
        self._by_resource: dict[tuple[str, str, str], ResourceInfo] = {}
        self._by_kind: dict[tuple[str, str], ResourceInfo] = {}
        self.extra_entries: dict[str, list[Tree]] = {}

    def copy(self) -> ResourceTable:
        """A table of its own, so that custom resources can be added."""
        made = ResourceTable()
        made.groups = list(self.groups)
        made._by_resource = dict(self._by_resource)
        made._by_kind = dict(self._by_kind)
        made.extra_entries = dict(self.extra_entries)
        return made

    def add(self, info: ResourceInfo) -> None:
        """Serve `info`; replaces what had the same group, version and name."""
        self._by_resource[info.group, info.version, info.resource] = info
        self._by_kind[info.api_version, info.kind] = info

    def remove(self, info: ResourceInfo) -> None:
        """Stop serving `info`; nothing happens if it is not served."""
        self._by_resource.pop((info.group, info.version, info.resource), None)
        self._by_kind.pop((info.api_version, info.kind), None)

    def get(self, group: str, version: str, resource: str) -> ResourceInfo | None:
        """The resource with that name, or None."""
        return self._by_resource.get((group, version, resource))

    def by_kind(self, api_version: str, kind: str) -> ResourceInfo | None:
        """The resource whose objects have that kind, or None."""
        return self._by_kind.get((api_version, kind))

    def __iter__(self) -> Any:
        return iter(list(self._by_resource.values()))

    def built_in(self, group: str) -> bool:
        """True for the core group and for groups that are served without a definition."""
        return not group or any(known["name"] == group for known in self.groups)

    def versions(self, group: str) -> list[str]:
        """The served versions of `group`, in order of first appearance."""
        return list(
            dict.fromkeys(i.version for i in self._by_resource.values() if i.group == group)
        )

    def in_version(self, group: str, version: str) -> list[ResourceInfo]:
        """All resources of one group and version."""
        return [i for i in self._by_resource.values() if i.group == group and i.version == version]


def _kind_types() -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for name, declared in load_data("types")["types"].items():
        for gvk in declared.get("gvk", ()):
            found.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    return found


def is_stable(version: str) -> bool:
    """True for v1, v2 and the like: what a server serves by default."""
    return "alpha" not in version and "beta" not in version


def _storage_prefix(group: str, resource: str) -> str:
    if group in _GROUPED_STORAGE:
        return f"/registry/{group}/{resource}/"
    return f"/registry/{_STORAGE_NAMES.get((group, resource), resource)}/"


@cache
def _known_resources() -> tuple[ResourceInfo, ...]:
    """Return the resources that are served by default, and those that a gate serves."""
    types = _kind_types()
    found = []
    for group_version, entries in load_data("resources")["resources"].items():
        group, _, version = group_version.rpartition("/")
        subresources: dict[str, dict[str, SubresourceInfo]] = {}
        for entry in entries:
            name, slash, sub = entry["name"].partition("/")
            if slash:
                subresources.setdefault(name, {})[sub] = SubresourceInfo(
                    sub,
                    entry.get("group", group),
                    entry.get("version", version),
                    entry["kind"],
                    tuple(entry["verbs"]),
                    entry,
                )
        for entry in entries:
            name = entry["name"]
            if "/" in name or not (is_stable(version) or gate_of(group, version, name)):
                continue
            kind = entry["kind"]
            found.append(
                ResourceInfo(
                    group=group,
                    version=version,
                    resource=name,
                    kind=kind,
                    namespaced=entry["namespaced"],
                    verbs=tuple(entry["verbs"]),
                    storage_prefix=_storage_prefix(group, name),
                    hub=_HUB_VERSIONS.get((group, name), (group, version)),
                    type_name=types.get((group, version, kind), ""),
                    singular=entry.get("singularName", ""),
                    short_names=tuple(entry.get("shortNames", ())),
                    categories=tuple(entry.get("categories", ())),
                    subresources=subresources.get(name, {}),
                    entry=entry,
                )
            )
    return tuple(found)


def builtin_resources(
    release: str = LATEST, gates: frozenset[str] = frozenset(), *, old: bool = False
) -> ResourceTable:
    """Return a fresh table of all built-in resources in the versions that a release serves.

    Args:
        release: the release, such as "1.36".
        gates: the feature gates that are on although they are off by default.
        old: some versions that ended before the first known release are served, too.
    """
    return _builtin_resources(number(release), gates & _SERVING_GATES, old).copy()


def every_resource() -> ResourceTable:
    """Return a fresh table of the built-in resources of the latest release, with those of all gates."""
    return builtin_resources(gates=_SERVING_GATES)


_SERVING_GATES = frozenset(GATES)


def _as_of(minor: int, gates: frozenset[str]) -> list[ResourceInfo]:
    """The resources of a minor release."""
    found = []
    for info in _known_resources():
        if (
            not is_stable(info.version)
            and gate_of(info.group, info.version, info.resource) not in gates
        ):
            continue
        place = f"{info.api_version} {info.resource}"
        if served_since(place) > minor:
            continue
        parts = {
            name: part
            for name, part in info.subresources.items()
            if served_since(f"{place}/{name}") <= minor
        }
        found.append(
            info if len(parts) == len(info.subresources) else evolve(info, subresources=parts)
        )
    return found


def _in_earlier(one: Earlier, release: str, served: list[ResourceInfo]) -> list[ResourceInfo]:
    """The resources of a version that is served no more, as which they are read."""
    found = []
    for info in _known_resources():
        if (info.group, info.version) != (
            one.group,
            one.like,
        ) or info.resource not in one.resources:
            continue
        hub = (
            info.hub
            if any(known.api_version == info.api_version for known in served)
            else (one.group, one.version)
        )
        found.append(
            evolve(info, version=one.version, hub=hub, deprecation=one.warning(info.kind, release))
        )
    return found


@cache
def _builtin_resources(minor: int, gates: frozenset[str], old: bool) -> ResourceTable:
    table = ResourceTable()
    served = _as_of(minor, gates)
    release = f"1.{minor}"
    earlier = earlier_versions(release)
    if old:
        served_by_release = {(each.group, each.version) for each in earlier}
        earlier += [
            each for each in old_versions() if (each.group, each.version) not in served_by_release
        ]
    for one in earlier:
        served += _in_earlier(one, release, served)
    for info in served:
        table.add(info)
    groups = []
    for group in load_data("resources")["groups"]:
        name = group["name"]
        there = list(dict.fromkeys(info.version for info in served if info.group == name))
        versions = [v for v in group["versions"] if v["version"] in there]
        known = {v["version"] for v in versions}
        versions += [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in there
            if version not in known
        ]
        if versions:
            preferred = group["preferredVersion"]
            if preferred["version"] not in there:
                preferred = versions[0]
            groups.append(
                {"name": group["name"], "versions": versions, "preferredVersion": preferred}
            )
    table.groups = groups
    return table
