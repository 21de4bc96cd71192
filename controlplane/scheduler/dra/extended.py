"""Extended resources that device classes offer: their classes, and requests for the devices.

A class offers the resource that its spec names, and `deviceclass.resource.kubernetes.io/NAME`.

Upstream: dynamic-resource-allocation/deviceclass/extendedresourcecache, plugins/dynamicresources/
extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from controlplane.api.quantity import parse
from controlplane.api.resource_claims import EXTENDED_ANNOTATION
from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.scheduler.state.resources import is_extended_resource

__all__ = [
    "IMPLICIT_PREFIX",
    "IN_MEMORY",
    "ExtendedResources",
    "find_claim",
    "is_extended_by_class",
    "new_claim",
    "owners_of_extended",
    "requests_for",
]

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
IN_MEMORY: Final = "<extended-resources>"
"""The name of a claim that is not written yet; no object can have it."""


def is_extended_by_class(name: str) -> bool:
    """Return whether a class may offer the resource."""
    return name.startswith(IMPLICIT_PREFIX) or is_extended_resource(name)


def _name(tree: Tree) -> str:
    name: str = (tree.get("metadata") or {}).get("name", "")
    return name


def _offered(tree: Tree) -> str | None:
    offered: str | None = (tree.get("spec") or {}).get("extendedResourceName")
    return offered


def _created(tree: Tree) -> int:
    text = (tree.get("metadata") or {}).get("creationTimestamp")
    return parse_time(text) if text else -(1 << 62)  # Go's zero time


class ExtendedResources:
    """The class of each extended resource: of several the newest, of equally old ones the first by name.

    A class that loses that comparison is ignored with all it says, also one that would replace itself.
    """

    def __init__(self) -> None:
        self.classes: dict[str, Tree] = {}
        """By the name of the resource."""
        self.revision = 0
        """Rises with every change."""

    def class_of(self, resource: str) -> Tree | None:
        """Return the class that offers a resource, None if none does."""
        return self.classes.get(resource)

    def notice(self, old: Tree | None, new: Tree | None) -> None:
        """A class is new, has changed, or is gone."""
        self.revision += 1
        if new is None:
            assert old is not None
            self._forget(old)
            return
        offered = _offered(new)
        rival = None if offered is None else self.classes.get(offered)
        if rival is not None:
            mine, theirs = _created(new), _created(rival)
            if mine < theirs or (mine == theirs and _name(new) >= _name(rival)):
                return
        if old is not None:
            self._forget(old)
        if offered is not None:
            self.classes[offered] = new
        self.classes[IMPLICIT_PREFIX + _name(new)] = new

    def _forget(self, tree: Tree) -> None:
        self.classes.pop(IMPLICIT_PREFIX + _name(tree), None)
        offered = _offered(tree)
        if offered is not None:
            self.classes.pop(offered, None)


# -- the claim of a pod ----------------------------------------------------------------------------


def _owners(claim: Tree) -> list[Tree]:
    own = claim["metadata"]
    if (own.get("annotations") or {}).get(EXTENDED_ANNOTATION) != "true":
        return []
    return [owner for owner in own.get("ownerReferences") or () if owner.get("controller")]


def owners_of_extended(claim: Tree) -> tuple[str, ...]:
    """Return the uids of the pods for whose extended resources a claim was written: of one, or of none."""
    return tuple(dict.fromkeys(owner.get("uid", "") for owner in _owners(claim)))


def find_claim(pod: Tree, claims: Iterable[Tree]) -> Tree | None:
    """Return the first claim that was written for the extended resources of a pod, None if there is none."""
    meta = pod["metadata"]
    for claim in claims:
        for owner in _owners(claim):
            if owner.get("name") == meta["name"] and owner.get("uid") == meta.get("uid", ""):
                return claim
    return None


def new_claim(pod: Tree, uid: str) -> Tree:
    """Return the claim for the extended resources of a pod, without requests, under a temporary uid."""
    meta = pod["metadata"]
    owner: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": meta.get("namespace", ""),
            "name": IN_MEMORY,
            "uid": uid,
            "generateName": f"{meta['name']}-extended-resources-",
            "ownerReferences": [owner],
            "annotations": {EXTENDED_ANNOTATION: "true"},
        },
        "spec": {"devices": {}},
    }


# -- requests for devices --------------------------------------------------------------------------


@frozen
class _Wanted:
    """Devices that a container wants besides those that it can reuse."""

    name: str
    class_name: str
    count: int

    @property
    def tree(self) -> Tree:
        exactly: Tree = {
            "deviceClassName": self.class_name,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        return {"name": self.name, "exactly": exactly}


@frozen
class _Mapping:
    """A container's resource and the request that stands for it."""

    container: str
    resource: str
    request: str

    @property
    def tree(self) -> Tree:
        return {
            "containerName": self.container,
            "resourceName": self.resource,
            "requestName": self.request,
        }


def requests_for(
    pod: Tree, resources: Collection[str], classes: ExtendedResources
) -> tuple[list[Tree], list[Tree]]:
    """Return the requests of a claim for extended resources, and what stands for what in which container.

    Init containers that end before others start use the devices of those; of what they want besides only
    the largest request is kept.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or ()
    containers = [*inits, *(spec.get("containers") or ())]
    short = [i for i, each in enumerate(inits) if each.get("restartPolicy") != "Always"]
    requests: list[_Wanted] = []
    mappings: list[_Mapping] = []
    for resource in sorted(resources):
        found = classes.class_of(resource)
        if found is None:
            continue
        wanted, mapped = _of_resource(containers, short, resource, _name(found))
        requests += wanted
        mappings += mapped
    requests.sort(key=lambda each: each.name)
    return [each.tree for each in requests], [each.tree for each in mappings]


def _of_resource(
    containers: Sequence[Tree], short: Sequence[int], resource: str, class_name: str
) -> tuple[list[_Wanted], list[_Mapping]]:
    long_lived: list[_Wanted | None] = [None] * len(containers)
    mappings: list[_Mapping] = []
    for i, container in enumerate(containers):
        if i in short:
            continue
        long_lived[i], mapped = _of_container(i, container, resource, class_name, ())
        mappings += mapped
    largest: _Wanted | None = None
    replaced: dict[str, None] = {}
    short_mappings: list[_Mapping] = []
    for i in short:
        wanted, mapped = _of_container(i, containers[i], resource, class_name, long_lived[i:])
        short_mappings += mapped
        if wanted is not None:
            replaced[wanted.name] = None
            if largest is None or largest.count < wanted.count:
                largest = wanted
    if largest is not None:
        name = largest.name
        short_mappings = [
            evolve(each, request=name) if each.request in replaced else each
            for each in short_mappings
        ]
    found = [each for each in (largest, *long_lived) if each is not None]
    return found, [*mappings, *short_mappings]


def _of_container(
    index: int,
    container: Tree,
    resource: str,
    class_name: str,
    reusable: Sequence[_Wanted | None],
) -> tuple[_Wanted | None, list[_Mapping]]:
    requests: Mapping[str, object] = (container.get("resources") or {}).get("requests") or {}
    if resource not in requests:
        return None, []
    amount = parse(str(requests[resource]))
    count = amount.value()
    if count == 0 or amount.cmp(parse(str(count))) != 0:
        return None, []
    mappings, have = [], 0
    for each in reusable:
        if each is None:
            continue
        have += each.count
        mappings.append(_Mapping(container.get("name", ""), resource, each.name))
        if have >= count:
            return None, mappings
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    mappings.append(_Mapping(container.get("name", ""), resource, name))
    return _Wanted(name, class_name, count - have), mappings
