"""Requests for aggregated groups: passed on to the processes that answer them.

Upstream: kube-aggregator pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.aggregated_groups import AggregatedGroup, Refused, request_body
from controlplane.api.object import Object
from controlplane.api.request import Response
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable, SubresourceInfo
from controlplane.apiserver.storage.transactions import Review, Reviewed, Steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.kinds.strategy import Context

__all__ = ["pass_on", "serve"]

PATIENCE_NS: Final = 60 * SECOND
"""The time limit of a request that is no watch (kube-apiserver's --request-timeout)."""


def serve(table: ResourceTable, groups: Iterable[AggregatedGroup]) -> None:
    """Add groups to what a server serves."""
    for group in groups:
        for version in group.versions:
            for info in _infos(group, version):
                table.add(info)
        versions = [
            {"groupVersion": f"{group.name}/{each}", "version": each} for each in group.versions
        ]
        entry = {"name": group.name, "versions": versions, "preferredVersion": versions[0]}
        table.groups.append(entry)


def _infos(group: AggregatedGroup, version: str) -> Iterable[ResourceInfo]:
    entries: dict[str, Tree] = {
        each.name: {
            "name": each.name,
            "singularName": "" if "/" in each.name else each.name.removesuffix("s"),
            "namespaced": each.namespaced,
            "kind": each.kind,
            "verbs": list(each.verbs),
        }
        for each in group.resources
    }
    for each in group.resources:
        if "/" in each.name:
            continue
        parts = {}
        for name, entry in entries.items():
            parent, slash, part = name.partition("/")
            if slash and parent == each.name:
                verbs = tuple(entry["verbs"])
                parts[part] = SubresourceInfo(
                    part, group.name, version, entry["kind"], verbs, entry
                )
        yield ResourceInfo(
            group.name,
            version,
            each.name,
            each.kind,
            each.namespaced,
            each.verbs,
            storage_prefix=f"/registry/{group.name}/{each.name}/",
            hub=(group.name, version),
            type_name="",
            singular=each.name.removesuffix("s"),
            subresources=parts,
            entry=entries[each.name],
        )


def pass_on(group: AggregatedGroup, ctx: Context) -> Steps[Response]:
    """Ask the process that answers a group; 503 where it does not."""
    request, info = ctx.request, ctx.info
    body = request_body(
        info.api_version,
        info.resource,
        request.subresource,
        request.namespace,
        request.name,
        request.query,
    )
    found: Reviewed = yield Review(
        group.actors, request.path, body, PATIENCE_NS, label="aggregated"
    )
    if found.error:
        text = "the server is currently unable to handle the request"
        raise status.ApiError(503, "ServiceUnavailable", text, {})
    answer: Tree | Refused = found.body
    if isinstance(answer, Refused):
        raise status.ApiError(answer.code, answer.reason, answer.message, answer.details)
    return Response(200, answer, Object(answer))
