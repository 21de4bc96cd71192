"""The API of earlier releases: the resources, versions and fields that they served.

Package data: the fields and paths of the API description that each release published, and for
resources behind a gate the first release that had it on. A server of an earlier release does not
know a later field: it is unknown to strict validation and dropped. `flowcontrol` before 1.26 and
its versions v1beta1 and v1beta2 are missing. Removed versions are described like their successors,
as which they are read.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.marked_fields import Marked, marked_in, without_marked
from controlplane.apiserver.schema.types import load_data

__all__ = [
    "EARLIEST",
    "LATEST",
    "RELEASES",
    "Earlier",
    "earlier_versions",
    "old_versions",
    "number",
    "reached",
    "served_since",
    "without_younger",
    "younger_fields",
]


@cache
def _data() -> Tree:
    return load_data("releases")


RELEASES: Final[tuple[str, ...]] = tuple(f"1.{minor}" for minor in range(25, 37))
EARLIEST, LATEST = RELEASES[0], RELEASES[-1]


def number(release: str) -> int:
    """The minor release as a number; what is older than all that are known counts as the first."""
    return max(int(release.partition(".")[2]), int(EARLIEST.partition(".")[2]))


def reached(earlier: str, minor: int) -> bool:
    """Return whether a release is 1.`minor` or later; "" stands for the latest one."""
    return not earlier or number(earlier) >= minor


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


@cache
def _younger_in(type_name: str, minor: int) -> Marked | None:
    """Return the fields of a type, and of its parts, that a minor release lacks, None for none."""
    return marked_in(type_name, lambda short: _dated_after(short, minor))


def _dated_after(short: str, minor: int) -> frozenset[str]:
    dated = _data()["fields"].get(short, {})
    return frozenset(name for name, since in dated.items() if number(since) > minor)


def younger_fields(type_name: str, earlier: str) -> frozenset[str]:
    """Return the fields of the type itself that a release lacks; "" stands for the latest one, which has all."""
    if not earlier:
        return frozenset()
    return _dated_after(type_name.removeprefix("io.k8s."), number(earlier))


def without_younger(type_name: str, tree: Tree, release: str) -> tuple[Tree, list[str]]:
    """A tree without what the release does not know, and the places where that stood.

    The same tree when there is nothing of it.
    """
    return without_marked(_younger_in(type_name, number(release)), tree)
