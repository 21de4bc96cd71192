"""Errors of the API as `metav1.Status`, with upstream's codes, reasons, details and texts.

Upstream: apimachinery pkg/api/errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.schema.api_error import ApiError
from controlplane.apiserver.schema.field_errors import FieldError, joined
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = [
    "ApiError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "invalid_kind",
    "method_not_supported",
    "not_acceptable",
    "not_found",
    "plain_error",
    "success",
    "timeout",
    "too_large",
    "too_many_requests",
    "told_name",
    "unsupported_media_type",
]


def _details(info: ResourceInfo, name: str, kind: str = "") -> Tree:
    details: Tree = {"kind": kind or info.resource}
    if name:
        details["name"] = name
    if info.group:
        details["group"] = info.group
    return details


def not_found(info: ResourceInfo, name: str) -> ApiError:
    """404: there is no such object."""
    return ApiError(
        404, "NotFound", f"{info.qualified} {quote(name)} not found", _details(info, name)
    )


def already_exists(info: ResourceInfo, name: str) -> ApiError:
    """409: an object with that name exists."""
    return ApiError(
        409,
        "AlreadyExists",
        f"{info.qualified} {quote(name)} already exists",
        _details(info, name),
    )


def not_unique(failed: ApiError) -> ApiError:
    """The conflict of an object that has a generateName, even if its name was given.

    Upstream: CheckGeneratedNameError in registry/rest/create.go.
    """
    failed.message += ", the server was not able to generate a unique name for the object"
    failed.details = {**(failed.details or {}), "retryAfterSeconds": 1}
    return failed


def conflict(
    info: ResourceInfo, name: str, text: str, *, shown: str = "", kind: str = ""
) -> ApiError:
    """409: the object is not in the state the request counts on.

    `shown` and `kind` replace the resource in message and details, for subresources and kinds.
    """
    details = _details(info, name, kind or shown)
    return ApiError(
        409,
        "Conflict",
        f"Operation cannot be fulfilled on {shown or info.qualified} {quote(name)}: {text}",
        details,
    )


def told_name(tree: Tree) -> str:
    """Return the name that a refusal by admission tells: the prefix of one that is not made yet.

    Upstream: apiserver pkg/admission/errors.go, extractResourceName.
    """
    meta = tree["metadata"]
    name: str = meta.get("name") or meta.get("generateName") or "Unknown"
    return name


def forbidden(
    info: ResourceInfo, name: str, text: str, causes: Sequence[Tree] = (), *, shown: str = ""
) -> ApiError:
    """403: admission or authorization refused."""
    subject = shown or info.qualified
    what = f"{subject} {quote(name)} is forbidden" if name else f"{subject} is forbidden"
    details = _details(info, name, shown.split(".", maxsplit=1)[0] if shown else "")
    if causes:
        details["causes"] = list(causes)
    return ApiError(403, "Forbidden", f"{what}: {text}", details)


def causes_of(errors: Iterable[FieldError]) -> list[Tree]:
    """One cause per field error."""
    causes = []
    for error in errors:
        cause: Tree = {"reason": error.reason, "message": error.body}
        if error.field:
            cause["field"] = error.field
        causes.append(cause)
    return causes


def invalid_kind(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 for an object of `kind`."""
    qualified = f"{kind}.{group}" if group else kind
    details: Tree = {"kind": kind, "causes": causes_of(errors)}
    if group:
        details["group"] = group
    if name:
        details["name"] = name
    if not kind:
        del details["kind"]
    message = f"{qualified} {quote(name)} is invalid"
    if errors:
        told = zip(errors, details["causes"], strict=True)
        message += ": " + joined(f"{error.field}: {cause['message']}" for error, cause in told)
    return ApiError(422, "Invalid", message, details)


def invalid(info: ResourceInfo, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: the object violates the rules of its kind."""
    group = info.hub[0] if info.hub[1] else info.group
    return invalid_kind(group, info.kind, name, errors)


def bad_request(text: str) -> ApiError:
    """400: the request makes no sense."""
    return ApiError(400, "BadRequest", text)


def plain_error(text: str, code: int = 500) -> ApiError:
    """An error upstream never classified: 500 (or `code`) without a reason."""
    return ApiError(code, "", text)


def internal_error(text: str) -> ApiError:
    """500 with the text as cause."""
    return ApiError(
        500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]}
    )


def expired(text: str, list_meta: Tree | None = None) -> ApiError:
    """410: the version asked for is gone."""
    return ApiError(410, "Expired", text, None, list_meta)


def timeout(text: str, retry_after: int, causes: Sequence[Tree] = ()) -> ApiError:
    """504: the answer would take too long."""
    details: Tree = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(504, "Timeout", f"Timeout: {text}", details)


def too_large_resource_version(wanted: int, current: int, retry_after: int) -> ApiError:
    """504: a version was asked for that the server has not reached."""
    return timeout(
        f"Too large resource version: {wanted}, current: {current}",
        retry_after,
        [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    )


def too_many_requests(text: str, retry_after: int = 0, causes: Sequence[Tree] = ()) -> ApiError:
    """429: come back later."""
    details: Tree = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", text, details)


def method_not_supported(info: ResourceInfo, verb: str) -> ApiError:
    """405: the resource does not know the verb."""
    details: Tree = {"kind": info.resource}
    if info.group:
        details["group"] = info.group
    return ApiError(
        405,
        "MethodNotAllowed",
        f'{verb} is not supported on resources of kind "{info.qualified}"',
        details,
    )


def not_acceptable(media_types: Iterable[str]) -> ApiError:
    """406: the client accepts nothing the server can produce."""
    listed = ", ".join(media_types)
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {listed}")


def unsupported_media_type(media_types: Iterable[str]) -> ApiError:
    """415: the body is in a format the server cannot read."""
    listed = ", ".join(media_types)
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + listed,
    )


def too_large(limit: int = 3145728) -> ApiError:
    """413: the body is too long."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def success(details: Tree | None = None) -> Tree:
    """The Status of a request that went well and returns no object."""
    tree: Tree = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}
    if details is not None:
        tree["details"] = details
    return tree
