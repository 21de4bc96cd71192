"""Requests as values: what a decision asks of the API server without knowing how it is reached.

A decision that needs answers in between is a generator: it yields a `Call` and is sent the answer,
or an `ApiError` or `ConnectionLost` is thrown into it. The functions here are its verbs:

    pod = yield from calls.get(PODS, "default", "web-1")
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Generic, NamedTuple

from attrs import field, frozen

from controlplane.api.generic import V, V_co
from controlplane.api.object import Object
from controlplane.api.request import JSON, STRATEGIC_MERGE_PATCH
from controlplane.api.tree import Tree
from controlplane.client.resources import Resource

__all__ = [
    "Call",
    "ObjectList",
    "create",
    "delete",
    "delete_collection",
    "get",
    "list_objects",
    "patch",
    "update",
]


class ObjectList(NamedTuple, Generic[V_co]):
    """Items of a list answer, the resource version of the list, and how to go on if it is a page."""

    items: Sequence[Object[V_co]]
    resource_version: str
    continue_token: str = ""


@frozen(eq=False)
class Call:
    """One request; fields as in `controlplane.api.request.Request`."""

    verb: str
    resource: Resource[Any]
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: dict[str, str] = field(factory=dict)
    body: Any = None
    content_type: str = JSON


def get(resource: Resource[V], namespace: str, name: str, subresource: str = "") -> _One[V]:
    """Read one object from the server."""
    found: Object[V] = yield Call("get", resource, namespace, name, subresource)
    return found


def list_objects(resource: Resource[V], namespace: str = "", **query: str) -> _Many[V]:
    """List objects; `query` holds the server's own parameter names (labelSelector, ...)."""
    found: ObjectList[V] = yield Call("list", resource, namespace, query=query)
    return found


def create(
    resource: Resource[V], namespace: str, tree: Tree, name: str = "", subresource: str = ""
) -> _One[V]:
    """Create an object, or the subresource of the object called `name`."""
    made: Object[V] = yield Call("create", resource, namespace, name, subresource, body=tree)
    return made


def update(resource: Resource[V], tree: Tree, subresource: str = "") -> _One[V]:
    """Write a whole object; a resourceVersion in it must be the current one."""
    metadata = tree["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    written: Object[V] = yield Call("update", resource, namespace, name, subresource, body=tree)
    return written


def patch(
    resource: Resource[V],
    namespace: str,
    name: str,
    body: Any,
    *,
    subresource: str = "",
    kind: str = STRATEGIC_MERGE_PATCH,
) -> _One[V]:
    """Patch an object; strategic merge unless `kind` says otherwise."""
    patched: Object[V] = yield Call(
        "patch", resource, namespace, name, subresource, body=body, content_type=kind
    )
    return patched


def delete_options(
    *,
    uid: str = "",
    resource_version: str = "",
    grace_period_seconds: int | None = None,
    propagation_policy: str = "",
) -> Tree:
    """DeleteOptions with what is given."""
    options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if uid or resource_version:
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if propagation_policy:
        options["propagationPolicy"] = propagation_policy
    return options


def delete(
    resource: Resource[Any], namespace: str, name: str, options: Tree | None = None
) -> Generator[Call, Any, None]:
    """Delete an object; see `delete_options`."""
    yield Call("delete", resource, namespace, name, body=options or delete_options())


def delete_collection(
    resource: Resource[Any], namespace: str, options: Tree | None = None, **query: str
) -> Generator[Call, Any, None]:
    """Delete all objects of a resource in a namespace (that `query` selects)."""
    body = options or delete_options()
    yield Call("deletecollection", resource, namespace, query=query, body=body)


_One = Generator[Call, Any, Object[V]]
_Many = Generator[Call, Any, ObjectList[V]]
