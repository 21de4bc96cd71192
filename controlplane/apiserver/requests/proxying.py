"""Proxies to nodes, pods and services: an emulated HTTP server answers, or the words of a connection that fails.

A pod's server is that of port forwarding; a kubelet answers `/healthz` and `/pods`. Upstream: ResourceLocation in
pkg/registry/core/{node,pod,service}, apimachinery pkg/util/proxy, util/net SplitSchemeNamePort.
"""

from __future__ import annotations

import json
from typing import Final

from controlplane.api.container_inside import answer_of, front_of
from controlplane.api.object import Object
from controlplane.api.request import Response
from controlplane.api.tree import Tree, is_fake_node, is_ready
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.options import NodePages
from controlplane.apiserver.requests.options import check_connection
from controlplane.apiserver.requests.parts import Parts
from controlplane.apiserver.requests.usage import pods_by_node, stored_objects
from controlplane.apiserver.schema import status
from controlplane.apiserver.storage.transactions import Steps
from controlplane.metrics.exposition import CONTENT_TYPE

__all__ = ["proxy", "split_name"]

KUBELET: Final = 10250
PLAIN: Final = "text/plain; charset=utf-8"
_METHODS: Final = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def split_name(given: str) -> tuple[str, str, str] | None:
    """Return scheme, name and port of NAME, NAME:PORT or SCHEME:NAME:PORT; None for anything else."""
    parts = given.split(":")
    if len(parts) == 1:
        scheme, name, port = "", parts[0], ""
    elif len(parts) == 2:
        scheme, name, port = "", parts[0], parts[1]
    elif len(parts) == 3:
        scheme, name, port = parts
        if scheme not in ("", "http", "https"):
            return None
    else:
        return None
    return (scheme, name, port) if name else None


def proxy(parts: Parts, ctx: Context) -> Steps[Response]:
    """The answer of what stands behind a node, pod or service."""
    check_connection(ctx.request)
    found = split_name(ctx.request.name)
    resource = ctx.info.resource
    if found is None:
        raise status.bad_request(f'invalid {resource[:-1]} request "{ctx.request.name}"')
    _, name, port = found
    if resource == "services":
        return _service(parts, ctx, name, port)
    return _pod(parts, ctx, name, port) if resource == "pods" else _node(parts, ctx, name, port)


def _service(parts: Parts, ctx: Context, name: str, port: str) -> Steps[Response]:
    namespace = ctx.request.namespace
    number = parse_int64(port)
    if number is not None:
        service = yield from parts.registries.named("", "services").get(namespace, name)
        ports = (service.tree.get("spec") or {}).get("ports") or ()
        named = [each.get("name", "") for each in ports if each.get("port") == number]
        if not named:
            raise _unavailable(f'no service port {number} found for service "{name}"')
        port = named[0]
    endpoints = yield from parts.registries.named("", "endpoints").get(namespace, name, ctx.info)
    subsets = endpoints.tree.get("subsets") or ()
    if not subsets:
        raise _unavailable(f'no endpoints available for service "{name}"')
    for subset in subsets:
        for each in subset.get("ports") or ():
            if each.get("name", "") != port:
                continue
            for address in subset.get("addresses") or ():
                pod = _pod_at(ctx, address, namespace)
                if pod is not None:
                    return _reached(ctx, pod.tree, str(each["port"]))
    raise _unavailable(f'no endpoints available for service "{ctx.request.name}"')


def _pod_at(ctx: Context, address: Tree, namespace: str) -> Object | None:
    """Return the pod that has an endpoint's address; None where it is no pod of this namespace."""
    target = address.get("targetRef") or {}
    if target.get("namespace") != namespace:
        return None
    pod = ctx.find("", "pods", namespace, target.get("name", ""))
    ip = None if pod is None else (pod.tree.get("status") or {}).get("podIP")
    return pod if ip == address.get("ip") else None


