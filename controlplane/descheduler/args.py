"""Arguments that several plugins share: namespaces and label selectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.labels import from_label_selector
from controlplane.api.meta import LabelSelector, LabelSelectorRequirement
from controlplane.api.pod import Pod


def label_selector(tree: dict[str, Any]) -> LabelSelector:
    """A label selector from its tree."""
    return LabelSelector(
        match_expressions=tuple(
            LabelSelectorRequirement(
                key=each.get("key", ""),
                operator=each.get("operator", ""),
                values=tuple(each.get("values") or ()),
            )
            for each in tree.get("matchExpressions") or ()
        ),
        match_labels=tree.get("matchLabels") or {},
    )


def pod_filter(args: dict[str, Any]) -> Callable[[Pod], bool]:
    """The filter of `namespaces` and `labelSelector` of a plugin's arguments."""
    namespaces = args.get("namespaces") or {}
    included, excluded = namespaces.get("include") or (), namespaces.get("exclude") or ()
    tree = args.get("labelSelector")
    selector = None if tree is None else from_label_selector(label_selector(tree))

    def wanted(pod: Pod) -> bool:
        if included and pod.metadata.namespace not in included:
            return False
        if pod.metadata.namespace in excluded:
            return False
        return selector is None or selector.matches(pod.metadata.labels)

    return wanted
