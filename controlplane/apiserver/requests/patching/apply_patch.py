"""From a patch request and the current object to the patched one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from controlplane.api.go_values import go_value
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.conversion import LEGACY
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.bodies import Bodies
from controlplane.apiserver.requests.patching.json_patch import (
    MAX_OPERATIONS,
    JsonPatchError,
    json_patch,
)
from controlplane.apiserver.requests.patching.merge import merge_patch
from controlplane.apiserver.requests.patching.plain_merge import UnusualError, plain_merge
from controlplane.apiserver.requests.patching.restoring import UnfitError, restored
from controlplane.apiserver.requests.patching.strategic import PatchError, strategic_patch
from controlplane.apiserver.schema import go_json, status
from controlplane.apiserver.schema.codec import (
    META_STRUCT,
    DecodeError,
    PairsDict,
    check_numbers,
    kind_error,
)
from controlplane.apiserver.schema.field_errors import invalid
from controlplane.apiserver.schema.json_values import json_text, json_type, plain_texts
from controlplane.apiserver.schema.types import struct_type
from controlplane.apiserver.schema.work import spend

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "check_media_type",
    "patched",
    "patched_as",
]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def patched(bodies: Bodies, ctx: Context, current: Tree, stored: Tree) -> Tree:
    """The current object with the request's patch, as a canonical tree of the stored version.

    `current` is in the version of the request, `stored` in the stored one.
    """
    plain = _merged_plainly(ctx, current)
    if plain is not None:
        try:
            return bodies.read(ctx, plain, stored)
        except status.ApiError as error:
            if error.code != 400:
                raise
            # What is wrong is said below, with what is left of the patch.
    document, patch = _patched_document(ctx, current, ctx.info.type_name)
    strategic = ctx.request.content_type.startswith(STRATEGIC_PATCH)
    result = plain_texts(document) if go_json.is_escaped(ctx.request.raw) else document
    version = result.get("apiVersion")
    legacy = isinstance(version, str) and version in LEGACY
    if legacy and ctx.info.group in ("apps", "batch", "policy"):
        result = {**result, "apiVersion": ctx.info.api_version}
    if strategic:
        result = _as_it_was(result, current)
    marker = f"cannot be handled as a {ctx.info.kind}: "
    try:
        try:
            return bodies.read(ctx, result, stored, exact=strategic)
        except status.ApiError as error:
            if error.code != 400 or marker not in error.message or not strategic:
                raise
            problem = error.message.partition(marker)[2]
            if problem.startswith("strict decoding error: "):
                raise _unfit(patch, problem) from None
        try:
            result = restored(result, ctx.info.type_name, stored)
        except UnfitError as error:
            raise _unfit(patch, str(error)) from None
        return bodies.read(ctx, result, stored, exact=True)
    except status.ApiError as error:
        if error.code == 400 and marker in error.message:
            raise undecodable(document, error.message.partition(marker)[2]) from None
        problem = kind_error(document)
        if error.code == 400 and problem:
            raise undecodable(document, problem) from None
        raise


def _as_it_was(document: Tree, current: Tree) -> Tree:
    """The result of a strategic patch with its former kind.

    It becomes an object of its type without being decoded, so what the patch says of the kind has no effect.
    """
    named = {
        key: current[key]
        for key in ("apiVersion", "kind")
        if document.get(key) is None or isinstance(document[key], str)
    }
    return {**document, **named}


def _merged_plainly(ctx: Context, current: Tree) -> Tree | None:
    """The patched document where that is quickly decided: a plain strategic patch that came as values."""
    request, info = ctx.request, ctx.info
    if (
        request.path
        or request.content_type != STRATEGIC_PATCH
        or info.custom is not None
        or "fieldValidation" in request.query
        or type(request.body) is not dict
    ):
        return None
    try:
        document = plain_merge(current, request.body, struct_type(info.type_name))
    except UnusualError:
        return None
    return document if document.get("apiVersion") == info.api_version else None


def _unfit(patch: Any, problem: str) -> status.ApiError:
    """422 for a strategic patch whose result is not of the type. The text quotes the patch."""
    return status.invalid_kind("", "", "", [invalid("patch", go_value(patch), problem)])


def undecodable(document: Tree, text: str) -> status.ApiError:
    """422 for a patched document that is not of the type. The text quotes it."""
    return status.invalid_kind("", "", "", [invalid("patch", json_text(document), text)])


def patched_as(bodies: Bodies, ctx: Context, current: Tree, group: str, type_name: str) -> Tree:
    """An object of a type that no resource stores, as Scale, with the request's patch. ApiError 400, 422."""
    document, patch = _patched_document(ctx, current, type_name)
    strategic = ctx.request.content_type.startswith(STRATEGIC_PATCH)
    if strategic:
        document = _as_it_was(document, current)
    marker = f"cannot be handled as a {type_name.rpartition('.')[2]}: "
    try:
        return bodies.typed(ctx, group, type_name, plain_texts(document))
    except status.ApiError as error:
        if error.code != 400:
            raise
        problem = kind_error(document) or error.message.partition(marker)[2] or error.message
    if not strategic:
        raise undecodable(document, problem)
    try:
        restored(document, type_name, current)
    except UnfitError as error:
        problem = str(error)
    raise _unfit(patch, problem)


