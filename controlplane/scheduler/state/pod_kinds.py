"""The parts of a pod that a label selector can see, shared by all pods with the same ones."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(eq=False)
class PodKind:
    """Pods of one namespace with equal labels that do not terminate. Equal by identity."""

    namespace: str
    labels: Mapping[str, str]


ENDING = PodKind("", {})
"""The kind of pods that terminate: no selector counts them."""

NEW = PodKind("", {})
"""The kind of pods that have not been counted yet."""
