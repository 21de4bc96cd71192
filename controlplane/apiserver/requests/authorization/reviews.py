"""What a user may do, asked as an object: access reviews and rules reviews.

Upstream: pkg/registry/authorization, pkg/apis/authorization/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.authorization.rbac import Attributes, rules_of_user
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError, invalid

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.strategy import Context

__all__ = ["answer"]

_GROUP = "authorization.k8s.io"
_SELF = "selfsubjectaccessreviews"
_LOCAL = "localsubjectaccessreviews"
_RULES = "selfsubjectrulesreviews"


def answer(access: Access, ctx: Context, meta: Tree, spec: Tree) -> Tree:
    """The status of a review. ApiError 400, 422 for one that asks nothing sensible."""
    if ctx.info.resource == _RULES:
        return _rules(access, ctx, spec)
    _check(ctx, meta, spec)
    user = ctx.request.user if ctx.info.resource == _SELF else _named(spec)
    verdict = access.verdict(user, _asked(spec))
    tree: Tree = {"allowed": verdict.allowed}
    if verdict.reason:
        tree["reason"] = verdict.reason
    return tree


def _named(spec: Tree) -> User:
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))


def _asked(spec: Tree) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    wish = spec.get("resourceAttributes") or {}
    return Attributes(
        wish.get("verb", ""),
        wish.get("group", ""),
        wish.get("resource", ""),
        wish.get("subresource", ""),
        wish.get("namespace", ""),
        wish.get("name", ""),
    )


# -- checking ------------------------------------------------------------------------------------


def _check(ctx: Context, meta: Tree, spec: Tree) -> None:
    info, namespace = ctx.info, ctx.request.namespace
    errors = _problems(spec, someone=info.resource != _SELF)
    shown = {key: value for key, value in meta.items() if value and key != "managedFields"}
    path, wish = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if info.resource == _LOCAL:
        if not namespace:
            raise status.bad_request(f"namespace is required on this type: {namespace}")
        given = shown.pop("namespace", "") or namespace
        wanted = (wish or {}).get("namespace", "")
        if wish is not None and wanted != given:
            errors.append(
                invalid(
                    "spec.resourceAttributes.namespace", wanted, "must match metadata.namespace"
                )
            )
        if path is not None:
            text = "disallowed on this kind of request"
            errors.append(invalid("spec.nonResourceAttributes", path, text))
    if shown:
        errors.append(invalid("metadata", meta, "must be empty"))
    if errors:
        raise status.invalid_kind(_GROUP, info.kind, "", errors)


def _problems(spec: Tree, *, someone: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    path, wish = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if path is not None and wish is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", path, text))
    if path is None and wish is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, text))
    if someone and not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        errors.append(invalid("spec.user", spec.get("user") or "", text))
    return errors


# -- rules ---------------------------------------------------------------------------------------

_EVERYTHING: Tree = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def _rules(access: Access, ctx: Context, spec: Tree) -> Tree:
    """All rules that apply to the asker in a namespace."""
    namespace = spec.get("namespace") or ""
    if not namespace:
        raise status.bad_request("no namespace on request")
    if not access.enabled:
        return _EVERYTHING
    problems: list[str] = []
    resources: list[Tree] = []
    paths: list[Tree] = []
    for rule in rules_of_user(access.policy, ctx.request.user, namespace, problems):
        if rule.get("resources"):
            resources.append(_part(rule, "verbs", "apiGroups", "resources", "resourceNames"))
        if rule.get("nonResourceURLs"):
            paths.append(_part(rule, "verbs", "nonResourceURLs"))
    tree: Tree = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if problems:
        tree["evaluationError"] = aggregate(problems)
    return tree


def _part(rule: Tree, *fields: str) -> Tree:
    return {field: rule[field] for field in fields if rule.get(field)}
