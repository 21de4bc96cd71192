"""Escalation checks: writes of roles and bindings grant only rights that the user holds.

Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased and
escalation_check.go; rule comparison: component-helpers auth/rbac/validation/policy_comparator.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate, quote
from controlplane.apiserver.requests.authorization.rbac import (
    GROUP,
    MASTERS,
    Attributes,
    Policy,
    decide,
    path_fits,
    rules_of_role,
    rules_of_user,
)
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.work import spend

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.strategy import Context

__all__ = ["check", "missing_rights"]

_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_GC_FIELDS: Final = ("ownerReferences", "finalizers", "resourceVersion", "managedFields")
_EVERYTHING: Final[list[Tree]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def check(policy: Policy, ctx: Context, tree: Tree, old: Tree | None) -> None:
    """ApiError 403 for a role or binding that gives more than its writer has."""
    info, user = ctx.info, ctx.request.user
    if info.group != GROUP or MASTERS in user.groups:
        return
    if old is not None and _same_but_for_collection(tree, old):
        return
    if info.resource in _ROLES:
        _check_role(policy, ctx, tree, old)
    elif info.resource in _BINDINGS:
        _check_binding(policy, ctx, tree)


def _check_role(policy: Policy, ctx: Context, tree: Tree, old: Tree | None) -> None:
    before: Tree = old or {}
    rules, whole = tree.get("rules") or [], tree.get("aggregationRule")
    if old is not None and rules == (before.get("rules") or []):
        if whole == before.get("aggregationRule"):
            return
    name = tree["metadata"].get("name", "")
    if _may(policy, ctx, "escalate", ctx.info.resource, name):
        return
    _confirm(policy, ctx, name, rules)
    if whole:
        _confirm(policy, ctx, name, _EVERYTHING)


_ROLE_KINDS = {"Role": "roles", "ClusterRole": "clusterroles"}


def _check_binding(policy: Policy, ctx: Context, tree: Tree) -> None:
    reference = tree["roleRef"]
    name, namespace = reference.get("name", ""), ctx.request.namespace
    kind = reference.get("kind", "")
    resource = _ROLE_KINDS.get(kind)
    if resource is None:
        raise status.plain_error(f"unsupported role reference kind: {quote(kind)}")
    if _may(policy, ctx, "bind", resource, name):
        return
    problems: list[str] = []
    rules = list(rules_of_role(policy, reference, namespace, problems))
    if problems:
        raise status.not_found(ctx.lookup.info(GROUP, resource), name)
    _confirm(policy, ctx, tree["metadata"].get("name", ""), rules)


def _may(policy: Policy, ctx: Context, verb: str, resource: str, name: str) -> bool:
    asked = Attributes(verb, GROUP, resource, "", ctx.request.namespace, name)
    return decide(policy, ctx.request.user, asked).allowed


def _confirm(policy: Policy, ctx: Context, name: str, rules: Iterable[Tree]) -> None:
    user = ctx.request.user
    problems: list[str] = []
    held = list(rules_of_user(policy, user, ctx.request.namespace, problems))
    missing = missing_rights(held, rules)
    if missing:
        shown = "\n".join(sorted({_shown(rule) for rule in missing}))
        text = f"{_who(user)} is attempting to grant RBAC permissions not currently held:\n{shown}"
        if problems:
            text += f"; resolution errors: {aggregate(problems)}"
        raise status.forbidden(ctx.info, name, text)


def _who(user: User) -> str:
    return f"user {quote(user.name)} (groups={_quoted(user.groups)})"


def _same_but_for_collection(tree: Tree, old: Tree) -> bool:
    """Return whether only fields that the garbage collector needs to change are changed."""

    def rest(each: Tree) -> Tree:
        meta = {key: value for key, value in each["metadata"].items() if key not in _GC_FIELDS}
        return {**each, "metadata": meta}

    return rest(tree) == rest(old)


# -- comparing rules -----------------------------------------------------------------------------


def missing_rights(held: list[Tree], wanted: Iterable[Tree]) -> list[Tree]:
    """Return the parts of the wanted rules that no held rule covers, verbs on the same resource joined."""
    missing = [
        part
        for rule in wanted
        for part in _each(_parts(rule), 4 + len(held))
        if not any(_covers(owned, part) for owned in held)
    ]
    return _joined(missing)


def _each(parts: Iterator[Tree], steps: int) -> Iterator[Tree]:
    """Yield the parts and count `steps` for each: short lists can have very many."""
    for part in parts:
        spend(steps)
        yield part


def _parts(rule: Tree) -> Iterator[Tree]:
    """A rule as rules of one verb on one thing each."""
    names = rule.get("resourceNames") or [None]
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                for name in names:
                    part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    yield part if name is None else {**part, "resourceNames": [name]}
    for path in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}


def _covers(owned: Tree, part: Tree) -> bool:
    names, wanted = owned.get("resourceNames") or (), part.get("resourceNames") or ()
    paths = owned.get("nonResourceURLs") or ()
    return (
        _all_in(part.get("verbs"), owned.get("verbs"))
        and _all_in(part.get("apiGroups"), owned.get("apiGroups"))
        and _all_in(part.get("resources"), owned.get("resources"))
        and all(
            any(path_fits(known, path) for known in paths)
            for path in part.get("nonResourceURLs") or ()
        )
        and (not names or (bool(wanted) and all(name in names for name in wanted)))
    )


def _all_in(wanted: list[str] | None, known: list[str] | None) -> bool:
    """Return whether all values are known; a subresource also as that of any resource."""
    have = known or ()
    return "*" in have or all(
        value in have or ("/" in value and f"*/{value.partition('/')[2]}" in have)
        for value in wanted or ()
    )


def _joined(parts: list[Tree]) -> list[Tree]:
    """Parts that differ in the verb only become one rule. Upstream: CompactRules."""
    joined: dict[tuple[str, ...], Tree] = {}
    for part in parts:
        if "resources" not in part:
            joined["path", *part["nonResourceURLs"], *part["verbs"]] = part
            continue
        key = (*part["apiGroups"], *part["resources"], *part.get("resourceNames", ()))
        known = joined.get(key)
        if known is None:
            joined[key] = {**part, "verbs": list(part["verbs"])}
        elif part["verbs"][0] not in known["verbs"]:
            known["verbs"] += part["verbs"]
    return list(joined.values())


def _shown(rule: Tree) -> str:
    fields = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
    titles = {"apiGroups": "APIGroups", "nonResourceURLs": "NonResourceURLs"}
    texts = [
        f"{titles.get(field, field[0].upper() + field[1:])}:{_quoted(rule[field])}"
        for field in fields
        if rule.get(field)
    ]
    return "{" + ", ".join(texts) + "}"


def _quoted(values: Iterable[str]) -> str:
    return f"[{' '.join(quote(value) for value in values)}]"
