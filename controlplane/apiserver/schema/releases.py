"""The API of earlier releases: the resources, versions and fields that they served.

Package data: the fields and paths of the API description that each release published, and for
resources behind a gate the first release that had it on. A server of an earlier release does not
know a later field: it is unknown to strict validation and dropped. `flowcontrol` before 1.26 and
its versions v1beta1 and v1beta2 are missing. Removed versions are described like their successors,
as which they are read.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.types import Field, Kind, load_data, struct_type

__all__ = [
    "EARLIEST",
    "LATEST",
    "RELEASES",
    "Earlier",
    "earlier_versions",
    "old_versions",
    "number",
    "served_since",
    "without_younger",
]


@cache
def _data() -> Tree:
    return load_data("releases")


RELEASES: Final[tuple[str, ...]] = tuple(f"1.{minor}" for minor in range(25, 37))
EARLIEST, LATEST = RELEASES[0], RELEASES[-1]


def number(release: str) -> int:
    """The minor release as a number; what is older than all that are known counts as the first."""
    return max(int(release.partition(".")[2]), int(EARLIEST.partition(".")[2]))


@frozen
class Earlier:
    """A version that is served no more: in which group, like which other, from and to when.

    `deprecated`: the release that deprecated it.
    """

    group: str
    version: str
    like: str
    resources: tuple[str, ...]
    first: str
    last: str
    deprecated: str

    def warning(self, kind: str, release: str) -> str:
        """Return the warning for clients of the version, "" for none. Upstream: apiserver pkg/endpoints/deprecation."""
        if number(release) < int(self.deprecated.partition(".")[2]):
            return ""
        gone = f"1.{number(self.last) + 1}"
        return (
            f"{self.group}/{self.version} {kind} is deprecated in v{self.deprecated}+, unavailable "
            f"in v{gone}+; use {self.group}/{self.like} {kind}"
        )


def served_since(place: str) -> int:
    """The first minor release that served `group/version resource[/subresource]`, 0 if all did."""
    found: str = _data()["resources"].get(place, "")
    return number(found) if found else 0


def earlier_versions(release: str) -> list[Earlier]:
    """The versions that a release served, and the latest one does not."""
    at = number(release)
    found = [
        Earlier(
            one["group"],
            one["version"],
            one["like"],
            tuple(one["resources"]),
            one["from"],
            one["to"],
            one["deprecated"],
        )
        for one in _data()["earlier"]
    ]
    return [one for one in found if number(one.first) <= at <= number(one.last)]


def old_versions() -> list[Earlier]:
    """The versions that are off by default, like their successors.

    Those that ended with or before 1.25 and that operators of that time ask for, and earlier ones of devices.
    """
    return [
        Earlier("policy", "v1beta1", "v1", ("poddisruptionbudgets",), *_ENDED),
        Earlier("batch", "v1beta1", "v1", ("cronjobs",), *_ENDED),
        Earlier("rbac.authorization.k8s.io", "v1beta1", "v1", _ROLES, *_ENDED),
        Earlier("resource.k8s.io", "v1beta2", "v1", _OF_DEVICES, *_ENDED),
        Earlier("resource.k8s.io", "v1alpha3", "v1beta2", ("devicetaintrules",), *_ENDED),
    ]


_ENDED: Final = ("1.8", "1.24", "1.99")
"""They are served on request, without a warning."""
_OF_DEVICES: Final = (
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourceslices",
)
_ROLES: Final = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")


# -- fields --------------------------------------------------------------------------------------


class _Younger:
    """The fields of a type that a release lacks: fields of its own, and fields that contain such ones."""

    __slots__ = ("inside", "names")

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.inside: dict[str, tuple[Field, _Younger]] = {}

    @property
    def anything(self) -> bool:
        return bool(self.names or self.inside)


def _struct_of(field: Field) -> str:
    while field.element is not None:
        field = field.element
    return field.type_name if field.kind == Kind.STRUCT else ""


@cache
def _younger_in(type_name: str, minor: int) -> _Younger | None:
    """Return the fields of a type that a minor release lacks, None for none. Schemas of custom resources apart."""
    seen: dict[str, _Younger] = {}
    found = _collect(type_name, minor, seen)
    _prune(seen)
    return found if found.anything else None


def _collect(type_name: str, minor: int, seen: dict[str, _Younger]) -> _Younger:
    known = seen.get(type_name)
    if known is not None:
        return known
    dated = _data()["fields"].get(type_name.removeprefix("io.k8s."), {})
    names = frozenset(name for name, since in dated.items() if number(since) > minor)
    found = seen[type_name] = _Younger(names)
    if type_name.endswith("JSONSchemaProps"):
        return found
    for name, field in struct_type(type_name).fields.items():
        inner = _struct_of(field)
        if inner and name not in names:
            found.inside[name] = field, _collect(inner, minor, seen)
    return found


def _prune(seen: dict[str, _Younger]) -> None:
    """Keep only ways that lead to a younger field."""
    leads = {name for name, found in seen.items() if found.names}
    by_part = {id(found): name for name, found in seen.items()}
    changed = True
    while changed:
        changed = False
        for name, found in seen.items():
            if name not in leads and any(
                by_part[id(inner)] in leads for _, inner in found.inside.values()
            ):
                leads.add(name)
                changed = True
    for found in seen.values():
        found.inside = {
            name: (field, inner)
            for name, (field, inner) in found.inside.items()
            if by_part[id(inner)] in leads
        }


def without_younger(type_name: str, tree: Tree, release: str) -> tuple[Tree, list[str]]:
    """A tree without what the release does not know, and the places where that stood.

    The same tree when there is nothing of it.
    """
    found = _younger_in(type_name, number(release))
    places: list[str] = []
    if found is None or not isinstance(tree, dict):
        return tree, places
    return _stripped(found, tree, "", places), places


def _stripped(found: _Younger, tree: Tree, path: str, places: list[str]) -> Tree:
    out: Tree | None = None
    for key, value in tree.items():
        place = f"{path}.{key}" if path else key
        if key in found.names:
            places.append(place)
            out = dict(tree) if out is None else out
            del out[key]
            continue
        inner = found.inside.get(key)
        if inner is None:
            continue
        made = _value(inner[0], inner[1], value, place, places)
        if made is not value:
            out = dict(tree) if out is None else out
            out[key] = made
    return tree if out is None else out


def _value(field: Field, found: _Younger, value: Any, place: str, places: list[str]) -> Any:
    if isinstance(value, list) and field.element is not None:
        items = [
            _value(field.element, found, item, f"{place}[{index}]", places)
            for index, item in enumerate(value)
        ]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    if field.kind == Kind.MAP and field.element is not None:
        element = field.element
        pairs = {
            key: _value(element, found, item, f"{place}.{key}", places)
            for key, item in value.items()
        }
        return pairs if any(pairs[key] is not value[key] for key in value) else value
    return _stripped(found, value, place, places)
