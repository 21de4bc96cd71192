"""Query options of writes and the options of deletions, checked as upstream checks them."""

from __future__ import annotations

from controlplane.api.flags import flag
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.api.validation import go_int64
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import DecodeError, decode
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

__all__ = ["check_connection", "check_write_options", "delete_options", "parse_int64"]

_DELETE_TYPE = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_MANAGER_LIMIT = 128
_KINDS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def parse_int64(text: str | None) -> int:
    """A number of a query, 0 for none. ApiError 400 with Go's text otherwise."""
    if text is None:
        return 0
    try:
        return go_int64(text)
    except ValueError as error:
        raise status.bad_request(str(error)) from None


def check_connection(request: Request) -> None:
    """400 for a dry run of what connects, as exec and proxies, whatever its value. Upstream: ConnectResource."""
    if "dryRun" in request.query:
        raise status.bad_request("dryRun is not supported")


def _check_dry_run(text: str | None) -> list[FieldError]:
    if text is None or set(text.split("\n")) == {"All"}:
        return []
    return [not_supported("dryRun", text.split("\n"), ("All",))]


def _check_manager(manager: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(manager.encode()) > _MANAGER_LIMIT:
        errors.append(too_long("fieldManager", _MANAGER_LIMIT))
    for index, char in enumerate(manager):
        if not char.isprintable():
            text = f"invalid character {_go_rune(char)} (at position {index})"
            errors.append(invalid("fieldManager", manager, text))
    return errors


def _go_rune(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return f"U+{code:04X} '{char}'"
    return f"U+{code:04X}"


def check_write_options(request: Request, *, apply: bool = False) -> bool:
    """Check dryRun, fieldManager, fieldValidation and force; answers whether it is a dry run."""
    query = request.query
    if not query and not apply:
        return False
    errors: list[FieldError] = []
    manager = query.get("fieldManager", "")
    if request.verb == "patch":
        if apply:
            if not manager:
                errors.append(required("fieldManager", "is required for apply patch"))
        elif "force" in query:
            errors.append(forbidden("force", "may not be specified for non-apply patch"))
    errors += _check_manager(manager)
    errors += _check_dry_run(query.get("dryRun"))
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        errors.append(
            not_supported(
                "fieldValidation",
                validation,
                ("", "Ignore", "Strict", "Warn"),
                sort=False,
                typed=False,
            )
        )
    if errors:
        kind = _KINDS.get(request.verb, "CreateOptions")
        raise status.invalid_kind("meta.k8s.io", kind, "", errors)
    return query.get("dryRun", "").startswith("All")


def _query_options(query: dict[str, str]) -> Tree:
    tree: Tree = {}
    if "gracePeriodSeconds" in query:
        tree["gracePeriodSeconds"] = parse_int64(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        tree["propagationPolicy"] = query["propagationPolicy"]
    preconditions = {name: query[name] for name in ("uid", "resourceVersion") if query.get(name)}
    if preconditions:
        tree["preconditions"] = preconditions
    if "orphanDependents" in query:
        tree["orphanDependents"] = flag(query["orphanDependents"])
    if "dryRun" in query:
        tree["dryRun"] = query["dryRun"].split("\n")
    return tree


def delete_options(request: Request) -> DeleteOptions:
    """The options of a deletion: the body, or the query when there is no body. ApiError 4xx."""
    body = request.body
    if body is None:
        tree = _query_options(request.query)
    else:
        try:
            tree = decode(_DELETE_TYPE, body)
        except DecodeError as error:
            raise status.bad_request(str(error)) from None
    errors: list[FieldError] = []
    policy = tree.get("propagationPolicy")
    orphan = tree.get("orphanDependents")
    if orphan is not None and policy is not None:
        errors.append(
            invalid(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if policy is not None and policy not in ("Foreground", "Background", "Orphan"):
        errors.append(
            not_supported(
                "propagationPolicy",
                policy,
                ("Foreground", "Background", "Orphan", "nil"),
                sort=False,
            )
        )
    dry_run = tree.get("dryRun") or []
    if any(item != "All" for item in dry_run):
        errors.append(not_supported("dryRun", dry_run, ("All",)))
    if errors:
        raise status.invalid_kind("meta.k8s.io", "DeleteOptions", "", errors)
    preconditions = tree.get("preconditions") or {}
    return DeleteOptions(
        tree.get("gracePeriodSeconds"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        policy or "",
        orphan,
        dry_run=bool(dry_run),
    )
