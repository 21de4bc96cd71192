"""Nomination: the node where a pod is expected before it is bound. Upstream: `framework/interface.go`."""

from __future__ import annotations

import attrs


@attrs.frozen
class NominatingInfo:
    """The change to a pod's nomination: override it (possibly with nothing) or leave it."""

    override: bool = False
    nominated_node_name: str = ""


CLEAR_NOMINATION = NominatingInfo(override=True, nominated_node_name="")