def _patched_document(ctx: Context, current: Tree, type_name: str) -> tuple[Tree, Any]:
    """The patched document in the order it is written, not decoded yet, and what is left of a strategic patch.

    Texts of a patch that are written otherwise than Go writes them are `WrittenText`.
    """
    request, info = ctx.request, ctx.info
    kind = request.content_type.partition(";")[0].strip()
    prefix = "" if kind == STRATEGIC_PATCH else "error decoding patch: "
    patch = _patch_of(request, prefix, written=kind in (JSON_PATCH, MERGE_PATCH))
    if request.path and kind in (MERGE_PATCH, STRATEGIC_PATCH):
        _note_issues(ctx, lambda: _repeated(patch, ""))
    if kind == MERGE_PATCH:
        loose = request.query.get("fieldValidation") == "Ignore"
        if request.path and (
            patch is None or (loose and isinstance(patch, (str, bool, int, float)))
        ):
            raise status.bad_request("Invalid JSON Patch")
        result: Tree = merge_patch(current, _object(patch, prefix))
    elif kind == STRATEGIC_PATCH and info.custom is None:
        patch = _object(patch, prefix)
        try:
            check_numbers(patch)
        except DecodeError as error:
            raise status.bad_request(str(error)) from None
        patch = _plain_numbers(patch)
        try:
            result = strategic_patch(current, patch, struct_type(type_name))
        except PatchError as error:
            if error.code == 400:
                raise status.bad_request(str(error)) from None
            if error.code == 422:
                raise _rejected() from None
            raise status.plain_error(str(error)) from None
        if request.path:
            result = _sorted(result)
    elif kind == JSON_PATCH:
        result = _json_patched(ctx, current, patch)
    else:
        raise _unsupported(info.custom is not None)
    return result, patch


def _plain_numbers(value: Any) -> Any:
    """The patch with numbers as values: a strategic patch is never written out as text again."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        spend(len(value))
        return [_plain_numbers(item) for item in value]
    if isinstance(value, dict):
        spend(len(value))
        return {
            key: item if type(item) is str else _plain_numbers(item) for key, item in value.items()
        }
    return value


_PARTED = (dict, list)
"""The types with parts."""


def _repeated(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, PairsDict):
        seen: set[str] = set()
        for key, _ in value.pairs:
            if key in seen:
                found.append(f'duplicate field "{path}{key}"')
            seen.add(key)
    if isinstance(value, dict):
        spend(len(value) * (1 + (len(path) >> 9)))
        for key, item in value.items():
            if isinstance(item, _PARTED):
                found += _repeated(item, f"{path}{key}.")
    elif isinstance(value, list):
        spend(len(value) * (1 + (len(path) >> 9)))
        for index, item in enumerate(value):
            if isinstance(item, _PARTED):
                found += _repeated(item, f"{path[:-1]}[{index}].")
    return found


def _note_issues(ctx: Context, found: Callable[[], list[str]]) -> None:
    """Note what strict decoding says of the patch: it is told with the issues of what is patched.

    Upstream: apiserver handlers/patch.go, where an object that does not decode is told alone.
    """
    if (ctx.request.query.get("fieldValidation") or "Warn") == "Ignore":
        return
    issues = tuple(dict.fromkeys(found()))
    if issues != ctx.request.body_issues:
        ctx.request = evolve(ctx.request, body_issues=issues)


def _sorted(value: Any) -> Any:
    """Maps with their keys in order, as a patched document is encoded."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def check_media_type(ctx: Context) -> None:
    """415 for a patch of a kind that the resource does not take, before anything is looked for."""
    kind = ctx.request.content_type.partition(";")[0].strip()
    custom = ctx.info.custom is not None
    if kind == STRATEGIC_PATCH and custom:
        raise _unsupported(custom)


