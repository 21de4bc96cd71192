"""Values as Go's fmt prints them, where upstream puts them into messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.meta import LabelSelector


def go_map(labels: Mapping[str, str]) -> str:
    """A map: map[app:web tier:x], keys sorted."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(labels.items()))}]"


def go_selector(selector: LabelSelector | None) -> str:
    """A label selector, as its generated String method has it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
