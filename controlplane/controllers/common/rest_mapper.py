"""Resources by kind, as clients learn them from discovery. Upstream: k8s.io/client-go/restmapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.client.resources import Resource


class NoKindMatch(Exception):
    """No resource serves the kind; it may come later."""


@frozen
class ServedKind:
    """A kind with the resource that serves it, and what may be done with it."""

    resource: Resource[Any]
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    scalable: bool = False
    """The resource has the subresource scale."""

    def has(self, *verbs: str) -> bool:
        """Return whether all of these are served."""
        return all(verb in self.verbs for verb in verbs)


class RESTMapper:
    """The kinds that are served, in discovery order."""

    def __init__(self, kinds: Iterable[ServedKind] = ()) -> None:
        self.kinds: dict[tuple[str, str], ServedKind] = {}
        self.undiscovered: dict[str, str] = {}
        """Groups and versions that cannot be asked what they serve, and why."""
        self.add(*kinds)

    def add(self, *kinds: ServedKind) -> None:
        """Serve these, too."""
        for each in kinds:
            self.kinds[each.resource.api_version, each.kind] = each

    def remove(self, api_version: str, kind: str) -> None:
        """Serve this no longer."""
        self.kinds.pop((api_version, kind), None)

    def preferred(self) -> list[ServedKind]:
        """Each resource once, in the version that is offered first."""
        found: dict[tuple[str, str], ServedKind] = {}
        for each in self.kinds.values():
            found.setdefault((each.resource.group, each.resource.name), each)
        return list(found.values())

    def of(self, api_version: str, kind: str) -> ServedKind:
        """The resource that serves a kind. Raises NoKindMatch."""
        found = self.kinds.get((api_version, kind))
        if found is None:
            raise NoKindMatch(f'no matches for kind "{kind}" in version "{api_version}"')
        return found
