"""What a label selector can see of a pod, shared by all pods in which it is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class PodKind:
    """Pods of one namespace with equal labels that do not terminate. Equal by identity."""

    __slots__ = ("labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels


ENDING = PodKind("", {})
"""The kind of pods that terminate: no selector counts them."""

NEW = PodKind("", {})
"""The kind of pods that nobody has looked at yet."""
