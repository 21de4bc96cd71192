"""From a patch request and the current object to the patched one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controlplane.apiserver import go_json, status
from controlplane.apiserver.codec import json_type
from controlplane.apiserver.field_errors import invalid
from controlplane.apiserver.patching.json_patch import (
    MAX_OPERATIONS,
    JsonPatchError,
    json_patch,
)
from controlplane.apiserver.patching.merge import merge_patch
from controlplane.apiserver.patching.strategic import PatchError, strategic_patch
from controlplane.apiserver.request import Request
from controlplane.apiserver.schema import struct_type
from controlplane.apiserver.strategy import Context

if TYPE_CHECKING:
    from controlplane.apiserver.server import ApiServer

__all__ = ["JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "patched", "patched_tree", "undecodable"]

Tree = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def patched(server: ApiServer, ctx: Context, current: Tree, stored: Tree) -> Tree:
    """The current object with the request's patch, as a canonical tree of the stored version.

    `current` is in the version of the request, `stored` in the stored one.
    """
    result = patched_tree(ctx, current, ctx.info.type_name)
    try:
        return server.read_body(ctx, result, stored)
    except status.ApiError as error:
        marker = f"cannot be handled as a {ctx.info.kind}: "
        if error.code == 400 and marker in error.message:
            raise undecodable(result, error.message.partition(marker)[2]) from None
        raise


def undecodable(result: Tree, text: str) -> status.ApiError:
    """422 for a patch whose result is not of the type."""
    shown = json.dumps(_in_order(result), separators=(",", ":"), ensure_ascii=False)
    return status.invalid_kind("", "", "", [invalid("patch", shown, text)])


_META_ORDER = ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion",
               "generation", "creationTimestamp", "deletionTimestamp",
               "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences",
               "finalizers", "managedFields")  # fmt: skip


def _in_order(tree: Tree) -> Tree:
    """The object with its parts in the order of upstream's encoding, as far as it is told."""
    out = {key: tree[key] for key in sorted(tree)}
    meta = tree.get("metadata")
    if isinstance(meta, dict):
        out["metadata"] = {key: meta[key] for key in _META_ORDER if key in meta}
    return out


def patched_tree(ctx: Context, current: Tree, type_name: str) -> Tree:
    """The current object with the request's patch, not decoded yet."""
    request, info = ctx.request, ctx.info
    kind = request.content_type.partition(";")[0].strip()
    prefix = "" if kind == STRATEGIC_PATCH else "error decoding patch: "
    patch = _patch_of(request, prefix)
    if kind == MERGE_PATCH:
        result: Tree = merge_patch(current, _object(patch, prefix))
    elif kind == STRATEGIC_PATCH and info.custom is None:
        patch = _object(patch, prefix)
        try:
            result = strategic_patch(current, patch, struct_type(type_name))
        except PatchError as error:
            if error.bad_request:
                raise status.bad_request(str(error)) from None
            raise status.plain_error(str(error)) from None
    elif kind == JSON_PATCH:
        result = _json_patched(ctx, current, patch)
    else:
        raise _unsupported(info.custom is not None)
    return _sorted(result) if request.path else result


def _sorted(value: Any) -> Any:
    """Maps with their keys in order, as a patched document is encoded."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _unsupported(custom: bool) -> status.ApiError:  # noqa: FBT001
    kinds = [JSON_PATCH, MERGE_PATCH]
    if custom:
        return status.unsupported_media_type([*kinds, APPLY_PATCH])
    kinds.append(STRATEGIC_PATCH)
    return status.unsupported_media_type([*kinds, APPLY_PATCH, "application/apply-patch+cbor"])


def _patch_of(request: Request, prefix: str) -> Any:
    """The patch in the body, read only now: a missing object is noticed before a bad patch."""
    if request.path:
        try:
            return go_json.parse_json(request.raw)
        except go_json.TextError as error:
            raise status.bad_request(f"{prefix}{error}") from None
    return request.body


def _object(patch: Any, prefix: str) -> Tree:
    if patch is None:
        return {}
    if isinstance(patch, dict):
        return patch
    raise status.bad_request(
        f"{prefix}json: cannot unmarshal {json_type(patch)} into Go value of type "
        "map[string]interface {}"
    )


_OPERATION = ("op", "path", "from", "value")


def _check_operations(ctx: Context, patch: list[Any]) -> None:
    """Keys that operations do not have are warned of, or refused."""
    level = ctx.request.query.get("fieldValidation") or "Warn"
    if level == "Ignore":
        return
    unknown = [
        f'json patch unknown field "[{index}].{key}"'
        for index, operation in enumerate(patch) if isinstance(operation, dict)
        for key in sorted(operation) if key not in _OPERATION
    ]  # fmt: skip
    if unknown and level == "Strict":
        raise status.bad_request(f"strict decoding error: {', '.join(unknown)}")
    for text in unknown:
        ctx.warn(text)


def _json_patched(ctx: Context, current: Tree, patch: Any) -> Tree:
    if patch is None:
        patch = []
    if not isinstance(patch, list):
        raise status.bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value of "
            "type []handlers.jsonPatchOp"
        )
    if len(patch) > MAX_OPERATIONS:
        raise status.ApiError(
            413, "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}",
        )  # fmt: skip
    _check_operations(ctx, patch)
    try:
        result: Tree = json_patch(current, patch)
    except JsonPatchError:
        raise status.ApiError(
            422, "Invalid",
            "the server rejected our request due to an error in our request", {},
        ) from None  # fmt: skip
    return result
