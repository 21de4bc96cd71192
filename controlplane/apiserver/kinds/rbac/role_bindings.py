"""RoleBindings and ClusterRoleBindings. Upstream: pkg/registry/rbac, pkg/apis/rbac."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import entries, name_at, present, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import each
from controlplane.apiserver.schema.field_errors import FieldError, invalid, not_supported, required

__all__ = ["CLUSTER_ROLE_BINDINGS", "ROLE_BINDINGS"]

_RBAC = "rbac.authorization.k8s.io"


def default_role_binding(tree: Tree) -> Tree:
    """API groups of the role and the subjects."""

    def subject(subject: Tree) -> Tree:
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            return {**subject, "apiGroup": _RBAC}
        return subject

    ref = tree.get("roleRef") or {}
    if not ref.get("apiGroup"):
        tree = {**tree, "roleRef": {**ref, "apiGroup": _RBAC}}
    return each(tree, "subjects", subject)


def _role_binding(tree: Tree, roles: tuple[str, ...]) -> list[FieldError]:
    ref = tree.get("roleRef") or {}
    errors = when(
        ref.get("apiGroup") != _RBAC,
        not_supported,
        "roleRef.apiGroup",
        ref.get("apiGroup", ""),
        (_RBAC,),
        typed=False,
    )
    errors += when(
        ref.get("kind") not in roles,
        not_supported,
        "roleRef.kind",
        ref.get("kind", ""),
        roles,
        sort=False,
        typed=False,
    )
    errors += name_at(ref.get("name"), "roleRef.name", names.path_segment)
    for subject, place in entries(tree, "subjects", ""):
        errors += _subject(subject, len(roles) > 1, place)
    return errors


def _subject(subject: Tree, namespaced: bool, path: str) -> list[FieldError]:
    errors = present(subject, "name", path)
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        name = subject.get("name", "")
        if name:
            errors += problems(f"{path}.name", name, names.dns_subdomain(name))
        errors += when(group, not_supported, f"{path}.apiGroup", group, ("",), typed=False)
        errors += when(
            not namespaced and not subject.get("namespace"), required, f"{path}.namespace"
        )
    elif kind in {"User", "Group"}:
        errors += when(
            group != _RBAC, not_supported, f"{path}.apiGroup", group, (_RBAC,), typed=False
        )
    else:
        errors.append(
            not_supported(
                f"{path}.kind", kind, ("ServiceAccount", "User", "Group"), sort=False, typed=False
            )
        )
    return errors


def validate_role_binding(tree: Tree) -> list[FieldError]:
    """Return the errors of a role binding."""
    return _role_binding(tree, ("Role", "ClusterRole"))


def validate_cluster_role_binding(tree: Tree) -> list[FieldError]:
    """Return the errors of a cluster role binding."""
    return _role_binding(tree, ("ClusterRole",))


def validate_role_binding_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed binding; the role it gives stays."""
    rule = (
        validate_role_binding
        if new.get("kind") == "RoleBinding"
        else (validate_cluster_role_binding)
    )
    errors = rule(new)
    if new.get("roleRef") != old.get("roleRef"):
        ref = new.get("roleRef") or {}
        shown = {
            "APIGroup": ref.get("apiGroup", ""),
            "Kind": ref.get("kind", ""),
            "Name": ref.get("name", ""),
        }
        errors.append(invalid("roleRef", shown, "cannot change roleRef"))
    return errors


def _row(tree: Tree, now: int) -> list[Any]:
    ref = tree.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in tree.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject.get("kind", ""), []).append(name)
    return [
        name_of(tree),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        age_of(tree, now),
        ", ".join(by_kind["User"]),
        ", ".join(by_kind["Group"]),
        ", ".join(by_kind["ServiceAccount"]),
    ]


ROLE_BINDINGS = Kind(
    strategy=Strategy(
        default=default_role_binding,
        rule=validate_role_binding,
        update_rule=validate_role_binding_update,
        has_status=False,
        create_on_update=True,
        name_rule=names.path_segment,
        meta_steps="AU",
    ),
    row=_row,
)

CLUSTER_ROLE_BINDINGS = Kind(
    strategy=Strategy(
        default=default_role_binding,
        rule=validate_cluster_role_binding,
        update_rule=validate_role_binding_update,
        has_status=False,
        create_on_update=True,
        name_rule=names.path_segment,
        meta_steps="AU",
    ),
    row=_row,
)
