"""Roles and ClusterRoles. Upstream: pkg/registry/rbac, pkg/apis/rbac."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import selector_of, validate_label_selector
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["CLUSTER_ROLES", "ROLES"]


def validate_role(tree: Tree) -> list[FieldError]:
    """A role or cluster role."""
    errors: list[FieldError] = []
    namespaced = tree.get("kind") == "Role"
    for index, rule in enumerate(tree.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if namespaced:
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"],
                                      "namespaced rules cannot apply to non-resource URLs"
                                      ))  # fmt: skip
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                errors.append(invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], (
                    "rules cannot apply to both regular resources and non-resource URLs"
                )))  # fmt: skip
            continue
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups",
                                   "resource rules must supply at least one api group"
                                   ))  # fmt: skip
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources",
                                   "resource rules must supply at least one resource"
                                   ))  # fmt: skip
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.append(required("aggregationRule.clusterRoleSelectors",
                                   "at least one clusterRoleSelector required if "
                                   "aggregationRule is non-nil"))  # fmt: skip
        for index, selector in enumerate(selectors):
            place = f"aggregationRule.clusterRoleSelectors[{index}]"
            errors += validate_label_selector(selector, place)
            if selector_of(selector) is None:
                errors.append(invalid(place, None, "invalid label selector."))
    return errors


ROLES = Kind(
    strategy=Strategy(
        rule=validate_role,
        has_status=False,
        create_on_update=True,
        name_rule=names.path_segment,
        meta_steps="AU",
    )
)

CLUSTER_ROLES = Kind(
    strategy=Strategy(
        rule=validate_role,
        has_status=False,
        create_on_update=True,
        name_rule=names.path_segment,
        meta_steps="AU",
    )
)
