"""Arguments that several plugins share: namespaces and label selectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.decoding import decode
from controlplane.api.labels import Selector, from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.pod import Pod


def selector_of(tree: dict[str, Any] | None) -> Selector | None:
    """Return the selector of a LabelSelector, None without one. SelectorError."""
    return None if tree is None else from_label_selector(decode(LabelSelector, tree))


def pod_filter(args: dict[str, Any]) -> Callable[[Pod], bool]:
    """The filter of `namespaces` and `labelSelector` of a plugin's arguments."""
    namespaces = args.get("namespaces") or {}
    included, excluded = namespaces.get("include") or (), namespaces.get("exclude") or ()
    selector = selector_of(args.get("labelSelector"))

    def wanted(pod: Pod) -> bool:
        if included and pod.metadata.namespace not in included:
            return False
        if pod.metadata.namespace in excluded:
            return False
        return selector is None or selector.matches(pod.metadata.labels)

    return wanted
