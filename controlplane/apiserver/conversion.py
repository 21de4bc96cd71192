"""Kinds that are served in several versions, and bodies in a version nobody asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlplane.api.object import Object
from controlplane.apiserver import status
from controlplane.apiserver.resources import ResourceInfo

if TYPE_CHECKING:
    from controlplane.apiserver.server import ApiServer

__all__ = ["check_foreign_kind", "from_hub", "to_hub"]

Tree = dict[str, Any]

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"


def check_foreign_kind(server: ApiServer, info: ResourceInfo, body: Tree) -> Tree:
    """A body whose apiVersion or kind differs from the resource's: completed, or refused."""
    api_version = body.get("apiVersion") or info.api_version
    kind = body.get("kind") or info.kind
    if api_version == info.api_version and kind == info.kind:
        return {**body, "apiVersion": api_version, "kind": kind}
    version = api_version.rpartition("/")[2]
    subject = f'{kind} in version "{version}" cannot be handled as a {info.kind}'
    if api_version.count("/") > 1:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): unexpected "
            f"GroupVersion string: {api_version} ({_snippet(body)})"
        )
    if _registered(server, api_version, kind):
        if kind == info.kind:
            raise status.bad_request(
                f"the API version in the data ({api_version}) does not match the expected API "
                f"version ({info.api_version})"
            )
        raise status.bad_request(
            f"{subject}: converting ({version}.{kind}) to ({info.group.partition('.')[0] or 'core'}"
            f".{info.kind}): unknown conversion"
        )
    raise status.bad_request(
        f'{subject}: no kind "{kind}" is registered for version "{api_version}" in scheme '
        f'"{_SCHEME}"'
    )


def _registered(server: ApiServer, api_version: str, kind: str) -> bool:
    base = kind[: -len("List")] if kind.endswith("List") else kind
    return server.table.by_kind(api_version, base) is not None


def _snippet(body: Tree) -> str:
    import json

    text = json.dumps(body, separators=(",", ":"))
    return text if len(text) <= 32 else text[:32] + " ..."


Converter = Callable[[Tree], Tree]
_FROM: dict[tuple[str, str, str], Converter] = {}
_TO: dict[tuple[str, str, str], Converter] = {}


def from_hub(info: ResourceInfo, obj: Object) -> Object:
    """A stored object in the version of `info`."""
    convert = _FROM.get((info.group, info.version, info.resource))
    tree = convert(obj.tree) if convert is not None else obj.tree
    return Object({**tree, "apiVersion": info.api_version, "kind": info.kind})


def to_hub(info: ResourceInfo, tree: Tree) -> Tree:
    """A tree of the version of `info` in the stored version."""
    convert = _TO.get((info.group, info.version, info.resource))
    if convert is not None:
        tree = convert(tree)
    group, version = info.hub
    return {**tree, "apiVersion": f"{group}/{version}" if group else version, "kind": info.kind}
