"""Reviews of a user's rights as objects: access reviews and rules reviews.

Upstream: pkg/registry/authorization, pkg/apis/authorization/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api import fields, labels
from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate
from controlplane.apiserver.kinds.selectors import requirement_values, validate_requirement
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.authorization.rbac import Attributes, rules_of_user
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required
from controlplane.apiserver.schema.field_order import in_order

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.strategy import Context

__all__ = ["answer"]

_GROUP = "authorization.k8s.io"
_SELF = "selfsubjectaccessreviews"
_LOCAL = "localsubjectaccessreviews"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
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
    ignored = _ignored(spec.get("resourceAttributes") or {})
    if ignored:
        tree["evaluationError"] = aggregate(ignored)
    return tree


def _ignored(wish: Tree) -> list[str]:
    """Return the messages about selectors that cannot be parsed, wholly or in part."""
    texts = []
    readers = (("fieldSelector", _field_terms), ("labelSelector", _label_terms))
    for name, read in readers:
        selector = wish.get(name)
        if selector is not None:
            good, all_of_them = read(selector)
            if not all_of_them:
                partly = "partially " if good else ""
                texts.append(f"spec.resourceAttributes.{name} {partly}ignored due to parse error")
    return texts


def _field_terms(selector: Tree) -> tuple[int, bool]:
    """Return the number of valid requirements of a field selector, and whether those are all."""
    raw = selector.get("rawSelector")
    if raw:
        try:
            return len(fields.parse(raw).requirements), True
        except ValueError:
            return 0, False
    wanted = selector.get("requirements") or []
    good = [
        each
        for each in wanted
        if len(each.get("values") or ()) <= 1 and each.get("operator") in ("In", "NotIn")
    ]
    return len(good), len(good) == len(wanted)


def _label_terms(selector: Tree) -> tuple[int, bool]:
    """The same of a label selector."""
    raw = selector.get("rawSelector")
    if raw:
        try:
            return len(labels.parse(raw).requirements), True
        except ValueError:
            return 0, False
    wanted = selector.get("requirements") or []
    good = [
        each
        for each in wanted
        if each.get("operator") in _OPERATORS and not validate_requirement(each, "")
    ]
    return len(good), len(good) == len(wanted)


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
    given = meta.get("namespace", "")
    shown = {
        key: value
        for key, value in meta.items()
        if value and key != "managedFields" and (key != "namespace" or info.resource != _LOCAL)
    }
    path, wish = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if info.resource == _LOCAL and not namespace:
        raise status.bad_request(f"namespace is required on this type: {namespace}")
    if shown:
        text = "must be empty except for namespace" if info.resource == _LOCAL else "must be empty"
        errors.append(invalid("metadata", in_order(_META, meta), text))
    if info.resource == _LOCAL:
        wanted = (wish or {}).get("namespace", "")
        if wish is not None and wanted != given:
            errors.append(
                invalid(
                    "spec.resourceAttributes.namespace", wanted, "must match metadata.namespace"
                )
            )
        if path is not None:
            text = "disallowed on this kind of request"
            errors.append(invalid("spec.nonResourceAttributes", _internal(path), text))
    if errors:
        raise status.invalid_kind(_GROUP, "", "", errors)


def _internal(path: Tree) -> Tree:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _problems(spec: Tree, *, someone: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    path, wish = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if path is not None and wish is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", _internal(path), text))
    if path is None and wish is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, text))
    if someone and not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        errors.append(invalid("spec.user", spec.get("user") or "", text))
    for name in ("fieldSelector", "labelSelector"):
        selector = (wish or {}).get(name)
        if selector is not None:
            errors += _selector_problems(selector, f"spec.resourceAttributes.{name}")
    return errors


def _selector_problems(selector: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    raw, wanted = selector.get("rawSelector", ""), selector.get("requirements") or []
    if raw and wanted:
        text = "may not specified at the same time as requirements"
        errors.append(invalid(f"{path}.rawSelector", raw, text))
    if not raw and not wanted:
        text = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(f"{path}.requirements", text))
    for index, each in enumerate(wanted):
        place = f"{path}.requirements[{index}]"
        if path.endswith("labelSelector"):
            errors += validate_requirement(each, place, unknown_operators=True)
            continue
        if not each.get("key"):
            errors.append(required(f"{place}.key", "must be specified"))
        errors += requirement_values(each, place)
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
