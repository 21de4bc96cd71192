"""`metrics.k8s.io`: what nodes and pods use.

Upstream: metrics-server, an aggregated API server that asks kubelets; the figures are those of
`controlplane.api.usage`, as they are when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controlplane.api import usage
from controlplane.api.object import Object
from controlplane.api.request import Response
from controlplane.api.times import format_time
from controlplane.api.tree import Tree, is_ready
from controlplane.apiserver.kinds.selectable import interest_of
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable

__all__ = ["GROUP", "node_metrics", "pod_metrics", "pods_by_node", "serve", "stored_objects"]

GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_ENDED: Final = ("Succeeded", "Failed")


def serve(table: ResourceTable) -> None:
    """Add the group to what a server serves."""
    for resource, kind, namespaced in (
        ("nodes", "NodeMetrics", False),
        ("pods", "PodMetrics", True),
    ):
        entry = {
            "name": resource,
            "singularName": "",
            "namespaced": namespaced,
            "kind": kind,
            "verbs": ["get", "list"],
        }
        info = ResourceInfo(
            GROUP,
            _VERSION,
            resource,
            kind,
            namespaced,
            ("get", "list"),
            storage_prefix=f"/registry/{GROUP}/{resource}/",
            hub=(GROUP, _VERSION),
            type_name="",
            entry=entry,
        )
        table.add(info)
    version = {"groupVersion": f"{GROUP}/{_VERSION}", "version": _VERSION}
    table.groups.append({"name": GROUP, "versions": [version], "preferredVersion": version})


def pods_by_node(ctx: Context) -> dict[str, list[Tree]]:
    """Return the pods of each node, those without one by ""."""
    pods: dict[str, list[Tree]] = {}
    for obj in ctx.lookup.all("", "pods"):
        pods.setdefault((obj.tree.get("spec") or {}).get("nodeName", ""), []).append(obj.tree)
    return pods


def node_metrics(ctx: Context, source: usage.UsageSource | None, table: ResourceTable) -> Response:
    """Return the usage of ready nodes: the sums of their pods."""
    read = _reading(ctx, source, table)
    pods = pods_by_node(ctx)
    nodes = [obj for obj in ctx.lookup.all("", "nodes") if is_ready(obj.tree)]
    return _answer(
        ctx,
        [
            (obj, {"usage": usage.written(usage.of_pods(pods.get(obj.name, ()), read))})
            for obj in sorted(nodes, key=lambda obj: obj.name)
        ],
    )


def pod_metrics(ctx: Context, source: usage.UsageSource | None, table: ResourceTable) -> Response:
    """Return the usage of running containers; 0 where no annotation states it, as of a program that does nothing.

    Autoscalers go by `controlplane.api.usage`, where such a figure is unknown.
    """
    namespace = ctx.request.namespace
    pods = ctx.lookup.within("", "pods", namespace) if namespace else ctx.lookup.all("", "pods")
    read = _reading(ctx, source, table)
    measured = []
    for obj in sorted(pods, key=lambda obj: (obj.namespace, obj.name)):
        known = usage.of_pod(obj.tree, read)
        idle = dict.fromkeys(usage.MEASURED, 0)
        found = {
            name: {**idle, **known.get(name, {})} for name in usage.running_containers(obj.tree)
        }
        if found:
            containers = [
                {"name": name, "usage": usage.written(used)} for name, used in found.items()
            ]
            measured.append((obj, {"containers": containers}))
    return _answer(ctx, measured)


def _reading(ctx: Context, source: usage.UsageSource | None, table: ResourceTable) -> usage.Reading:
    kinds = {} if source is None else source.kinds
    return usage.reading(
        source,
        lambda name: ctx.find("", "nodes", "", name),
        ctx.now,
        stored_objects(ctx, table, kinds),
    )


def stored_objects(
    ctx: Context, table: ResourceTable, kinds: Mapping[str, tuple[str, str, str]]
) -> usage.Stored:
    """Return the objects of custom kinds as the store has them; none where a kind is not served."""

    def stored(kind: str) -> Iterable[Tree]:
        info = table.get(*kinds[kind])
        return () if info is None else (each.tree for each in ctx.lookup.read_within(info, ""))

    return stored


def _answer(ctx: Context, measured: list[tuple[Object, Tree]]) -> Response:
    """The one that was asked for, or those that the selectors select."""
    request, info = ctx.request, ctx.info
    if request.verb not in info.verbs:
        raise status.method_not_supported(info, request.verb)
    made = [_metrics(ctx, about, figures) for about, figures in measured]
    if request.verb == "get":
        for obj in made:
            if obj.name == request.name:
                return Response(200, obj.tree, obj)
        raise status.not_found(info, request.name)
    interest = interest_of(info, request.namespace, request.name, request.query)
    items = [
        obj
        for obj in made
        if interest.name in ("", obj.name) and (interest.matches is None or interest.matches(obj))
    ]
    tree: Tree = {
        "kind": f"{info.kind}List",
        "apiVersion": info.api_version,
        "metadata": {},
        "items": [obj.tree for obj in items],
    }
    return Response(200, tree, items=items)


def _metrics(ctx: Context, about: Object, figures: Tree) -> Object:
    now = format_time(ctx.now)
    metadata: Tree = {"name": about.name}
    if about.namespace:
        metadata["namespace"] = about.namespace
    metadata["creationTimestamp"] = now
    labels = about.metadata.get("labels")
    if labels:
        metadata["labels"] = labels
    return Object(
        {
            "kind": ctx.info.kind,
            "apiVersion": ctx.info.api_version,
            "metadata": metadata,
            "timestamp": now,
            "window": f"{usage.WINDOW_S}s",
            **figures,
        }
    )
