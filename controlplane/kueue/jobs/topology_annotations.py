"""Annotations of pod templates that ask for a topology: their names and the form of one of them."""

from __future__ import annotations

import json
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = [
    "CONSTRAINTS",
    "GROUP",
    "LAYER_COUNT",
    "MOST_LAYERS",
    "PREFERRED",
    "REQUIRED",
    "SLICE_SIZE",
    "SLICE_TOPOLOGY",
    "UNCONSTRAINED",
    "constraints_of",
]

_PREFIX: Final = "kueue.x-k8s.io/podset-"
REQUIRED: Final = f"{_PREFIX}required-topology"
PREFERRED: Final = f"{_PREFIX}preferred-topology"
UNCONSTRAINED: Final = f"{_PREFIX}unconstrained-topology"
SLICE_TOPOLOGY: Final = f"{_PREFIX}slice-required-topology"
SLICE_SIZE: Final = f"{_PREFIX}slice-size"
CONSTRAINTS: Final = f"{_PREFIX}slice-required-topology-constraints"
GROUP: Final = f"{_PREFIX}group-name"
MOST_LAYERS: Final = 3
LAYER_COUNT: Final = "topology constraints must contain between 1 and 3 entries"


def constraints_of(text: str) -> list[Tree]:
    """Layers of the annotation with constraints.

    Raises:
        ValueError: The text is not such a list; its message is the reason.
    """
    found: Any = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("not a list of objects")
    return found
