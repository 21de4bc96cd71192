"""The rules that a ClusterRole with an aggregationRule grants. Upstream: pkg/controller/clusterroleaggregation."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.api import labels
from controlplane.api.decoding import decode
from controlplane.api.meta import LabelSelector
from controlplane.api.tree import Tree


def aggregated_rules(role: Tree, roles: Iterable[Tree]) -> list[Tree]:
    """The rules of a role with an aggregationRule: those of the roles it selects, each once."""
    rules: list[Tree] = []
    by_name = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        chosen = labels.from_label_selector(decode(LabelSelector, selector))
        for each in by_name:
            if each["metadata"]["name"] == role["metadata"]["name"]:
                continue
            if chosen.matches(each["metadata"].get("labels") or {}):
                rules += [rule for rule in each.get("rules") or () if rule not in rules]
    return rules
