"""Which requests meet: whether another one can come between what a request reads and what it writes.

A request reads its object, asks admission about others, and writes if nobody wrote the object
meanwhile. Each of these is a point of its own. Where no other request that waits or is under way
meets it, the points are left out, for nothing can be seen from them: whatever could happen there,
messages that are yet to be sent among it, could as well have happened before the request began, and
then it would be among those that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["READ_VERBS", "meets", "meets_any"]

READ_VERBS = ("get", "list", "watch")
LOOKED_UP = frozenset(
    (
        "clusterrolebindings", "clusterroles", "customresourcedefinitions", "ingressclasses",
        "limitranges", "namespaces", "priorityclasses", "resourcequotas", "rolebindings", "roles",
        "runtimeclasses", "serviceaccounts", "storageclasses",
    )
)  # fmt: skip
"""Resources that admission looks at when it is asked about others."""
ALLOCATING = ("services",)
"""Resources whose objects share a range of addresses and ports."""
BESIDE = {"resize": "nodes", "eviction": "poddisruptionbudgets"}
"""Subresources of pods that look at one more resource."""


def meets(one: Request, other: Request, has_quotas: Callable[[str], bool]) -> bool:
    """Whether the order of the parts of two requests can make a difference.

    `has_quotas` tells of a namespace whether creations in it are counted.
    """
    if one.verb in READ_VERBS or other.verb in READ_VERBS:
        return False
    mine, theirs = _resource(one), _resource(other)
    if mine in LOOKED_UP or theirs in LOOKED_UP:
        return True
    if BESIDE.get(one.subresource) == theirs or BESIDE.get(other.subresource) == mine:
        return True
    if one.verb == other.verb == "create" and not one.subresource and not other.subresource:
        if mine == theirs and mine in ALLOCATING:
            return True
        return one.namespace == other.namespace and has_quotas(one.namespace)
    if mine != theirs or one.namespace != other.namespace:
        return False
    if mine in ALLOCATING:
        return True
    names = _names(one), _names(other)
    return None in names or names[0] == names[1]


def _resource(request: Request) -> str:
    return "pods" if request.resource == "bindings" else request.resource


def _names(request: Request) -> str | None:
    """The name of the one object that a request is about, None if it is about many."""
    if request.name or request.verb == "deletecollection":
        return request.name or None
    body = request.body
    meta = body.get("metadata") if isinstance(body, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else ""


def meets_any(one: Request, others: Iterable[object], has_quotas: Callable[[str], bool]) -> bool:
    """Whether a request meets one of those; what came from outside meets everything that writes.

    In a large cluster hundreds wait at once, so what cannot meet is told apart before `meets` is asked.
    """
    if one.verb in READ_VERBS:
        return False
    mine, namespace, name = _resource(one), one.namespace, one.name
    looked_up = mine in LOOKED_UP
    beside = BESIDE.get(one.subresource)
    creates = one.verb == "create" and not one.subresource
    counted = creates and has_quotas(namespace)
    for each in others:
        if not isinstance(each, Request):
            return True
        if each.verb in READ_VERBS:
            continue
        theirs = "pods" if each.resource == "bindings" else each.resource
        if looked_up or theirs in LOOKED_UP:
            return True
        if theirs == mine:
            if name and each.name and each.name != name and mine not in ALLOCATING:
                continue
        elif (
            theirs != beside
            and not each.subresource
            and not (counted and each.verb == "create" and each.namespace == namespace)
        ):
            continue
        if meets(one, each, has_quotas):
            return True
    return False
