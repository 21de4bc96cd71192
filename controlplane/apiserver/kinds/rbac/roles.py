"""Roles and ClusterRoles. Upstream: pkg/registry/rbac, pkg/apis/rbac."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, present, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import selector_of, validate_label_selector
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["KIND"]


def validate_role(tree: Tree) -> list[FieldError]:
    """Return the errors of a role or cluster role."""
    errors: list[FieldError] = []
    namespaced = tree.get("kind") == "Role"
    for rule, path in entries(tree, "rules", ""):
        errors += present(rule, "verbs", path, "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        errors += present(
            rule, "apiGroups", path, "resource rules must supply at least one api group"
        )
        errors += present(
            rule, "resources", path, "resource rules must supply at least one resource"
        )
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or []
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors += when(not selectors, required, "aggregationRule.clusterRoleSelectors", text)
        for index, selector in enumerate(selectors):
            place = f"aggregationRule.clusterRoleSelectors[{index}]"
            errors += validate_label_selector(selector, place)
            errors += when(
                selector_of(selector) is None, invalid, place, None, "invalid label selector."
            )
    return errors


KIND = Kind(
    strategy=Strategy(
        rule=validate_role,
        has_status=False,
        create_on_update=True,
        name_rule=names.path_segment,
        meta_steps="A*U",
    )
)
