"""The clientset: one coroutine per verb, for every resource.

A call is one request to the API server and one step when its answer arrives. Answers are the
server's shared objects, without copies; they are immutable. Errors come as `ApiError`; a reset
connection as `actors.LinkBroken`, and then it is unknown whether the write happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actors import LinkBroken
from controlplane.api.generic import V
from controlplane.api.request import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Request,
    Response,
)
from controlplane.api.tree import Tree
from controlplane.client.calls import Call, ObjectList
from controlplane.client.errors import ApiError
from controlplane.client.loops.connection import IN_CLUSTER, RestConfig, connection
from controlplane.client.resources import (
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    Resource,
)

if TYPE_CHECKING:
    from actors import Context, Mailbox
    from controlplane.api.object import Object

__all__ = [
    "DEPLOYMENTS",
    "EVENTS",
    "JSON_PATCH",
    "LEASES",
    "MERGE_PATCH",
    "NAMESPACES",
    "NODES",
    "PODS",
    "REPLICA_SETS",
    "SERVICES",
    "STRATEGIC_MERGE_PATCH",
    "Client",
    "ObjectList",
    "Resource",
]


class Client:
    """Speaks to the API server for one task. Make one per task: a request needs the task's context.

    With `timeout_ns` a request that takes longer raises actors.Timeout.
    """

    __slots__ = ("_ctx", "_direct", "_server", "_timeout", "_user_agent")

    def __init__(
        self, ctx: Context, server: RestConfig = IN_CLUSTER, *, timeout_ns: int | None = None
    ) -> None:
        self._ctx = ctx
        self._server = server
        self._direct = server.direct
        self._timeout = timeout_ns
        self._user_agent = ctx.actor

    async def call(self, request: Request) -> Response:
        """Send any request. Raises ApiError for an answer of 400 and above."""
        response: Response
        ctx = self._ctx
        if self._direct is not None:
            response = await ctx.ask(self._direct, request, self._timeout, point=request.label)
        else:
            response = await connection(ctx, self._server).ask(ctx, request, self._timeout)
        if ctx.noting:
            note_read(ctx, request, response)
        if response.code >= 400:
            raise ApiError(response.code, response.tree)
        return response

    def _request(
        self, verb: str, resource: Resource, namespace: str, name: str = "", **more: Any
    ) -> Request:
        return Request(
            verb,
            resource.group,
            resource.version,
            resource.name,
            namespace,
            name,
            user_agent=self._user_agent,
            **more,
        )

    async def send(self, call: Call) -> Object | ObjectList | Response:
        """Carry out what a decision asked for; see `controlplane.client.calls`.

        The object of an answer that holds one, a list for list, and else the answer.
        """
        response = await self.call(
            self._request(
                call.verb,
                call.resource,
                call.namespace,
                call.name,
                subresource=call.subresource,
                query=call.query,
                body=call.body,
                content_type=call.content_type,
            )
        )
        if call.verb == "list":
            return _listed(response)
        return response if response.object is None else response.object

    async def _object(self, _resource: Resource[V], request: Request) -> Object[V]:
        response = await self.call(request)
        assert response.object is not None
        return cast("Object[V]", response.object)

    async def get(
        self, resource: Resource[V], namespace: str, name: str, **query: str
    ) -> Object[V]:
        """Read one object; with `resourceVersion="0"` as the server's cache has it."""
        return await self._object(
            resource, self._request("get", resource, namespace, name, query=query)
        )

    async def list(self, resource: Resource[V], namespace: str = "", **query: str) -> ObjectList[V]:
        """List objects; `query` holds the server's own parameter names (labelSelector, resourceVersion, ...)."""
        return _listed(await self.call(self._request("list", resource, namespace, query=query)))

    async def create(
        self, resource: Resource[V], tree: Tree, namespace: str = "", subresource: str = ""
    ) -> Object[V]:
        """Create an object (or a subresource of the object that the tree names)."""
        metadata = tree.get("metadata", {})
        namespace = namespace or metadata.get("namespace", "")
        name = metadata.get("name", "") if subresource else ""
        request = self._request(
            "create", resource, namespace, name, subresource=subresource, body=tree
        )
        return await self._object(resource, request)

    async def bind(self, pod_namespace: str, pod_name: str, binding: Tree) -> None:
        """Post a Binding: put a pod on a node."""
        await self.call(
            self._request(
                "create", PODS, pod_namespace, pod_name, subresource="binding", body=binding
            )
        )

    async def update(self, resource: Resource[V], tree: Tree, subresource: str = "") -> Object[V]:
        """Write a whole object; a resourceVersion in it must be the current one."""
        metadata = tree["metadata"]
        return await self._object(
            resource,
            self._request(
                "update",
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                subresource=subresource,
                body=tree,
            ),
        )

    async def patch(
        self,
        resource: Resource[V],
        namespace: str,
        name: str,
        patch: Any,
        *,
        subresource: str = "",
        kind: str = STRATEGIC_MERGE_PATCH,
    ) -> Object[V]:
        """Patch an object; strategic merge unless `kind` says otherwise."""
        return await self._object(
            resource,
            self._request(
                "patch",
                resource,
                namespace,
                name,
                subresource=subresource,
                body=patch,
                content_type=kind,
            ),
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> Response:
        """Delete an object; with `uid` only that very one."""
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        return await self.call(self._request("delete", resource, namespace, name, body=options))

    def watch(self, resource: Resource, namespace: str = "", **query: str) -> Mailbox:
        """Open a watch: a stream of `WatchBatch` messages; see `controlplane.client.loops.informer`.

        Raises LinkBroken when the server is down.
        """
        query.setdefault("allowWatchBookmarks", "true")
        request = self._request("watch", resource, namespace, query=query, content_type=JSON)
        name = f"watch {resource.name}"
        if self._direct is None:
            return connection(self._ctx, self._server).open(self._ctx, request, name)
        stream = self._ctx.open(self._direct, request, name=name)
        if stream.peer is not None and not stream.peer.alive:
            self._ctx.close(stream)
            raise LinkBroken(f"{self._direct} is down")
        return stream


def _listed(response: Response) -> ObjectList[Any]:
    metadata = response.tree.get("metadata", {})
    return ObjectList(
        response.items or [], metadata.get("resourceVersion", ""), metadata.get("continue", "")
    )


def note_read(ctx: Context, request: Request, response: Response) -> None:
    """Note which object a component got, in which version; of a list, how many."""
    if request.verb == "get" and response.object is not None:
        read = response.object
        ctx.note("client.read", obj=read.place, uid=read.uid or None, rv=read.resource_version)
    elif request.verb == "list" and response.items is not None:
        version = response.tree.get("metadata", {}).get("resourceVersion", "")
        data = {"resource": request.resource, "count": len(response.items)}
        if request.namespace:
            data["namespace"] = request.namespace
        ctx.note("client.listed", rv=int(version) if version.isdecimal() else None, data=data)
