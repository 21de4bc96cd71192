"""The resources of other objects on which the answer to a request depends, gathered from where each is looked up."""

from __future__ import annotations

from typing import Final

from controlplane.apiserver.requests.admission.chain import PLUGINS
from controlplane.apiserver.requests.authorization import rbac

__all__ = ["ALLOCATING", "BESIDE", "LOOKED_UP"]

LOOKED_UP: Final = frozenset(
    (
        *(resource for plugin in PLUGINS for resource in plugin.looks_up),
        *rbac.LOOKED_UP,
        "customresourcedefinitions",  # which resources there are
    )
)
"""Resources that admission, authorization or routing look up in any request."""
ALLOCATING: Final = ("services",)
"""Resources whose objects share a range of addresses and ports."""
BESIDE: Final = {"resize": "nodes", "eviction": "poddisruptionbudgets"}
"""Subresources of pods that look up one more resource."""
