"""Rows of the tables of webhooks and admission policies. Upstream: pkg/printers/internalversion."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.kind import Row

__all__ = ["binding_row", "counted_row", "policy_row"]


def counted_row(key: str) -> Row:
    """Name, the number of items in a list, age."""

    def row(tree: Tree, now: int) -> list[Any]:
        return [name_of(tree), len(tree.get(key) or ()), age_of(tree, now)]

    return row


def policy_row(key: str) -> Row:
    """Name, the number of rules in a list of the spec, the kind of the parameters, age."""

    def row(tree: Tree, now: int) -> list[Any]:
        spec = part_of(tree, "spec")
        kind = spec.get("paramKind")
        shown = (
            "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        )
        return [name_of(tree), len(spec.get(key) or ()), shown, age_of(tree, now)]

    return row


def binding_row(tree: Tree, now: int) -> list[Any]:
    """Name, policy, parameters, age."""
    spec = part_of(tree, "spec")
    return [
        name_of(tree),
        spec.get("policyName", ""),
        _parameters(spec.get("paramRef")),
        age_of(tree, now),
    ]


def _parameters(ref: Tree | None) -> str:
    """The parameters of a binding: one by name, or those of a selector in Go's form of it."""
    if ref is None:
        return "<unset>"
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    if selector is None:
        return "<unset>"
    labels = selector.get("matchLabels") or {}
    shown = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{shown}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