def _pod(parts: Parts, ctx: Context, name: str, port: str) -> Steps[Response]:
    pod = yield from parts.registries.named("", "pods").get(ctx.request.namespace, name)
    if not port:
        named = [
            str(each["containerPort"])
            for container in pod.tree["spec"]["containers"]
            for each in (container.get("ports") or ())[:1]
        ]
        port = named[0] if named else ""
    if not (pod.tree.get("status") or {}).get("podIP"):
        raise status.bad_request("address not allowed")
    return _reached(ctx, pod.tree, port)


def _reached(ctx: Context, pod: Tree, port: str) -> Response:
    """The answer of a pod's HTTP server; a path without a slash at its end is redirected, so that links work.

    Upstream: apimachinery pkg/util/proxy, UpgradeAwareHandler.
    """
    if ctx.request.verb == "get" and ctx.request.path.endswith("/proxy"):
        return Response(301, {}, headers={"Location": f"{ctx.request.path}/"})
    state = pod.get("status") or {}
    address = f"{state.get('podIP', '')}:{port or 80}"
    inside = front_of(pod)
    number = parse_int64(port or "80")
    if number is None or not 0 < number < 1 << 16:
        raise _unreachable(f"dial tcp: address {port}: invalid port")
    listens = not inside.ports or number in inside.ports
    if state.get("phase") != "Running" or not listens:
        raise _unreachable(f"dial tcp {address}: connect: connection refused")
    headers = [("Accept", ctx.request.accept), ("User-Agent", ctx.request.user_agent)]
    text = answer_of(
        inside,
        number,
        _METHODS.get(ctx.request.verb, "GET"),
        f"/{_path_behind(ctx)}",
        [each for each in headers if each[1]],
        ctx.request.raw.decode("utf-8", "replace"),
    )
    return Response(200, {}, content=text.encode(), content_type=PLAIN)


def _path_behind(ctx: Context) -> str:
    """Return the path after `/proxy/`."""
    return ctx.request.path.partition(f"/{ctx.request.name}/proxy")[2].lstrip("/")


def _node(parts: Parts, ctx: Context, name: str, port: str) -> Steps[Response]:
    node = yield from parts.registries.named("", "nodes").get("", name)
    state = node.tree.get("status") or {}
    address = next(
        (each["address"] for each in state.get("addresses") or () if each["type"] == "InternalIP"),
        "",
    )
    if not address:
        raise status.bad_request("no preferred addresses found; known addresses: []")
    pages = parts.options.node_pages
    if pages is not None and is_fake_node(node.tree):
        return _fake_node(parts, pages, ctx)
    if parse_int64(port or str(KUBELET)) != KUBELET or not is_ready(node.tree):
        raise _unreachable(f"dial tcp {address}:{port or KUBELET}: connect: connection refused")
    path = _path_behind(ctx)
    if path == "healthz":
        return Response(200, {}, content=b"ok", content_type=PLAIN)
    if path in ("pods", "pods/"):
        pods = [
            {key: value for key, value in each.tree.items() if key not in ("apiVersion", "kind")}
            for each in ctx.lookup.all("", "pods")
            if each.tree["spec"].get("nodeName") == name
        ]
        tree = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}
        text = json.dumps(tree, separators=(",", ":")).encode()
        return Response(200, {}, content=text, content_type="application/json")
    return _NO_PAGE


_NO_PAGE: Final = Response(404, {}, content=b"404 page not found\n", content_type=PLAIN)


def _fake_node(parts: Parts, pages: NodePages, ctx: Context) -> Response:
    """The answer of the server of KWOK, which stands for the kubelets of all its nodes."""
    path = f"/{_path_behind(ctx)}"
    if path == "/healthz":
        return Response(200, {}, content=b"ok", content_type=PLAIN)
    nodes = {each.name: each.tree for each in ctx.lookup.all("", "nodes")}
    stored = stored_objects(ctx, parts.registries.table, pages.kinds)
    text = pages.text(path, nodes, pods_by_node(ctx), ctx.now, stored)
    if text is None:
        return _NO_PAGE
    return Response(200, {}, content=text.encode(), content_type=CONTENT_TYPE)


def _unavailable(text: str) -> status.ApiError:
    return status.ApiError(503, "ServiceUnavailable", text)


def _unreachable(why: str) -> status.ApiError:
    return _unavailable(f"error trying to reach service: {why}")
