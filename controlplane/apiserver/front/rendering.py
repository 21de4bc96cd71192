"""Objects as Tables and PartialObjectMetadata. Upstream: apiserver pkg/endpoints/handlers/response.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.api.tree import Tree
from controlplane.apiserver.front.negotiation import Format
from controlplane.apiserver.kinds.tables import plain_metadata, table_of
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo

if TYPE_CHECKING:
    pass

__all__ = ["rendered", "rendered_event"]


def partial(obj: Object, version: str) -> Tree:
    """The metadata of an object as PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": plain_metadata(obj.tree["metadata"]),
    }


def _wrong_form(info: ResourceInfo, wanted: str, why: str, suffix: str) -> status.ApiError:
    package = info.hub[0].partition(".")[0] or "core"
    shown = f"{package}.{info.kind}{suffix}"
    if info.custom is not None:
        shown = f"unstructured.Unstructured{suffix}"
    return status.ApiError(
        406, "NotAcceptable", (f"you requested {wanted}, but the requested object {why} (*{shown})")
    )


def rendered(
    info: ResourceInfo,
    request: Request,
    response: Response,
    chosen: Format,
    now: int,
) -> Tree:
    """The body of an answer in the chosen form."""
    tree = response.tree
    if not chosen.kind:
        return tree
    is_list = response.items is not None
    version = f"meta.k8s.io/{chosen.version}"
    if chosen.kind == "Table":
        include = request.query.get("includeObject", "")
        if include not in ("", "None", "Metadata", "Object"):
            raise status.bad_request(
                f"Unable to convert to Table as requested: includeObject: Invalid value: "
                f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        items = response.items if response.items is not None else [Object(tree)]
        table = table_of(info, items, now, include, chosen.version)
        if is_list:
            table["metadata"] = {k: v for k, v in tree["metadata"].items() if v != ""}
        else:
            table["metadata"] = {"resourceVersion": tree["metadata"].get("resourceVersion", "")}
        return table
    if chosen.kind == "PartialObjectMetadataList":
        if not is_list:
            if info.custom is not None:
                raise status.plain_error("content is not a list")
            raise _wrong_form(info, "PartialObjectMetadataList", "is not a list", "")
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": version,
            "metadata": {k: v for k, v in tree["metadata"].items() if v != ""},
            "items": [partial(obj, chosen.version) for obj in response.items or ()] or None,
        }
    if is_list:
        raise _wrong_form(info, "PartialObjectMetadata", "is a list", "List")
    return partial(Object(tree), chosen.version)


def rendered_event(
    info: ResourceInfo,
    obj: Object,
    chosen: Format,
    now: int,
    *,
    first: bool,
    include: str,
) -> Tree:
    """The object of a watch event in the chosen form."""
    if chosen.kind == "Table":
        table = table_of(info, [obj], now, include, chosen.version)
        if not first:
            table["columnDefinitions"] = None
        table["metadata"] = {"resourceVersion": obj.metadata.get("resourceVersion", "")}
        return table
    if chosen.kind:
        return partial(obj, chosen.version)
    return obj.tree