def _unsupported(custom: bool) -> status.ApiError:
    kinds = [JSON_PATCH, MERGE_PATCH]
    if custom:
        return status.unsupported_media_type([*kinds, APPLY_PATCH])
    kinds.append(STRATEGIC_PATCH)
    return status.unsupported_media_type([*kinds, APPLY_PATCH, "application/apply-patch+cbor"])


def _patch_of(request: Request, prefix: str, *, written: bool) -> Any:
    """The patch in the body, read only now: a missing object is noticed before a bad patch."""
    if request.path:
        try:
            return (go_json.parse_written if written else go_json.parse_json)(request.raw)
        except go_json.TextError as error:
            raise status.bad_request(f"{prefix}{error}") from None
    return request.body


def _rejected() -> status.ApiError:
    """422 for a patch that upstream cannot apply and says no more about."""
    return status.ApiError(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )


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


def _operation_issues(patch: list[Any]) -> list[str]:
    """Return the keys that operations do not have, or have twice, in the order of the patch."""
    found: list[str] = []
    for index, operation in enumerate(patch):
        if not isinstance(operation, dict):
            continue
        seen: set[str] = set()
        pairs = operation.pairs if isinstance(operation, PairsDict) else operation.items()
        for key, value in pairs:
            place = f"[{index}].{key}"
            if key not in _OPERATION:
                found.append(f'json patch unknown field "{place}"')
                continue
            if key in seen:
                found.append(f'json patch duplicate field "{place}"')
            seen.add(key)
            if isinstance(value, _PARTED):
                found += [f"json patch {text}" for text in _repeated(value, f"{place}.")]
    return found


_TEXTS = ("op", "path", "from")


def _check_types(patch: list[Any], *, checked: bool) -> None:
    """Refuse the first value whose type an operation cannot have. ApiError 400.

    `checked`: the operations are decoded field by field, as for the check of fields; else as maps.
    """
    prefix, kind = ("error decoding patch: ", "handlers.jsonPatchOp") if checked else _LOOSE
    for operation in patch:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise status.bad_request(
                f"{prefix}json: cannot unmarshal {json_type(operation)} into Go value of type {kind}"
            )
        for key, value in operation.items() if checked else ():
            if key in _TEXTS and value is not None and not isinstance(value, str):
                raise status.bad_request(
                    f"{prefix}json: cannot unmarshal {json_type(value)} into Go struct field "
                    f"jsonPatchOp.{key} of type string"
                )


_LOOSE = "", "jsonpatch.Operation"


def _json_patched(ctx: Context, current: Tree, patch: Any) -> Tree:
    if patch is None:
        patch = []
    checked = ctx.request.query.get("fieldValidation") != "Ignore"
    if not isinstance(patch, list):
        place = "error decoding patch: ", "[]handlers.jsonPatchOp"
        prefix, kind = place if checked else ("", "jsonpatch.Patch")
        raise status.bad_request(
            f"{prefix}json: cannot unmarshal {json_type(patch)} into Go value of type {kind}"
        )
    _check_types(patch, checked=checked)
    if len(patch) > MAX_OPERATIONS:
        raise status.ApiError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}",
        )
    if checked and ctx.request.path:
        _note_issues(ctx, lambda: _operation_issues(patch))
    try:
        result: Tree = json_patch(current, patch)
    except JsonPatchError:
        raise _rejected() from None
    if not isinstance(result, dict):
        problem = (
            ""
            if result is None
            else (
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{json_type(result)} into Go value of type {META_STRUCT}"
            )
        )
        if problem:
            raise status.invalid_kind("", "", "", [invalid("patch", json_text(result), problem)])
        return {}
    return result
